// Package decisions reads logs of decisions: which arms could be played, which one was, with what probability, and what
// it earned. Every command that takes people's logs reads them here.
//
// A log is JSON Lines, CSV as pkg/table reads it, or Vowpal Wabbit's text (cb, cb_explore_adf) or dsjson; all may be
// compressed with gzip. What it is, its content says. Columns have roles (Columns). Arms are vectors, or they are
// named, and a schema makes the vectors as devices do (pkg/feature). What cannot be read as it was meant is refused
// with the line, the column and what to do. No error quotes a value.
//
// Devices know the probability: it comes with every decision (glm.Decision.Propensity). Make a log only of people who
// agreed to it, or keep it on the devices. Riffle itself never sends it anywhere.
package decisions

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"os"
	"slices"
	"strings"

	"github.com/riffle-dp/riffle/pkg/feature"
	"github.com/riffle-dp/riffle/pkg/glm/family"
	"github.com/riffle-dp/riffle/pkg/strict"
	"github.com/riffle-dp/riffle/pkg/table"
)

// ErrLog wraps every reason to refuse a log.
var ErrLog = errors.New("bad log")

// Options of a reader.
type Options struct {
	Columns Columns         // which columns have which role; those that are not named have the role's own name
	Schema  *feature.Schema // makes vectors of named arms and of what is known of a person; nil: the log has vectors
	Family  family.Family   // its range holds all rewards; nil: any finite rewards
	Every   bool            // read the reward of every arm, in place of the arm played, its reward and its propensity
	Strict  bool            // refuse columns without a role, which a log may have for its own use
	// DropWithoutReward leaves out rows that have no reward, and counts them. Without it they are refused.
	DropWithoutReward bool
}

// Log is a log in memory.
type Log struct {
	Decisions []Decision // all of one dimension
	Dropped   int        // rows that were left out because they have no reward
}

// Lines of logs, as errors show them.
const (
	example      = `{"arms": [[0.2, 1], [0.4, 0]], "arm": 1, "reward": 1, "propensity": 0.25}`
	exampleEvery = `{"arms": [[0.2, 1], [0.4, 0]], "rewards": [0, 1]}`
)

// besides is what the name of a file of columns has behind that of its log.
const besides = ".columns.yaml"

// Beside are the options with the columns of FILE.columns.yaml beside a log, if it is there and none are given.
func (o Options) Beside(path string) (Options, error) {
	if o.Columns != nil {
		return o, nil
	}
	c, err := ReadColumns(path + besides)
	if errors.Is(err, fs.ErrNotExist) {
		err = nil
	}
	o.Columns = c
	return o, err
}

// Open reads a file whole. Without o.Columns it takes those of the file FILE.columns.yaml beside it, if there is one.
func Open(path string, o Options) (*Log, error) {
	o, err := o.Beside(path)
	if err != nil {
		return nil, err
	}
	in, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer func() { _ = in.Close() }()
	log, err := Read(in, o)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return log, nil
}

// Read reads a log whole.
func Read(in io.Reader, o Options) (*Log, error) {
	log := &Log{}
	for d, err := range Rows(in, o) {
		switch {
		case errors.Is(err, ErrNoReward):
			log.Dropped++
		case err != nil:
			return nil, err
		default:
			log.Decisions = append(log.Decisions, d)
		}
	}
	return log, nil
}

// Rows reads a log one decision at a time; memory holds one. A row that is not a whole decision is an error that names
// the line, and ends the sequence: to leave it out, or to take what it lacks for zero, would bias what is learnt from
// the log.
func Rows(in io.Reader, o Options) iter.Seq2[Decision, error] {
	return func(yield func(Decision, error) bool) {
		for d, err := range decided(in, o) {
			switch {
			case errors.Is(err, table.ErrTable):
				_, said, _ := strings.Cut(err.Error(), ": ") // without the name of the other package
				err = fmt.Errorf("%w: %s", ErrLog, said)
			case err != nil && !errors.Is(err, ErrNoReward):
				err = fmt.Errorf("%w: %w", ErrLog, err)
			}
			if !yield(d, err) {
				return
			}
		}
	}
}

// lineError is an error about a line.
type lineError struct {
	line int
	err  error
}

func (e lineError) Error() string { return fmt.Sprintf("line %d: %v", e.line, e.err) }
func (e lineError) Unwrap() error { return e.err }

// at is an error about a line.
func at(line int, err error) error { return lineError{line, err} }

// located is an error that names its line, or the whole file.
func (o Options) located(err error, line int) error {
	if _, at := errors.AsType[lineError](err); at || err == nil || errors.Is(err, ErrNoReward) ||
		errors.Is(err, table.ErrTable) {
		return err
	}
	if said, ok := errors.AsType[*strict.Error](err); ok {
		switch {
		case said.Field != "":
			return err
		case o.Every:
			return fmt.Errorf("%w. A line is like %s", err, exampleEvery)
		}
		return fmt.Errorf("%w. A line is like %s", err, example)
	}
	return at(line, err)
}

// decided reads a log of any form.
func decided(in io.Reader, o Options) iter.Seq2[Decision, error] {
	return func(yield func(Decision, error) bool) {
		rows, b, err := open(in, o)
		if err != nil {
			yield(Decision{}, err)
			return
		}
		var names []string
		for r, err := range rows {
			if err == nil && r.names != nil && !slices.Equal(r.names, names) {
				names = r.names
				err = b.extra(names)
			}
			var d Decision
			if err == nil {
				d, err = b.decision(r)
			}
			err = o.located(err, r.line)
			if !yield(d, err) || err != nil && !errors.Is(err, ErrNoReward) {
				return
			}
		}
		if err := b.end(); err != nil {
			yield(Decision{}, err)
		}
	}
}

// form is what a log is.
type form struct {
	columns map[string]string // that have a role by themselves
	fixed   bool              // roles cannot be given to others
}

// open tells what a log is.
func open(in io.Reader, o Options) (iter.Seq2[row, error], *builder, error) {
	text, err := table.Plain(in)
	if err != nil {
		return nil, nil, err
	}
	start, err := table.First(text)
	if err != nil {
		return nil, nil, err
	}
	vw, adf := isVW(text)
	switch {
	case start == '[':
		return nil, nil, errors.New("it is one JSON array: write JSON Lines, an object for each decision without " +
			"commas between; in Python with pandas: to_json(FILE, orient=\"records\", lines=True)")
	case start == '{':
		return openJSON(text, o)
	case adf:
		b, err := newBuilder(o, form{adfColumns, true})
		return vwADF(text), b, err
	case vw:
		b, err := newBuilder(o, form{vwColumns, true})
		return vwCB(text), b, err
	}
	return openCells(text, o)
}
