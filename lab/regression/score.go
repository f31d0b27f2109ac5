package regression

import (
	"math"

	"github.com/riffle-dp/riffle/pkg/learn"
)

// Score says how far a model is from the truth.
type Score struct {
	// MSE is the mean squared error of the prediction over people: for a linear model the squared error of the
	// parameter in the norm of the contexts' second moments. Without a truth it is that against rewards held out.
	MSE float64 `json:"mse"`
	// MAD is the mean absolute deviation of the prediction over people, and Shifted that over other contexts: the
	// coordinate directions, each as often as the others, unless the specification says otherwise. nil: not known.
	MAD     *float64 `json:"mad,omitempty"`
	Shifted *float64 `json:"shifted,omitempty"`
	// Coverage is the share of people whose mean reward lies within the model's bound, and Width the mean bound over
	// people. nil: the truth is not known, or the model has no bound.
	Coverage *float64 `json:"coverage,omitempty"`
	Width    *float64 `json:"width,omitempty"`
}

// Score judges a model.
func (d *Data) Score(m learn.Model) Score {
	var s Score
	var mass, mad, covered, width float64
	bounded := true
	for _, p := range d.contexts {
		gap := math.Abs(m.Predict(p.X) - p.Mean)
		mass += p.Weight
		s.MSE += p.Weight * gap * gap
		mad += p.Weight * gap
		if !d.Truth || !bounded {
			continue
		}
		b := m.Bound(p.X)
		if bounded = !math.IsInf(b, 1) && !math.IsNaN(b); bounded {
			width += p.Weight * b
		}
		if gap <= b {
			covered += p.Weight
		}
	}
	s.MSE /= mass
	if !d.Truth {
		return s
	}
	s.MAD = pointer(mad / mass)
	if bounded {
		s.Coverage, s.Width = pointer(math.Min(1, covered/mass)), pointer(width/mass)
	}
	if len(d.shifted) > 0 {
		gap, mass := 0.0, 0.0
		for _, p := range d.shifted {
			gap, mass = gap+p.Weight*math.Abs(m.Predict(p.X)-p.Mean), mass+p.Weight
		}
		s.Shifted = pointer(gap / mass)
	}
	return s
}

func pointer(v float64) *float64 { return &v }

// Mean is the mean reward of a context that models are scored on, given as the very slice; 0 for others.
func (d *Data) Mean(x []float64) float64 {
	for _, p := range d.contexts {
		if &p.X[0] == &x[0] {
			return p.Mean
		}
	}
	return 0
}
