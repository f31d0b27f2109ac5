// Package posterior makes the draws that a policy announces for glm.PlaySampled: points spread around an estimate as
// its covariance says.
//
// The randomness here is public, of package public: it is a fixed function of the epoch, so that every auditor computes
// the same draws from the same sums. Privacy rests on the noise of the released sums, of which the draws are a function
// like the rest of the policy. What must stay private is which arm a person gets. That depends on the arms, which stay
// on the device, and on which draw the device picks, with its own generator.
package posterior

import (
	"errors"
	"fmt"
	"math"

	"github.com/riffle-dp/riffle/pkg/convex"
	"github.com/riffle-dp/riffle/pkg/glm"
	"github.com/riffle-dp/riffle/pkg/glm/public"
	"github.com/riffle-dp/riffle/pkg/glm/symmetric"
)

// ErrDraws wraps every reason to make no draws.
var ErrDraws = errors.New("posterior: bad draws")

// domain separates these hashes from all others.
const domain = "riffle/v1/posterior-draw\x00"

// Draws returns m points theta + scale * L z, where L L' is the covariance and z standard normal, each projected onto
// the ball of the given radius. They come in pairs of z and -z, and with an odd m the last is theta, so that their mean
// is theta where nothing is projected. Where the covariance is singular it counts as larger by a billionth of its
// largest entry on the diagonal.
//
// It is a function of its arguments alone and uses no secret: see the package comment. theta has norm at most radius, m
// is in [1, glm.MaxDraws], the epoch is at least 0, scale is in [0, symmetric.MaxEntry] and radius positive and finite;
// all errors wrap ErrDraws.
func Draws(theta []float64, covariance symmetric.Packed, scale, radius float64, m, epoch int) ([][]float64, error) {
	if m < 1 || m > glm.MaxDraws || epoch < 0 {
		return nil, fmt.Errorf("%w: %d draws in epoch %d, want between 1 and %d in an epoch from 0", ErrDraws, m, epoch,
			glm.MaxDraws)
	}
	if !(scale >= 0 && scale <= symmetric.MaxEntry) || !(radius > 0) { // the projection refuses an infinite radius
		return nil, fmt.Errorf("%w: scale %v must be in [0, %v], radius %v positive and finite", ErrDraws, scale,
			symmetric.MaxEntry, radius)
	}
	if n := convex.Norm(theta); !(n <= radius*(1+1e-12)) { // also refuses NaN
		return nil, fmt.Errorf("%w: theta has norm %v above the radius %v", ErrDraws, n, radius)
	}
	d := len(theta)
	if d < 1 {
		return nil, fmt.Errorf("%w: theta has no coordinates", ErrDraws)
	}
	if err := covariance.Check(d); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrDraws, err)
	}
	root, size := factor(covariance, d)
	ball, draws := convex.Ball{Radius: radius}, make([][]float64, 0, m)
	z := make([]float64, d)
	for pair := range (m + 1) / 2 {
		for j := range z {
			z[j] = normal(epoch, pair, j)
		}
		if len(draws) == m-1 {
			clear(z)
		}
		for _, sign := range []float64{1, -1} {
			if len(draws) == m {
				break
			}
			draw := make([]float64, d)
			for i := range draw {
				draw[i] = theta[i] + sign*scale*size*convex.Dot(root[i*d:i*d+i+1], z)
			}
			draw, err := ball.Project(draw, draw)
			if err != nil {
				return nil, fmt.Errorf("%w: draw %d: %w", ErrDraws, len(draws), err)
			}
			draws = append(draws, draw)
		}
	}
	return draws, nil
}

// factor is the lower triangle of a d x d matrix, row by row, that times a factor is a Cholesky factor of the
// covariance. The factor keeps entries of every scale from overflow.
func factor(covariance symmetric.Packed, d int) (root []float64, size float64) {
	largest := convex.MaxAbs(covariance)
	root = make([]float64, d*d)
	if largest == 0 {
		return root, 0
	}
	for _, slack := range []float64{0, 1e-9} {
		k := 0
		for i := range d {
			for j := i; j < d; j++ {
				root[j*d+i] = covariance[k] / largest
				k++
			}
			root[i*d+i] += slack
		}
		if symmetric.Cholesky(root, d, 0) {
			break
		}
	}
	return root, math.Sqrt(largest)
}

// normal is the standard normal number of an epoch, a pair of draws and a coordinate: the quantile at the middle of one
// of 2^52 equal intervals, which the first public word of the three picks.
func normal(epoch, pair, coordinate int) float64 {
	word := public.Words(domain, uint64(epoch), uint64(pair), uint64(coordinate))[0]
	u := (float64(word>>12) + 0.5) * 0x1p-52
	return math.Sqrt2 * math.Erfinv(2*u-1)
}
