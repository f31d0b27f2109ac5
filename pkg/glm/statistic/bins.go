package statistic

import (
	"fmt"
	"math"

	"github.com/riffle-dp/riffle/pkg/glm/layered"
	"github.com/riffle-dp/riffle/pkg/glm/symmetric"
)

// The statistics of layered private linear regression over the bins of a public tree: Li, Simchi-Levi and Wang, "On the
// optimal regret of locally private linear contextual bandit" (2024). BinCount, BinFirst and BinSecond are those of
// LPLR-UPDATE, Algorithm 3, in the layer below the tree's last; BinErrors is that of LPLR-CI, Algorithm 5, in its last.
// A record is in one bin, and its vector is 0 in all others; who is in no bin has zeros, and is never silent. A device
// sends gamma^k phi in place of what is left of its features, phi, of norm at most 1, so that all bins have the same
// noise; the curator scales it back.

// Binned reports whether a statistic of this kind is over the bins of a tree.
func (k Kind) Binned() bool {
	return k == BinCount || k == BinFirst || k == BinSecond || k == BinErrors
}

// checkTree refuses a binned statistic of a tree that has no such layer, or none whose vectors have a bounded length.
func (s Statistic) checkTree() error {
	if s.Tree == nil {
		return fmt.Errorf("%w: %s: no tree", ErrInvalid, s.Kind)
	}
	if err := s.Tree.Validate(s.ArmDim); err != nil {
		return fmt.Errorf("%w: %s: %w", ErrInvalid, s.Kind, err)
	}
	depth, least, most := s.Tree.Depth(), 0, s.ArmDim-1
	if s.Kind == BinErrors { // layer 1 has no errors above it
		least, most = 2, s.ArmDim
	}
	if depth < least || depth > most {
		return fmt.Errorf("%w: %s: the tree has %d layers, must have %d to %d", ErrInvalid, s.Kind, depth, least, most)
	}
	if n := s.bins(); n > layered.MaxBins {
		return fmt.Errorf("%w: %s: %d bins, at most %d", ErrInvalid, s.Kind, n, layered.MaxBins)
	}
	return nil
}

// bins is the number of bins that a vector is over.
func (s Statistic) bins() int {
	if s.Tree == nil {
		return 0
	}
	if s.Kind == BinErrors {
		_, n := s.Tree.Last()
		return n
	}
	return s.Tree.Open()
}

// perBin is how many coordinates a vector has for each bin.
func (s Statistic) perBin() int {
	switch s.Kind {
	case BinFirst:
		return s.ArmDim
	case BinSecond:
		return symmetric.Dim(s.ArmDim)
	}
	return 1
}

// appendBins appends the vector of a clipped record, of a kind over bins.
func (s Statistic) appendBins(dst []float64, r Record) []float64 {
	from := len(dst)
	dst = append(dst, make([]float64, s.Dim())...)
	var room [layered.MaxDimension]float64
	find := s.Tree.Below
	if s.Kind == BinErrors {
		find = s.Tree.InLast
	}
	p, found := find(room[:0], r.Arm)
	if !found {
		return dst
	}
	out := dst[from+p.Number*s.perBin():]
	switch s.Kind {
	case BinCount:
		out[0] = 1
	case BinFirst:
		y := between(r.Reward-p.Mean, s.Tree.Clip)
		for j, v := range p.Rest {
			out[j] = y * v
		}
	case BinSecond:
		at := 0
		for i, v := range p.Rest {
			for _, w := range p.Rest[i:] {
				out[at] = v * w
				at++
			}
		}
	case BinErrors:
		out[0] = math.Min(s.Tree.Cap, p.Width*math.Abs(p.Along))
	}
	return dst
}

// binBounds are those of a kind over bins.
//
// The replacement of a record takes it out of one bin and puts it into another, changes it within one, or takes it out
// of all of them. So with v the scaled rest, |v| <= 1, and Y the tree's clip, in l1 and l2:
//   - BinCount moves by 2 and sqrt 2, and by 1 where there is one bin;
//   - BinFirst, y v with |y| <= Y, moves by 2 Y sqrt(d), because the l1 norm of v is at most sqrt(d), and by 2 Y: by
//     sqrt(2) Y between bins, but from y v to -y v within one;
//   - BinSecond, the upper triangle of v v', moves by d+1 and sqrt 2: its l1 norm is (|v|_1^2 + |v|_2^2)/2 <= (d+1)/2,
//     and |v v' - w w'|^2 = |v|^4 + |w|^4 - 2 <v, w>^2 <= 2. Both hold within a bin as well, from one direction to
//     another;
//   - BinErrors, in [0, Cap], moves by 2 Cap and sqrt(2) Cap, and by Cap where there is one bin.
//
// Nothing of it rests on the tree but on the clips of what a device computes: |v| <= 1 (layered.Tree.Below), |y| <= Y
// and the error's Cap.
func (s Statistic) binBounds() Bounds {
	moves, d := math.Min(2, float64(s.bins())), float64(s.ArmDim)
	var one, b Bounds
	switch s.Kind {
	case BinCount:
		one, b.Diameter, b.Diameter1 = ranges(1, 0, 1), math.Sqrt(moves), moves
	case BinFirst:
		y := s.Tree.Clip
		one, b.Diameter, b.Diameter1 = ranges(s.ArmDim, -y, y), 2*y, 2*y*math.Sqrt(d)
	case BinSecond:
		for i := range s.ArmDim {
			square, products := ranges(1, 0, 1), ranges(s.ArmDim-i-1, -.5, .5)
			one.Lower = append(append(one.Lower, square.Lower...), products.Lower...)
			one.Upper = append(append(one.Upper, square.Upper...), products.Upper...)
		}
		b.Diameter, b.Diameter1 = math.Sqrt2, d+1
	case BinErrors:
		most := s.Tree.Cap
		one, b.Diameter, b.Diameter1 = ranges(1, 0, most), math.Sqrt(moves)*most, moves*most
	}
	for range s.bins() {
		b.Lower, b.Upper = append(b.Lower, one.Lower...), append(b.Upper, one.Upper...)
	}
	return b
}

// ranges are ranges of n coordinates.
func ranges(n int, lower, upper float64) (b Bounds) {
	for range n {
		b.Lower, b.Upper = append(b.Lower, lower), append(b.Upper, upper)
	}
	return b
}

// between clips v to [-bound, bound].
func between(v, bound float64) float64 { return math.Max(-bound, math.Min(bound, v)) }
