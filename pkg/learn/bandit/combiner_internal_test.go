package bandit

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/riffle-dp/riffle/pkg/learn"
)

// earning is a base that does nothing, so that a test can say what it earns.
type earning struct{ absorbed int }

func (*earning) policy() (learn.Policy, error)          { return learn.Data{}, nil }
func (e *earning) absorb(report, noise []float64) error { e.absorbed++; return nil }

// Of two bases one of which earns nothing, the combiner drops it or plays it for less than a fifth of the people; a
// sole base is never dropped.
func TestCombinerLeavesTheBadBase(t *testing.T) {
	s := lucbSetting(math.Inf(1), 0.1)
	s.Horizon, s.Options = 10_000, map[string]float64{"regret": 0.1, "deviation": 0.1}
	p, err := newOnlineParameters(s, "regret", "deviation")
	if err != nil {
		t.Fatal(err)
	}
	for bad := range 2 {
		bases := []*earning{{}, {}}
		c := newCombined(p, []onlineBase{bases[0], bases[1]}, []float64{0.3, 0.6})
		c.bases[0].promise, c.bases[0].power = c.bases[1].promise, c.bases[1].power // two equal bases
		c.bases[0].handicap = c.bases[1].handicap
		r := rand.New(rand.NewPCG(7, 8))
		for range s.Horizon {
			if _, err := c.policy(); err != nil {
				t.Fatal(err)
			}
			y := 0.0
			if c.current != bad && r.Float64() < 0.9 {
				y = 1
			}
			if err := c.absorb([]float64{0, 0, y}, make([]float64, 3)); err != nil {
				t.Fatal(err)
			}
		}
		if n := bases[bad].absorbed; n == 0 || n > s.Horizon/5 {
			t.Errorf("the base that earns nothing got %d of %d people", n, s.Horizon)
		}
		if c.bases[0].dropped && c.bases[1].dropped {
			t.Error("no base is left")
		}
	}
}

// The handicaps are the theorem's: for a base of power 1/2 the bracket is 9/4. The bound subtracts the handicap, so
// that of two bases that earn the same the one with the smaller handicap is played.
func TestCombinerHandicaps(t *testing.T) {
	s := lucbSetting(1, 1e-3)
	p, err := newOnlineParameters(s, "regret", "deviation")
	if err != nil {
		t.Fatal(err)
	}
	c := newCombined(p, []onlineBase{&earning{}, &earning{}}, []float64{0.42, 0.84})
	const people, root = 1000., math.Sqrt2
	logs := math.Pow(math.Log(people), 1.5)
	slow, promise := math.Pow(people, 0.125), logs*root/0.84
	first := slow / (root * math.Sqrt(people) * (logs*slow + 1))
	second := 1 / (logs * root * math.Sqrt(people))
	want := promise*math.Sqrt(people) + 2.25*promise*promise*people*second +
		288*math.Log(math.Pow(people, 3)*2/s.Failure)*people*second + 1/first
	if got := c.bases[1].handicap; math.Abs(got/want-1) > 1e-9 {
		t.Errorf("handicap %v, want %v", got, want)
	}
	for i := range c.bases {
		c.bases[i].people, c.bases[i].mean, c.bases[i].handicap = 1e6, 0.5, 0
		c.bases[i].promise, c.bases[i].power = 0, 0.5
	}
	c.bases[0].handicap = 100
	if _, err := c.policy(); err != nil || c.current != 1 {
		t.Errorf("base %d is played, %v", c.current, err)
	}
}

// A base whose rewards fall behind its own mean by more than it promised is dropped, and the other then gets everyone,
// however little it earns; the last is kept.
func TestCombinerDropsABaseThatBreaksItsPromise(t *testing.T) {
	s := lucbSetting(math.Inf(1), 0.1)
	p, err := newOnlineParameters(s, "regret", "deviation")
	if err != nil {
		t.Fatal(err)
	}
	c := newCombined(p, []onlineBase{&earning{}, &earning{}}, []float64{0.3, 0.6})
	for i := range c.bases {
		c.bases[i].promise, c.bases[i].handicap = 0, 0
	}
	for step := range 2000 {
		y := 1.0
		if step >= 300 {
			y = -1
		}
		if c.current = 0; c.bases[0].dropped {
			c.current = 1
		}
		if err := c.absorb([]float64{0, 0, y}, make([]float64, 3)); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := c.policy(); err != nil || !c.bases[0].dropped || c.bases[1].dropped || c.current != 1 {
		t.Errorf("dropped %v and %v, base %d is played, %v", c.bases[0].dropped, c.bases[1].dropped, c.current, err)
	}
}
