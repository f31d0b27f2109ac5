package chart_test

import (
	"bytes"
	"errors"
	"image/png"
	"os"
	"path/filepath"
	"testing"

	"github.com/riffle-dp/riffle/internal/chart"
)

// Charts below each other are one picture, as wide as the widest and as high as all of them, and a mark is in it: a
// dark line where the same chart without it has none. What cannot be drawn is refused.
func TestStackIsOnePicture(t *testing.T) {
	one := chart.Chart{Title: "one", Width: 300, Height: 200,
		Series: []chart.Series{{Name: "a long name", X: []float64{0, 10}, Y: []float64{1, 2}}}}
	two := one
	two.Height, two.Series = 150, []chart.Series{{Name: "b", X: []float64{0, 10}, Y: []float64{-1, 1}}}
	draw := func(s chart.Stack) (dark int) {
		t.Helper()
		path := filepath.Join(t.TempDir(), "stack.png")
		if err := s.Save(path); err != nil {
			t.Fatal(err)
		}
		b, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		picture, err := png.Decode(bytes.NewReader(b))
		if err != nil {
			t.Fatal(err)
		}
		if size := picture.Bounds().Size(); size.X != 600 || size.Y != 700 {
			t.Fatalf("the picture has %v pixels", size)
		}
		for y := range 700 {
			for x := range 600 {
				if r, g, b, _ := picture.At(x, y).RGBA(); r>>8 < 0x40 && g>>8 < 0x40 && b>>8 < 0x40 {
					dark++
				}
			}
		}
		return dark
	}
	plain := draw(chart.Stack{one, two})
	one.Marks = []chart.Mark{{X: 5}}
	if marked := draw(chart.Stack{one, two}); marked < plain+50 {
		t.Errorf("%d dark pixels with a mark, %d without", marked, plain)
	}
	if err := (chart.Stack{one}).Save("one.svg"); !errors.Is(err, chart.ErrChart) {
		t.Errorf("svg: %v", err)
	}
	if _, err := (chart.Stack{}).PNG(); !errors.Is(err, chart.ErrChart) {
		t.Errorf("no chart: %v", err)
	}
	if _, err := (chart.Stack{one, {}}).PNG(); !errors.Is(err, chart.ErrChart) {
		t.Errorf("a chart of nothing: %v", err)
	}
}
