package experiment

import (
	"fmt"
	"math"
)

// Exponent is the power of the horizon that an algorithm's regret follows: the slope of ln regret over ln people.
type Exponent struct {
	Algorithm, Condition string
	From, To             int
	Power, SE            float64
}

// Exponents fits a power to every algorithm that ran on at least three horizons under the same conditions, by weighted
// least squares on logarithms, with weights from the standard errors over seeds (at least 1 % each, so that no point
// rules alone).
func Exponents(rows []Row) []Exponent {
	type condition struct{ algorithm, environment, epsilon string }
	points := map[condition][]Row{}
	var order []condition
	for _, r := range rows {
		c := condition{r.Algorithm, r.Environment, "no privacy"}
		if r.Epsilon != nil {
			c.epsilon = fmt.Sprintf("epsilon %g", *r.Epsilon)
		}
		if points[c] == nil {
			order = append(order, c)
		}
		if r.Regret > 0 {
			points[c] = append(points[c], r)
		}
	}
	var out []Exponent
	for _, c := range order {
		own := points[c]
		if len(own) < 3 {
			continue
		}
		var w, wx, wy, wxx, wxy float64
		e := Exponent{Algorithm: c.algorithm, Condition: c.environment + ", " + c.epsilon, From: own[0].Horizon,
			To: own[0].Horizon}
		for _, r := range own {
			se := math.Max(0.01, r.RegretSE/r.Regret)
			weight, x, y := 1/(se*se), math.Log(float64(r.Horizon)), math.Log(r.Regret)
			w, wx, wy, wxx, wxy = w+weight, wx+weight*x, wy+weight*y, wxx+weight*x*x, wxy+weight*x*y
			e.From, e.To = min(e.From, r.Horizon), max(e.To, r.Horizon)
		}
		spread := wxx - wx*wx/w
		if !(spread > 0) {
			continue
		}
		e.Power, e.SE = (wxy-wx*wy/w)/spread, math.Sqrt(1/spread)
		out = append(out, e)
	}
	return out
}
