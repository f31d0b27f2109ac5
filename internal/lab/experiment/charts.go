package experiment

import (
	"fmt"
	"math"
	"slices"
	"strconv"

	"github.com/riffle-dp/riffle/internal/lab/chart"
)

// Charts are the pictures of the rows, by name: regret over people for every environment (longest horizon, first epsilon), and, where
// there are several of them, regret and messages against epsilon and against the horizon.
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
		add("regret", courses(own, name, e.Delta))
		add("epsilon", against(own, name, "epsilon", "regret"))
		add("horizon", against(own, name, "people", "regret"))
		add("messages", against(own, name, "epsilon", "bit messages per person"))
		add("messages-horizon", against(own, name, "people", "bit messages per person"))
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
		c.Subtitle = fmt.Sprintf("%s, %s people, ε = %g, δ = %g, bands of two standard errors", name, chart.Number(float64(longest), 0), first, delta)
	}
	for _, r := range rows {
		if r.Horizon != longest || r.Epsilon != nil && *r.Epsilon != first {
			continue
		}
		s := chart.Series{Name: r.Algorithm}
		for k, y := range r.Course {
			if y <= 0 { // a logarithm of nothing
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
	// Lines of one algorithm must have one value of what is not on the axis: the first epsilon, or the longest horizon.
	longest, first := 0, 0.0
	for _, r := range rows {
		longest = max(longest, r.Horizon)
		if r.Epsilon != nil && first == 0 {
			first = *r.Epsilon
		}
	}
	lines := map[string]*chart.Series{}
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
		s := lines[r.Algorithm]
		if s == nil {
			s = &chart.Series{Name: r.Algorithm, Dots: true}
			lines[r.Algorithm] = s
			order = append(order, r.Algorithm)
		}
		s.X, s.Y = append(s.X, v), append(s.Y, m)
		s.Low, s.High = append(s.Low, math.Max(m/4, m-2*se)), append(s.High, m+2*se)
		low, high = math.Min(low, v), math.Max(high, v)
	}
	if !(low < high) {
		return chart.Chart{}
	}
	for _, a := range order {
		s := lines[a]
		sortSeries(s)
		if a == KindUniform {
			s.Colour, s.Dashed = chart.Grey, true
		}
		c.Series = append(c.Series, *s)
	}
	if x == "epsilon" && y == "regret" { // what is not private is a level
		for _, r := range rows {
			if r.Horizon == longest && r.Epsilon == nil && r.Regret > 0 && r.Algorithm != KindUniform {
				c.Series = append(c.Series, chart.Series{Name: r.Algorithm, X: []float64{low, high}, Y: []float64{r.Regret, r.Regret}, Dashed: true})
			}
		}
	}
	return c
}

func sortSeries(s *chart.Series) {
	index := make([]int, len(s.X))
	for i := range index {
		index[i] = i
	}
	slices.SortFunc(index, func(a, b int) int {
		if s.X[a] < s.X[b] {
			return -1
		}
		return 1
	})
	pick := func(v []float64) []float64 {
		out := make([]float64, len(v))
		for i, k := range index {
			out[i] = v[k]
		}
		return out
	}
	s.X, s.Y, s.Low, s.High = pick(s.X), pick(s.Y), pick(s.Low), pick(s.High)
}
