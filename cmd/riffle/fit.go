package main

import (
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/riffle-dp/riffle/internal/role/entropy"
	"github.com/riffle-dp/riffle/pkg/learn/estimate"
	"github.com/riffle-dp/riffle/pkg/plan"
	"github.com/riffle-dp/riffle/pkg/privacy"
)

type fitFlags struct {
	trust, family, target, boundsFile string
	features, bounds                  []string
	epsilon, delta, level             float64
	json                              bool
}

func fitCommand() *cobra.Command {
	f := fitFlags{}
	cmd := &cobra.Command{
		Use:   "fit FILE",
		Short: "fit a private regression to your own data",
		Long: `
Fits a linear or a logistic regression to a file that you hold, and prints coefficients that you may publish: they are
(epsilon, delta) differentially private for every row, where a person has one row and the number of rows is public. The
file is CSV with a header, or JSON lines with an object of numbers for each row. The target of a logistic regression is
0 or 1, and its coefficients are log odds.

With --trust central, those who get the result need not be trusted, and whoever runs the command sees all rows. With
--trust local, every row is noised before it is added to others, as people's own devices would do it: the file shows
what such a study would have found, at a much larger error.

Confidence intervals count the noise as well as the sampling error. If the noise is as large as what the data say,
there are no intervals and no standard errors; use more rows, fewer features, narrower bounds or a larger epsilon.
Intervals take rows to be independent. In the linear family they also take the target to spread equally around the
prediction everywhere, and in the logistic family the model to be right: where a small group spreads more than others,
intervals of what sets it apart are too narrow, and the result cannot show it.

Every column needs public bounds, and values outside are clipped to them; the coefficients are those of the clipped
values. How many were clipped is not said, because that is not private. Nor is a refusal: its message may quote a row,
and is for you alone. The noise is the system's random bits: each run gives another result and spends the budget again,
so do not repeat it until you like the result.`[1:],
		Example: `  riffle fit people.csv --target pressure --bounds pressure=80,200 --bounds age=18,90 --epsilon 1
  riffle fit people.csv --target pressure --features age,dose --bounds-file bounds.json \
      --epsilon 1 --json
  riffle fit people.csv --family logistic --target relapse --bounds age=18,90 --epsilon 2
  riffle fit people.jsonl --target pressure --bounds-file bounds.json --trust local --epsilon 8`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			r, err := f.fit(args[0])
			if err != nil {
				return err
			}
			return printResult(cmd, r, f.json)
		},
	}
	flags := cmd.Flags()
	flags.SortFlags = false
	flags.StringVar(&f.trust, "trust", string(plan.Central), "central: you see the rows; local: every row is noised alone")
	flags.StringVar(&f.family, "family", "linear", "linear, or logistic for a target of 0 and 1 (trust central only)")
	flags.Float64Var(&f.epsilon, "epsilon", 0, "guarantee of every row; required")
	flags.Float64Var(&f.delta, "delta", plan.DefaultDelta, "delta of the guarantee; below 1/rows")
	flags.StringVar(&f.target, "target", "", "column to predict; required")
	flags.StringSliceVar(&f.features, "features", nil,
		"columns to predict with, separated by commas; default: all others that have bounds")
	flags.StringArrayVar(&f.bounds, "bounds", nil, "COLUMN=LOW,HIGH: public bounds of a column; once for each")
	flags.StringVar(&f.boundsFile, "bounds-file", "", `file of public bounds: {"COLUMN": [LOW, HIGH], ..}`)
	flags.Float64Var(&f.level, "confidence", 0.95, "confidence level of the intervals")
	flags.BoolVar(&f.json, "json", false, "print the result as one JSON object")
	return cmd
}

// fit reads, fits and names.
func (f fitFlags) fit(path string) (*fitResult, error) {
	trust := plan.Channel(f.trust)
	switch {
	case trust != plan.Central && trust != plan.Local:
		return nil, fmt.Errorf("--trust %q: a file can be fitted with central or local", f.trust)
	case f.family != "linear" && f.family != "logistic":
		return nil, fmt.Errorf("--family %q: want linear or logistic", f.family)
	case f.target == "":
		return nil, errors.New("--target is missing: name the column to predict")
	case !(f.epsilon > 0) || math.IsInf(f.epsilon, 1):
		return nil, fmt.Errorf("--epsilon is %v: give a positive number, the guarantee of every row", f.epsilon)
	case !(f.delta > 0 && f.delta < 1):
		return nil, fmt.Errorf("--delta is %v: give a number above 0 and below 1", f.delta)
	}
	bounds, err := fitBounds(f.boundsFile, f.bounds)
	if err != nil {
		return nil, err
	}
	data, err := readFitFile(path)
	if err != nil {
		return nil, err
	}
	names := f.features
	if names == nil {
		for _, c := range data.columns {
			if _, bounded := bounds[c]; bounded && c != f.target {
				names = append(names, c)
			}
		}
	}
	for name := range bounds {
		if !slices.Contains(data.columns, name) {
			return nil, fmt.Errorf("there are bounds for %q, which is no column; the columns are %q", name,
				data.columns)
		}
	}
	if len(names) == 0 {
		return nil, errors.New("no column but the target has bounds: say --bounds COLUMN=LOW,HIGH for each feature")
	}
	with := estimate.Fit{Epsilon: f.epsilon, Delta: f.delta, Local: trust == plan.Local, Level: f.level,
		Noise: entropy.New()}
	rows := make([][]float64, len(data.rows))
	for i, name := range names {
		if name == f.target || slices.Contains(names[:i], name) {
			return nil, fmt.Errorf("column %q is named twice", name)
		}
		b, err := boundsOf(bounds, name)
		if err != nil {
			return nil, err
		}
		values, err := data.numbers(name)
		if err != nil {
			return nil, err
		}
		with.Features = append(with.Features, b)
		for j, v := range values {
			rows[j] = append(rows[j], v)
		}
	}
	fit := with.Logistic
	if f.family == "linear" {
		if with.Target, err = boundsOf(bounds, f.target); err != nil {
			return nil, err
		}
		fit = with.Linear
	}
	target, err := data.numbers(f.target)
	if err != nil {
		return nil, err
	}
	fitted, err := fit(rows, target)
	if err != nil {
		return nil, err
	}
	return f.result(fitted, names), nil
}

// fitResult is what riffle fit prints.
type fitResult struct {
	Family       string            `json:"family"`
	Trust        plan.Channel      `json:"trust"`
	RestsOn      string            `json:"rests_on"`
	Epsilon      float64           `json:"epsilon"` // of the guarantee, at delta
	Delta        float64           `json:"delta"`
	Guarantee    privacy.Guarantee `json:"guarantee"`
	Rows         int               `json:"rows"`
	Confidence   float64           `json:"confidence"`
	Target       string            `json:"target"`
	Reliable     bool              `json:"reliable"` // false: the noise is too large for errors and intervals
	Assumes      string            `json:"assumes"`  // what the intervals hold under
	Residual     float64           `json:"residual_deviation,omitempty"`
	Coefficients []fitCoefficient  `json:"coefficients"`
}

type fitCoefficient struct {
	Name  string  `json:"name"` // of a feature, or "(intercept)"
	Value float64 `json:"value"`
	// Deviation is the standard error; Sampling and Noise are its parts, of which the squares add. These and the interval
	// are null where the noise is too large: they would leave out how far the coefficient is drawn to 0.
	Deviation *float64 `json:"standard_error"`
	Sampling  *float64 `json:"sampling"`
	Noise     *float64 `json:"noise"`
	Low       *float64 `json:"low"`
	High      *float64 `json:"high"`
}

func (f fitFlags) result(fitted estimate.Fitted, names []string) *fitResult {
	r := &fitResult{Family: f.family, Trust: plan.Channel(f.trust), Epsilon: fitted.Guarantee.Epsilon(f.delta), Delta: f.delta,
		Guarantee: fitted.Guarantee, Rows: fitted.Rows, Confidence: f.level, Target: f.target, Reliable: fitted.Reliable,
		Residual: fitted.Residual,
		RestsOn:  "whoever holds the file and ran this: they see all rows. Those who get the result need not be trusted"}
	if r.Trust == plan.Local {
		r.RestsOn = "nobody, if each row is noised on the person's own device; here all rows were in one file, so it was a " +
			"simulation of that"
	}
	r.Assumes = "rows are independent, and the target spreads equally around the prediction everywhere"
	if r.Family == "logistic" {
		r.Assumes = "rows are independent, and the log odds are linear in the features"
	}
	add := func(name string, c estimate.Coefficient) {
		out := fitCoefficient{Name: name, Value: c.Value}
		if fitted.Reliable {
			deviation := math.Hypot(c.Sampling, c.Noise)
			out.Deviation, out.Sampling, out.Noise, out.Low, out.High = &deviation, &c.Sampling, &c.Noise, &c.Low, &c.High
		}
		r.Coefficients = append(r.Coefficients, out)
	}
	add("(intercept)", fitted.Intercept)
	for i, c := range fitted.Coefficients {
		add(names[i], c)
	}
	return r
}

// WriteJSON implements result.
func (r *fitResult) WriteJSON(w io.Writer) error { return writeJSON(w, r) }

// WriteTable implements result.
func (r *fitResult) WriteTable(w io.Writer) error {
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	percent := fmt.Sprintf("%g%%", math.Round(1000*r.Confidence)/10)
	unit := ""
	if r.Family == "logistic" {
		unit = " (log odds)"
	}
	_, _ = fmt.Fprintf(table, "%s%s on\tcoefficient\tstandard error\tof sampling\tof noise\tfrom (%s)\tto\t\n", r.Target,
		unit, percent)
	for _, c := range r.Coefficients {
		rest := "-\t-\t-\t-\t-"
		if r.Reliable {
			rest = fmt.Sprintf("%.3g\t%.3g\t%.3g\t%.4g\t%.4g", *c.Deviation, *c.Sampling, *c.Noise, *c.Low, *c.High)
		}
		_, _ = fmt.Fprintf(table, "%s\t%.4g\t%s\t\n", c.Name, c.Value, rest)
	}
	if err := table.Flush(); err != nil {
		return err
	}
	if !r.Reliable {
		if _, err := fmt.Fprint(w, "\nThe noise is too large for standard errors and intervals, and the coefficients are "+
			"drawn to 0: do not interpret\nthem. Use more rows, fewer features, narrower bounds or a larger "+
			"epsilon.\n"); err != nil {
			return err
		}
	}
	if r.Reliable {
		if _, err := fmt.Fprintf(w, "\nThe intervals hold if %s.\n", r.Assumes); err != nil {
			return err
		}
	}
	_, err := fmt.Fprintf(w, "\n%d rows, a number that counts as public; each row is hidden with epsilon %s at delta %g "+
		"(trust %s).\nThat rests on %s.\nValues outside the bounds were clipped to them before the fit.\n", r.Rows,
		privacy.Spell(r.Epsilon), r.Delta, r.Trust, r.RestsOn)
	return err
}
