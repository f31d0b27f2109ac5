package evaluate_test

import (
	"errors"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/riffle-dp/riffle/internal/evaluate"
	"github.com/riffle-dp/riffle/internal/population/decisions"
	"github.com/riffle-dp/riffle/pkg/glm/family"
)

// world makes logs with a known mean reward of the target, which plays arm 0 but for a share of the time.
type world struct {
	name      string
	family    string
	arms      int
	reward    float64                       // mean reward of arm 0 in half of the contexts; in the others a fifth of it
	uniform   float64                       // share of the time in which the target draws an arm
	chance    func(context float64) float64 // propensity of arm 0 in a context from 0 to 1
	effective float64                       // effective size of logs, on average
	rare      bool                          // some propensities of arm 0 are far below the others
}

func even(q float64) func(float64) float64 { return func(float64) float64 { return q } }

func uneven(c float64) float64 { return 0.05 + 0.9*c }

func heavy(c float64) float64 { return 0.01 + 0.5*c*c }

// rarely is a propensity that is small in a tenth of contexts.
func rarely(q float64) func(float64) float64 {
	return func(c float64) float64 {
		if c > 0.9 {
			return 0.02
		}
		return q
	}
}

var worlds = []world{
	{"two arms, even", "logistic", 2, 0.5, 0, even(0.5), 75, false},
	{"ten arms, even", "logistic", 10, 0.5, 0, even(0.1), 60, false},
	{"ten arms, few rewards", "logistic", 10, 0.1, 0, even(0.1), 75, false},
	{"ten arms, rare rewards", "logistic", 10, 0.02, 0, even(0.1), 75, false},
	{"nearly all rewarded", "logistic", 10, 0.98, 0, even(0.1), 75, false},
	{"linear", "linear", 4, 0.6, 0, even(0.25), 75, false},
	{"uneven", "logistic", 3, 0.5, 0, uneven, 300, false},
	{"uneven, few rewards", "logistic", 3, 0.1, 0, uneven, 300, false},
	{"rare in a tenth", "logistic", 5, 0.5, 0.1, rarely(0.4), 50, true},
	{"rare in a tenth, larger", "logistic", 5, 0.5, 0.1, rarely(0.4), 200, true},
	{"rare, two arms", "logistic", 2, 0.3, 0, rarely(0.6), 200, true},
	{"heavy tail", "logistic", 5, 0.5, 0, heavy, 50, true},
	{"heavy tail, two arms", "logistic", 2, 0.5, 0, heavy, 100, true},
}

func (w world) target() evaluate.Target {
	return func(arms [][]float64) ([]float64, error) {
		p := make([]float64, len(arms))
		for a := range p {
			p[a] = w.uniform / float64(len(arms))
		}
		p[0] += 1 - w.uniform
		return p, nil
	}
}

// mean is the mean reward of an arm in a context.
func (w world) mean(arm int, context float64) float64 {
	m := w.reward
	if context < 0.5 {
		m /= 5
	}
	if arm > 0 {
		m = 1 - m
	}
	return m
}

// log draws n decisions, and truth is the mean reward that the target has on all people.
func (w world) log(n int, src *rand.Rand) (log []decisions.Decision, truth float64) {
	for range n {
		c := src.Float64()
		d := decisions.Decision{Propensity: w.chance(c)}
		for a := range w.arms {
			d.Arms = append(d.Arms, []float64{0.5 * c, 0.5 * math.Cos(float64(a)), 0.3})
		}
		if src.Float64() >= d.Propensity {
			d.Arm = 1 + src.IntN(w.arms-1)
			d.Propensity = (1 - d.Propensity) / float64(w.arms-1)
		}
		if m := w.mean(d.Arm, c); w.family == "linear" {
			d.Reward = -1
			if src.Float64() < (1+m)/2 {
				d.Reward = 1
			}
		} else if src.Float64() < m {
			d.Reward = 1
		}
		log = append(log, d)
	}
	for _, c := range []float64{0.25, 0.75} {
		for a := range w.arms {
			share := w.uniform / float64(w.arms)
			if a == 0 {
				share += 1 - w.uniform
			}
			truth += share * w.mean(a, c) / 2
		}
	}
	return log, truth
}

// size is how many decisions have the effective size on average.
func (w world) size(effective float64) int {
	squares := 0.0
	const steps = 1000
	for i := range steps {
		c := (float64(i) + 0.5) / steps
		q := w.chance(c)
		first, others := 1-w.uniform+w.uniform/float64(w.arms), w.uniform*float64(w.arms-1)/float64(w.arms)
		squares += (first*first/q + others*others/(1-q)) / steps
	}
	return max(evaluate.MinDecisions, int(math.Ceil(effective*squares)))
}

func familyOf(t testing.TB, name string) family.Family {
	t.Helper()
	f, err := family.New(name, 1)
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// TestIntervalsAreRarelyWrong values the target on 250 logs of each world and size. An interval of 95 % that misses the
// truth is given for at most 8 % of logs: with a true rate of .05, .08 is 2.2 standard errors away, most worlds lie
// below it, and the seeds are fixed. Power: without the part of an interval that rare rewards need, without
// MinErrorSize, or without the doubt about the mean weight, a world below is wrong in more than 8 %. Where an interval
// is not given, nothing is said; in the worlds without rare propensities at least nine logs in ten have one.
func TestIntervalsAreRarelyWrong(t *testing.T) {
	for _, w := range worlds {
		src, given := rand.New(rand.NewPCG(3, uint64(w.arms))), 0
		wrong := map[string]int{}
		const logs = 250
		for range logs {
			log, truth := w.log(w.size(w.effective), src)
			r, err := evaluate.Evaluate(log, w.target(), evaluate.Options{Family: familyOf(t, w.family)})
			if err != nil && !errors.Is(err, evaluate.ErrOverlap) {
				t.Fatal(err)
			}
			if err != nil || r.IPS.Interval == nil {
				continue
			}
			given++
			for name, e := range map[string]*evaluate.Interval{"IPS": r.IPS.Interval, "SNIPS": r.SNIPS.Interval,
				"doubly robust": r.DoublyRobust.Interval, "SWITCH": r.Switch.Interval} {
				if truth < e.Low || truth > e.High {
					wrong[name]++
				}
			}
		}
		t.Logf("%-28s %5d decisions: %3d of %d logs have intervals, wrong are %v", w.name, w.size(w.effective), given,
			logs, wrong)
		for name, n := range wrong {
			if float64(n) > 0.08*logs {
				t.Errorf("%s: the interval of %s is wrong in %d of %d logs", w.name, name, n, logs)
			}
		}
		if !w.rare && given < logs*9/10 {
			t.Errorf("%s: %d of %d logs have intervals", w.name, given, logs)
		}
	}
}
