package plan

import (
	"errors"
	"math"
	"math/rand/v2"
	"os"
	"strings"
	"testing"

	"github.com/riffle-dp/riffle/pkg/glm"
	"github.com/riffle-dp/riffle/pkg/glm/learner"
	"github.com/riffle-dp/riffle/pkg/privacy/calibrate"
)

// every is each channel with each kind of noise that it has.
func every() []Terms {
	return []Terms{
		{Channel: Shuffle}, {Channel: Shuffle, ServerNoise: 1}, {Channel: Shuffle, ServerNoise: 1, NoDeviceNoise: true},
		{Channel: Shares}, {Channel: Shares, ServerNoise: 0.5}, {Channel: Shares, ServerNoise: 1},
		{Channel: Shares, ServerNoise: 1, NoDeviceNoise: true}, {Channel: Local}, {Channel: Central},
	}
}

// termsOf are the default terms of a channel with the noise of others.
func termsOf(of Terms) Terms {
	t := DefaultTermsFor(of.Channel)
	t.ServerNoise, t.NoDeviceNoise = of.ServerNoise, of.NoDeviceNoise
	return t
}

// Random deployments of every channel: what is proposed is what devices compute, uses the budget, and keeps to the
// limits of the channel.
func TestDevicesAcceptEveryProposalOfEveryChannel(t *testing.T) {
	if testing.Short() { // nothing of it runs at the same time as anything else
		t.Skip("without a second goroutine")
	}
	families := []string{"logistic", "probit", "poisson", "gaussian", "linear"}
	r := rand.New(rand.NewPCG(3, 4))
	between := func(low, high float64) float64 { return low + r.Float64()*(high-low) }
	for i := range cases(1) {
		for _, of := range every() {
			cfg := learner.Config{Dimension: 1 + r.IntN(6), Horizon: 5000,
				Family: families[(i+r.IntN(5))%len(families)]}
			if cfg.Family == "poisson" || cfg.Family == "gaussian" {
				cfg.MaxReward = float64(1 + r.IntN(5))
			}
			terms := termsOf(of)
			terms.Epsilon, terms.DropOut, terms.Dishonest = between(0.3, 4), between(0, 0.3), between(0, 0.3)
			if of.Channel == Shuffle {
				terms.MaxMessages = 100 + r.IntN(300)
			}
			cohort := int(math.Exp(between(math.Log(100), math.Log(20000))))
			step := stepAt(t, cfg, cohort, between(0, 2.9))
			p, err := Propose(step, terms)
			if err != nil {
				t.Fatalf("%+v %+v: %v", cfg, terms, err)
			}
			a := announce(t, step, p)
			g, err := Guarantee(a, 0)
			if err != nil {
				t.Fatal(err)
			}
			eps := g.Epsilon(terms.Delta)
			if !(eps <= terms.Epsilon) {
				t.Errorf("%+v %+v: a device computes epsilon %v", cfg, terms, eps)
			}
			// What is not used of the budget: a thousandth for the tolerance of the joint bound, as much for the
			// search.
			if of.Channel != Shuffle && (of.ServerNoise == 0 || of.NoDeviceNoise) && eps < terms.Epsilon*0.99 {
				t.Errorf("%+v %+v: the plan leaves epsilon at %v", cfg, terms, eps)
			}
			alone, err := Alone(a)
			if err != nil {
				t.Fatal(err)
			}
			if of.ServerNoise == 1 && !(alone.Epsilon(terms.Delta) <= terms.Epsilon) {
				t.Errorf("%+v %+v: if nobody else is honest, epsilon is %v", cfg, terms, alone.Epsilon(terms.Delta))
			}
			round, err := CheckRound(a)
			if err != nil {
				t.Fatal(err)
			}
			if of.Channel != Shuffle && (round.Messages != 1 || a.EntryBits() > MaxEntryBits(of.Channel) ||
				a.EntryBits() != p.Details.EntryBits) {
				t.Errorf("%+v %+v: %d messages with entries of %d bits, planned are %d", cfg, terms, round.Messages,
					a.EntryBits(), p.Details.EntryBits)
			}
			for i, rel := range a.Releases() {
				want := [2]bool{of.Channel == Shuffle && of.ServerNoise > 0 || of.Channel == Shares &&
					of.ServerNoise > 0,
					of.Channel == Central || of.Channel == Shares && of.ServerNoise > 0}
				devices := of.Channel != Central && !of.NoDeviceNoise
				if [2]bool{rel.ShufflerNoise > 0, rel.AnalyzerNoise > 0} != want || rel.NoiseBits > 0 != devices {
					t.Errorf("%+v: release %d has the noise %+v", terms, i, rel)
				}
				if v := p.Encodings[i].Variance(uint64(cohort), rel.ServerNoise())[0]; math.Abs(
					math.Sqrt(v)/p.Details.Releases[i].Deviation-1) > 1e-9 {
					t.Errorf("%+v: predicted deviation %v, it is %v", terms, p.Details.Releases[i].Deviation,
						math.Sqrt(v))
				}
			}
		}
	}
}

// The default plans of cohorts that 5000 people are divided into, and of one of 100 000, keep to these ratios of
// noise variance, widths and poisons. A trusted curator that certifies both releases together, as these plans do, has a
// ratio of 0.875.
func TestDefaultPlansAreAsGoodAsPromised(t *testing.T) {
	if testing.Short() { // nothing of it runs at the same time as anything else
		t.Skip("without a second goroutine")
	}
	for _, c := range []struct {
		of           Terms
		ratio, ideal float64
		bits         int // up to 5000 people
		poison       float64
	}{
		{Terms{Channel: Shares}, 1.1, 1.25, 7, 0.6},
		{Terms{Channel: Shares, ServerNoise: 1, NoDeviceNoise: true}, 1.8, ServersRatio, 6, 0.35},
		{Terms{Channel: Central}, 1.02, CentralRatio, 6, 0.25},
		{Terms{Channel: Local}, math.Inf(1), LocalRatio, 13, 5},
	} {
		for _, d := range []int{5, 20} {
			for _, cohort := range []int{179, 2315, 100_000} {
				if d != 5 && cohort > 5000 && os.Getenv("RIFFLE_LONG") == "" {
					continue
				}
				step := stepAt(t, learner.Config{Dimension: d, Horizon: 5000}, cohort, 0.7)
				p, err := Propose(step, termsOf(c.of))
				if err != nil {
					t.Fatal(err)
				}
				poison := p.Announced(step).Poison()
				if poison > c.poison || p.Details.EntryBits > c.bits && cohort < 5000 {
					t.Errorf("%s, %d people, d %d: entries of %d bits, poison %v", c.of.Channel, cohort, d,
						p.Details.EntryBits, poison)
				}
				for _, r := range p.Details.Releases {
					if !(r.VarianceRatio <= c.ratio && r.IdealRatio <= c.ideal && r.IdealRatio > 1 &&
						r.Poison <= poison) {
						t.Errorf("%s, %d people, d %d: ratio %v, to ideal noise %v, poison %v", c.of.Channel, cohort, d,
							r.VarianceRatio, r.IdealRatio, r.Poison)
					}
				}
			}
		}
	}
}

// Entries of shares get wider while that is affordable: what one dishonest report can do stays within FinePoison and a
// report within FineBits, unless SharesRatio needs more. All is relative to the noise that the plan counts on, so that
// a cohort of which many may drop out has no wider entries for what no entry can give it.
func TestSharesAreAsFineAsIsAffordable(t *testing.T) {
	if testing.Short() { // nothing of it runs at the same time as anything else
		t.Skip("without a second goroutine")
	}
	for _, c := range []struct {
		dim, cohort int
		dropOut     float64
		bits        int
		ratio       float64 // to the least that the noise that is counted on can have
	}{
		{5, 179, 0.05, 4, SharesRatio}, {5, 716, 0.05, 6, 1.035}, {5, 2315, 0.05, 7, FineRatio},
		{5, 100_000, 0.05, 9, FineRatio}, {20, 2315, 0.05, 5, SharesRatio}, {5, 2315, 0.3, 7, FineRatio},
	} {
		terms := DefaultTermsFor(Shares)
		terms.DropOut = c.dropOut
		step := stepAt(t, learner.Config{Dimension: c.dim, Horizon: max(5000, c.cohort)}, c.cohort, 0.7)
		p, err := Propose(step, terms)
		if err != nil {
			t.Fatal(err)
		}
		poison := p.Announced(step).Poison()
		floor := float64(p.Cohort.Size) / float64(p.Cohort.Minimum-p.Cohort.MaxDishonest)
		worst := math.Max(p.Details.Releases[0].IdealRatio, p.Details.Releases[1].IdealRatio) / floor
		if p.Details.EntryBits != c.bits || poison > FinePoison || !(worst <= c.ratio && worst > 1) {
			t.Errorf("%+v: entries of %d bits, ratio %v, poison %v", c, p.Details.EntryBits, worst, poison)
		}
		// One bit more would not be affordable, or not needed.
		terms.VarianceRatio = floor * worst * 0.9999
		step.Cohort = c.cohort
		finer, err := Propose(step, terms)
		if err != nil {
			t.Fatal(err)
		}
		entries := c.dim + c.dim*(c.dim+1)/2
		if worst > FineRatio && finer.Announced(step).Poison() <= FinePoison &&
			finer.Details.EntryBits*entries <= FineBits {
			t.Errorf("%+v: entries of %d bits are affordable, too", c, finer.Details.EntryBits)
		}
	}
}

// Fifty dimensions release 1325 numbers.
func TestFiftyDimensionsArePlannedByDefault(t *testing.T) {
	step := stepAt(t, learner.Config{Dimension: 50, Horizon: 5000}, 2315, 0.7)
	for _, c := range Channels() {
		p, err := Propose(step, DefaultTermsFor(c))
		if err != nil {
			t.Fatalf("%s: %v", c, err)
		}
		if _, err := CheckRound(p.Announced(step)); err != nil {
			t.Errorf("%s: %v", c, err)
		}
	}
}

// An epoch of several rounds is planned for numbers, too.
func TestNumbersOfSeveralRounds(t *testing.T) {
	l, err := learner.New(learner.Config{Profile: glm.Paper, Dimension: 2, Horizon: 20000})
	if err != nil {
		t.Fatal(err)
	}
	step := l.Next()
	for _, of := range every()[3:] {
		p, err := Propose(step, termsOf(of))
		if err != nil {
			t.Fatalf("%+v: %v", of, err)
		}
		a := announce(t, step, p)
		g, err := Guarantee(a, 0)
		if err != nil || !(g.Epsilon(DefaultDelta) <= DefaultEpsilon) {
			t.Errorf("%+v: epsilon %v, %v", of, g.Epsilon(DefaultDelta), err)
		}
		if _, err := CheckRound(a); err != nil {
			t.Errorf("%+v: %v", of, err)
		}
	}
}

func TestTermsThatAChannelCannotKeepAreRefused(t *testing.T) {
	step := stepAt(t, learner.Config{Dimension: 2, Horizon: 5000}, 500, 0.7)
	for _, c := range []struct {
		of   Terms
		says string
	}{
		{Terms{Channel: "radio"}, "not known"}, {Terms{Channel: Shares, ServerNoise: 1.5}, "[0, 1]"},
		{Terms{Channel: Shuffle, ServerNoise: math.NaN()}, "[0, 1]"}, {Terms{Channel: Shares, ServerNoise: -0.1},
			"[0, 1]"},
		{Terms{Channel: Local, ServerNoise: 0.5}, "local"}, {Terms{Channel: Local, NoDeviceNoise: true}, "local"},
		{Terms{Channel: Shares, NoDeviceNoise: true}, "whole"},
		{Terms{Channel: Shuffle, NoDeviceNoise: true, ServerNoise: 0.5}, "whole"},
	} {
		terms := termsOf(c.of)
		if p, err := Propose(step, terms); !errors.Is(err, ErrPlan) || !strings.Contains(err.Error(), c.says) ||
			p != nil {
			t.Errorf("%+v: %v", c.of, err)
		}
	}
	terms := DefaultTermsFor(Shares)
	terms.Dishonest = 0.96
	var infeasible *calibrate.Infeasible
	if _, err := Propose(step, terms); !errors.As(err, &infeasible) || infeasible.Constraint != "MinCohort" {
		t.Errorf("a cohort without honest devices: %v", err)
	}
}

// An announcement whose entries are wider than the channel allows is refused, before a device makes a report of it.
func TestWideEntriesAreRefused(t *testing.T) {
	step := stepAt(t, learner.Config{Dimension: 2, Horizon: 5000}, 500, 0.7)
	for _, c := range []Channel{Shares, Local} {
		p, err := Propose(step, DefaultTermsFor(c))
		if err != nil {
			t.Fatal(err)
		}
		a := p.Announced(step)
		wide := uint32(1) << MaxEntryBits(c)
		a.Plan.Rounds[0].Releases[0].NoiseBits, a.Encodings[0].NoiseBits = wide, wide
		if _, err := CheckRound(a); !errors.Is(err, ErrPlan) {
			t.Errorf("%s: entries of %d bits: %v", c, a.EntryBits(), err)
		}
	}
}

func BenchmarkProposeShares(b *testing.B) {
	step := stepAt(b, learner.Config{Dimension: 5, Horizon: 5000}, 716, 0.7)
	for b.Loop() {
		if _, err := Propose(step, DefaultTermsFor(Shares)); err != nil {
			b.Fatal(err)
		}
	}
}
