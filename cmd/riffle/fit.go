package main

import (
	"errors"
	"fmt"
	"slices"

	"github.com/spf13/cobra"

	"github.com/riffle-dp/riffle/internal/command"
	"github.com/riffle-dp/riffle/internal/role/entropy"
	"github.com/riffle-dp/riffle/pkg/plan"
	"github.com/riffle-dp/riffle/pkg/privacy"
	"github.com/riffle-dp/riffle/pkg/table"
)

type fitFlags struct {
	trust, family, target, boundsFile, missing string
	features, bounds, categories               []string
	epsilon, delta, level                      float64
	dryRun, json                               bool
	rowCount                                   int
}

func fitCommand() *cobra.Command {
	f := fitFlags{}
	cmd := &cobra.Command{
		Use:   "fit FILE",
		Short: "fit a private regression to your own data",
		Long: `
Fits a linear or a logistic regression to a table that you hold, and prints coefficients that you
may publish: they are (epsilon, delta) differentially private for every row, where a person has
one row and the number of rows is public. FILE is CSV with a header (commas, tabs, or semicolons
with decimal commas), or JSON lines with an object for each row; - is standard input. The target
of a logistic regression is 0 or 1, or a category of two values, and its coefficients are log
odds.

With --trust central, those who get the result need not be trusted, and whoever runs the command
sees all rows. With --trust local, every row is noised before it is added to others, as people's
own devices would do it: the file shows what such a study would have found, at a much larger
error.

Say --dry-run first. It spends nothing and shows what such a fit will be able to say, from rows,
features, bounds and budget alone: no value is read.

Confidence intervals count the noise as well as the sampling error. Where the noise is large they
are wide, and still hold; where it is so large that nothing can be excluded there are none.
Columns that hardly vary or nearly determine each other are named, as far as the noised statistics
show it. Intervals take rows to be independent. In the linear family they also take the target to
spread equally around the prediction everywhere, and in the logistic family the model to be right:
where a small group spreads more than others, intervals of what sets it apart are too narrow, and
the result cannot show it.

Every column needs public bounds or declared categories. Values outside the bounds are clipped to
them; the coefficients are those of the clipped values. A value that is not declared is refused.
So is a missing one (empty, NA, NaN, null, ?), unless --missing middle puts the middle of the
bounds in its place (for a category, half of each value); that draws coefficients of such columns
to 0. Rows are never left out: how many are left would no longer be public. A target cannot be
missing. How many values were clipped or missing is not said, because that is not private. Nor is
a refusal: it names the line of a row, and is for you alone.

The noise is the system's random bits: each run gives another result and spends the budget again,
so do not repeat it until you like the result.`[1:],
		Example: `  riffle fit people.csv --target pressure --bounds pressure=80,200 --bounds age=18,90 \
      --epsilon 1 --dry-run
  riffle fit people.csv --target pressure --bounds pressure=80,200 --bounds age=18,90 --epsilon 1
  riffle fit people.csv --target pressure --bounds-file bounds.json --category sex=f,m \
      --epsilon 1 --json
  riffle fit people.csv --family logistic --target relapse --bounds age=18,90 --epsilon 2
  riffle fit - --target pressure --bounds-file bounds.json --trust local --epsilon 8 <people.jsonl
  riffle fit --dry-run --rows 20000 --target pressure --bounds pressure=80,200 \
      --bounds age=18,90 --epsilon 1`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			r, err := f.run(cmd, args)
			if err != nil {
				return err
			}
			return command.Print(cmd, r, f.json)
		},
	}
	flags := cmd.Flags()
	flags.SortFlags = false
	flags.StringVar(&f.trust, "trust", string(plan.Central), "central: you see the rows; local: every row is noised "+
		"alone")
	flags.StringVar(&f.family, "family", "linear", "linear, or logistic for a target of 0 and 1 (trust central only)")
	flags.Float64Var(&f.epsilon, "epsilon", 0, "guarantee of every row; required")
	flags.Float64Var(&f.delta, "delta", plan.DefaultDelta, "delta of the guarantee; below 1/rows")
	flags.StringVar(&f.target, "target", "", "column to predict; required")
	flags.StringSliceVar(&f.features, "features", nil,
		"columns to predict with, separated by commas;\ndefault: all others with bounds or categories")
	flags.StringArrayVar(&f.bounds, "bounds", nil, "COLUMN=LOW,HIGH: public bounds of a column; once for each")
	flags.StringVar(&f.boundsFile, "bounds-file", "", `file of public bounds: {"COLUMN": [LOW, HIGH], ..}`)
	flags.StringArrayVar(&f.categories, "category", nil,
		"COLUMN=FIRST,SECOND,..: all values that a column can have;\nonce for each. Coefficients are against the "+
			"first one")
	flags.StringVar(&f.missing, "missing", missingRefuse, "missing values of features: refuse, or middle of the bounds")
	flags.Float64Var(&f.level, "confidence", 0.95, "confidence level of the intervals")
	flags.BoolVar(&f.dryRun, "dry-run", false, "say what the fit will be able to show; spends nothing")
	flags.IntVar(&f.rowCount, "rows", 0, "with --dry-run: number of rows, without a file")
	flags.BoolVar(&f.json, "json", false, "print the result as one JSON object")
	return cmd
}

// check refuses flags before anything is read.
func (f fitFlags) check(args []string) error {
	trust := plan.Channel(f.trust)
	switch {
	case trust != plan.Central && trust != plan.Local:
		return fmt.Errorf("--trust %q: a file can be fitted with central or local", f.trust)
	case f.family != "linear" && f.family != "logistic":
		return fmt.Errorf("--family %q: want linear or logistic", f.family)
	case f.family == "logistic" && trust == plan.Local:
		return errors.New("--trust local cannot go with --family logistic: it asks every row several times, which is " +
			"too much noise; fit a linear regression, or take --trust central")
	case f.target == "":
		return errors.New("--target is missing: name the column to predict")
	case f.missing != missingRefuse && f.missing != missingMiddle:
		return fmt.Errorf("--missing %q: want refuse or middle", f.missing)
	case checkConfidence(f.level) != nil:
		return checkConfidence(f.level)
	case f.rowCount != 0 && !f.dryRun:
		return errors.New("--rows is for --dry-run: a fit counts the rows of its file")
	case f.dryRun && (f.rowCount != 0) == (len(args) == 1):
		return errors.New("--dry-run needs a FILE or --rows: give one of them")
	case !f.dryRun && len(args) == 0:
		return errors.New("there is no FILE: name the table to fit, or - for standard input")
	}
	if err := privacy.CheckEpsilon(f.epsilon); err != nil {
		return fmt.Errorf("--epsilon: %w", err)
	}
	if err := privacy.CheckDelta(f.delta); err != nil {
		return fmt.Errorf("--delta: %w", err)
	}
	return nil
}

// run reads, fits and names.
func (f fitFlags) run(cmd *cobra.Command, args []string) (command.Result, error) {
	if err := f.check(args); err != nil {
		return nil, err
	}
	columns, err := f.columns()
	if err != nil {
		return nil, err
	}
	var data *table.Table
	var header []string
	count := f.rowCount
	if len(args) == 1 {
		if data, err = readTable(args[0], cmd.InOrStdin()); err != nil {
			return nil, err
		}
		header, count = data.Columns, data.Rows()
		for _, name := range append(append(slices.Clone(columns.order), f.features...), f.target) {
			if err := data.Has(name); err != nil {
				return nil, err
			}
		}
	}
	design, err := f.design(columns, header)
	if err != nil {
		return nil, err
	}
	with := design.with
	with.Epsilon, with.Delta, with.Level, with.Local = f.epsilon, f.delta, f.level, plan.Channel(f.trust) == plan.Local
	warnDelta(cmd, f.delta, count)
	if f.dryRun {
		return f.dryResult(with, design.names, count)
	}
	rows, target, err := f.rows(data, columns, design)
	if err != nil {
		return nil, err
	}
	with.Noise = entropy.New()
	fit := with.Linear
	if f.family == "logistic" {
		fit = with.Logistic
	}
	fitted, err := fit(rows, target)
	if err != nil {
		return nil, err
	}
	return f.result(fitted, design.names), nil
}
