package chart_test

import (
	"errors"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/riffle-dp/riffle/internal/chart"
)

// Every name is in the picture, and the colour tells which intervals hold 0; what cannot be drawn is refused.
func TestIntervalsAreDrawnByName(t *testing.T) {
	v := chart.Intervals{Title: "Coefficients", Subtitle: "of a test", X: "log odds", Rows: []chart.Interval{
		{Name: "clear", Value: 1, Low: 0.5, High: 1.5}, {Name: "open", Value: 0.1, Low: -0.5, High: 0.75},
		{Name: "bare " + strings.Repeat("x", 100), Value: -2, Low: math.NaN(), High: math.NaN()}}}
	path := filepath.Join(t.TempDir(), "a.svg")
	if err := v.Save(path); err != nil {
		t.Fatal(err)
	}
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"Coefficients", "of a test", "log odds", ">clear<", ">open<", "bare xxx", "…", ">0<",
		"#005AB5"} {
		if !strings.Contains(string(b), want) {
			t.Errorf("no %q", want)
		}
	}
	if strings.Contains(string(b), "NaN") {
		t.Error("an interval that is not there is drawn")
	}
	for range 100 {
		v.Rows = append(v.Rows, chart.Interval{Name: "more"})
	}
	if err := v.Save(path); err != nil {
		t.Fatal(err)
	}
	if b, _ = os.ReadFile(path); !strings.Contains(string(b), "43 more are not drawn") {
		t.Error("rows that are left out are not counted")
	}
	if err := v.Save(path + ".gif"); !errors.Is(err, chart.ErrChart) {
		t.Errorf("gif: %v", err)
	}
	v.Rows[0].Value = math.Inf(1)
	if err := v.Save(path); !errors.Is(err, chart.ErrChart) {
		t.Errorf("infinite: %v", err)
	}
}
