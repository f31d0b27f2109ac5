package effect

import (
	"errors"
	"fmt"

	"github.com/riffle-dp/riffle/internal/chart"
)

// ErrNoControl means a deployment of which nothing can be drawn: it has no control group, or nothing is known of it.
var ErrNoControl = errors.New("there is no lift to draw: the deployment has no control group, or nothing is known of " +
	"it yet")

// Comparison are the epochs after which something is known of the lift.
func (r *Result) Comparison() (all []Epoch) {
	for _, e := range r.Epochs {
		if e.Cumulated != nil && e.Cumulated.Known() {
			all = append(all, e)
		}
	}
	return all
}

// Chart draws the lift over the epochs: of each epoch, and of all so far with its interval.
//
// Errors: ErrNoControl.
func (r *Result) Chart() (chart.Chart, error) {
	c := chart.Chart{
		Title: "Is the policy better than what was done before?", X: "epoch", WholeX: true,
		Y:        "reward in a decision, policy minus control group",
		Subtitle: fmt.Sprintf("%s: 95 %% intervals, epsilon of one person so far %s", r.Deployment, spell(r.SoFar)),
	}
	so := chart.Series{Name: "all epochs so far"}
	each := chart.Series{Name: "each epoch", Dashed: true, Dots: true, Colour: chart.Grey, Width: 1}
	for _, e := range r.Comparison() {
		x := float64(e.Epoch)
		so.X, so.Y = append(so.X, x), append(so.Y, e.Cumulated.Lift)
		so.Low, so.High = append(so.Low, e.Cumulated.Low), append(so.High, e.Cumulated.High)
		if e.Lift != nil && e.Lift.Known() {
			each.X, each.Y = append(each.X, x), append(each.Y, e.Lift.Lift)
		}
	}
	if len(so.X) == 0 {
		return c, ErrNoControl
	}
	none := chart.Series{Name: "no difference", X: so.X, Y: make([]float64, len(so.X)), Colour: chart.Grey, Width: 1}
	c.YMin = so.Low[0]
	c.Series = []chart.Series{so, none}
	if len(each.X) > 0 {
		c.Series = append(c.Series, each)
	}
	return c, nil
}
