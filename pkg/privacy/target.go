package privacy

import (
	"fmt"
	"math"
)

// The promises that can be stated: one range for every command, configuration, plan and experiment.
//
// At these ends and between them the planner was seen to find plans (TestStatedRangesHold of internal/planner, which
// says in which channels); beyond epsilon 500 or below delta 1e-20 it finds none in some. A promise of epsilon 100 is
// none in practice: a record may change the odds of anything by e^100. MaxDelta is a matter of sense: with probability
// delta a mechanism may show a person's record outright, and what does so for one in a thousand people protects nobody.
const (
	MinEpsilon = 1e-6
	MaxEpsilon = 100
	MinDelta   = 1e-20
	MaxDelta   = 1e-3
)

// CheckTarget refuses a promise (epsilon, delta) that cannot be stated. Its error wraps ErrTarget and says what to do.
func CheckTarget(epsilon, delta float64) error {
	if err := CheckEpsilon(epsilon); err != nil {
		return err
	}
	return CheckDelta(delta)
}

// CheckEpsilon refuses an epsilon outside [MinEpsilon, MaxEpsilon], as CheckTarget does.
func CheckEpsilon(epsilon float64) error {
	if !(epsilon >= MinEpsilon && epsilon <= MaxEpsilon) {
		return fmt.Errorf("%w: epsilon is %v: take a number from %g to %d; 0.1 to 10 are usual", ErrTarget, epsilon,
			MinEpsilon, MaxEpsilon)
	}
	return nil
}

// CheckDelta refuses a delta outside [MinDelta, MaxDelta], as CheckTarget does.
func CheckDelta(delta float64) error {
	switch {
	case delta > MaxDelta && delta < 1:
		return fmt.Errorf("%w: delta is %v, and with that probability a record may be shown outright: "+
			"take at most %g, and less than 1 divided by the number of people", ErrTarget, delta, MaxDelta)
	case !(delta >= MinDelta && delta <= MaxDelta):
		return fmt.Errorf("%w: delta is %v: take a number from %g to %g, and less than 1/people",
			ErrTarget, delta, MinDelta, MaxDelta)
	}
	return nil
}

// WarnDelta is a warning, where delta is above 1/people: so large a delta allows a mechanism that shows one of them
// outright. It names the delta to take in its place (DeltaFor). Without people, or below 1/people, it is empty.
func WarnDelta(delta float64, people int) string {
	if people < 1 || !(delta*float64(people) > 1) {
		return ""
	}
	return fmt.Sprintf("delta %g is more than 1/people, %.2g for %d people: it allows to show one of them outright; "+
		"take %g",
		delta, 1/float64(people), people, DeltaFor(people))
}

// DeltaFor is a delta for so many people: the largest power of ten that is at most a tenth of 1/people, within the
// range of CheckDelta.
func DeltaFor(people int) float64 {
	power := math.Pow10(int(math.Floor(-math.Log10(10*float64(max(1, people))) + 1e-9)))
	return math.Max(MinDelta, math.Min(MaxDelta, power))
}
