package fit

import (
	"math"
	"strings"

	"github.com/riffle-dp/riffle/pkg/learn/estimate"
	"github.com/riffle-dp/riffle/pkg/plan"
	"github.com/riffle-dp/riffle/pkg/privacy"
)

// Result is what riffle fit prints.
type Result struct {
	Family     string            `json:"family"`
	Trust      plan.Channel      `json:"trust"`
	RestsOn    string            `json:"rests_on"`
	Asked      float64           `json:"asked_epsilon"`
	Epsilon    float64           `json:"epsilon"` // of the guarantee, at delta
	Delta      float64           `json:"delta"`
	Guarantee  privacy.Guarantee `json:"guarantee,omitzero"`
	Rows       int               `json:"rows"`
	Confidence float64           `json:"confidence"`
	Target     string            `json:"target"`
	// nothing was spent: the intervals are those to expect
	DryRun  bool   `json:"dry_run,omitempty"`
	RowsFor int    `json:"rows_for_intervals,omitempty"` // about how many they need, in a dry run
	Assumes string `json:"assumes"`                      // what the intervals hold under
	*Estimates
	By     string   `json:"by,omitempty"`
	Groups []Group  `json:"groups,omitempty"` // in the order of their declaration
	Ledger *Balance `json:"ledger,omitempty"`
}

// Estimates are those of all rows, or of one group.
type Estimates struct {
	Reliable     bool          `json:"reliable"`  // false: the noise is too large for standard errors
	Intervals    bool          `json:"intervals"` // false: so large that nothing can be excluded
	Weak         []Weak        `json:"weak_columns,omitempty"`
	Residual     float64       `json:"residual_deviation,omitempty"`
	Coefficients []Coefficient `json:"coefficients"`
}

// Group is what is said of one group. Coefficients are there if there are features.
type Group struct {
	Name  string      `json:"name"`
	Count Coefficient `json:"rows"` // of its rows; the interval is of the noise
	Mean  Coefficient `json:"mean"` // of the target
	*Estimates
}

// Coefficient is a number with its uncertainty.
type Coefficient struct {
	Name  string  `json:"name,omitempty"` // of a feature, or "(intercept)"
	Value float64 `json:"value"`
	// Deviation is the standard error; Sampling and Noise are its parts, of which the squares add. They are null where
	// the noise is too large for them: the interval holds, but is not a number of standard errors. Where there is no
	// interval it is null as well, and the coefficient is drawn to 0.
	Deviation *float64 `json:"standard_error"`
	Sampling  *float64 `json:"sampling"`
	Noise     *float64 `json:"noise"`
	Low       *float64 `json:"low"`
	High      *float64 `json:"high"`
}

// Weak names columns that say too little by themselves: one that hardly varies, or several that nearly determine each
// other.
type Weak struct {
	Columns []string `json:"columns"`
	Spread  float64  `json:"spread"` // bound of the standard deviation, in units of half the width of the bounds
}

// Balance is what the ledger says.
type Balance struct {
	Epsilon float64 `json:"epsilon"` // of all fits together, at Delta
	Delta   float64 `json:"delta"`
	Spent   float64 `json:"spent_epsilon"` // what all fits so far reveal together, this one included
	Left    float64 `json:"left_epsilon"`  // of one more fit: in the same trust, or of the list in central or local
	Fits    int     `json:"fits"`
	List    []Spent `json:"list,omitempty"`
}

// balance is that of a ledger, with what is left for a fit with or without binomial noise.
func balance(l Ledger, binomial bool) *Balance {
	return &Balance{Epsilon: l.Epsilon, Delta: l.Delta, Spent: l.SpentEpsilon(), Left: l.Left(binomial),
		Fits: len(l.Fits)}
}

// dryResult is the result of a dry run.
func (o Options) dryResult(with estimate.Fit, d design, charged Spent, header []string) (*Result, error) {
	logistic := o.Family == Logistic
	fitted, err := with.Expect(charged.Rows, logistic)
	if err != nil {
		return nil, err
	}
	r := o.result(fitted, d)
	if len(d.names) == 0 { // groups and nothing else
		r.Coefficients[0].Name = "mean of a group"
	}
	r.DryRun, r.Weak, r.By, r.Guarantee = true, nil, o.By, privacy.Guarantee{}
	if r.RowsFor, err = with.RowsFor(logistic); err != nil {
		return nil, err
	}
	if o.Ledger != nil {
		charged.Guarantee = fitted.Guarantee
		if header != nil {
			if err := o.Ledger.Knows(charged.Rows, header); err != nil {
				return nil, err
			}
		}
		after, err := o.Ledger.Add(charged)
		if err != nil {
			return nil, err
		}
		r.Ledger = balance(after, o.binomial())
	}
	return r, nil
}

// described is all of a result that does not depend on what was found.
func (o Options) described(g privacy.Guarantee, rows, features int) *Result {
	r := &Result{Family: o.Family, Trust: o.Trust, Asked: o.Epsilon, Epsilon: g.Epsilon(o.Delta), Delta: o.Delta,
		Guarantee: g, Rows: rows, Confidence: o.Level, Target: o.Target, By: o.By,
		RestsOn: "whoever holds the file and ran this: they see all rows. Those who get the result need not be trusted"}
	const simulated = "; here all rows were in one file, so it was a simulation of that"
	switch o.Trust {
	case plan.Local:
		r.RestsOn = "nobody, if each row is noised on the person's own device" + simulated
	case plan.Shuffle, plan.Shares:
		r.RestsOn = strings.TrimPrefix(o.Trust.RestsOn(), "rests on ") + ", if each row is on the person's own device" +
			simulated
	}
	r.Assumes = "rows are independent, and the target spreads equally around the prediction everywhere"
	switch {
	case o.By != "" && features == 0:
		r.Assumes = "rows are independent"
	case r.Family == Logistic:
		r.Assumes = "rows are independent, and the log odds are linear in the features"
	}
	return r
}

// result is that of a fit of all rows.
func (o Options) result(fitted estimate.Fitted, d design) *Result {
	r := o.described(fitted.Guarantee, fitted.Rows, len(d.names))
	r.Estimates = estimates(fitted, d.names)
	return r
}

// groupResult is that of a fit of each group.
func (o Options) groupResult(all []estimate.Group, d design, rows int) *Result {
	r := o.described(all[0].Guarantee, rows, len(d.names))
	for i, g := range all {
		out := Group{Name: d.groups[i], Count: coefficient(g.Count, true), Mean: coefficient(g.Mean, true)}
		if len(d.names) > 0 {
			out.Estimates = estimates(g.Fitted, d.names)
		}
		r.Groups = append(r.Groups, out)
	}
	return r
}

func estimates(fitted estimate.Fitted, names []string) *Estimates {
	e := &Estimates{Reliable: fitted.Reliable, Intervals: fitted.Reliable || fitted.Bounded, Residual: fitted.Residual}
	add := func(name string, of estimate.Coefficient) {
		c := coefficient(of, e.Reliable)
		c.Name = name
		e.Coefficients = append(e.Coefficients, c)
	}
	add("(intercept)", fitted.Intercept)
	for i, c := range fitted.Coefficients {
		add(names[i], c)
	}
	for _, w := range fitted.Weak {
		weak := Weak{Spread: w.Spread}
		for _, j := range w.Columns {
			weak.Columns = append(weak.Columns, names[j])
		}
		e.Weak = append(e.Weak, weak)
	}
	return e
}

// coefficient has the interval if there is one, and then the standard error if the noise is not too large for it.
func coefficient(of estimate.Coefficient, reliable bool) Coefficient {
	c := Coefficient{Value: of.Value}
	if math.IsInf(of.High, 1) || math.IsInf(of.Low, -1) {
		return c
	}
	c.Low, c.High = &of.Low, &of.High
	if deviation := math.Hypot(of.Sampling, of.Noise); reliable && deviation > 0 {
		c.Deviation, c.Sampling, c.Noise = &deviation, &of.Sampling, &of.Noise
	}
	return c
}
