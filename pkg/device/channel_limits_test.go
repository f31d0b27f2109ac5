package device

import (
	"errors"
	"strings"
	"testing"

	"github.com/riffle-dp/riffle/pkg/channel/registry"
	"github.com/riffle-dp/riffle/pkg/glm"
	"github.com/riffle-dp/riffle/pkg/plan"
	"github.com/riffle-dp/riffle/pkg/privacy"
	"github.com/riffle-dp/riffle/pkg/protocol"
	"github.com/riffle-dp/riffle/pkg/wire"
)

// The guarantee that is left if no other device is honest is a limit of its own, for one plan and over all records.
func TestWhatIsLeftAloneIsLimited(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	noised := through(f.announcement(glm.Practical), plan.Shares)
	for i := range noised.Plan.Rounds[0].Releases {
		r := &noised.Plan.Rounds[0].Releases[i]
		r.ShufflerNoise, r.AnalyzerNoise = 4000, 4000
	}
	c := f.config()
	c.Limits.Records = 3
	core := must(New(c))
	a := must(core.Judge(f.announce(noised), 1, 0))
	eps := a.Alone().Epsilon(c.Limits.Delta)
	if a.Weak() != nil || !(eps > a.Guarantee().Epsilon(c.Limits.Delta)) || !(eps < 10) {
		t.Fatal(a.Weak(), eps)
	}
	if p := core.Promise(a); p.EpsilonAlone == nil || *p.EpsilonAlone != eps || p.Channel != plan.Shares ||
		!strings.Contains(p.Guarantee, plan.Shares.RestsOn()) {
		t.Errorf("%+v", p)
	}
	missing := noised.Clone()
	missing.Plan.Rounds[0].Releases[1].AnalyzerNoise = 0 // then nothing protects from the shuffler
	for name, try := range map[string]struct {
		limit float64
		a     *plan.Announcement
		weak  bool
	}{
		"just enough": {eps, noised, false}, "too much": {eps * 0.999, noised, true}, "no limit": {0, missing, false},
		"one server's noise in one release is missing": {100, missing, true},
	} {
		c := f.config()
		c.Limits.EpsilonAlone = try.limit
		got := must(must(New(c)).Judge(f.announce(try.a), 1, 0))
		var weak *WeakPlan
		if errors.As(got.Weak(), &weak) != try.weak || try.weak && weak.Limit != "epsilon_alone" {
			t.Errorf("%s: %v", name, got.Weak())
		}
	}
	// Two records cost about the root of two times one.
	c.Limits.Epsilon, c.Limits.EpsilonAlone = 100, eps*1.2
	core = must(New(c))
	s := must(core.NewState(0).Ask(must(core.Judge(f.announce(noised), 1, 0)), start))
	if got := s.Ledger.TotalAlone().Epsilon(c.Limits.Delta); got != eps { // not what the others' noise gives
		t.Errorf("the ledger has epsilon %v if no other device is honest, the plan %v", got, eps)
	}
	second := noised.Clone()
	digest := digestOf(noised)
	second.Epoch, second.Previous = 2, digest[:]
	if _, err := s.Ask(must(core.Judge(f.announce(second), 2, 0)), start); !errors.Is(err, privacy.ErrBudget) {
		t.Errorf("the second record: %v", err)
	}
}

// A number of dishonest devices counts beside the share, whichever is larger.
func TestTheNumberOfDishonestDevicesCounts(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	judge := func(share float64, number int) *Announced {
		c := f.config()
		c.Limits.Epsilon, c.Limits.Dishonest, c.Limits.MaxDishonest = 1e6, share, number
		return must(must(New(c)).Judge(f.announce(f.announcement(glm.Practical)), 1, 0))
	}
	none, some, larger := judge(0, 0), judge(0, 3), judge(0.25, 1) // a quarter of twelve
	if !(some.Guarantee().Mu > none.Guarantee().Mu) || larger.Guarantee().Mu != some.Guarantee().Mu {
		t.Errorf("%v, %v, %v", none.Guarantee(), some.Guarantee(), larger.Guarantee())
	}
	if a := judge(0, 100); a.Weak() == nil {
		t.Error("a plan in which nobody is honest is followed")
	}
}

// Where a report is one message its length is limited in bytes, and the number of bit messages is not.
func TestTheLengthOfAReportIsLimited(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	for _, c := range served() {
		a := through(f.announcement(glm.Practical), c)
		size := wire.EnvelopeSize(registry.PayloadSize(c, a.Encodings))
		for limit, weak := range map[int]bool{size - 1: c != plan.Shuffle, size: false, 0: false} {
			config := f.everywhere()
			config.Limits.MaxReportSize = limit
			if c != plan.Shuffle {
				config.Limits.MaxMessages = 1
			}
			got := must(must(New(config)).Judge(f.announce(a), 1, 0))
			var why *WeakPlan
			if errors.As(got.Weak(), &why) != weak || weak && why.Limit != "max_report_size" {
				t.Errorf("%s of %d bytes, limit %d: %v", c, size, limit, got.Weak())
			}
		}
	}
}

// Where noise bits are no messages a plan could make a device draw a gigabyte of random words for one report.
func TestTheNoiseOfAReportIsLimited(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	for _, c := range served() {
		a := through(f.announcement(glm.Practical), c)
		bits := 0
		for _, e := range a.Encodings {
			bits += int(e.NoiseBits) * len(e.Coordinates)
		}
		for limit, weak := range map[int]bool{max(bits-1, 0): c != plan.Shuffle && bits > 0, bits: false, 0: false} {
			config := f.everywhere()
			config.Limits.MaxNoiseBits = limit
			got := must(must(New(config)).Judge(f.announce(a), 1, 0))
			var why *WeakPlan
			if errors.As(got.Weak(), &why) != weak || weak && why.Limit != "max_noise_bits" {
				t.Errorf("%s of %d noise bits, limit %d: %v", c, bits, limit, got.Weak())
			}
		}
	}
	// The most noise that a number of the channel local has room for, on each coordinate of a large model.
	e := protocol.Encoding{Scale: 1, NoiseBits: 1<<16 - 2, Bias: protocol.BiasHalf,
		Coordinates: make([]protocol.Coordinate, 1325)}
	var weak *WeakPlan
	err := DefaultLimits().work(&plan.Encoder{Encodings: []protocol.Encoding{e}})
	if !errors.As(err, &weak) || weak.Limit != "max_noise_bits" {
		t.Errorf("86 million noise bits: %v", err)
	}
}

// A limit that was lowered holds for a state that was kept, and one that was raised does not.
func TestStricterLimitsHoldForKeptStates(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	kept := must(New(f.config())).NewState(3)
	c := f.config()
	c.Limits.Epsilon, c.Limits.Delta, c.Limits.EpsilonAlone = 1, 1e-6, 2
	c.Limits.Records = 3
	got := must(New(c)).Restored(kept).Ledger
	if got.Epsilon != 1 || got.Delta != 1e-6 || got.EpsilonAlone != 2 || got.Records != 1 {
		t.Errorf("%+v", got)
	}
	for records, want := range map[int]int{0: 1, 2: 2, 3: 3, 5: 3} {
		kept.Ledger.Records = records
		if got := must(New(c)).Restored(kept).Ledger.Records; got != want {
			t.Errorf("%d records that were kept are %d under a limit of 3", records, got)
		}
	}
	again := must(New(f.config())).Restored(State{Ledger: got}).Ledger
	if again.Epsilon != 1 || again.Delta != 1e-6 || again.EpsilonAlone != 2 || again.Records != 1 {
		t.Errorf("%+v", again)
	}
}
