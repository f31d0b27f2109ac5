package main

import (
	"errors"
	"strings"
	"testing"

	"github.com/riffle-dp/riffle/internal/drive/load"
	"github.com/riffle-dp/riffle/internal/role"
)

// A run in which people ran out has a name and an exit code of its own, where nothing worse happened.
func TestLoadExitCodes(t *testing.T) {
	short := &load.Shortfall{Epoch: 2, Size: 60, Minimum: 57, Taken: 35}
	missed := []load.Verdict{{Goal: "final=1"}}
	odd := map[string]int{"odd": 1}
	for _, test := range []struct {
		name   string
		result load.Result
		code   int
		want   []string
	}{
		{"good", load.Result{}, role.ExitOK, nil},
		{
			"short", load.Result{Short: short}, exitShort,
			[]string{"cohort_short: epoch 2 has 35 of 60 people", "25 more"},
		},
		{
			"short, goal missed", load.Result{Short: short, Goals: missed}, role.ExitFailed,
			[]string{"goals missed: final=1", "cohort_short"},
		},
		{
			"goal missed", load.Result{Goals: missed}, role.ExitFailed,
			[]string{"goals missed: final=1 (not measured)"},
		},
		{
			"wrong", load.Result{Short: short, Anomalies: odd}, role.ExitFailed,
			[]string{"answers are wrong"},
		},
		{
			"not settled", load.Result{Unsettled: "epoch 1 was not counted"}, role.ExitFailed,
			[]string{"epoch 1 was not counted"},
		},
		{
			"interrupted in short", load.Result{Short: short, Interrupted: true}, role.ExitFailed,
			[]string{"interrupted"},
		},
	} {
		err := judge(&test.result)
		exit := &role.ExitError{}
		if err != nil && !errors.As(err, &exit) || exit.Code != test.code {
			t.Errorf("%s: exit code %d, %v", test.name, exit.Code, err)
		}
		for _, want := range test.want {
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%s: %q is not in %v", test.name, want, err)
			}
		}
	}
}
