package fit

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/riffle-dp/riffle/internal/play"
	"github.com/riffle-dp/riffle/pkg/learn"
	"github.com/riffle-dp/riffle/pkg/learn/estimate"
	"github.com/riffle-dp/riffle/pkg/plan"
	"github.com/riffle-dp/riffle/pkg/privacy"
	"github.com/riffle-dp/riffle/pkg/protocol"
	"github.com/riffle-dp/riffle/pkg/strict"
	"github.com/riffle-dp/riffle/pkg/table"
)

// Families of regressions.
const (
	Linear   = "linear"
	Logistic = "logistic"
)

// Options are what a person says of a fit.
type Options struct {
	File  string // "-" is In; empty in a dry run that has Rows
	In    io.Reader
	Trust plan.Channel
	// Family, Target and Missing are as the command line has them.
	Family, Target, Missing      string
	By                           string // the column of the groups; empty: none
	BoundsFile                   string
	Features, Bounds, Categories []string
	Epsilon, Delta, Level        float64
	DryRun                       bool
	Rows                         int
	Noise                        protocol.Source
	// Ledger, if not nil, is what was spent before. Charge counts a fit in it, durably, and refuses one that it does
	// not allow; it returns the ledger after it.
	Ledger *Ledger
	Charge func(s Spent, header []string) (Ledger, error)
	Now    func() time.Time
	Warn   func(rows int) // is told how many rows there are, before anything is drawn
}

// check refuses options before anything is read.
func (o Options) check() error {
	switch {
	case !slices.Contains(plan.Channels(), o.Trust):
		return fmt.Errorf("--trust %q: want %s", o.Trust, strict.List(plan.Channels(), "or"))
	case o.Family != Linear && o.Family != Logistic:
		return fmt.Errorf("--family %q: want linear or logistic", o.Family)
	case o.Target == "":
		return errors.New("--target is missing: name the column to predict")
	case o.Missing != MissingRefuse && o.Missing != MissingMiddle:
		return fmt.Errorf("--missing %q: want refuse or middle", o.Missing)
	case o.Rows != 0 && !o.DryRun:
		return errors.New("--rows is for --dry-run: a fit counts the rows of its file")
	case o.DryRun && (o.Rows != 0) == (o.File != ""):
		return errors.New("--dry-run needs a FILE or --rows: give one of them")
	case !o.DryRun && o.File == "":
		return errors.New("there is no FILE: name the table to fit, or - for standard input")
	case o.By == o.Target:
		return fmt.Errorf("--by %s: groups are by another column than the target", o.By)
	}
	if err := privacy.CheckEpsilon(o.Epsilon); err != nil {
		return fmt.Errorf("--epsilon: %w", err)
	}
	if err := privacy.CheckDelta(o.Delta); err != nil {
		return fmt.Errorf("--delta: %w", err)
	}
	return nil
}

// Run reads, fits and names.
func Run(o Options) (*Result, error) {
	if err := o.check(); err != nil {
		return nil, err
	}
	c, err := o.declared()
	if err != nil {
		return nil, err
	}
	var data *table.Table
	var header []string
	count := o.Rows
	if o.File != "" {
		if data, err = readTable(o.File, o.In); err != nil {
			return nil, err
		}
		header, count = data.Columns, data.Rows()
		for _, name := range append(append(slices.Clone(c.order), o.Features...), o.Target) {
			if err := data.Has(name); err != nil {
				return nil, err
			}
		}
	}
	d, err := o.design(c, header)
	if err != nil {
		return nil, err
	}
	with := d.with
	with.Epsilon, with.Delta, with.Level, with.Local = o.Epsilon, o.Delta, o.Level, o.Trust == plan.Local
	if o.Ledger != nil {
		with.Delta = o.Ledger.FitDelta(o.binomial())
	}
	if o.binomial() {
		with.Encode = encoder(play.Channel{Trust: o.Trust, Epsilon: o.Epsilon, Delta: with.Delta})
	}
	o.Warn(count)
	charged := Spent{Family: o.Family, Trust: string(o.Trust), Target: o.Target, Features: d.features, By: o.By,
		Rows: count}
	if o.DryRun {
		return o.dryResult(with, d, charged, header)
	}
	rows, target, err := o.rows(data, c, d)
	if err != nil {
		return nil, err
	}
	with.Noise = o.Noise
	var after Ledger
	with.Spend = func(g privacy.Guarantee) error {
		if o.Ledger == nil {
			return nil
		}
		charged.Guarantee, charged.At = g, o.Now()
		var err error
		after, err = o.Charge(charged, header)
		return err
	}
	r, err := o.fit(with, d, rows, target, data, c)
	if err == nil && o.Ledger != nil {
		r.Ledger = balance(after, o.binomial())
	}
	return r, err
}

// binomial reports whether the noise is: devices send integers.
func (o Options) binomial() bool { return o.Trust == plan.Shuffle || o.Trust == plan.Shares }

// fit fits all rows, or those of each group.
func (o Options) fit(with estimate.Fit, d design, rows [][]float64, target []float64, data *table.Table, c columns,
) (*Result, error) {
	if o.By != "" {
		group, err := o.groups(data, c)
		if err != nil {
			return nil, err
		}
		all, err := with.ByGroup(rows, target, group, o.Family == Logistic)
		if err != nil {
			return nil, err
		}
		return o.groupResult(all, d, len(rows)), nil
	}
	fit := with.Linear
	if o.Family == Logistic {
		fit = with.Logistic
	}
	fitted, err := fit(rows, target)
	if err != nil {
		return nil, err
	}
	return o.result(fitted, d), nil
}

// encoder plans the encodings of a channel whose devices send integers, with the default terms of a deployment.
func encoder(channel play.Channel) func(privacy.Vector, []float64, int) ([]protocol.Encoding, privacy.Guarantee,
	error) {
	return func(v privacy.Vector, shares []float64, rows int) ([]protocol.Encoding, privacy.Guarantee, error) {
		q := learn.Question{Form: learn.Sums, People: rows}
		for _, share := range shares {
			q.Statistics = append(q.Statistics, learn.Statistic{Name: v.Name, Lower: v.Lower, Upper: v.Upper,
				Diameter: v.Diameter, Share: share})
		}
		solution, err := channel.Solution(q)
		if err != nil {
			return nil, privacy.NoGuarantee(), err
		}
		var out []protocol.Encoding
		for _, r := range solution.Releases {
			out = append(out, r.Encoding)
		}
		return out, solution.Guarantee, nil
	}
}
