package glm

import (
	"fmt"
	"math"

	"github.com/riffle-dp/riffle/pkg/convex"
	"github.com/riffle-dp/riffle/pkg/glm/symmetric"
)

// optimistic is the device's side of Algorithm 2 of "Shuffle and Joint Differential Privacy for Generalized Linear
// Contextual Bandits": lines 4-5 (Criterion I) and 13-15 (elimination by equations (14)-(15), then the largest upper
// confidence bound of equation (16)). Without a criterion and stages it is the choice of LinUCB. Of equal arms the
// first is taken. It draws nothing.
//
// Where it differs: the policy is that of the person's micro-batch, and not of the moment. Whether a person explores
// depends on all their arms, so that their device must remember it; the curator cannot know it otherwise.
func (p *Policy) optimistic(arms [][]float64) (arm, survivors int, explored bool, err error) {
	o := p.Optimism
	if o == nil || len(o.Covariance) != symmetric.Dim(p.Dimension) || len(o.Theta) != p.Dimension {
		return 0, 0, false, fmt.Errorf("%w: optimistic play without its confidence set, or one of the wrong size",
			ErrPolicy)
	}
	forms := make([]float64, len(arms))
	if e := p.Criterion; e != nil {
		if len(e.Covariance) != symmetric.Dim(p.Dimension) {
			return 0, 0, false, fmt.Errorf("%w: a criterion of the wrong size", ErrPolicy)
		}
		largest := math.Inf(-1)
		e.Covariance.Forms(forms, arms)
		for a, norm := range forms {
			if norm > largest {
				arm, largest = a, norm
			}
		}
		if largest >= e.Threshold {
			return arm, len(arms), true, nil
		}
	}
	kept, err := p.Eliminate(arms)
	if err != nil {
		return 0, 0, false, err
	}
	arm, best := kept[0], math.Inf(-1)
	vectors, widths := make([][]float64, len(kept)), forms[:len(kept)]
	for i, a := range kept {
		vectors[i] = arms[a]
	}
	o.halfWidths(widths, vectors)
	for i, a := range kept {
		if upper := convex.Dot(arms[a], o.Theta) + widths[i]; upper > best {
			arm, best = a, upper
		}
	}
	return arm, len(kept), false, nil
}
