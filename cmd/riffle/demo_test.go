package main

import (
	"strings"
	"testing"

	"github.com/riffle-dp/riffle/internal/lab/chart"
	"github.com/riffle-dp/riffle/internal/lab/population"
)

// One run's table and picture show one epsilon, and it is not below the run's.
func TestDemoShowsOneEpsilon(t *testing.T) {
	r := chart.Result{Users: 100, Epochs: 3, Epsilon: 0.97342001, Delta: 1.25e-6, MessagesPerUser: 150}
	var table strings.Builder
	if err := r.WriteTable(&table); err != nil {
		t.Fatal(err)
	}
	picture := subtitle(population.Info{Name: "synthetic"}, r)
	for what, text := range map[string]string{"table": table.String(), "picture": picture} {
		for _, want := range []string{"0.9735", "1.25e-06"} {
			if !strings.Contains(text, want) {
				t.Errorf("the %s does not show %s:\n%s", what, want, text)
			}
		}
	}
}
