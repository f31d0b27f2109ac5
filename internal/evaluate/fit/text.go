package fit

import (
	"fmt"
	"io"
	"math"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/riffle-dp/riffle/pkg/plan"
	"github.com/riffle-dp/riffle/pkg/privacy"
)

// WriteTable writes the result as tables and sentences.
func (r *Result) WriteTable(w io.Writer) error {
	var text strings.Builder
	if r.Groups == nil {
		r.table(&text, r.Estimates, "")
	} else {
		r.groups(&text)
	}
	if r.DryRun {
		r.outlook(&text)
	} else {
		r.cautions(&text)
		fmt.Fprintf(&text, "\n%d rows, a number that counts as public; each row is hidden with epsilon %s at delta %g "+
			"(trust %s).\nThat rests on %s.\nValues outside the bounds were clipped to them before the fit.\n", r.Rows,
			privacy.Spell(r.Epsilon), r.Delta, r.Trust, r.RestsOn)
	}
	r.unspent(&text)
	r.balance(&text)
	_, err := io.WriteString(w, text.String())
	return err
}

// mostSpent is the share of the epsilon that was asked for below which a fit says why it spends less.
const mostSpent = 0.95

// unspent says why a fit spends less than it may.
func (r *Result) unspent(w io.Writer) {
	if r.Epsilon < mostSpent*r.Asked {
		_, _ = fmt.Fprintf(w, "\nEpsilon %g was asked for. With so many rows, the least noise of a report of default "+
			"size protects more.\nThe noise of shares and central is finer.\n", r.Asked)
	}
}

// percent is the level of the intervals.
func (r *Result) percent() string { return fmt.Sprintf("%g%%", math.Round(1000*r.Confidence)/10) }

// table has a line for each coefficient.
func (r *Result) table(w io.Writer, e *Estimates, of string) {
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	unit := ""
	if r.Family == Logistic {
		unit = " (log odds)"
	}
	if r.DryRun {
		_, _ = fmt.Fprintf(table, "%s%s on\tinterval to expect (%s): +-\t\n", r.Target, unit, r.percent())
		for _, c := range e.Coefficients {
			half := "-"
			if c.High != nil {
				half = fmt.Sprintf("%.2g", (*c.High-*c.Low)/2)
			}
			_, _ = fmt.Fprintf(table, "%s\t%s\t\n", c.Name, half)
		}
		_ = table.Flush()
		return
	}
	head, errs := fmt.Sprintf("coefficient\tfrom (%s)\tto", r.percent()), slices.ContainsFunc(e.Coefficients,
		func(c Coefficient) bool { return c.Deviation != nil })
	if !e.Intervals {
		head = "coefficient"
	}
	if errs {
		head += "\terror\tof sampling\tof noise"
	}
	_, _ = fmt.Fprintf(w, "%s%s%s on\n", r.Target, unit, of)
	_, _ = fmt.Fprintf(table, "\t%s\t\n", head)
	for _, c := range e.Coefficients {
		line := fmt.Sprintf("%.4g", c.Value)
		if e.Intervals {
			line += "\t" + c.ends()
		}
		if c.Deviation != nil {
			line += fmt.Sprintf("\t%.3g\t%.3g\t%.3g", *c.Deviation, *c.Sampling, *c.Noise)
		} else if errs {
			line += "\t-\t-\t-"
		}
		_, _ = fmt.Fprintf(table, "%s\t%s\t\n", c.Name, line)
	}
	_ = table.Flush()
}

// ends are those of the interval.
func (c Coefficient) ends() string {
	if c.Low == nil {
		return "-\t-"
	}
	return fmt.Sprintf("%.4g\t%.4g", *c.Low, *c.High)
}

// groups has a line for each group, and a table for each if there are features.
func (r *Result) groups(w io.Writer) {
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	_, _ = fmt.Fprintf(table, "%s\trows\tfrom (%s)\tto\tmean %s\tfrom (%s)\tto\t\n", r.By, r.percent(), r.Target,
		r.percent())
	for _, g := range r.Groups {
		mean := "-"
		if g.Mean.Low != nil {
			mean = fmt.Sprintf("%.4g", g.Mean.Value)
		}
		_, _ = fmt.Fprintf(table, "%s\t%.0f\t%.0f\t%.0f\t%s\t%s\t\n", g.Name, math.Max(0, g.Count.Value),
			math.Max(0, *g.Count.Low), math.Max(0, *g.Count.High), mean, g.Mean.ends())
	}
	_ = table.Flush()
	for _, g := range r.Groups {
		if g.Estimates != nil {
			_, _ = fmt.Fprintln(w)
			r.table(w, g.Estimates, fmt.Sprintf(", %s=%s,", r.By, g.Name))
		}
	}
}

// all are the estimates, with words for whose they are.
func (r *Result) all(say func(of string, e *Estimates)) {
	if r.Estimates != nil {
		say("", r.Estimates)
	}
	for _, g := range r.Groups {
		if g.Estimates != nil {
			say(fmt.Sprintf("%s=%s: ", r.By, g.Name), g.Estimates)
		}
	}
}

// cautions say how far the result can be read.
func (r *Result) cautions(w io.Writer) {
	intervals, reliable, weak := r.Groups != nil, false, false
	r.all(func(of string, e *Estimates) {
		intervals, reliable, weak = intervals || e.Intervals, reliable || e.Reliable, weak || len(e.Weak) > 0
		for _, weak := range e.Weak {
			if len(weak.Columns) == 1 {
				_, _ = fmt.Fprintf(w, "\n%s%s hardly varies: its standard deviation is at most %.2g of half the "+
					"width of its bounds.\nLeave it out, or give it narrower bounds if they are publicly known.\n", of,
					weak.Columns[0], weak.Spread)
				continue
			}
			_, _ = fmt.Fprintf(w, "\n%s%s nearly determine each other: their coefficients cannot be told apart,\n"+
				"whatever the budget. Leave one of them out.\n", of, strings.Join(weak.Columns, ", "))
		}
	})
	if weak {
		of := ""
		if r.Groups != nil {
			of = ", of each group alone"
		}
		_, _ = fmt.Fprintf(w, "This was judged from the noised statistics; noise alone says so wrongly in at most "+
			"1%% of fits%s.\n", of)
	}
	r.all(func(of string, e *Estimates) {
		switch {
		case e.Reliable:
		case e.Intervals:
			_, _ = fmt.Fprintf(w, "\n%sThe noise is large: the intervals count it and hold, and there are no\n"+
				"standard errors.\n", of)
		case len(e.Weak) > 0:
			_, _ = fmt.Fprintf(w, "\n%sThere are no intervals, and the coefficients are drawn to 0: do not interpret "+
				"them.\n", of)
		default:
			_, _ = fmt.Fprintf(w, "\n%sThe noise is too large to exclude anything: there are no intervals, and the "+
				"coefficients\nare drawn to 0: do not interpret them. Narrower bounds, fewer features, more "+
				"epsilon and more rows\nhelp. --dry-run counts on columns that spread over their bounds.\n", of)
		}
	})
	if reliable {
		_, _ = fmt.Fprint(w, "\nError is the standard error; the squares of its parts, of sampling and of noise, "+
			"add.\n")
	}
	if intervals {
		_, _ = fmt.Fprintf(w, "\nThe intervals hold if %s.\n", r.Assumes)
	}
	if r.Groups != nil {
		_, _ = fmt.Fprint(w, "Which rows are in which group is hidden, and so is their number: its interval is of "+
			"the noise.\n")
	}
	if slices.ContainsFunc(r.Groups, func(g Group) bool { return g.Mean.Low == nil }) {
		_, _ = fmt.Fprint(w, "A group without a mean has too few rows for an interval of it, or none.\n")
	}
}

// outlook says what a fit will be able to show.
func (r *Result) outlook(w io.Writer) {
	_, _ = fmt.Fprintf(w, "\nNothing was spent, and no value was read. This is for %d rows with epsilon %s at delta "+
		"%g\n(trust %s), if columns are uncorrelated and spread by a third of half the width of their bounds.\nWhere "+
		"they are correlated or spread less, intervals are wider.\n", r.Rows, privacy.Spell(r.Epsilon), r.Delta,
		r.Trust)
	if r.By != "" {
		_, _ = fmt.Fprintf(w, "Every group of %s has these intervals if all have equally many rows.\n", r.By)
	}
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

// balance says what the ledger says.
func (r *Result) balance(w io.Writer) {
	if r.Ledger == nil {
		return
	}
	_, _ = fmt.Fprintln(w)
	if r.DryRun {
		_, _ = fmt.Fprint(w, "The ledger allows this fit. After it: ")
	}
	r.Ledger.sentence(w)
}

// sentence says what was spent, and what is left.
func (b *Balance) sentence(w io.Writer) {
	left := "nothing"
	if b.Left > 0 {
		left = fmt.Sprintf("a fit of epsilon %g", b.Left)
	}
	_, _ = fmt.Fprintf(w, "The ledger has %s, together epsilon %s of %g at delta %g; left for %s.\n",
		number(b.Fits, "fit"), privacy.Spell(b.Spent), b.Epsilon, b.Delta, left)
	if b.Spent+b.Left > b.Epsilon {
		_, _ = fmt.Fprint(w, "Together, fits reveal less than the sum of what each reveals alone.\n")
	}
}

// Statement is what a ledger says, with all of its fits.
func Statement(l Ledger) *Balance {
	b := balance(l, false)
	b.List = l.Fits
	return b
}

// WriteTable writes a line for each fit.
func (b *Balance) WriteTable(w io.Writer) error {
	var text strings.Builder
	table := tabwriter.NewWriter(&text, 0, 0, 2, ' ', 0)
	_, _ = fmt.Fprintln(table, "when\trows\ttrust\tfit\tepsilon alone\t")
	for _, s := range b.List {
		what := s.Family + " of " + s.Target
		if len(s.Features) > 0 {
			what += " on " + strings.Join(s.Features, ", ")
		}
		if s.By != "" {
			what += " by " + s.By
		}
		_, _ = fmt.Fprintf(table, "%s\t%d\t%s\t%s\t%s\t\n", s.At.UTC().Format("2006-01-02 15:04"), s.Rows,
			plan.Channel(s.Trust), what, privacy.Spell(s.Guarantee.Epsilon(b.Delta)))
	}
	_ = table.Flush()
	text.WriteByte('\n')
	b.sentence(&text)
	_, err := io.WriteString(w, text.String())
	return err
}
