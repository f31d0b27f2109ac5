package chart_test

import (
	"bytes"
	"encoding/xml"
	"errors"
	"image/color"
	"image/png"
	"io"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/riffle-dp/riffle/internal/chart"
)

// keep returns where a test's picture goes: the directory of RIFFLE_PICTURES, for people who want to look at it, or a
// temporary one.
func keep(t *testing.T, name string) string {
	if dir := os.Getenv("RIFFLE_PICTURES"); dir != "" {
		return filepath.Join(dir, name)
	}
	return filepath.Join(t.TempDir(), name)
}

// regretCurves returns plausible curves.
func regretCurves() []chart.Regret {
	curves := []chart.Regret{{Name: "Riffle"}, {Name: "non-private"}, {Name: "uniform play"},
		{Name: "best constant arm"}}
	for n := 0.0; n <= 5000; n += 25 {
		for i, v := range []float64{
			0.334*math.Min(n, 400) + 0.002*math.Max(n-400, 0), 0.334*math.Min(n, 60) + 0.002*math.Max(n-60,
				0), 0.335 * n, 0.331 * n,
		} {
			curves[i].People = append(curves[i].People, n)
			curves[i].Regret = append(curves[i].Regret, v)
		}
	}
	return curves
}

func regretChart() chart.Chart {
	return chart.RegretChart("Private decisions cost little",
		"Synthetic population, 5,000 people, \u03b5 = 1, \u03b4 = 1e-6", regretCurves(), "uniform play", "best "+
			"constant arm")
}

func bandChart() chart.Chart {
	c := chart.Chart{Title: "Regret over 20 seeds", Subtitle: "Median, and the range that holds 80% of the seeds",
		X: "people decided for", Y: "cumulative regret (reward missed)"}
	for i, name := range []string{"shuffle, \u03b5 = 1", "shuffle, \u03b5 = 4", "non-private"} {
		s := chart.Series{Name: name}
		for n := 0.0; n <= 100000; n += 1000 {
			v := []float64{260, 120, 70}[i] * (1 - math.Exp(-n/9000))
			s.X, s.Y = append(s.X, n), append(s.Y, v)
			s.Low, s.High = append(s.Low, v*0.8), append(s.High, v*1.25)
		}
		c.Series = append(c.Series, s)
	}
	return c
}

func frontierChart() chart.Chart {
	return chart.Chart{
		Title: "What privacy costs", Subtitle: "Adult census, 32,561 people; people of the test file for whom the " +
			"last policy is right",
		X: "\u03b5 at \u03b4 = 1e-6", Y: "policy value", LogX: true, YMin: 0.7,
		Series: []chart.Series{
			{Name: "shuffle", X: []float64{0.05, 0.1, 0.25, 0.5, 1, 4},
				Y: []float64{.820, .829, .840, .8437, .8452, .8453}, Dots: true,
				Low: []float64{.795, .818, .835, .841, .844, .845}, High: []float64{.83, .835, .842, .845, .846,
					.846}, Width: 2.25},
			{Name: "local", X: []float64{0.5, 1, 4}, Y: []float64{.73, .78, .81}, Dots: true},
			{Name: "non-private fit", X: []float64{0.05, 4}, Y: []float64{.8447, .8447}, Dashed: true,
				Colour: chart.Grey},
		},
	}
}

func charts() map[string]chart.Chart {
	all := map[string]chart.Chart{
		"regret": regretChart(), "band": bandChart(), "frontier": frontierChart(),
		"one point": {Series: []chart.Series{{Name: "here", X: []float64{3}, Y: []float64{4}}}},
		"constant":  {Series: []chart.Series{{Name: "flat", X: []float64{0, 1}, Y: []float64{0, 0}}}},
		"logarithms": {LogX: true, LogY: true, Series: []chart.Series{{Name: "power", X: []float64{1e-3, 1, 1e6},
			Y: []float64{1e-6, 1, 1e9}}}},
		"small": {Width: 300, Height: 200, Series: []chart.Series{{Name: "tiny", X: []float64{0, 1e-9},
			Y: []float64{-1e-9, 1e-9}}}},
		"huge": {Series: []chart.Series{{Name: "huge", X: []float64{0, 1e15}, Y: []float64{-1e12, 1e15}}}},
	}
	for name, c := range all {
		if name != "regret" && c.Width == 0 && os.Getenv("RIFFLE_PICTURES") == "" {
			c.Width, c.Height = 380, 220 // drawing is slow under the race detector
			all[name] = c
		}
	}
	return all
}

// The PNG has two pixels for each point, is white at its corners and not empty.
func TestPNGIsDrawn(t *testing.T) {
	for name, c := range charts() {
		path := keep(t, name+".png")
		if err := c.Save(path); err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		b, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		img, err := png.Decode(bytes.NewReader(b))
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		w, h := 2*chart.DefaultWidth, 2*chart.DefaultHeight
		if c.Width != 0 {
			w, h = int(2*c.Width), int(2*c.Height)
		}
		if s := img.Bounds().Size(); s.X != w || s.Y != h {
			t.Errorf("%s: %d x %d pixels, want %d x %d", name, s.X, s.Y, w, h)
		}
		dark := 0
		for y := 0; y < h; y += 4 { // a sample: reading every pixel is slow under the race detector
			for x := 0; x < w; x += 4 {
				if color.GrayModel.Convert(img.At(x, y)).(color.Gray).Y < 0xc0 {
					dark++
				}
			}
		}
		if r, g, bl, a := img.At(0, 0).RGBA(); r != 0xffff || g != 0xffff || bl != 0xffff || a != 0xffff {
			t.Errorf("%s: the corner is not white", name)
		}
		if dark < 30 || dark > w*h/16/4 {
			t.Errorf("%s: %d dark pixels of %d looked at", name, dark, w*h/16)
		}
	}
}

func TestSVGIsDrawn(t *testing.T) {
	for name, c := range charts() {
		path := keep(t, name+".svg")
		if err := c.Save(path); err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		b, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		d := xml.NewDecoder(bytes.NewReader(b))
		for {
			if _, err := d.Token(); err == io.EOF {
				break
			} else if err != nil {
				t.Errorf("%s: not well-formed: %v", name, err)
				break
			}
		}
		for _, want := range []string{"<svg", c.Title, c.Subtitle, c.X, c.Y, "sans-serif"} {
			if !strings.Contains(string(b), want) {
				t.Errorf("%s: %q is missing", name, want)
			}
		}
		if strings.Contains(string(b), "NaN") || strings.Contains(string(b), "Inf") {
			t.Errorf("%s: coordinates that are no numbers", name)
		}
	}
	svg, err := regretChart().SVG()
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"Riffle  143", "non-private  30", "uniform play  1,675", ">4,000<"} {
		if !strings.Contains(string(svg), want) {
			t.Errorf("the regret chart does not say %q", want)
		}
	}
}

func TestChartsThatCannotBeDrawnAreRefused(t *testing.T) {
	x := []float64{1, 2}
	for name, c := range map[string]chart.Chart{
		"no series":    {},
		"no points":    {Series: []chart.Series{{}}},
		"lengths":      {Series: []chart.Series{{X: x, Y: x[:1]}}},
		"band":         {Series: []chart.Series{{X: x, Y: x, Low: x[:1], High: x[:1]}}},
		"half a band":  {Series: []chart.Series{{X: x, Y: x, Low: x}}},
		"NaN":          {Series: []chart.Series{{X: x, Y: []float64{1, math.NaN()}}}},
		"infinite":     {Series: []chart.Series{{X: x, Y: []float64{1, math.Inf(1)}}}},
		"unordered":    {Series: []chart.Series{{X: []float64{2, 1}, Y: x}}},
		"log of 0":     {LogY: true, Series: []chart.Series{{X: x, Y: []float64{0, 1}}}},
		"log of x = 0": {LogX: true, Series: []chart.Series{{X: []float64{0, 1}, Y: x}}},
		"size":         {Width: 10, Series: []chart.Series{{X: x, Y: x}}},
		"NaN size":     {Width: math.NaN(), Series: []chart.Series{{X: x, Y: x}}},
	} {
		if err := c.Save(filepath.Join(t.TempDir(), "x.png")); !errors.Is(err, chart.ErrChart) {
			t.Errorf("%s: %v, want ErrChart", name, err)
		}
	}
	if err := regretChart().Save("x.jpg"); !errors.Is(err, chart.ErrChart) {
		t.Errorf("unknown format: %v", err)
	}
	if err := regretChart().Save(filepath.Join(t.TempDir(), "none", "x.svg")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("missing folder: %v", err)
	}
}

func TestNumberGroupsThousands(t *testing.T) {
	for _, c := range []struct {
		v        float64
		decimals int
		want     string
	}{
		{0, 0, "0"}, {999, 0, "999"}, {1000, 0, "1,000"}, {48842, 0, "48,842"}, {1234567.891, 2,
			"1,234,567.89"}, {-1234.5, 1, "-1,234.5"},
		{-0.04, 1, "0.0"}, {-123, 0, "-123"}, {0.1, 3, "0.100"}, {999999.96, 1, "1,000,000.0"},
	} {
		if got := chart.Number(c.v, c.decimals); got != c.want {
			t.Errorf("Number(%v, %d) = %q, want %q", c.v, c.decimals, got, c.want)
		}
	}
}

// An axis of names shows each at its place, and no number between them.
func TestPlacesAreNamed(t *testing.T) {
	c := chart.Chart{X: "environment", Y: "regret", LogY: true, Places: []string{"fresh arms", "census", "adversary"},
		Series: []chart.Series{{Name: "one", X: []float64{1, 2, 3}, Y: []float64{0.1, 0.3, 0.2}, Dots: true}}}
	svg, err := c.SVG()
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range c.Places {
		if !bytes.Contains(svg, []byte(">"+name+"<")) {
			t.Errorf("%q is not on the axis", name)
		}
	}
	for _, number := range []string{"1.5", "2.5", "3.0"} {
		if bytes.Contains(svg, []byte(">"+number+"<")) {
			t.Errorf("%s is on an axis of names", number)
		}
	}
}
