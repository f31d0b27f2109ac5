package audit_test

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/riffle-dp/riffle/internal/audit"
	"github.com/riffle-dp/riffle/internal/bus"
	"github.com/riffle-dp/riffle/internal/testing/ledger"
	"github.com/riffle-dp/riffle/pkg/glm"
	"github.com/riffle-dp/riffle/pkg/plan"
	"github.com/riffle-dp/riffle/pkg/wire"
)

// upgraded is the ledger of a deployment whose analyzer was of a version before there were logs for n rounds: its
// counts and sets, then all that the newer version states of these rounds, in the order in which it goes through them
// again.
func upgraded(t *testing.T, l *ledger.Ledger, n int) {
	t.Helper()
	var before, after []audit.Entry
	for _, e := range l.Logs[bus.Analyzer] {
		switch {
		case n > 0 && e.Kind == wire.KindCounts:
			before = append(before, e)
			n--
		case n > 0 && strings.HasPrefix(e.Kind, "accepted"):
			before = append(before, e)
		default:
			after = append(after, e)
		}
	}
	l.Logs[bus.Analyzer] = append(before, after...)
	if err := l.Seal(); err != nil {
		t.Fatal(err)
	}
}

// A deployment that began with a version before there were logs and goes on with this one is no fraud: what was counted
// before is recomputed like the rest, a note says what cannot be seen, and only its epochs have no certificate.
func TestADeploymentFromBeforeThereWereLogsGoesOn(t *testing.T) {
	for _, c := range []plan.Channel{plan.Shuffle, plan.Shares} {
		l := make1(t, ledger.Options{Configuration: ledger.Small(glm.Practical, c, 3), Seed: 4})
		whole := check(t, l, audit.Options{})
		upgraded(t, l, 2)
		r := check(t, l, audit.Options{})
		if !r.OK || r.Releases != whole.Releases || r.PoliciesRecomputed != whole.PoliciesRecomputed ||
			!strings.Contains(strings.Join(r.Notes, "\n"), "a version before there were logs") {
			t.Errorf("%s: %+v", c, r)
		}
		certified := map[uint64]bool{}
		err := audit.Certify(context.Background(), l, l.Bundle, func(epoch uint64, b []byte, why error) error {
			certified[epoch] = why == nil
			return nil
		})
		if err != nil || len(certified) != 3 || certified[1] || certified[2] || !certified[3] {
			t.Errorf("%s: %v, %v", c, certified, err)
		}
	}
}

// Frauds in what stands before the configuration are caught as elsewhere, and no round is counted there alone.
func TestWhatStandsBeforeTheConfigurationIsHeldToTheRest(t *testing.T) {
	whole := make1(t, ledger.Options{Configuration: ledger.Small(glm.Practical, plan.Shuffle, 3), Seed: 4})
	upgraded(t, whole, 2)
	bits := func(v *wire.Counts) { v.Releases[0].Ones[0] ^= 1 }
	for name, x := range map[string]struct {
		plant func(*ledger.Ledger) error
		want  []audit.What
	}{
		"counts changed": {func(l *ledger.Ledger) error {
			return change(l, bus.Analyzer, 0, bits)
		}, []audit.What{audit.LearnedOther, audit.PolicyChanged, audit.PolicyWrong, audit.SumsWrong}},
		"counted twice": {func(l *ledger.Ledger) error {
			return again(l, bus.Analyzer, 0, bits)
		}, []audit.What{audit.DoubledCounts}},
		"nothing behind it": {func(l *ledger.Ledger) error {
			drop(l, bus.Analyzer, 2, end(l, bus.Analyzer)-2)
			drop(l, bus.Shuffler, 0, end(l, bus.Shuffler))
			return nil
		}, []audit.What{audit.ConfigurationMissing}},
		"no announcement": {func(l *ledger.Ledger) error {
			drop(l, bus.Analyzer, 3, end(l, bus.Analyzer)-3)
			drop(l, bus.Shuffler, 0, end(l, bus.Shuffler))
			return nil
		}, []audit.What{audit.OutOfOrder}},
	} {
		l := *whole
		l.Logs, l.Checkpoints = maps.Clone(l.Logs), maps.Clone(l.Checkpoints)
		for role, log := range l.Logs {
			l.Logs[role] = slices.Clone(log)
		}
		if err := errors.Join(x.plant(&l), l.Seal()); err != nil {
			t.Fatal(err)
		}
		r := check(t, &l, audit.Options{})
		for _, want := range x.want {
			if !slices.Contains(whats(r), want) {
				t.Errorf("%s: %v is not named%s", name, want, list(r))
			}
		}
	}
}

// A role that is still of a version before there were logs is told apart from fraud in the words, though not in the
// exit code: nobody else could tell.
func TestARoleFromBeforeThereWereLogsIsNamed(t *testing.T) {
	l := make1(t, ledger.Options{Configuration: ledger.Small(glm.Practical, plan.Shares, 1), Seed: 4})
	delete(l.Checkpoints, bus.Shuffler)
	r := check(t, l, audit.Options{})
	if !slices.Equal(whats(r), []audit.What{audit.CheckpointMissing}) || !strings.Contains(list(r), "ersions before there were logs") {
		t.Error(list(r))
	}
}
