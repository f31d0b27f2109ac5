package main

import (
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"github.com/riffle-dp/riffle/internal/command"
	"github.com/riffle-dp/riffle/internal/evaluate/fit"
	"github.com/riffle-dp/riffle/internal/role/entropy"
	"github.com/riffle-dp/riffle/pkg/plan"
)

type fitFlags struct {
	fit.Options
	trust, ledger string
	budget        float64
	json          bool
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
sees all rows. With shuffle, shares or local every row is noised and rounded before it is added to
others, as people's own devices would do it: the result is what such a study would have found. The
error is a little larger with shuffle and shares, and much larger with local.

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

With --by, every group has its number of rows, its mean of the target and, if there are features,
a fit of its own. Groups are declared beforehand, so that empty ones are there as well, and a
person is in one of them: all groups together cost what one fit costs.

The noise is the system's random bits: each run gives another result and spends the budget again.
A ledger keeps count: begin it with the first fit (--ledger FILE --budget EPSILON), name it with
each later fit of the same people, whatever the table, and it refuses a fit that would bring all of
them together over the budget. Each fit may be chosen by the results of those before. A fit is on
the disk as spent before its noise is drawn, so that one that is then cut off is lost. An older
copy of a ledger has forgotten fits: keep one.`[1:],
		Example: `  riffle fit people.csv --target pressure --bounds pressure=80,200 --bounds age=18,90 \
      --epsilon 1 --dry-run
  riffle fit people.csv --target pressure --bounds pressure=80,200 --bounds age=18,90 --epsilon 1
  riffle fit people.csv --target pressure --bounds-file bounds.json --category sex=f,m \
      --epsilon 1 --json
  riffle fit people.csv --family logistic --target relapse --bounds age=18,90 --epsilon 2
  riffle fit people.csv --target pressure --bounds pressure=80,200 --category site=a,b,c --by site \
      --epsilon 1 --ledger people.ledger --budget 3
  riffle fit --ledger people.ledger
  riffle fit - --target pressure --bounds-file bounds.json --trust local --epsilon 8 <people.jsonl
  riffle fit --dry-run --rows 20000 --target pressure --bounds pressure=80,200 \
      --bounds age=18,90 --epsilon 1`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if f.ledger != "" && len(args) == 0 && f.Target == "" && f.budget == 0 {
				l, err := readLedger(f.ledger)
				if err != nil {
					return err
				}
				return printFit(cmd, fit.Statement(*l), f.json)
			}
			r, err := f.run(cmd, args)
			if err != nil {
				return err
			}
			return printFit(cmd, r, f.json)
		},
	}
	flags := cmd.Flags()
	flags.SortFlags = false
	flags.StringVar(&f.trust, "trust", string(plan.Central), "central: you see the rows; shuffle, shares, local: what "+
		"a study\nover people's own devices would have found")
	flags.StringVar(&f.Family, "family", fit.Linear, "linear, or logistic for a target of 0 and 1")
	flags.Float64Var(&f.Epsilon, "epsilon", 0, "guarantee of every row; required")
	flags.Float64Var(&f.Delta, "delta", plan.DefaultDelta, "delta of the guarantee; below 1/rows")
	flags.StringVar(&f.Target, "target", "", "column to predict; required")
	flags.StringSliceVar(&f.Features, "features", nil,
		"columns to predict with, separated by commas;\ndefault: all others with bounds or categories")
	flags.StringArrayVar(&f.Bounds, "bounds", nil, "COLUMN=LOW,HIGH: public bounds of a column; once for each")
	flags.StringVar(&f.BoundsFile, "bounds-file", "",
		`file of public bounds and values: {"COLUMN": [LOW, HIGH],`+"\n"+`"COLUMN": ["FIRST", "SECOND", ..], ..}`)
	flags.StringArrayVar(&f.Categories, "category", nil,
		"COLUMN=FIRST,SECOND,..: all values that a column can have;\nonce for each. Coefficients are against the "+
			"first one")
	flags.StringVar(&f.By, "by", "", "column of groups, which --category declares: number of rows, mean of the "+
		"target,\nand a fit for each")
	flags.StringVar(&f.Missing, "missing", fit.MissingRefuse,
		"missing values of features: refuse, or middle of the bounds")
	flags.Float64Var(&f.Level, "confidence", 0.95, "confidence level of the intervals")
	flags.BoolVar(&f.DryRun, "dry-run", false, "say what the fit will be able to show; spends nothing")
	flags.IntVar(&f.Rows, "rows", 0, "with --dry-run: number of rows, without a file")
	flags.StringVar(&f.ledger, "ledger", "", "file with what all fits about the same people have spent; by itself: "+
		"print it")
	flags.Float64Var(&f.budget, "budget", 0, "begin the ledger, with this epsilon for all of its fits together")
	flags.BoolVar(&f.json, "json", false, "print the result as one JSON object")
	return cmd
}

// printFit prints what a run ends with.
func printFit(cmd *cobra.Command, r interface{ WriteTable(io.Writer) error }, asJSON bool) error {
	if asJSON {
		return command.PrintJSON(cmd, r)
	}
	return r.WriteTable(cmd.OutOrStdout())
}

// run fits, under the ledger if there is one.
func (f fitFlags) run(cmd *cobra.Command, args []string) (*fit.Result, error) {
	if len(args) == 1 {
		f.File = args[0]
	}
	f.In, f.Noise, f.Now, f.Trust = cmd.InOrStdin(), entropy.New(), time.Now, plan.Channel(f.trust)
	if err := checkConfidence(f.Level); err != nil {
		return nil, err
	}
	f.Warn = func(rows int) { warnDelta(cmd, f.Delta, rows) }
	if f.ledger == "" {
		if f.budget != 0 {
			return nil, errors.New("--budget is of a ledger: name its file with --ledger, too")
		}
		return fit.Run(f.Options)
	}
	l, err := f.open(cmd.Flags().Changed("delta"))
	if err != nil {
		return nil, err
	}
	f.Ledger, f.Delta = l, l.Delta
	f.Charge = func(s fit.Spent, header []string) (fit.Ledger, error) {
		return chargeLedger(f.ledger, *l, f.budget != 0, s, header)
	}
	return fit.Run(f.Options)
}

// open reads the ledger, or begins it in memory if there is a budget.
func (f fitFlags) open(delta bool) (*fit.Ledger, error) {
	if f.budget != 0 {
		l := fit.Ledger{Epsilon: f.budget, Delta: f.Delta}
		if err := l.Check(); err != nil {
			return nil, fmt.Errorf("--budget: %w", err)
		}
		return &l, nil
	}
	l, err := readLedger(f.ledger)
	if err == nil && delta && f.Delta != l.Delta {
		err = fmt.Errorf("--delta %g: the ledger %s counts at delta %g: leave --delta out", f.Delta, f.ledger, l.Delta)
	}
	return l, err
}
