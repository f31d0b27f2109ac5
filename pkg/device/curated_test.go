package device

import (
	"errors"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/riffle-dp/riffle/pkg/channel"
	"github.com/riffle-dp/riffle/pkg/channel/envelope"
	"github.com/riffle-dp/riffle/pkg/channel/registry"
	"github.com/riffle-dp/riffle/pkg/glm"
	"github.com/riffle-dp/riffle/pkg/glm/family"
	"github.com/riffle-dp/riffle/pkg/glm/statistic"
	"github.com/riffle-dp/riffle/pkg/glm/symmetric"
	"github.com/riffle-dp/riffle/pkg/plan"
	"github.com/riffle-dp/riffle/pkg/protocol"
	"github.com/riffle-dp/riffle/pkg/seal"
	"github.com/riffle-dp/riffle/pkg/wire"
)

// curated is an announcement whose people send their records to the analyzer; those with an arm of norm 1/2 explore.
func (f *fixture) curated() *plan.Announcement {
	a := f.announcement(glm.Practical)
	none := glm.Stage{Theta: []float64{1, 0}, Covariance: symmetric.Packed{1, 0, 1}, Width: 0}
	a.Policy = glm.Policy{Profile: glm.Joint, Family: family.NameLogistic, MaxReward: 1, Dimension: 2, Radius: 2,
		Theta: []float64{1, 0}, Play: glm.PlayOptimistic, Optimism: &none,
		Criterion: &glm.Criterion{Covariance: symmetric.Packed{1, 0, 1}, Threshold: 0.25}}
	a.Plan = plan.Plan{Epsilon: 4, Delta: 1e-3, Channel: plan.Central,
		Rounds: []plan.Round{{Releases: []plan.Release{{Statistic: statistic.Row}}}},
		Curator: &plan.Curator{Leaves: 3, ExplorerNoise: 4, OtherNoise: 0.4, ExplorerFits: 6, OtherFits: 10,
			ExplorerRho: 0.02, OtherRho: 0.01}}
	a.Encodings = []protocol.Encoding{plan.RecordEncoding(2, family.NameLogistic, 1)}
	return a
}

// A device that trusts the analyzer sends it the record, with the flag that says whether the criterion had it explore;
// its ledger counts what the curator releases of that over the whole run.
func TestACuratedRecordIsSentWhole(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		arms     [][]float64
		arm      int
		explored bool
	}{
		"explored": {[][]float64{{0.25, 0}, {0, 0.75}}, 1, true},
		"not":      {[][]float64{{0.25, 0}, {0, 0.25}}, 0, false},
	} {
		f := newFixture(t)
		config := f.everywhere()
		d := f.opened(config)
		a := f.curated()
		if fresh, err := d.Follow(f.announce(a), start); !fresh || err != nil {
			t.Fatal(fresh, err)
		}
		if err := d.Keys(f.keys(1, f.shufflerKey)); err != nil {
			t.Fatal(err)
		}
		f.enrol(d)
		made := must(d.Decide(c.arms, source(1)))
		if !made.Sampled || made.Arm != c.arm || made.Propensity != 1 {
			t.Fatalf("%s: %+v", name, made)
		}
		must(d.Reward(decision(d), 1, start))
		sealed := must(d.Report(start.Add(time.Minute)))
		context := seal.ReportContext{Deployment: deployment, Epoch: 1}
		plain := must(wire.OpenEnvelope(sealed, must(seal.NewReportOpener(f.shufflerKey)), context))
		report, _, err := wire.ParseReport(plain, registry.PayloadSize(plan.Central, a.Encodings))
		if err != nil {
			t.Fatal(err)
		}
		verifier := channel.NewVerifier(wire.Party{Deployment: deployment, Key: f.registrar.Public()})
		entries, by, err := must(envelope.NewOpener(a, digestOf(a), f.analyzerKey, verifier)).Open(nil, report.Payload)
		if err != nil || by.Number != 3 {
			t.Fatal(by, err)
		}
		arm, reward, explored := plan.DecodeRecord(a.Encodings[0], entries, 1)
		if !slices.Equal(arm, c.arms[c.arm]) || reward != 1 || explored != c.explored {
			t.Errorf("%s: the analyzer reads %v, %v, %v", name, arm, reward, explored)
		}
		want := must(plan.Guarantee(a, 0))
		entry := d.state.Ledger.Entries[0]
		if want.Rho <= 0 || entry.Guarantee != want || entry.Alone == nil || *entry.Alone != want ||
			entry.Releases != 1 {
			t.Errorf("%s: the ledger has %+v, the curator reveals %+v", name, entry, want)
		}
		promise := d.core.Promise(d.last)
		if !strings.Contains(promise.Guarantee, "rests on the analyzer being honest") ||
			promise.Epsilon != want.Epsilon(config.Limits.Delta) || promise.EpsilonAlone == nil {
			t.Errorf("%s: people are told %+v", name, promise)
		}
	}
}

// A device computes for itself what a curator reveals. It takes no part where that is more than its limits, whatever is
// claimed, or where the plan does not hold together, or where its people do not trust the analyzer.
func TestACuratorIsRecomputed(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	judge := func(c Config, spoil func(a *plan.Announcement)) string {
		a := f.curated()
		spoil(a)
		judged := must(must(New(c)).Judge(f.announce(a), 1, 0))
		var weak *WeakPlan
		if errors.As(judged.Weak(), &weak) {
			return weak.Limit
		}
		return ""
	}
	trusting := f.everywhere()
	exact := must(plan.Guarantee(f.curated(), 0)).Epsilon(trusting.Limits.Delta)
	trusting.Limits.Epsilon = math.Nextafter(exact, 9)
	strict := trusting
	strict.Limits.Epsilon = exact * 0.999
	alone := trusting
	alone.Limits.EpsilonAlone = exact * 0.999
	for name, c := range map[string]struct {
		config Config
		spoil  func(a *plan.Announcement)
		want   string
	}{
		"as announced": {trusting, func(*plan.Announcement) {}, ""},
		"half of the noise of nodes": {trusting,
			func(a *plan.Announcement) { a.Plan.Curator.ExplorerNoise /= 2 }, "epsilon"},
		"half of the noise of the others' nodes": {trusting,
			func(a *plan.Announcement) { a.Plan.Curator.OtherNoise /= 2 }, "epsilon"},
		"four times the fits": {trusting, func(a *plan.Announcement) { a.Plan.Curator.OtherFits *= 4 }, "epsilon"},
		"a longer run":        {trusting, func(a *plan.Announcement) { a.Plan.Curator.Leaves *= 4 }, "epsilon"},
		"a claim of less":     {strict, func(a *plan.Announcement) { a.Plan.Epsilon = 0.01 }, "epsilon"},
		"alone":               {alone, func(*plan.Announcement) {}, "epsilon_alone"},
		"not trusted":         {f.config(), func(*plan.Announcement) {}, "trust"},
	} {
		if got := judge(c.config, c.spoil); got != c.want {
			t.Errorf("%s: refused by %q, want %q", name, got, c.want)
		}
	}
}

// What a curator may release of records is promised to everyone whose record it holds: no later epoch changes it.
func TestACuratorStaysTheSame(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	next := func(spoil func(a *plan.Announcement)) error {
		d := f.opened(f.everywhere())
		first := f.curated()
		must(d.Follow(f.announce(first), start))
		second := f.curated()
		digest := digestOf(first)
		second.Epoch, second.Previous = 2, digest[:]
		spoil(second)
		_, err := d.Follow(f.announce(second), start)
		return err
	}
	if err := next(func(*plan.Announcement) {}); err != nil {
		t.Errorf("the same curator: %v", err)
	}
	if err := next(func(a *plan.Announcement) {
		*a = plan.Announcement{Deployment: deployment, Epoch: 2, Previous: a.Previous, Policy: a.Policy, Final: true}
	}); err != nil {
		t.Errorf("the last policy: %v", err)
	}
	for name, spoil := range map[string]func(a *plan.Announcement){
		"more fits": func(a *plan.Announcement) { a.Plan.Curator.OtherFits++ },
		"less noise": func(a *plan.Announcement) {
			a.Plan.Curator.ExplorerNoise = math.Nextafter(a.Plan.Curator.ExplorerNoise, 0)
		},
		"sums": func(a *plan.Announcement) {
			p := through(f.announcement(glm.Practical), plan.Central)
			a.Policy, a.Plan, a.Encodings = p.Policy, p.Plan, p.Encodings
		},
	} {
		if err := next(spoil); !errors.Is(err, ErrRewound) || !strings.Contains(err.Error(), "promised to those") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// The number of cohorts bounds the nodes that hold a record: nobody takes part in a run that goes on beyond it.
func TestACuratorHasNoMoreCohortsThanAnnounced(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	core := must(New(f.everywhere()))
	for epoch := uint64(1); epoch <= 4; epoch++ {
		a := f.curated()
		if a.Epoch = epoch; epoch > 1 {
			a.Previous = make([]byte, 32)
		}
		judged := must(core.Judge(f.announce(a), epoch, 0))
		if last := uint64(a.Plan.Curator.Leaves); (judged.Weak() == nil) != (epoch <= last) {
			t.Errorf("epoch %d of %d: %v", epoch, last, judged.Weak())
		}
	}
}
