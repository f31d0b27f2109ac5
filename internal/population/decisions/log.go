// Package decisions reads logs of decisions: which arms could be played, which one was, with what probability, and what
// it earned. Every command that takes people's logs reads them here.
//
// Devices know the probability: it comes with every decision (glm.Decision.Propensity). Make a log only of people who
// agreed to it, or keep it on the devices. Riffle itself never sends it anywhere.
package decisions

import (
	"errors"
	"fmt"
	"io"
	"iter"
	"os"

	"github.com/riffle-dp/riffle/pkg/feature"
	"github.com/riffle-dp/riffle/pkg/glm/family"
	"github.com/riffle-dp/riffle/pkg/strict"
)

// ErrLog wraps every reason to refuse a log.
var ErrLog = errors.New("decisions: bad log")

// Options of a reader.
type Options struct {
	Schema *feature.Schema // makes vectors of named features; nil: the log has vectors
	Family family.Family   // its range holds all rewards; nil: any finite rewards
	Strict bool            // refuse fields that a decision does not have, which a log may have for its own use
}

// Log is a log in memory.
type Log struct {
	Decisions []Decision // all of one dimension
}

const example = `{"arms": [[0.2, 1], [0.4, 0]], "arm": 1, "reward": 1, "propensity": 0.25}`

// Open reads a file whole.
func Open(path string, o Options) (*Log, error) {
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
		if err != nil {
			return nil, err
		}
		log.Decisions = append(log.Decisions, d)
	}
	return log, nil
}

// Rows reads a log one decision at a time; memory holds one. A line that is not a whole decision is an error that names
// the line, and ends the sequence: to leave it out, or to take what it lacks for zero, would bias what is learnt from
// the log.
func Rows(in io.Reader, o Options) iter.Seq2[Decision, error] {
	return func(yield func(Decision, error) bool) {
		dimension := 0
		for row, err := range strict.Rows[Decision](in, strict.Options{Unknown: !o.Strict}) {
			if _, ok := errors.AsType[*strict.Error](err); ok {
				err = fmt.Errorf("%w: %w. A line is like %s", ErrLog, err, example)
			} else if err != nil {
				err = fmt.Errorf("%w: %w", ErrLog, err)
			}
			if err != nil {
				yield(Decision{}, err)
				return
			}
			d := row.Value
			d.Line = row.Line
			if err = d.check(); err == nil {
				err = d.fits(o.Family)
			}
			if err == nil && dimension > 0 && len(d.Arms[0]) != dimension {
				err = fmt.Errorf("its arms have dimension %d, those before %d: all arms of a log must be alike",
					len(d.Arms[0]), dimension)
			}
			if err != nil {
				yield(Decision{}, fmt.Errorf("%w: line %d: %w", ErrLog, row.Line, err))
				return
			}
			dimension = len(d.Arms[0])
			if !yield(d, nil) {
				return
			}
		}
	}
}
