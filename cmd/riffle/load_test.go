package main

import (
	"bytes"
	"errors"
	"strings"
	"testing"

	"github.com/riffle-dp/riffle/internal/drive/load"
	"github.com/riffle-dp/riffle/internal/role"
)

// What is wrong with a load test's command line is found before anybody is sent anywhere, and ends with the code for that.
func TestLoadRefusesBadCommandLines(t *testing.T) {
	for _, test := range []struct{ args, want string }{
		{"--goal p99<=5", "unknown measure"},
		{"--goal p99_ms", "want a measure"},
		{"--goal p99<=5 --goal p99_ms --users -3 --late 2", "5 faults:"},
		{"--drop-out 0.7 --late 0.7 --users 10", "add up to 1.4"},
		{"--malformed -0.1 --users 10", "must be between 0 and 1"},
		{"--hostile-host evil --users 10", "needs the folder of its keys"},
		{"--users 10 --api http://127.0.0.1:1", "cannot be reached"},
		{"--users 10 extra", "unknown command"},
	} {
		cmd := root()
		var said bytes.Buffer
		cmd.SetOut(&said)
		cmd.SetErr(&said)
		cmd.SetArgs(append([]string{"load"}, strings.Fields(test.args)...))
		if code := role.Main(cmd); code != role.ExitConfig || !strings.Contains(said.String(), test.want) {
			t.Errorf("%s: exit code %d, %q", test.args, code, said.String())
		}
	}
}

// A run that people ran out in has a name and an exit code of its own, where nothing worse happened.
func TestLoadExitCodes(t *testing.T) {
	short := &load.Shortfall{Epoch: 2, Size: 60, Minimum: 57, Taken: 35}
	missed := []load.Verdict{{Goal: "final=1"}}
	for name, test := range map[string]struct {
		result load.Result
		code   int
		want   []string
	}{
		"good":                 {load.Result{}, role.ExitOK, nil},
		"short":                {load.Result{Short: short}, exitShort, []string{"cohort_short: epoch 2 has 35 of 60 people", "25 more"}},
		"short, goal missed":   {load.Result{Short: short, Goals: missed}, role.ExitFailed, []string{"goals missed: final=1", "cohort_short"}},
		"goal missed":          {load.Result{Goals: missed}, role.ExitFailed, []string{"goals missed: final=1 (not measured)"}},
		"wrong":                {load.Result{Short: short, Anomalies: map[string]int{"odd": 1}}, role.ExitFailed, []string{"answers are wrong"}},
		"not settled":          {load.Result{Unsettled: "epoch 1 was not counted"}, role.ExitFailed, []string{"epoch 1 was not counted"}},
		"interrupted in short": {load.Result{Short: short, Interrupted: true}, role.ExitFailed, []string{"interrupted"}},
	} {
		err := judge(&test.result)
		exit := &role.ExitError{}
		if err != nil && !errors.As(err, &exit) || exit.Code != test.code {
			t.Errorf("%s: exit code %d, %v", name, exit.Code, err)
		}
		for _, want := range test.want {
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%s: %q is not in %v", name, want, err)
			}
		}
	}
}
