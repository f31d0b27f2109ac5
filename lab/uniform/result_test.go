package uniform_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/riffle-dp/riffle/lab/uniform"
)

// verdict judges so many releases of a planted shuffler as one of two samples; the other one is of a good shuffler.
func verdict(t *testing.T, fault uniform.Fault, releases int, rules ...uniform.Finding) *uniform.Result {
	t.Helper()
	samples := uniform.Samples(0, "good", "other")
	for i, f := range []uniform.Fault{"", fault} {
		planted, err := uniform.Plant(f, rand.NewChaCha8([32]byte{byte(i + 1)}))
		if err != nil {
			t.Fatal(err)
		}
		shape := uniform.Shape{Items: 24, Report: 2}
		for range releases {
			if err := samples[i].Add(planted.Shuffle(shape), shape); err != nil {
				t.Fatal(err)
			}
		}
	}
	r, err := uniform.Verdict(t.Context(), samples, rules, uniform.PowerOptions{
		Runs: 2, Items: 1000, Faults: []uniform.Fault{uniform.Identity, uniform.Early3},
	})
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func TestVerdict(t *testing.T) {
	good, bad := verdict(t, "", 10), verdict(t, uniform.Batches, 10)
	if !good.OK || bad.OK || good.FalseAlarm != uniform.FalseAlarm || len(good.Tests) != 20 {
		t.Errorf("%+v\n%+v", good, bad)
	}
	for _, f := range bad.Tests {
		if !f.OK && !strings.HasPrefix(f.Test, "other: ") {
			t.Errorf("rejected: %s", f.Test)
		}
		// The samples and the tests of each share the rate.
		if want := uniform.FalseAlarm / 20; f.Limit < 0.999*want || f.Limit > 1.001*want {
			t.Errorf("%s rejects below %v, want %v", f.Test, f.Limit, want)
		}
	}
	if p := good.Power[uniform.Identity]; p.Power != 1 || p.Runs != 2 || p.Releases != 10 {
		t.Errorf("%+v", p)
	}
	if want := "so few releases would probably not show these faults: early-3"; good.Warning != want {
		t.Errorf("%q, want %q", good.Warning, want)
	}
	var b, text bytes.Buffer
	if err := errors.Join(bad.WriteJSON(&b), bad.WriteTable(&text)); err != nil {
		t.Fatal(err)
	}
	var object map[string]any
	if err := json.Unmarshal(b.Bytes(), &object); err != nil {
		t.Fatal(err)
	}
	for _, field := range []string{"ok", "tests", "false_alarm_rate", "power", "samples", "warning"} {
		if object[field] == nil {
			t.Errorf("no %s in %s", field, &b)
		}
	}
	for _, want := range []string{"NOT UNIFORM", "THESE ORDERS ARE NOT", "early-3", "Warning",
		"10 releases with 240 items"} {
		if !strings.Contains(text.String(), want) {
			t.Errorf("no %q in\n%s", want, &text)
		}
	}
}

// A rule that is broken decides the verdict, and one that holds does not.
func TestRulesDecide(t *testing.T) {
	if r := verdict(t, "", 1, uniform.Rule("early", true)); !r.OK {
		t.Errorf("%+v", r)
	}
	r := verdict(t, "", 1, uniform.Rule("early", false))
	if last := r.Tests[len(r.Tests)-1]; r.OK || last.OK || last.P != 0 || last.Test != "early" {
		t.Errorf("%+v", r)
	}
}

// Releases that are none are refused with what is wrong.
func TestBadReleasesAreRefused(t *testing.T) {
	for want, r := range map[string]*uniform.Release{
		"item 2 at place 1":              {Order: []int{0, 2}},
		"item -1":                        {Order: []int{-1}},
		"item 1 is there twice":          {Order: []int{1, 1}},
		"the reports of 1 items":         {Order: []int{1, 0}, Reports: []int{0}},
		"report 2 of item 1":             {Order: []int{1, 0}, Reports: []int{0, 2}},
		"a chunk of 0 items":             {Order: []int{1, 0}, Chunks: []int{0, 2}},
		"chunks of 1 items, there are 2": {Order: []int{1, 0}, Chunks: []int{1}},
	} {
		j := uniform.New(0)
		if err := j.Add(r); !errors.Is(err, uniform.ErrRelease) || !strings.Contains(err.Error(), want) {
			t.Errorf("%+v: %v, want %q", r, err, want)
		}
		if j.Releases() != 0 {
			t.Errorf("%+v counts", r)
		}
	}
}

// Releases without two items say nothing, and the verdict says that.
func TestNothingToJudge(t *testing.T) {
	samples := uniform.Samples(0, "")
	for _, order := range [][]int{{}, {0}} {
		if err := samples[0].Add(&uniform.Release{Order: order}, uniform.Shape{Items: len(order)}); err != nil {
			t.Fatal(err)
		}
	}
	r, err := uniform.Verdict(t.Context(), samples, nil, uniform.PowerOptions{Runs: 2, Items: 1000, Most: 10})
	if err != nil || !r.OK || !strings.Contains(r.Warning, "nothing to judge") {
		t.Errorf("%+v, %v", r, err)
	}
	if slices.ContainsFunc(r.Tests, func(f uniform.Finding) bool { return f.P != 1 }) {
		t.Errorf("%+v", r.Tests)
	}
}
