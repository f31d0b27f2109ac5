package empirical

import (
	"iter"
	"math"

	"gonum.org/v1/gonum/mathext"
)

// atMost is the Clopper-Pearson bound above a probability, of which an event of k in n independent runs is evidence: it
// is below the probability with a chance of at most alpha.
func atMost(k, n int, alpha float64) float64 {
	if k >= n {
		return 1
	}
	_, hi := betaQuantile(float64(k)+1, float64(n-k), 1-alpha)
	return hi
}

// atLeast is the bound below it.
func atLeast(k, n int, alpha float64) float64 {
	if k <= 0 {
		return 0
	}
	lo, _ := betaQuantile(float64(k), float64(n-k)+1, alpha)
	return lo
}

// betaQuantile has the quantile of a beta law between lo and hi, which are next to equal. It halves: the inverse of the
// library stops early for some rare events, and bounds them by fifty times what it should.
func betaQuantile(a, b, p float64) (lo, hi float64) {
	for hi = 1; hi-lo > 1e-12*min(hi, 1-lo); {
		mid := lo + (hi-lo)/2
		if mid <= lo || mid >= hi {
			break
		}
		if mathext.RegIncBeta(a, b, mid) < p {
			lo = mid
		} else {
			hi = mid
		}
	}
	return lo, hi
}

// Rates are how often one event happened in two worlds, of n runs each.
type Rates struct {
	TruePositives  int `json:"true_positives"`  // in the world that the event speaks for
	FalsePositives int `json:"false_positives"` // in the other world
}

// bound is the least epsilon at delta that the rates leave possible, with an error of at most alpha: half of it for
// each rate. The runs of the two worlds need not be independent of each other. It is 0 where nothing can be said.
func (r Rates) bound(n int, delta, alpha float64) float64 {
	tpr, fpr := atLeast(r.TruePositives, n, alpha/2), atMost(r.FalsePositives, n, alpha/2)
	if !(tpr > delta) || !(fpr > 0) {
		return 0
	}
	return math.Max(0, math.Log((tpr-delta)/fpr))
}

// mayExceed reports whether the bound may be above least; where it says no, it is not. It takes two values of the beta
// law where the bound takes a hundred: a quantile is above x if the law gives less than its probability up to x. Each
// rate is compared with what it must be if the other one is taken as it was counted, which is better than its bound.
// The slack is wider than what betaQuantile leaves open.
func (r Rates) mayExceed(least float64, n int, delta, alpha float64) bool {
	const slack = 1e-6
	ratio := math.Exp(least - slack)
	tpr, fpr := float64(r.TruePositives)/float64(n), float64(r.FalsePositives)/float64(n)
	if most := (tpr - delta) / ratio; !(most > fpr) || most < 1 &&
		mathext.RegIncBeta(float64(r.FalsePositives)+1, float64(n-r.FalsePositives), most) < 1-alpha/2 {
		return false
	}
	needed := delta + ratio*fpr
	return needed < tpr && (needed <= 0 ||
		mathext.RegIncBeta(float64(r.TruePositives), float64(n-r.TruePositives)+1, needed) < alpha/2)
}

// The scores are counted in cells of this width, in standard deviations of the noise that the plan promises, as far as
// so many deviations to either side. Scores beyond count in the outermost cells.
const (
	cellsPerDeviation = 64
	deviations        = 32
	cells             = 2 * deviations * cellsPerDeviation
)

// histogram counts scores by cell.
type histogram [cells]int32

func (h *histogram) add(score float64) {
	h[int(min(max((score+deviations)*cellsPerDeviation, 0), cells-1))]++
}

func (h *histogram) merge(other *histogram) {
	for i, n := range other {
		h[i] += n
	}
}

// duel is what the scores were in the two worlds that one attack tells apart: the canary's first record, which scores
// higher, and another one.
type duel struct{ canary, other histogram }

func (d *duel) merge(other *duel) {
	d.canary.merge(&other.canary)
	d.other.merge(&other.other)
}

// tally is what one half of the runs gave, by rival.
type tally struct {
	duels [rivals]duel
	runs  int
}

func (t *tally) merge(other *tally) {
	for i := range t.duels {
		t.duels[i].merge(&other.duels[i])
	}
	t.runs += other.runs
}

// rates are those of the event that the score is in the cell or above, which speaks for the canary's first record, or
// of the event that it is below, which speaks against it.
func (d *duel) rates(cell int, above bool) (r Rates) {
	from, to := 0, cell
	if above {
		from, to = cell, cells
	}
	for i := from; i < to; i++ {
		r.TruePositives += int(d.canary[i])
		r.FalsePositives += int(d.other[i])
	}
	if !above {
		r.TruePositives, r.FalsePositives = r.FalsePositives, r.TruePositives
	}
	return r
}

// events are the rates of the events at each cell, in the cells' order; of cells whose event is the same the first.
func (d *duel) events(runs int, above bool) iter.Seq2[int, Rates] {
	return func(yield func(int, Rates) bool) {
		canary, other := 0, 0 // scores below the cell
		for i := range cells {
			r := Rates{TruePositives: runs - canary, FalsePositives: runs - other}
			if !above {
				r = Rates{TruePositives: other, FalsePositives: canary}
			}
			canary, other = canary+int(d.canary[i]), other+int(d.other[i])
			if d.canary[i]+d.other[i] > 0 && !yield(i, r) {
				return
			}
		}
	}
}

// rough is about what the bound is, without its confidence: what the rates, each moved by so many of its own
// deviations to its worse side, leave possible.
func (r Rates) rough(n int, delta, deviations float64) float64 {
	worse := func(k int, sign float64) float64 {
		p := float64(k) / float64(n)
		return p + sign*deviations*math.Sqrt(p*(1-p)/float64(n))
	}
	return math.Log((worse(r.TruePositives, -1) - delta) / worse(r.FalsePositives, 1))
}

// choose is the cell with the largest bound. Which one that is does not matter for the bound's validity, as long as it
// is measured with other runs. Most cells are ruled out by the bound of the one that looks best.
func (d *duel) choose(runs int, above bool, delta, alpha float64) (cell int) {
	best, looks := -1.0, math.Inf(-1)
	var guess Rates
	for _, r := range d.events(runs, above) {
		if rough := r.rough(runs, delta, 3); r.FalsePositives > 0 && rough > looks {
			guess, looks = r, rough
		}
	}
	if least := guess.bound(runs, delta, alpha) - 1e-9; least > 0 {
		best = least // so that the first of equally good cells is found, and not ruled out by itself
	}
	for i, r := range d.events(runs, above) {
		// Where the rates themselves do not reach the best bound, bounds on them do not either.
		if !(r.rough(runs, delta, 0) > best) || best >= 0 && !r.mayExceed(best, runs, delta, alpha) {
			continue
		}
		if b := r.bound(runs, delta, alpha); b > best {
			best, cell = b, i
		}
	}
	return cell
}

// The rivals of the canary's first record.
const (
	opposite = iota
	null
	rivals
)

var rivalNames = [rivals]string{"opposite", "null"}

// Attack is one way to tell two worlds apart. The lower bounds of all attacks hold together at the result's confidence.
type Attack struct {
	Rival      string  `json:"rival"`     // what the canary reports in the second world: the opposite record, or none
	For        string  `json:"for"`       // the world that the event speaks for: "canary" or the rival
	Threshold  float64 `json:"threshold"` // of the event, in deviations of the promised noise
	LowerBound float64 `json:"lower_bound"`
	Runs       int     `json:"runs"` // of each of the two worlds, after those that chose the threshold
	Rates
}

// attacks measures every attack with its threshold chosen by other runs. alpha is the error of all of them together.
func attacks(choosing, measured *tally, delta, alpha float64) (all []Attack) {
	alpha /= 2 * rivals
	for rival := range rivals {
		for _, above := range []bool{true, false} {
			cell := choosing.duels[rival].choose(choosing.runs, above, delta, alpha)
			a := Attack{
				Rival: rivalNames[rival], For: "canary", Runs: measured.runs,
				Threshold: float64(cell)/cellsPerDeviation - deviations,
				Rates:     measured.duels[rival].rates(cell, above),
			}
			if !above {
				a.For = a.Rival
			}
			a.LowerBound = a.bound(measured.runs, delta, alpha)
			all = append(all, a)
		}
	}
	return all
}
