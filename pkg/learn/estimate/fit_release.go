package estimate

import (
	"fmt"
	"math"

	"gonum.org/v1/gonum/mat"

	"github.com/riffle-dp/riffle/pkg/glm/symmetric"
	"github.com/riffle-dp/riffle/pkg/mechanism"
	"github.com/riffle-dp/riffle/pkg/privacy"
	"github.com/riffle-dp/riffle/pkg/protocol"
)

// rowVector is what a row adds to the sums of a release: a vector of one block. With groups there is a block for each,
// and a row is 0 in those of the others.
type rowVector struct {
	name         string
	lower, upper []float64             // of a block's coordinates
	moved        mechanism.Sensitivity // by the replacement of one row, in one block or in two
}

// releases are those of a fit as they are planned. Nothing is drawn yet.
type releases struct {
	block, blocks int
	moved         mechanism.Sensitivity // of all blocks together
	noises        []mechanism.Noise     // one for each release, or else
	encodings     []protocol.Encoding
	guarantee     privacy.Guarantee // of all of them
}

// blocks are those of a release: one for each group.
func (f Fit) blocks() int { return max(1, f.Groups) }

// plan divides the budget over releases of the vector by shares, of which the sum is 1.
func (f Fit) plan(v rowVector, shares []float64, rows int) (releases, error) {
	r := releases{block: v.moved.Dim, blocks: f.blocks(), moved: v.moved}
	r.moved.Dim *= r.blocks
	if f.Encode != nil {
		all := privacy.Vector{Name: v.name, Diameter: v.moved.L2}
		for range r.blocks {
			all.Lower, all.Upper = append(all.Lower, v.lower...), append(all.Upper, v.upper...)
		}
		var err error
		if r.encodings, r.guarantee, err = f.Encode(all, shares, rows); err != nil {
			return r, fmt.Errorf("%w: %w", ErrFit, err)
		}
		return r, nil
	}
	rho, err := mechanism.Budget(f.Epsilon, f.Delta)
	if err != nil {
		return r, fmt.Errorf("%w: %w", ErrFit, err)
	}
	var spent []privacy.Guarantee
	for _, share := range shares {
		noise, err := mechanism.ForRho(r.moved, rho*share*(1-1e-12))
		if err != nil {
			return r, fmt.Errorf("%w: %w", ErrFit, err)
		}
		r.noises, spent = append(r.noises, noise), append(spent, noise.Guarantee(r.moved))
	}
	r.guarantee = privacy.Compose(spent...)
	return r, nil
}

// variance is that of the noise in a coordinate of a release.
func (f Fit) variance(r releases, release, rows int) float64 {
	if r.encodings != nil {
		return r.encodings[release].Variance(uint64(rows), 0)[0]
	}
	one := r.noises[release].Deviation() * r.noises[release].Deviation()
	if f.Local {
		return one * float64(rows)
	}
	return one
}

// spend tells Spend of what the releases will reveal.
func (f Fit) spend(r releases) error {
	if f.Spend == nil {
		return nil
	}
	return f.Spend(r.guarantee)
}

// release is the noised sum of the vectors of all rows: vector appends that of a row to dst, and group tells its block.
func (f Fit) release(r releases, release, rows int, group func(row int) int,
	vector func(dst []float64, row int) []float64,
) ([]float64, error) {
	total, one := make([]float64, r.moved.Dim), make([]float64, r.moved.Dim)
	ones, levels := make([]uint64, r.moved.Dim), []uint32(nil)
	for i := range rows {
		at := group(i) * r.block
		own := vector(one[at:at:at+r.block], i)
		switch {
		case r.encodings != nil:
			var err error
			if levels, err = r.encodings[release].Round(levels, one, f.Noise); err != nil {
				return nil, fmt.Errorf("%w: %w", ErrFit, err)
			}
			for j, level := range levels {
				ones[j] += uint64(level)
			}
			clear(own)
		case f.Local:
			r.noises[release].Add(one, f.Noise)
			for j, v := range one {
				total[j] += v
			}
			clear(one)
		default:
			for j, v := range own {
				total[at+j] += v
			}
		}
	}
	switch {
	case r.encodings != nil:
		e := r.encodings[release]
		err := e.AddNoise(ones, uint64(rows), f.Noise)
		if err == nil {
			total, err = e.Decode(ones, uint64(rows), 0)
		}
		if err != nil {
			return nil, fmt.Errorf("%w: %w", ErrFit, err)
		}
	case !f.Local:
		r.noises[release].Add(total, f.Noise)
	}
	f.tell(total)
	return total, nil
}

// Answered is least squares of a target on features with an intercept, from released sums alone: triangle is the upper
// triangle of the sum of uu' over decisions, u = (1, z, y) with z and y in [-1, 1], entries off the diagonal times sqrt
// 2, and the variance is that of the noise of each coordinate. Unlike the rows of Linear, decisions are counted by the
// sum itself, so that its first entry has noise, too. alike is how many decisions that follow each other may be of one
// person; residuals of one person are taken to be the same, so that the variance of their sum is alike times as large.
//
// Intervals and what they assume are those of Linear, and so is what is said where the noise is too large. Epsilon,
// Delta, Noise and Local are not read. Errors wrap ErrFit.
func (f Fit) Answered(triangle []float64, variance, alike float64) (out Fitted, err error) {
	d := len(f.Features) + 1
	if len(triangle) != symmetric.Dim(d+1) || !(variance >= 0) || !(alike >= 1) {
		return out, fmt.Errorf("%w: %d sums for %d features", ErrFit, len(triangle), len(f.Features))
	}
	all := symmetric.FromTriangle(triangle, d+1, math.Sqrt2)
	o := noisedMoments{m: mat.NewSymDense(d, nil), s: make([]float64, d), square: all.At(d, d), variance: variance,
		counted: true}
	for i := range d {
		o.s[i] = all.At(i, d)
		for j := i; j < d; j++ {
			o.m.SetSym(i, j, all.At(i, j))
		}
	}
	n := all.At(0, 0)
	out.Rows = int(math.Max(0, math.Round(n)))
	inverse, reliable, err := ridged(o.m, variance)
	if err != nil {
		return out, err
	}
	theta := product(inverse, o.s)
	residual := o.residual(theta) * alike
	out.Reliable = reliable && n > float64(d)+1 // with fewer decisions nothing can be said
	if !out.Reliable {
		set, err := newFieller(o.m, o.s, residual, variance, f.quantile())
		if err != nil {
			return out, fmt.Errorf("%w: %w", ErrFit, err)
		}
		if out.Bounded = set.bounded; set.bounded {
			f.describeSet(&out, make([]float64, d), set)
			return out, nil
		}
	} else {
		out.Residual = math.Sqrt(residual/alike) * f.Target.half()
	}
	f.describe(&out, theta, sandwich(inverse, o.m, residual),
		sandwich(inverse, noiseCovariance(theta, variance, o.counted), 1))
	return out, nil
}
