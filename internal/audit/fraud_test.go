package audit_test

import (
	"context"
	"slices"
	"testing"

	"github.com/riffle-dp/riffle/internal/audit"
	"github.com/riffle-dp/riffle/internal/testing/ledger"
	"github.com/riffle-dp/riffle/pkg/glm"
	"github.com/riffle-dp/riffle/pkg/plan"
	"github.com/riffle-dp/riffle/pkg/seal"
)

func check(t *testing.T, l *ledger.Ledger, o audit.Options) *audit.Report {
	t.Helper()
	o.Trust = l.Bundle
	r, err := audit.Check(context.Background(), l, o)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func made(t *testing.T, o ledger.Options) *ledger.Ledger {
	t.Helper()
	l, err := ledger.Make(o)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// whats are the kinds of breaches of a report, each once, in order of their names.
func whats(r *audit.Report) (all []audit.What) {
	for _, b := range r.Breaches {
		all = append(all, b.What)
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// An honest deployment has no breach, whatever its channel and profile, while it runs and after its end, with destroyed
// cohorts, rotated keys and retained messages, which give the signed counts again.
func TestHonestDeploymentsPass(t *testing.T) {
	t.Parallel()
	for _, x := range []struct {
		profile glm.Profile
		channel plan.Channel
		retain  bool
		rounds  int
	}{
		{glm.Practical, plan.Shuffle, false, 2}, {glm.Practical, plan.Shuffle, true, 0}, {glm.Paper, plan.Shuffle, false, 0},
		{glm.Practical, plan.Shares, false, 0}, {glm.Practical, plan.Local, true, 0},
		{glm.Practical, plan.Central, false, 0}, {glm.Joint, plan.Central, false, 0},
	} {
		l := made(t, ledger.Options{Configuration: ledger.Small(x.profile, x.channel, 3), Retain: x.retain, Rotate: true,
			Rounds: x.rounds, Destroyed: func(epoch uint64, _ uint32) bool { return epoch == 2 }})
		var rows []audit.Row
		r := check(t, l, audit.Options{Auditor: []*seal.HPKEKey{l.Auditor}, AnalyzerKeys: l.HPKE,
			Row: func(r audit.Row) { rows = append(rows, r) }})
		if !r.OK || len(r.Breaches) > 0 || r.Running != (x.rounds > 0) || r.Destroyed == 0 || r.Releases == 0 ||
			r.PoliciesRecomputed != r.Releases+r.Destroyed || len(rows) != r.PoliciesRecomputed ||
			!(r.Epsilon > 0 && r.Epsilon <= 4) || !(r.EpsilonAlone >= r.Epsilon) {
			t.Errorf("%s, %s: %+v", x.profile, x.channel, r)
		}
	}
}
