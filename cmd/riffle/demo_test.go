package main

import (
	"io"
	"strings"
	"testing"

	"github.com/riffle-dp/riffle/internal/chart"
	"github.com/riffle-dp/riffle/internal/population"
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

// Flags that would have no effect are refused before anything starts.
func TestDemoRefusesFlagsOfTheOtherDemo(t *testing.T) {
	for args, want := range map[string]string{
		"--days 9":                                 "only means something with --life",
		"--life --data adult":                      "--data cannot go with --life",
		"--life --days 9 --change-day 9":           "--change-day 9 must lie within the 9 days",
		"--life --days 9 --k-max 9 --change-day 0": "is not over before the last",
		"--life --users 3":                         "3 people must be in",
		"--life --trust nobody":                    "nobody",
	} {
		cmd := demoCommand()
		cmd.SetArgs(append(strings.Fields(args), "--out", t.TempDir()))
		cmd.SetOut(io.Discard)
		cmd.SetErr(io.Discard)
		if err := cmd.Execute(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", args, err)
		}
	}
}
