package glm

import (
	"fmt"
	"math"

	"github.com/riffle-dp/riffle/pkg/convex"
)

// MaxDraws bounds the draws of a policy, and with them the size of an announcement and the work of a decision.
const MaxDraws = 64

// sampled is the share of draws under which each survivor is best, the first of equals. A device that picks a draw
// uniformly and plays the best arm under it plays every arm with exactly this probability.
func (p *Policy) sampled(arms [][]float64, survivors []int) ([]float64, error) {
	m := len(p.Draws)
	if m < 1 || m > MaxDraws {
		return nil, fmt.Errorf("%w: play %q with %d draws", ErrPolicy, p.Play, m)
	}
	var largest, scores [MaxDraws]float64
	var best [MaxDraws]int
	for k, draw := range p.Draws {
		if len(draw) != p.Dimension {
			return nil, fmt.Errorf("%w: draw %d has the wrong size", ErrPolicy, k)
		}
		largest[k] = math.Inf(-1)
	}
	for i, a := range survivors {
		dots(scores[:m], arms[a], p.Draws)
		for k, z := range scores[:m] {
			if z > largest[k] {
				largest[k], best[k] = z, i
			}
		}
	}
	weights := make([]float64, len(survivors))
	for _, i := range best[:m] {
		weights[i]++
	}
	for i := range weights {
		weights[i] /= float64(m)
	}
	return weights, nil
}

// dots writes the inner product of x with every vector, as convex.Dot gives it, four at a time: one sum alone waits for
// its last addition.
func dots(dst, x []float64, vectors [][]float64) {
	i, d := 0, len(x)
	for ; i+4 <= len(vectors); i += 4 {
		y0, y1, y2, y3 := vectors[i][:d], vectors[i+1][:d], vectors[i+2][:d], vectors[i+3][:d]
		var s0, s1, s2, s3 float64
		for j, v := range x {
			s0 += v * y0[j]
			s1 += v * y1[j]
			s2 += v * y2[j]
			s3 += v * y3[j]
		}
		dst[i], dst[i+1], dst[i+2], dst[i+3] = s0, s1, s2, s3
	}
	for ; i < len(vectors); i++ {
		dst[i] = convex.Dot(x, vectors[i])
	}
}

// checkDraws refuses PlaySampled without draws or with too many, draws with another play, and a draw outside the ball.
func (p *Policy) checkDraws() error {
	if p.Play != PlaySampled {
		if len(p.Draws) > 0 {
			return fmt.Errorf("play %q goes with no draws", p.Play)
		}
		return nil
	}
	if n := len(p.Draws); n < 1 || n > MaxDraws {
		return fmt.Errorf("play %q needs between 1 and %d draws, got %d", p.Play, MaxDraws, n)
	}
	for k, draw := range p.Draws {
		if err := p.checkBall(draw); err != nil {
			return fmt.Errorf("draw %d: %w", k, err)
		}
	}
	return nil
}
