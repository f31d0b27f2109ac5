package planner

import (
	"fmt"
	"strings"

	"github.com/riffle-dp/riffle/internal/chart"
)

// Chart draws the frontiers: messages of one person against noise variance.
func (r Result) Chart() chart.Chart {
	c := chart.Chart{
		Title: "What precision costs in messages",
		Subtitle: fmt.Sprintf("ε = %g, δ = %g, dimension %d, %g %% may drop out, dishonest: %s", r.AskedEpsilon,
			r.Delta, r.Dimension, percent(r.DropOut), strings.TrimSuffix(r.uncounted(), ",")),
		X: "bit messages of one person", LogX: true, Y: "noise variance (a trusted curator's Gaussian noise = 1)",
	}
	low, high := 0.0, 0.0
	for _, f := range r.Frontier {
		s := chart.Series{Name: fmt.Sprintf("%s people", number(f.People)), Dots: true}
		for i := len(f.Points) - 1; i >= 0; i-- {
			s.X, s.Y = append(s.X, float64(f.Points[i].MessagesPerUser)), append(s.Y, f.Points[i].VarianceRatio)
		}
		if len(s.X) == 0 {
			continue
		}
		if low == 0 || s.X[0] < low {
			low = s.X[0]
		}
		high = max(high, s.X[len(s.X)-1])
		c.Series = append(c.Series, s)
	}
	if len(c.Series) > 0 {
		c.Series = append(c.Series, chart.Series{Name: "trusted curator", X: []float64{low, high}, Y: []float64{1, 1},
			Dashed: true, Colour: chart.Grey, Width: 1.5})
	}
	return c
}
