package main

import (
	"fmt"
	"io"
	"math"
	"strings"
	"text/tabwriter"

	"github.com/riffle-dp/riffle/internal/command"
	"github.com/riffle-dp/riffle/pkg/learn/estimate"
	"github.com/riffle-dp/riffle/pkg/plan"
	"github.com/riffle-dp/riffle/pkg/privacy"
)

// fitResult is what riffle fit prints.
type fitResult struct {
	Family     string            `json:"family"`
	Trust      plan.Channel      `json:"trust"`
	RestsOn    string            `json:"rests_on"`
	Epsilon    float64           `json:"epsilon"` // of the guarantee, at delta
	Delta      float64           `json:"delta"`
	Guarantee  privacy.Guarantee `json:"guarantee,omitzero"`
	Rows       int               `json:"rows"`
	Confidence float64           `json:"confidence"`
	Target     string            `json:"target"`
	Reliable   bool              `json:"reliable"`  // false: the noise is too large for standard errors
	Intervals  bool              `json:"intervals"` // false: so large that nothing can be excluded
	Weak       []fitWeak         `json:"weak_columns,omitempty"`
	// nothing was spent: the intervals are those to expect
	DryRun       bool             `json:"dry_run,omitempty"`
	RowsFor      int              `json:"rows_for_intervals,omitempty"` // about how many they need, in a dry run
	Assumes      string           `json:"assumes"`                      // what the intervals hold under
	Residual     float64          `json:"residual_deviation,omitempty"`
	Coefficients []fitCoefficient `json:"coefficients"`
}

type fitCoefficient struct {
	Name  string  `json:"name"` // of a feature, or "(intercept)"
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

// fitWeak names columns that say too little by themselves: one that hardly varies, or several that nearly determine
// each other.
type fitWeak struct {
	Columns []string `json:"columns"`
	Spread  float64  `json:"spread"` // bound of the standard deviation, in units of half the width of the bounds
}

// dryResult is the result of a dry run.
func (f fitFlags) dryResult(with estimate.Fit, names []string, rows int) (*fitResult, error) {
	logistic := f.family == "logistic"
	fitted, err := with.Expect(rows, logistic)
	if err != nil {
		return nil, err
	}
	r := f.result(fitted, names)
	r.DryRun, r.Weak, r.Epsilon = true, nil, f.epsilon
	if r.RowsFor, err = with.RowsFor(logistic); err != nil {
		return nil, err
	}
	return r, nil
}

func (f fitFlags) result(fitted estimate.Fitted, names []string) *fitResult {
	r := &fitResult{Family: f.family, Trust: plan.Channel(f.trust), Epsilon: fitted.Guarantee.Epsilon(f.delta),
		Delta:     f.delta,
		Guarantee: fitted.Guarantee, Rows: fitted.Rows, Confidence: f.level, Target: f.target,
		Reliable:  fitted.Reliable,
		Intervals: fitted.Reliable || fitted.Bounded, Residual: fitted.Residual,
		RestsOn: "whoever holds the file and ran this: they see all rows. Those who get the result need not be trusted"}
	if r.Trust == plan.Local {
		r.RestsOn = "nobody, if each row is noised on the person's own device; here all rows were in one file, so it " +
			"was a simulation of that"
	}
	r.Assumes = "rows are independent, and the target spreads equally around the prediction everywhere"
	if r.Family == "logistic" {
		r.Assumes = "rows are independent, and the log odds are linear in the features"
	}
	add := func(name string, c estimate.Coefficient) {
		out := fitCoefficient{Name: name, Value: c.Value}
		if fitted.Reliable {
			deviation := math.Hypot(c.Sampling, c.Noise)
			out.Deviation, out.Sampling, out.Noise = &deviation, &c.Sampling, &c.Noise
		}
		if r.Intervals {
			out.Low, out.High = &c.Low, &c.High
		}
		r.Coefficients = append(r.Coefficients, out)
	}
	add("(intercept)", fitted.Intercept)
	for i, c := range fitted.Coefficients {
		add(names[i], c)
	}
	for _, w := range fitted.Weak {
		weak := fitWeak{Spread: w.Spread}
		for _, j := range w.Columns {
			weak.Columns = append(weak.Columns, names[j])
		}
		r.Weak = append(r.Weak, weak)
	}
	return r
}

// WriteJSON implements result.
func (r *fitResult) WriteJSON(w io.Writer) error { return command.WriteJSON(w, r) }

// WriteTable implements result.
func (r *fitResult) WriteTable(w io.Writer) error {
	var text strings.Builder
	r.table(&text)
	if r.DryRun {
		r.outlook(&text)
	} else {
		r.cautions(&text)
		fmt.Fprintf(&text, "\n%d rows, a number that counts as public; each row is hidden with epsilon %s at delta %g "+
			"(trust %s).\nThat rests on %s.\nValues outside the bounds were clipped to them before the fit.\n", r.Rows,
			privacy.Spell(r.Epsilon), r.Delta, r.Trust, r.RestsOn)
	}
	_, err := io.WriteString(w, text.String())
	return err
}

// table has a line for each coefficient.
func (r *fitResult) table(w io.Writer) {
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	percent := fmt.Sprintf("%g%%", math.Round(1000*r.Confidence)/10)
	unit := ""
	if r.Family == "logistic" {
		unit = " (log odds)"
	}
	if r.DryRun {
		_, _ = fmt.Fprintf(table, "%s%s on\tinterval to expect (%s): coefficient +-\t\n", r.Target, unit, percent)
		for _, c := range r.Coefficients {
			half := "-"
			if r.Intervals {
				half = fmt.Sprintf("%.2g", (*c.High-*c.Low)/2)
			}
			_, _ = fmt.Fprintf(table, "%s\t%s\t\n", c.Name, half)
		}
		_ = table.Flush()
		return
	}
	_, _ = fmt.Fprintf(table, "%s%s on\tcoefficient\tstandard error\tof sampling\tof noise\tfrom (%s)\tto\t\n",
		r.Target,
		unit, percent)
	for _, c := range r.Coefficients {
		errs, ends := "-\t-\t-", "-\t-"
		if r.Reliable {
			errs = fmt.Sprintf("%.3g\t%.3g\t%.3g", *c.Deviation, *c.Sampling, *c.Noise)
		}
		if r.Intervals {
			ends = fmt.Sprintf("%.4g\t%.4g", *c.Low, *c.High)
		}
		_, _ = fmt.Fprintf(table, "%s\t%.4g\t%s\t%s\t\n", c.Name, c.Value, errs, ends)
	}
	_ = table.Flush()
}

// cautions say how far the result can be read.
func (r *fitResult) cautions(w io.Writer) {
	for _, weak := range r.Weak {
		if len(weak.Columns) == 1 {
			_, _ = fmt.Fprintf(w, "\n%s hardly varies: its standard deviation is at most %.2g of half the width of "+
				"its bounds.\nLeave it out, or give it narrower bounds if they are publicly known.\n", weak.Columns[0],
				weak.Spread)
			continue
		}
		_, _ = fmt.Fprintf(w, "\n%s nearly determine each other: their coefficients cannot be told apart,\nwhatever "+
			"the budget. Leave one of them out.\n", strings.Join(weak.Columns, ", "))
	}
	if len(r.Weak) > 0 {
		_, _ = fmt.Fprintf(w, "This was judged from the noised statistics; noise alone says so wrongly in at most "+
			"1%% of fits.\n")
	}
	switch {
	case r.Reliable:
	case r.Intervals:
		_, _ = fmt.Fprint(w, "\nThe noise is large: the intervals count it and hold, and there are no standard "+
			"errors.\n")
	case len(r.Weak) > 0:
		_, _ = fmt.Fprint(w, "\nThere are no intervals, and the coefficients are drawn to 0: do not interpret them.\n")
	default:
		_, _ = fmt.Fprint(w, "\nThe noise is too large to exclude anything: there are no intervals, and the "+
			"coefficients\nare drawn to 0: do not interpret them. --dry-run says how many rows are needed; fewer "+
			"features\nand narrower bounds help as well.\n")
	}
	if r.Intervals {
		_, _ = fmt.Fprintf(w, "\nThe intervals hold if %s.\n", r.Assumes)
	}
}

// outlook says what a fit will be able to show.
func (r *fitResult) outlook(w io.Writer) {
	_, _ = fmt.Fprintf(w, "\nNothing was spent, and no value was read. This is for %d rows with epsilon %s at delta "+
		"%g\n(trust %s), if columns are uncorrelated and spread by a third of half the width of their bounds.\nWhere "+
		"they are correlated or spread less, intervals are wider.\n", r.Rows, privacy.Spell(r.Epsilon), r.Delta,
		r.Trust)
	switch {
	case r.Reliable:
	case r.Intervals:
		_, _ = fmt.Fprint(w, "The noise will be large: intervals, without standard errors.\n")
	default:
		_, _ = fmt.Fprint(w, "The noise will be too large for intervals.\n")
	}
	if r.RowsFor > 0 {
		_, _ = fmt.Fprintf(w, "Intervals can be expected from about %d rows on.\n", r.RowsFor)
	}
}
