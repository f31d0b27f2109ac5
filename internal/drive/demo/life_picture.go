package demo

import (
	"fmt"

	"github.com/riffle-dp/riffle/internal/audit/effect"
	"github.com/riffle-dp/riffle/internal/chart"
	"github.com/riffle-dp/riffle/pkg/privacy"
)

// drawnDays is over how many days the lines of the picture are means: days differ by who happens to decide.
const drawnDays = 3

// Picture shows what people got day by day, and below it what the deployment itself knew of that: the lift over its
// control group, epoch by epoch. Both have the same days.
func (r *LifeResult) Picture() chart.Stack {
	own := r.Rows[0]
	rewards := chart.Chart{
		Title: "What people get, day by day",
		Subtitle: fmt.Sprintf("%s people who come back, ε = %s for all that a person does in %d days", chart.Number(
			float64(r.Setting.World.People), 0), privacy.Spell(*own.Epsilon), len(own.ByDay)),
		X: "", Y: fmt.Sprintf("mean reward of a decision, mean of %d days", drawnDays), YMin: 1, Height: 330,
	}
	for i, row := range r.Rows {
		s := chart.Series{Name: fmt.Sprintf("%s  %.3f", lifeNames[i], row.Reward), Width: 1.75}
		s.X, s.Y = smooth(row.ByDay, r.Change)
		if i == 0 {
			s.Width = 2.75
		} else {
			s.Dashed, s.Colour, s.Width = true, chart.Grey, 1.5
		}
		if i == 1 {
			s.Dashed, s.Colour, s.Width = false, chart.Colour(2), 2
		}
		for _, y := range s.Y {
			rewards.YMin = min(rewards.YMin, y)
		}
		rewards.Series = append(rewards.Series, s)
	}
	lift := chart.Chart{
		Title:    "What the deployment can tell of it: lift over the control group",
		Subtitle: "by its own log, from noisy sums only; bands are 95 % intervals", X: "day",
		Y: "by how much a decision's mean reward is larger", Height: 250,
	}
	total := chart.Series{Name: "all epochs so far", Dots: true, Width: 2.5}
	single := chart.Series{Name: "the epoch alone", Colour: chart.Grey, Width: 1, Dots: true}
	actual := chart.Series{Name: "the truth, so far", Colour: chart.Colour(2), Width: 1.75, Dashed: true}
	truth := 0.0
	for _, e := range r.Epochs {
		if e.Lift == nil || e.Cumulated == nil {
			continue
		}
		middle := float64(e.Day) + float64(own.KMax)/2
		for _, of := range []struct {
			s *chart.Series
			l *effect.Lift
		}{{&total, e.Cumulated}, {&single, e.Lift}} {
			of.s.X, of.s.Y = append(of.s.X, middle), append(of.s.Y, of.l.Lift)
			of.s.Low, of.s.High = append(of.s.Low, of.l.Low), append(of.s.High, of.l.High)
		}
		truth += e.True
		actual.X, actual.Y = append(actual.X, middle), append(actual.Y, truth/float64(len(actual.X)+1))
	}
	days := float64(len(own.ByDay))
	none := chart.Series{Name: "no difference", X: []float64{0, days}, Y: []float64{0, 0}, Colour: chart.Grey, Width: 1}
	lift.Series = []chart.Series{total, actual, single, none}
	if r.Change > 0 {
		rewards.Marks = []chart.Mark{{X: float64(r.Change), Text: "the world changes"}}
		lift.Marks = []chart.Mark{{X: float64(r.Change)}}
	}
	if len(total.X) == 0 {
		rewards.X = "day"
		return chart.Stack{rewards}
	}
	return chart.Stack{rewards, lift}
}

// lifeNames are those of the rows in the picture.
var lifeNames = []string{"Riffle", "default arm", "random arm", "best possible"}

// smooth are means over drawnDays days that do not mix days before and after a change, from 0 to the last day's end.
func smooth(values []float64, change int) (x, y []float64) {
	for i := range values {
		low, high := max(0, i-drawnDays/2), min(len(values), i+drawnDays/2+1)
		if i < change {
			high = min(high, change)
		} else {
			low = max(low, change)
		}
		sum := 0.0
		for _, v := range values[low:high] {
			sum += v
		}
		x, y = append(x, float64(i)+0.5), append(y, sum/float64(high-low))
	}
	last := len(values) - 1
	return append(append([]float64{0}, x...), float64(last+1)), append(append([]float64{y[0]}, y...), y[last])
}
