package empirical

import (
	"fmt"
	"math"
	"math/rand/v2"

	"github.com/riffle-dp/riffle/pkg/glm/statistic"
	"github.com/riffle-dp/riffle/pkg/plan"
)

// The search for the canary's records: so many pairs are drawn, and the best is moved so many times by steps that
// shrink from 1 to searchLast. It takes a quarter of a second in 2 dimensions and two seconds in 20, and comes within
// 0.1 per cent of the certificate's bound from 2 dimensions on (Result.Reach; in one dimension the bound is 12 per cent
// too large).
const (
	searchPairs = 4000
	searchMoves = 20000
	searchLast  = 1e-4
)

// pair are two records of the canary, and their vectors by release.
type pair struct {
	records [2]statistic.Record
	vectors [2][][]float64
	square  float64 // weighted squared distance of the vectors
}

// farthest searches for two records whose vectors lie as far apart as possible, where weights has one weight for the
// squared distance in each release: levels squared over the variance of the noise. Arms have norm 1 and rewards are the
// smallest or the largest: the distance is convex in rewards, and grows with the arms (statistic.JointSpread). The
// search is the same every time.
func farthest(round *plan.Encoder, weights []float64, least, most float64) (pair, error) {
	rng := rand.New(rand.NewPCG(1, 2))
	dim := round.Statistics[0].ArmDim
	arm := func(near []float64, step float64) []float64 {
		x := make([]float64, dim)
		for j := range x {
			x[j] = step * rng.NormFloat64()
			if near != nil {
				x[j] += near[j]
			}
		}
		return unit(x)
	}
	var best pair
	try := func(x, y statistic.Record) error {
		p := pair{records: [2]statistic.Record{x, y}}
		for k, r := range p.records {
			v, err := vectors(round, r)
			if err != nil {
				return err
			}
			p.vectors[k] = v
		}
		for i, w := range weights {
			for j := range p.vectors[0][i] {
				gap := p.vectors[0][i][j] - p.vectors[1][i][j]
				p.square += w * gap * gap
			}
		}
		if p.square > best.square {
			best = p
		}
		return nil
	}
	rewards := [2]float64{least, most}
	for i := range searchPairs {
		x := statistic.Record{Arm: arm(nil, 1), Reward: rewards[i&1]}
		y := statistic.Record{Arm: arm(nil, 1), Reward: rewards[i>>1&1], Control: i>>2&1 == 1}
		if err := try(x, y); err != nil {
			return best, err
		}
	}
	for i := range searchMoves {
		step := math.Pow(searchLast, float64(i)/searchMoves)
		x, y := best.records[0], best.records[1]
		x.Arm, y.Arm = arm(x.Arm, step), arm(y.Arm, step)
		if err := try(x, y); err != nil {
			return best, err
		}
	}
	return best, nil
}

// unit scales a vector to norm 1; the zero vector stays.
func unit(x []float64) []float64 {
	var square float64
	for _, v := range x {
		square += v * v
	}
	if square > 0 {
		for j := range x {
			x[j] /= math.Sqrt(square)
		}
	}
	return x
}

// vectors is what a device makes of a record in a round, by release.
func vectors(round *plan.Encoder, r statistic.Record) ([][]float64, error) {
	out := make([][]float64, len(round.Statistics))
	for i, s := range round.Statistics {
		v, err := s.Vector(nil, r)
		if err != nil {
			return nil, fmt.Errorf("empirical epsilon: release %d: %w", i, err)
		}
		out[i] = v
	}
	return out, nil
}
