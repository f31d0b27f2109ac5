package privacy

import (
	"math"
	"slices"
)

// An envelope is the bound for one release: the lower envelope of the lines looked at so far, summed over the
// coordinates.
type envelope struct {
	scores *scores
	blocks []Block
	t      []float64 // shift of a coordinate of each block
	window int
	lines  []line
	start  float64 // slope to start the next search from: the best one so far
}

func newEnvelope(s *scores, blocks []Block, shift float64) *envelope {
	shift = quantised(blocks, shift)
	reach := 1.0
	if m := s.broken.move; m != 0 {
		shift *= m
	}
	if m := s.broken.reach; m != 0 {
		reach = m
	}
	e := &envelope{scores: s, blocks: blocks}
	var largest float64
	e.t, largest = moves(blocks, shift)
	if s.broken.dropOne {
		e.blocks = slices.Clone(blocks)
		e.blocks[0].Count--
	}
	e.window = windowFor(largest * reach)
	return e
}

// windowFor returns ceil(largest), at least 1, saturating far above any table.
func windowFor(largest float64) int {
	return int(math.Max(1, math.Ceil(math.Min(largest, 1<<40))))
}

// bound returns sqrt(sum Count*U(t)^2) with U the lower envelope of the lines seen so far, for shifts t (one per
// block).
func (e *envelope) bound(t []float64) float64 {
	sum := 0.0
	for i, b := range e.blocks {
		u := e.at(t[i])
		sum += float64(b.Count) * u * u
	}
	return math.Sqrt(sum)
}

// at returns the lower envelope of the lines at t.
func (e *envelope) at(t float64) float64 {
	u := math.Inf(1)
	for _, l := range e.lines {
		u = math.Min(u, l.at(t))
	}
	return u
}

// minimise looks for the best lines at the shifts of the blocks and returns the bound. Any line is valid, so that
// stopping early costs tightness, never safety.
func (e *envelope) minimise() float64 {
	if !e.scores.covers(e.window) {
		return math.Inf(1)
	}
	done := make([]float64, 0, 16)
	for _, t := range e.t {
		near := slices.ContainsFunc(done, func(u float64) bool { return math.Abs(t-u) <= 1e-4*t })
		if !near && len(done) < cap(done) {
			done = append(done, t)
			e.improve(t)
		}
	}
	return e.bound(e.t)
}

// price looks at the line of a slope: its value at t and the derivative of that value by the slope.
func (e *envelope) price(slope, t float64) (value, derivative float64) {
	l, distance := e.scores.line(slope, e.window)
	if e.scores.broken.noRise {
		l.rise = 0
	}
	if math.IsInf(l.rise, 1) || math.IsNaN(l.rise) {
		return math.Inf(1), 0
	}
	e.lines = append(e.lines, l)
	return l.at(t), t - distance
}

// improve adds lines until one of them is the lowest at t that any slope gives, up to a tolerance. The value at t is
// convex in the slope (a maximum of affine functions), so the tangents at the two ends of a bracket bound the minimum
// from below.
func (e *envelope) improve(t float64) {
	const tolerance = 2e-7
	unit, step := 1/e.scores.bin.Sigma(), 0.001
	if e.start == 0 {
		e.start, step = unit, 0.01
	}
	lo, hi := e.start, e.start
	fLo, dLo := e.price(lo, t)
	fHi, dHi := fLo, dLo
	if math.IsInf(fLo, 1) {
		return
	}
	for w := step; dHi < 0 && hi < 1e6*unit; w *= 2 {
		lo, fLo, dLo = hi, fHi, dHi
		hi += w * unit
		fHi, dHi = e.price(hi, t)
	}
	for w := step; dLo > 0 && lo > 1e-9*unit; w *= 2 {
		hi, fHi, dHi = lo, fLo, dLo
		lo = math.Max(lo-w*unit, lo/2)
		fLo, dLo = e.price(lo, t)
	}
	best := math.Min(fLo, fHi)
	e.start = lo
	if fHi < fLo {
		e.start = hi
	}
	for i := 0; i < 60 && dLo < 0 && dHi > 0; i++ {
		m := (fHi - fLo + dLo*lo - dHi*hi) / (dLo - dHi)
		if floor := fLo + dLo*(m-lo); best-floor <= tolerance*best {
			break
		}
		if w := hi - lo; !(m > lo+0.02*w && m < hi-0.02*w) || i%4 == 3 {
			m = lo + w/2
		}
		f, d := e.price(m, t)
		if f < best {
			best, e.start = f, m
		}
		if d < 0 {
			lo, fLo, dLo = m, f, d
		} else {
			hi, fHi, dHi = m, f, d
		}
	}
}
