package evaluate

import (
	"errors"
	"fmt"
	"math"

	"github.com/riffle-dp/riffle/internal/population/decisions"
)

// ErrOverlap wraps every reason why a log cannot say anything of a target: the log's policy could not play what the
// target plays, or the propensities are wrong.
var ErrOverlap = errors.New("evaluate: the log does not hold what another policy would have earned")

const (
	// MinEffectiveSize is the smallest effective size with which an estimate gets an interval. In the worlds of
	// TestIntervalsAreRarelyWrong (mean rewards of .02 to .98; two to ten arms; even, uneven and rare propensities) an
	// interval of 95 % misses the truth in at most 8 % of all logs; of those logs of rare propensities that get one,
	// that of IPS misses it in 17 %. Below, an interval would cover a third of the range.
	MinEffectiveSize = 50
	// MinErrorSize is the smallest Overlap.ErrorSize with which an estimate gets an interval, chosen in the same
	// worlds.
	MinErrorSize = 15
	// doubtedDeviations is how many standard errors a mean weight may be from 1 before estimates lose their intervals:
	// one in eighty logs, where all is well and the normal law holds.
	doubtedDeviations = 2.5
	// refusedChance is the largest Overlap.Chance with which a log is refused.
	refusedChance = 1e-3
	// refusedDeviations is how many standard errors from 1 a mean weight is refused at, where MinEffectiveSize lets the
	// normal law be used: 6e-7 under it, far less than refusedChance, because weights are skewed.
	refusedDeviations = 5
	// rounding is what probabilities may lack of 1.
	rounding = 1e-9
)

// Overlap says how far the decisions of a log are such as the target would take. A weight is the target's probability
// of the arm that was played, divided by the propensity of that arm.
type Overlap struct {
	// MeanWeight is 1 in expectation if the propensities are right and the log's policy could play all that the target
	// plays. If it could not, the expectation is the share of the target's play that it could.
	MeanWeight   float64 `json:"mean_weight"`
	MeanWeightSE float64 `json:"mean_weight_se"` // standard error
	// Chance bounds the probability of a mean weight that is as far from 1, if both hold: see chance.
	Chance float64 `json:"mean_weight_chance"`
	// EffectiveSize is (sum of weights)^2 / sum of squared weights: about as many decisions of the target itself would
	// say as much. Where the log shows that weights can be larger than those that came, their expected squares count.
	EffectiveSize float64 `json:"effective_size"`
	// ErrorSize is the same of squared weights, (sum of squared weights)^2 / sum of their squares: about as many
	// decisions the standard errors rest on. Where it is small, a few decisions of large weight decide, and more of
	// them, or fewer, would have given another error.
	ErrorSize     float64 `json:"error_size"`
	LargestWeight float64 `json:"largest_weight"`
	// NeverPlayed is the share of decisions whose arm the target never plays: their rewards say nothing of it.
	NeverPlayed float64 `json:"never_played"`
	// Unsupported is the share of the target's play on arms that the log's policy certainly could not play: those
	// beside an arm that had propensity 1.
	Unsupported float64 `json:"unsupported"`

	weights  []float64
	typical  float64 // mean weight of the target's own play, the sum of squared weights over the sum of weights
	heaviest int     // decision, from 0
}

// overlap says how far the log supports a target that takes the arm which was played in each decision with this
// probability. Where it is proved that it does not, the error is ErrOverlap.
func overlap(log []decisions.Decision, played []float64) (*Overlap, error) {
	o, err := weigh(log, played)
	if err != nil || !o.refuted() {
		return o, err
	}
	if o.MeanWeight > 1 {
		return nil, fmt.Errorf("%w: what it plays was played %.3g times as often as the propensities say, so they "+
			"are too small, or decisions with other arms are missing. The largest weight is that of decision %d. Log "+
			"every decision, with the probability with which its arm was drawn", ErrOverlap, o.MeanWeight,
			o.heaviest+1)
	}
	return nil, fmt.Errorf("%w: what it plays was played %.3g times as often as the propensities say, so they are "+
		"too large, or some arms that it plays were never played. Log the probability with which each arm was drawn, "+
		"of a policy that explores", ErrOverlap, o.MeanWeight)
}

// refuted reports whether the mean weight proves that propensities are wrong, or that the log's policy could not play
// what the target plays.
func (o *Overlap) refuted() bool {
	far := o.EffectiveSize >= MinEffectiveSize && math.Abs(o.MeanWeight-1) > refusedDeviations*o.MeanWeightSE+rounding
	return far || !(o.Chance > refusedChance)
}

// weigh is overlap without what the mean weight proves.
func weigh(log []decisions.Decision, played []float64) (*Overlap, error) {
	o, n := &Overlap{weights: make([]float64, len(log))}, float64(len(log))
	var sum, squares, fourths, expected, expectedFourths float64
	arms, rarest := 0, 0
	for i, d := range log {
		p := played[i]
		w := p / d.Propensity
		o.weights[i] = w
		sum, squares, fourths = sum+w, squares+w*w, fourths+w*w*w*w
		expected, expectedFourths = expected+least(p, d.Propensity, 2), expectedFourths+least(p, d.Propensity, 4)
		if arms += len(d.Arms); d.Propensity < log[rarest].Propensity {
			rarest = i
		}
		if w > o.weights[o.heaviest] {
			o.heaviest = i
		}
		if w == 0 {
			o.NeverPlayed += 1 / n
		}
		if d.Propensity >= 1-rounding && p < 1-rounding {
			o.Unsupported += (1 - p) / n
		}
	}
	o.LargestWeight, o.MeanWeight = o.weights[o.heaviest], sum/n
	if o.Unsupported > 0 {
		return nil, fmt.Errorf("%w: %.3g %% of its play is on arms that could not be played, beside an arm of "+
			"propensity 1. Leave such decisions out, and the estimate is of the others; or log a policy that explores",
			ErrOverlap,
			100*o.Unsupported)
	}
	if float64(arms)*log[rarest].Propensity < refusedChance { // bounds the chance of any arm as rare, by their number
		return nil, fmt.Errorf("%w: decision %d took an arm whose propensity is so small that no log as long as this "+
			"would have one: it is wrong. Log the probability with which each arm was drawn", ErrOverlap, rarest+1)
	}
	if sum == 0 {
		return nil, fmt.Errorf("%w: it plays no arm that was played. Log a policy that explores", ErrOverlap)
	}
	o.typical = math.Max(squares/sum, expected/n)
	o.Chance = chance(o.weights, o.MeanWeight, o.typical)
	second := math.Max(squares, expected)
	o.EffectiveSize = sum * (sum / second)
	o.ErrorSize = second / math.Max(fourths, expectedFourths) * second
	o.MeanWeightSE = math.Sqrt(second/n-math.Min(1, o.MeanWeight*o.MeanWeight)) / math.Sqrt(n)
	return o, nil
}

// least is the least that a power of a weight can be in expectation, given the features of a decision: the arm that was
// played has propensity q and the target's probability p, all others together 1-q and 1-p. With two arms it is exact.
func least(p, q, power float64) float64 {
	moment := q * math.Pow(p/q, power)
	if q < 1-rounding {
		moment += (1 - q) * math.Pow((1-p)/(1-q), power)
	}
	return moment
}

// chance bounds the probability that the mean of n independent weights of mean 1 is as far from 1 as this one.
//
// Above: for each bound c, weights that are cut off at c have a mean of at most 1, and by Chernoff's bound a mean of m
// or more with probability at most exp(-n/c (m ln m - m + 1)). All powers of 2 up to 2^40 are tried, which counts as so
// many tests, and as one more Markov's inequality, 1/m. This holds whatever the weights are.
//
// Below: numbers that are not negative have a mean of m or less with probability at most exp(-n (1-m)^2 / (2 E[w^2]))
// (Maurer 2003). The expectation is not known. It is taken to be the mean weight of the target's own play, which the
// weights that came estimate whether or not too few came; heavier ones that never came would make the bound larger.
func chance(weights []float64, mean, typical float64) float64 {
	n := float64(len(weights))
	if mean <= 1 {
		return math.Min(1, 2*math.Exp(-n*(1-mean)*(1-mean)/(2*typical)))
	}
	const bounds = 41
	least := 2 / mean
	for k := range bounds {
		c, m := math.Ldexp(1, k), 0.0
		for _, w := range weights {
			m += math.Min(w, c) / n
		}
		if m > 1 {
			least = math.Min(least, 2*bounds*math.Exp(-n/c*(m*math.Log(m)-m+1)))
		}
	}
	return math.Min(1, 2*least)
}

// Doubt says why estimates get no interval, or nothing.
func (o *Overlap) Doubt() string {
	if thin := o.thin(); thin != "" {
		return thin
	}
	if math.Abs(o.MeanWeight-1) > doubtedDeviations*o.MeanWeightSE+rounding {
		return fmt.Sprintf("the mean weight, %.3g, lies %.2g standard errors from 1: propensities are doubtful, or "+
			"arms that the policy plays too rare to have come", o.MeanWeight, math.Abs(o.MeanWeight-1)/o.MeanWeightSE)
	}
	return ""
}

// thin says why too few decisions are such as the target would take for an interval, or nothing.
func (o *Overlap) thin() string {
	switch {
	case !(o.EffectiveSize >= MinEffectiveSize):
		return fmt.Sprintf("the log says no more than %.3g decisions of the policy itself would, and intervals need %d",
			o.EffectiveSize, MinEffectiveSize)
	case !(o.ErrorSize >= MinErrorSize):
		return fmt.Sprintf("no more than %.3g decisions of large weight decide their width, and intervals need %d",
			o.ErrorSize, MinErrorSize)
	}
	return ""
}

// interval is the estimate with an interval at z standard errors, unless there is a doubt.
func (o *Overlap) interval(value, se, z float64, in bounds) Estimate {
	if o.Doubt() != "" {
		return Estimate{Value: value}
	}
	return in.interval(value, math.Hypot(se, z*in.span*o.typical/float64(len(o.weights))), z)
}

// itself is the overlap of n decisions with the policy that made them.
func itself(n int) *Overlap {
	return &Overlap{MeanWeight: 1, EffectiveSize: float64(n), ErrorSize: float64(n), typical: 1,
		weights: make([]float64, n)}
}

// bounds are the ends of what an estimate can be in truth, and the length of the range of rewards.
type bounds struct{ low, high, span float64 }

// difference are the bounds of a difference of two mean rewards.
func (b bounds) difference() bounds { return bounds{-b.span, b.span, b.span} }

// interval is what of value ± z se can be true. If none of it can, there is no interval: one of length 0 at an end
// would claim to know the truth.
func (b bounds) interval(value, se, z float64) Estimate {
	low, high := math.Max(b.low, value-z*se), math.Min(b.high, value+z*se)
	if se > 0 && low > high {
		return Estimate{Value: value}
	}
	return Estimate{Value: value, Interval: &Interval{SE: se, Low: min(low, b.high), High: max(high, b.low)}}
}

var errNotFinite = errors.New("evaluate: the estimates are beyond what numbers hold: scale rewards and features")
