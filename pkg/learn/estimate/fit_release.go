package estimate

import (
	"fmt"

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
