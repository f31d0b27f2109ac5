package chart_test

import (
	"bytes"
	"errors"
	"image/png"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/riffle-dp/riffle/internal/chart"
)

var heat = chart.Heat{Title: "Shares", Subtitle: "of a test", Rows: []string{"one world", "another"},
	Columns: []string{"first", "second", "third"}, Cells: [][]float64{{0, 1, -1}, {0.25, math.NaN(), -12.4}},
	Gaps: []int{1}}

// Every number is in the picture with two digits, and every name; what is not known has no number.
func TestHeatShowsItsNumbers(t *testing.T) {
	b, err := heat.SVG()
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"Shares", "of a test", "one world", "another", "first", "second", "third", ">0.00<",
		">1.00<", ">-1.00<", ">0.25<", ">-12<"} {
		if !strings.Contains(string(b), want) {
			t.Errorf("no %q", want)
		}
	}
	if strings.Contains(string(b), "NaN") {
		t.Error("a cell without a number shows one")
	}
	if again, err := heat.SVG(); err != nil || !bytes.Equal(b, again) {
		t.Errorf("the same table gives another picture (%v)", err)
	}
}

// Blue is for shares above 0, vermilion for those below, and the ends are reached at 1 and -1.
func TestHeatColours(t *testing.T) {
	h := heat
	h.Rows, h.Cells, h.Gaps = []string{"x"}, [][]float64{{1, 7, -1}}, nil
	b, err := h.PNG()
	if err != nil {
		t.Fatal(err)
	}
	picture, err := png.Decode(bytes.NewReader(b))
	if err != nil {
		t.Fatal(err)
	}
	blue, red := 0, 0
	bounds := picture.Bounds()
	for y := bounds.Min.Y; y < bounds.Max.Y; y++ {
		for x := bounds.Min.X; x < bounds.Max.X; x++ {
			switch r, g, b, _ := picture.At(x, y).RGBA(); {
			case r>>8 == 0x00 && g>>8 == 0x5a && b>>8 == 0xb5:
				blue++
			case r>>8 == 0xd5 && g>>8 == 0x5e && b>>8 == 0x00:
				red++
			}
		}
	}
	if red < 1000 || blue < 3*red/2 || blue > 5*red/2 { // two cells and one, less the numbers on them
		t.Errorf("%d blue, %d red", blue, red)
	}
}

func TestHeatRefusesWhatDoesNotFit(t *testing.T) {
	for name, change := range map[string]func(*chart.Heat){
		"rows":    func(h *chart.Heat) { h.Rows = h.Rows[:1] },
		"columns": func(h *chart.Heat) { h.Columns = h.Columns[:2] },
		"nothing": func(h *chart.Heat) { h.Rows, h.Cells = nil, nil },
	} {
		h := heat
		change(&h)
		if _, err := h.SVG(); !errors.Is(err, chart.ErrChart) {
			t.Errorf("%s: %v", name, err)
		}
		if err := h.Save(filepath.Join(t.TempDir(), "x.png")); !errors.Is(err, chart.ErrChart) {
			t.Errorf("%s: %v", name, err)
		}
	}
	folder := t.TempDir()
	if err := heat.Save(filepath.Join(folder, "x.gif")); !errors.Is(err, chart.ErrChart) {
		t.Errorf("a format that there is not: %v", err)
	}
	for _, name := range []string{"x.png", "x.svg"} {
		if err := heat.Save(filepath.Join(folder, name)); err != nil {
			t.Error(err)
		}
		if info, err := os.Stat(filepath.Join(folder, name)); err != nil || info.Size() == 0 {
			t.Errorf("%s: %v", name, err)
		}
	}
}
