package planner

import (
	"fmt"

	"github.com/riffle-dp/riffle/internal/chart"
)

// Chart draws what is learnt: the gain of each policy that was in force, and of the last one.
func (p *Predicted) Chart() chart.Chart {
	c := chart.Chart{Title: "What is learnt", X: "people who have taken part", Y: "gain over the best constant option"}
	most := 0
	for i, one := range p.Cases {
		if one.Outcome == nil {
			continue
		}
		name := one.Name
		if one.Effect > 0 {
			name = fmt.Sprintf("%s: %.3g", one.Name, one.Effect)
		}
		s := chart.Series{Name: name, Dots: true, Colour: chart.Colour(i)}
		for _, policy := range one.Policies {
			s.X, s.Y = append(s.X, float64(policy.After)), append(s.Y, policy.Gain.Mean)
			s.Low = append(s.Low, policy.Gain.Mean-policy.Gain.Error)
			s.High = append(s.High, policy.Gain.Mean+policy.Gain.Error)
		}
		c.Series, most = append(c.Series, s), max(most, one.Simulated)
		c.Subtitle = fmt.Sprintf("channel %s; mean of %d simulated runs with its standard error; the last policy does "+
			"not explore", p.Trust, one.Runs)
	}
	c.Series = append(c.Series, chart.Series{Name: "constant", X: []float64{0, float64(most)}, Y: []float64{0, 0},
		Dashed: true, Colour: chart.Grey, Width: 1.5})
	return c
}
