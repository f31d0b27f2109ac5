package replay

import (
	"fmt"

	"github.com/riffle-dp/riffle/internal/chart"
	"github.com/riffle-dp/riffle/internal/evaluate"
)

// apart is the distance between the two dots of a channel.
const apart = 0.16

// Chart draws the mean rewards with their intervals.
func (r *Result) Chart() chart.Chart {
	c := chart.Chart{Title: "What a live run is expected to get",
		Subtitle: fmt.Sprintf("%s people out of %s decisions, ε = %g, δ = %g; with %g %% intervals",
			chart.Number(float64(r.People), 0), chart.Number(float64(r.Decisions), 0), r.Epsilon,
			r.Delta, 100*r.Confidence), Y: "mean reward per person"}
	for _, o := range r.all() {
		c.Places = append(c.Places, o.name())
	}
	var dots, bars []chart.Series
	for k, name := range []string{"last policy", "while learning"} {
		colour, named := chart.Colour(k), -1
		for i, o := range r.all() {
			if o.Infeasible != "" {
				continue
			}
			x, e := float64(i+1)-apart, o.Learning
			if k == 0 {
				x, e = float64(i+1)+apart, o.Last
			}
			named, dots = len(dots), append(dots, chart.Series{X: []float64{x}, Y: []float64{e.Value}, Colour: colour})
			if v := e.Interval; v != nil {
				bars = append(bars, chart.Series{X: []float64{x, x}, Y: []float64{v.Low, v.High}, Colour: colour})
			}
		}
		dots[named].Name = name // the learner without privacy, at the right end, has a dot always
	}
	ends := []float64{0.5, float64(len(c.Places)) + 0.5}
	for _, base := range []struct {
		name string
		of   evaluate.Estimate
	}{{"what was played", r.Logged}, {"uniform play", r.Uniform}} {
		dots = append(dots, chart.Series{Name: base.name, X: ends, Y: []float64{base.of.Value, base.of.Value},
			Dashed: true, Colour: chart.Grey, Width: 1.5})
	}
	c.Series = append(dots, bars...)
	return c
}
