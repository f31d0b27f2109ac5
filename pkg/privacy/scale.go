package privacy

import (
	"fmt"
	"math"
)

// LargestScale returns a scale (levels per data unit) at which a release has Mu <= mu. The shape is given in data
// units: diameter is the l2 distance by which replacing one record moves the vector, and the Levels of the blocks are
// the ranges of their coordinates. At the returned scale s, Certify(blocks with Levels*s, diameter*s) has Mu <= mu. If
// no scale qualifies it returns ErrUncertified.
//
// The scale is the largest, rounded down by less than 1e-5 of itself, wherever the certificate grows with the scale.
// The certificate may fall where a level is added and the levels of a block lie far below the diameter; there, scales a
// few per cent larger may qualify too.
//
// The certificate grows with the scale, but in jumps where the largest shift of a coordinate passes an integer, because
// its lines must then reach one cell further. So the search runs over that integer, the window; for one window the
// bound at every scale comes from the same lines.
func (c *Certifier) LargestScale(diameter float64, blocks []Block, mu float64) (float64, error) {
	if err := checkBlocks(blocks); err != nil {
		return 0, err
	}
	if !(diameter > 0) || math.IsInf(diameter, 1) {
		return 0, fmt.Errorf("%w: diameter %v, want a finite number > 0", ErrRelease, diameter)
	}
	if !(mu > 0) || math.IsInf(mu, 1) {
		return 0, fmt.Errorf("%w: mu %v, want a finite number > 0", ErrTarget, mu)
	}
	if !c.scores.covers(1) {
		return 0, c.tooNarrow(mu)
	}
	unit := 0.0 // largest shift of one coordinate, in data units
	for _, b := range blocks {
		unit = math.Max(unit, math.Min(diameter, b.Levels))
	}
	ceiling := c.scores.largestWindow()
	window := min(ceiling, windowFor(mu*c.scores.bin.Sigma()*unit/reach(diameter, blocks)))
	best := 0.0
	for tries := 0; tries < 64; tries++ {
		s := c.scaleFor(diameter, blocks, mu, window)
		best = math.Max(best, math.Min(s, (float64(window)-quantisation)/unit))
		// A larger window lowers s, a smaller one caps it: the answer is where they cross.
		need := windowFor(s*unit + quantisation)
		if need >= window {
			if need == window || window == ceiling || best < (float64(window)-2*quantisation)/unit {
				break
			}
			window++
			if capped := c.scaleFor(diameter, blocks, mu, window); capped*unit <= float64(window-1) {
				break
			}
			continue
		}
		if best*unit > float64(window-1) {
			break
		}
		window = max(need, 1)
	}
	for shrink := 1e-7; shrink < 1e-2; shrink *= 4 {
		s := best * (1 - shrink)
		if g, err := c.Certify(scaled(blocks, s), diameter*s); err == nil && g.Mu <= mu {
			return s, nil
		}
	}
	return 0, c.tooNarrow(mu)
}

func (c *Certifier) tooNarrow(mu float64) error {
	return fmt.Errorf("%w: %d noise bits of bias %v at TailDelta %v allow no scale with mu <= %v",
		ErrUncertified, c.scores.bin.n, c.scores.bin.p, c.tailDelta, mu)
}

// scaleFor returns a scale at which lines that reach window cells give a bound of mu, however large the shifts at that
// scale: the largest one up to the tolerance of the search, 0 if there is none.
func (c *Certifier) scaleFor(diameter float64, blocks []Block, mu float64, window int) float64 {
	s := mu * c.scores.bin.Sigma() / reach(diameter, blocks)
	e := newEnvelope(c.scores, scaled(blocks, s), diameter*s)
	e.window = window
	for range 20 {
		e.blocks = scaled(blocks, s)
		e.t, _ = moves(e.blocks, quantised(blocks, diameter*s))
		if math.IsInf(e.minimise(), 1) {
			return 0
		}
		lo, hi := 0.0, 2*s
		for hi-lo > 1e-8*hi {
			mid := lo + (hi-lo)/2
			if t, _ := moves(scaled(blocks, mid), quantised(blocks, diameter*mid)); e.bound(t)*(1+safety) <= mu {
				lo = mid
			} else {
				hi = mid
			}
			if hi < 1e-12*s {
				break
			}
		}
		if hi < 1e-12*s { // lines that suit the shifts at s rise too much for any shift: look for others nearer to 0
			s /= 4
			continue
		}
		if math.Abs(lo-s) <= 1e-6*s {
			return lo
		}
		s = lo
	}
	return s
}

// reach is the l2 distance, in data units, by which one record can move the vector within the ranges of its
// coordinates.
func reach(diameter float64, blocks []Block) float64 {
	square := 0.0
	for _, b := range blocks {
		square += float64(b.Count) * b.Levels * b.Levels
	}
	return math.Min(diameter, math.Sqrt(square))
}

func scaled(blocks []Block, s float64) []Block {
	out := make([]Block, len(blocks))
	for i, b := range blocks {
		out[i] = Block{Count: b.Count, Levels: b.Levels * s}
	}
	return out
}
