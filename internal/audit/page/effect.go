package page

import (
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"

	"github.com/riffle-dp/riffle/internal/audit/effect"
)

// effectView is what the template shows of the control group.
type effectView struct {
	*effect.Result
	Plots   []plot
	Listed  []effect.Epoch
	Unshown int // epochs that are not listed
}

// WriteEffect writes the page of what the control group shows. The error is the writer's.
func WriteEffect(w io.Writer, r *effect.Result) error {
	return pages.ExecuteTemplate(w, "effect.html", effectOf(r))
}

func effectOf(r *effect.Result) *effectView {
	v := &effectView{Result: r, Listed: r.Epochs}
	if n := len(r.Epochs) - lastListed; n > 0 {
		v.Listed, v.Unshown = r.Epochs[n:], n
	}
	if r.Cumulated != nil && r.Cumulated.Known() {
		v.Plots = []plot{v.lifts(), v.rewards()}
	}
	return v
}

// comparison are the epochs after which something is known of the lift, and their numbers.
func (v *effectView) comparison() (all []effect.Epoch, labels []string) {
	all = v.Comparison()
	for _, e := range all {
		labels = append(labels, strconv.FormatUint(e.Epoch, 10))
	}
	return all, labels
}

// series are numbers of epochs.
func seriesOf(all []effect.Epoch, class, name string, f func(effect.Epoch) float64) series {
	s := series{class, name, make([]float64, len(all))}
	for i, e := range all {
		s.values[i] = f(e)
	}
	return s
}

// lifts draws the lift of all epochs so far with its interval, and that of each.
func (v *effectView) lifts() plot {
	all, labels := v.comparison()
	l := v.Cumulated
	p := plot{
		ID: "lift", Title: "Reward in a decision: policy minus control group", Below: "epoch", Width: plotWidth,
		Height: plotHeight, Wide: true,
		Alt: fmt.Sprintf("Over %d epochs the lift is %s, with 95 %% confidence between %s and %s.", len(all),
			effect.WithSign(l.Lift),
			effect.WithSign(l.Low), effect.WithSign(l.High)),
		Note: "The band is the interval over all epochs so far. Above 0 the policy is better than the default arm.",
	}
	so := seriesOf(all, "a", "all epochs so far", func(e effect.Epoch) float64 { return e.Cumulated.Lift })
	low := seriesOf(all, "", "", func(e effect.Epoch) float64 { return e.Cumulated.Low })
	high := seriesOf(all, "", "", func(e effect.Epoch) float64 { return e.Cumulated.High })
	each := seriesOf(all, "b", "each epoch", func(e effect.Epoch) float64 {
		if e.Lift == nil || !e.Lift.Known() {
			return math.NaN()
		}
		return e.Lift.Lift
	})
	none := seriesOf(all, "limit", "no difference", func(effect.Epoch) float64 { return 0 })
	s, ok := scaleOf([]series{so, low, high, each, none}, false, false)
	if !ok {
		return p
	}
	x, y := p.axes(s, labels)
	p.Bands = []string{band(low.values, high.values, x, y)}
	for _, one := range []series{none, each, so} {
		p.draw(one, x, y)
	}
	return p
}

// band is the polygon between two lines.
func band(low, high []float64, x func(int) float64, y func(float64) float64) string {
	var up, down []string
	for i := range low {
		at := coordinate(x(i))
		up = append(up, at+","+coordinate(y(high[i])))
		down = append([]string{at + "," + coordinate(y(low[i]))}, down...)
	}
	return strings.Join(append(up, down...), " ")
}

// rewards draws the mean rewards of both groups over all epochs so far.
func (v *effectView) rewards() plot {
	all, labels := v.comparison()
	p := plot{
		ID: "rewards", Title: "Mean reward over all epochs so far", Below: "epoch", Width: plotWidth,
		Height: plotHeight, Wide: true,
		Alt: fmt.Sprintf("At the end the mean reward of the policy is %s and that of the control group %s.",
			number(v.Cumulated.Treated), number(v.Cumulated.Control)),
	}
	policy := seriesOf(all, "a", "policy", func(e effect.Epoch) float64 { return e.Cumulated.Treated })
	control := seriesOf(all, "b", "control group", func(e effect.Epoch) float64 { return e.Cumulated.Control })
	s, ok := scaleOf([]series{policy, control}, true, false)
	if !ok {
		return p
	}
	x, y := p.axes(s, labels)
	p.draw(policy, x, y)
	p.draw(control, x, y)
	return p
}

func number(v float64) string { return fmt.Sprintf("%.4g", v) }
