package experiment

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strconv"

	"github.com/riffle-dp/riffle/internal/chart"
)

// Charts returns the charts of the rows, by name: regret over people for every environment (longest horizon, first
// epsilon), and regret and messages against epsilon and against the horizon if there are several of these.
func (e *Experiment) Charts(rows []Row) map[string]chart.Chart {
	charts := map[string]chart.Chart{}
	var environments []string
	for _, r := range rows {
		if !slices.Contains(environments, r.Environment) {
			environments = append(environments, r.Environment)
		}
	}
	for i, name := range environments {
		suffix := ""
		if len(environments) > 1 {
			suffix = "-" + strconv.Itoa(i+1)
		}
		var own []Row
		for _, r := range rows {
			if r.Environment == name {
				own = append(own, r)
			}
		}
		add := func(kind string, c chart.Chart) {
			if len(c.Series) > 0 {
				c.Title = e.Title
				charts[kind+suffix] = c
			}
		}
		if e.Kind == KindRegression {
			add("mad", deviations(own, name, e.Delta))
			continue
		}
		add("regret", courses(own, name, e.Delta))
		add("epsilon", against(own, name, "epsilon", "regret"))
		add("horizon", against(own, name, "people", "regret"))
		add("messages", against(own, name, "epsilon", "bit messages per person"))
		add("messages-horizon", against(own, name, "people", "bit messages per person"))
	}
	if c := winners(rows, environments); len(c.Series) > 0 {
		c.Title = e.Title
		charts["winners"] = c
	}
	return charts
}

// courses draws mean regret over people with a band of two standard errors.
func courses(rows []Row, name string, delta float64) chart.Chart {
	longest, first := 0, 0.0
	for _, r := range rows {
		longest = max(longest, r.Horizon)
	}
	for _, r := range rows {
		if r.Epsilon != nil && r.Horizon == longest && first == 0 {
			first = *r.Epsilon
		}
	}
	c := chart.Chart{X: "people", Y: "cumulative regret", LogX: true, LogY: true,
		Subtitle: fmt.Sprintf("%s, %s people, bands of two standard errors", name, chart.Number(float64(longest), 0))}
	if first > 0 {
		c.Subtitle = fmt.Sprintf("%s, %s people, ε = %g, δ = %g, bands of two standard errors", name,
			chart.Number(float64(longest), 0), first, delta)
	}
	for _, r := range rows {
		if r.Horizon != longest || r.Epsilon != nil && *r.Epsilon != first {
			continue
		}
		s := chart.Series{Name: r.Algorithm}
		for k, y := range r.Course {
			if y <= 0 { // has no logarithm
				continue
			}
			s.X, s.Y = append(s.X, float64(r.Marks[k])), append(s.Y, y)
			s.Low, s.High = append(s.Low, math.Max(y/4, y-2*r.CourseSE[k])), append(s.High, y+2*r.CourseSE[k])
		}
		if r.Algorithm == KindUniform {
			s.Colour, s.Dashed = chart.Grey, true
		}
		if len(s.X) > 1 {
			c.Series = append(c.Series, s)
		}
	}
	return c
}

// against draws a measure of every algorithm against epsilon or people.
func against(rows []Row, name, x, y string) chart.Chart {
	c := chart.Chart{Subtitle: name, X: x, Y: y, LogX: true, LogY: true}
	at := func(r Row) (float64, bool) {
		if x == "people" {
			return float64(r.Horizon), true
		}
		if r.Epsilon == nil {
			return 0, false
		}
		return *r.Epsilon, true
	}
	measure := func(r Row) (value, se float64) {
		if y == "regret" {
			return r.Regret, r.RegretSE
		}
		if r.Epsilon == nil || r.Messages <= 1 {
			return 0, 0
		}
		return r.Messages, 0
	}
	// The points of one line share the value that is not on the axis: the first epsilon, or the longest horizon.
	longest, first := 0, 0.0
	for _, r := range rows {
		longest = max(longest, r.Horizon)
		if r.Epsilon != nil && first == 0 {
			first = *r.Epsilon
		}
	}
	type point struct{ x, y, low, high float64 }
	lines := map[string][]point{}
	var order []string
	low, high := math.Inf(1), math.Inf(-1)
	for _, r := range rows {
		if x == "epsilon" && r.Horizon != longest || x == "people" && r.Epsilon != nil && *r.Epsilon != first {
			continue
		}
		v, ok := at(r)
		if !ok {
			continue
		}
		m, se := measure(r)
		if !(m > 0) {
			continue
		}
		if lines[r.Algorithm] == nil {
			order = append(order, r.Algorithm)
		}
		lines[r.Algorithm] = append(lines[r.Algorithm], point{v, m, math.Max(m/4, m-2*se), m + 2*se})
		low, high = math.Min(low, v), math.Max(high, v)
	}
	if !(low < high) {
		return chart.Chart{}
	}
	for _, a := range order {
		s := chart.Series{Name: a, Dots: true}
		slices.SortFunc(lines[a], func(p, q point) int { return cmp.Compare(p.x, q.x) })
		for _, p := range lines[a] {
			s.X, s.Y, s.Low, s.High = append(s.X, p.x), append(s.Y, p.y), append(s.Low, p.low), append(s.High, p.high)
		}
		if a == KindUniform {
			s.Colour, s.Dashed = chart.Grey, true
		}
		c.Series = append(c.Series, s)
	}
	if x == "epsilon" && y == "regret" { // algorithms without privacy are horizontal lines
		for _, r := range rows {
			if r.Horizon == longest && r.Epsilon == nil && r.Regret > 0 && r.Algorithm != KindUniform {
				c.Series = append(c.Series, chart.Series{Name: r.Algorithm, X: []float64{low, high},
					Y: []float64{r.Regret, r.Regret}, Dashed: true})
			}
		}
	}
	return c
}
