package evaluate_test

import (
	"encoding/json"
	"errors"
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/riffle-dp/riffle/internal/evaluate"
	"github.com/riffle-dp/riffle/internal/population/decisions"
)

// coins is a log of n decisions between two arms, of which arm 0 is drawn with the probability drawn and logged with
// the probability logged.
func coins(n int, drawn, logged float64, seed uint32) (log []decisions.Decision) {
	src := rand.New(rand.NewChaCha8([32]byte{byte(seed), 7, byte(seed >> 8), byte(seed >> 16), byte(seed >> 24)}))
	for range n {
		d := decisions.Decision{Arms: [][]float64{{0.4}, {-0.4}}, Propensity: logged}
		if src.Float64() >= drawn {
			d.Arm, d.Propensity = 1, 1-logged
		}
		if src.Float64() < []float64{0.6, 0.2}[d.Arm] {
			d.Reward = 1
		}
		log = append(log, d)
	}
	return log
}

func valued(t testing.TB, log []decisions.Decision, theta float64) (*evaluate.Estimates, error) {
	t.Helper()
	return evaluate.Evaluate(log, evaluate.Greedy([]float64{theta}), evaluate.Options{Family: newFamily(t)})
}

// What the log cannot hold is refused: arms that could not be played, and weights whose mean cannot be 1.
func TestProvedAbsenceOfOverlapIsRefused(t *testing.T) {
	certain := coins(400, 0, 0, 1) // arm 1, always, with propensity 1
	one := coins(400, 0.5, 0.5, 2)
	one[77].Propensity = 1
	tiny := coins(12, 0.5, 0.5, 3)
	tiny[5].Propensity = 1e-300
	three := coins(400, 0.5, 0.5, 4) // a third arm, the best one, that is never played
	for i := range three {
		three[i].Arms = append(three[i].Arms, []float64{0.9})
		if i%8 == 0 { // and in some decisions it is the worst one
			three[i].Arms[2][0] = -0.9
		}
	}
	for name, c := range map[string]struct {
		log     []decisions.Decision
		theta   float64
		problem string
	}{
		"certain":      {certain, 1, "could not be played"},
		"one decision": {one, map[int]float64{0: -1, 1: 1}[one[77].Arm], "could not be played"},
		"tiny, played": {tiny, 1, "decision 6"}, "tiny, not played": {tiny, -1, "decision 6"},
		"too large":   {coins(400, 0.2, 0.5, 5), 1, "too large"},
		"too small":   {coins(400, 0.5, 0.2, 6), 1, "too small"},
		"never there": {three, 1, "never played"},
	} {
		r, err := valued(t, c.log, c.theta)
		if !errors.Is(err, evaluate.ErrOverlap) || !strings.Contains(err.Error(), c.problem) {
			t.Errorf("%s: %v, %+v; want %q", name, err, r, c.problem)
		}
	}
	if r, err := valued(t, certain, -1); err != nil || math.Abs(r.IPS.Value-0.2) > 0.08 || r.IPS.Interval == nil {
		t.Errorf("what was certainly played is valued: %+v, %v", r, err)
	}
}

// A log is enough if the value of each constant policy has an interval. Of 400 decisions an arm of propensity .05 is in
// about 20. One that was played half as often as its propensity says is refused as Support does.
func TestThinLogsAreNotEnough(t *testing.T) {
	for name, c := range map[string]struct {
		log  []decisions.Decision
		want error
		says string
	}{
		"enough": {coins(400, 0.5, 0.5, 1), nil, ""},
		"few":    {coins(9, 0.5, 0.5, 1), evaluate.ErrFew, "the log has 9"},
		"rare":   {coins(400, 0.05, 0.05, 1), evaluate.ErrOverlap, "always playing arm 0, counted from 0, which"},
		"eighty": {coins(80, 0.5, 0.5, 1), evaluate.ErrOverlap, "of the policy itself would, and intervals need 50"},
		"wrong":  {coins(400, 0.25, 0.5, 1), evaluate.ErrOverlap, "times as often as the propensities say"},
		"never":  {coins(400, 0, 0.5, 1), evaluate.ErrOverlap, "was never played in 400 decisions"},
	} {
		err := evaluate.Enough(c.log)
		if !errors.Is(err, c.want) || err != nil && !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// Honest logs are hardly ever refused, whatever their propensities: of 4000 logs of each kind at most 4, where the
// bound is one in 1000 (more than 12 would have probability 1e-4 at that rate). Power: logs whose propensities are off
// by a half are refused in at least 95 of 100, from 400 decisions on.
func TestHonestLogsAreNotRefused(t *testing.T) {
	for _, q := range []float64{0.5, 0.1, 0.01} {
		for _, n := range []int{12, 60, 400} {
			src, refused := rand.New(rand.NewPCG(1, uint64(n))), 0
			const logs = 4000
			for range logs {
				log := coins(n, q, q, src.Uint32())
				_, err := evaluate.Diagnose(log, evaluate.Greedy([]float64{1}))
				if errors.Is(err, evaluate.ErrOverlap) && !strings.Contains(err.Error(), "no arm that was played") {
					refused++
				}
			}
			if refused > 4 {
				t.Errorf("propensity %v, %d decisions: %d of %d honest logs are refused", q, n, refused, logs)
			}
		}
	}
}

// At a small effective size there are estimates, and no interval; all of it is a number, and valid JSON.
func TestSmallEffectiveSizesHaveNoInterval(t *testing.T) {
	match := coins(12, 0, 0.01, 1)
	match[5].Arm, match[5].Reward, match[5].Propensity = 0, 1, 0.01
	for name, log := range map[string][]decisions.Decision{"one match": match, "forty": coins(40, 0.5, 0.5, 2)} {
		r, err := valued(t, log, 1)
		if err != nil || r.SNIPS.Interval != nil || r.IPS.Interval != nil || r.DoublyRobust.Interval != nil ||
			r.Overlap.Doubt() == "" {
			t.Errorf("%s: %+v, %v", name, r, err)
			continue
		}
		if text, err := json.Marshal(r); err != nil || strings.Contains(string(text), "interval") {
			t.Errorf("%s: %s, %v", name, text, err)
		}
	}
	r, err := valued(t, match, 1)
	if err != nil || math.Abs(r.Overlap.EffectiveSize-1) > 1e-9 || math.Abs(r.Overlap.MeanWeight-100.0/12) > 1e-9 ||
		!r.Outside {
		t.Errorf("%+v, %v", r, err)
	}
	// One decision of weight 50 among many of weight 1.25 decides how wide an interval would be.
	skewed := coins(400, 0.8, 0.8, 3)
	skewed[0].Arm, skewed[0].Propensity = 0, 0.02
	if r, err := valued(t, skewed, 1); err != nil || r.SNIPS.Interval != nil ||
		r.Overlap.EffectiveSize < evaluate.MinEffectiveSize {
		t.Errorf("%+v, %v", r, err)
	}
}

// IPS is SNIPS times the mean weight.
func TestEstimatesAreConsistent(t *testing.T) {
	for seed := range uint32(20) {
		r, err := valued(t, coins(300, 0.3, 0.3, seed), 1)
		if err != nil {
			t.Fatal(err)
		}
		if math.Abs(r.IPS.Value-r.SNIPS.Value*r.Overlap.MeanWeight) > 1e-12 || r.SNIPS.Interval.Low > r.SNIPS.Value ||
			r.SNIPS.Interval.High < r.SNIPS.Value || r.SNIPS.Interval.Low < 0 || r.SNIPS.Interval.High > 1 {
			t.Errorf("%+v", r)
		}
	}
}

// Of an estimate whose interval lies outside the range of rewards nothing is claimed: cut to the range, the interval
// would have length 0. IPS is the mean weight here, .51/.44, with a standard error of .057.
func TestAnEstimateOutsideTheRangeHasNoInterval(t *testing.T) {
	log := coins(400, 0.5, 0.44, 11)
	for i := range log {
		log[i].Reward, log[i].Arm, log[i].Propensity = 1, 0, 0.44
		if i >= 204 {
			log[i].Arm, log[i].Propensity = 1, 0.56
		}
	}
	e, err := valued(t, log, 1)
	if err != nil {
		t.Fatal(err)
	}
	if !e.Outside || e.IPS.Value < 1.1 || e.IPS.Interval != nil {
		t.Errorf("IPS is %v with the interval %+v, outside: %v", e.IPS.Value, e.IPS.Interval, e.Outside)
	}
	if v := e.SNIPS.Interval; v == nil || !(v.Low < v.High) || v.High != 1 {
		t.Errorf("SNIPS is %v with the interval %+v", e.SNIPS.Value, v)
	}
}
