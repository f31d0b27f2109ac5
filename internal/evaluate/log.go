// Package evaluate values a policy on a log that another policy made, without playing it: off-policy evaluation.
//
// A log holds decisions with the probability with which each arm was played. Devices know that probability: it comes
// with every decision (glm.Decision.Propensity). Make a log only of people who agreed to it, or keep it on the devices.
// Riffle itself never sends it anywhere. The estimates are not private: they are for those who hold the log anyway.
package evaluate

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"

	"github.com/riffle-dp/riffle/pkg/glm/family"
	"github.com/riffle-dp/riffle/pkg/strict"
)

// ErrLog wraps every reason to refuse a log.
var ErrLog = errors.New("evaluate: bad log")

// Decision is one line of a log.
type Decision struct {
	Arms       [][]float64 `json:"arms"`       // all arms that could be played; a policy scales longer ones to norm 1
	Arm        int         `json:"arm"`        // index of the arm played
	Reward     float64     `json:"reward"`     // reward of that arm
	Propensity float64     `json:"propensity"` // probability with which it was played, in (0, 1]
}

// Writer writes decisions as Read reads them, one at a time.
type Writer struct{ lines *json.Encoder }

// NewWriter writes to out. The caller flushes and closes it.
func NewWriter(out io.Writer) *Writer { return &Writer{json.NewEncoder(out)} }

// Write refuses a decision that Read would (ErrLog), but for the range of rewards.
func (w *Writer) Write(d Decision) error {
	if err := d.check(); err != nil {
		return fmt.Errorf("%w: %w", ErrLog, err)
	}
	return w.lines.Encode(d)
}

// ReadOptions of Read.
type ReadOptions struct {
	Family family.Family // its range holds all rewards; nil: any finite rewards
	Strict bool          // refuse fields that a decision does not have, which a log may have for its own use
}

const example = `{"arms": [[0.2, 1], [0.4, 0]], "arm": 1, "reward": 1, "propensity": 0.25}`

// Read reads a log of JSON Lines and skips blank lines. A line that is not a whole decision is an error that names the
// line: to leave it out, or to take what it lacks for zero, would bias the estimates.
func Read(in io.Reader, o ReadOptions) ([]Decision, error) {
	var log []Decision
	for row, err := range strict.Rows[Decision](in, strict.Options{Unknown: !o.Strict}) {
		if _, ok := errors.AsType[*strict.Error](err); ok {
			return nil, fmt.Errorf("%w: %w. A line is like %s", ErrLog, err, example)
		}
		if err != nil {
			return nil, fmt.Errorf("%w: %w", ErrLog, err)
		}
		d := row.Value
		if err = d.check(); err == nil {
			err = d.fits(o.Family)
		}
		if err == nil && len(log) > 0 && len(d.Arms[0]) != len(log[0].Arms[0]) {
			err = fmt.Errorf("its arms have dimension %d, those before %d: all arms of a log must be alike",
				len(d.Arms[0]), len(log[0].Arms[0]))
		}
		if err != nil {
			return nil, fmt.Errorf("%w: line %d: %w", ErrLog, row.Line, err)
		}
		log = append(log, d)
	}
	return log, nil
}

// Largest is the largest number that an arm or a parameter may have: products and squares of it are numbers.
const Largest = 1e100

func (d Decision) check() error {
	if len(d.Arms) == 0 {
		return errors.New(`"arms" is empty: list the features of every arm that could be played`)
	}
	if d.Arm < 0 || d.Arm >= len(d.Arms) {
		return fmt.Errorf(`"arm" is none of the %d arms: it is the index of the one played, from 0`, len(d.Arms))
	}
	for i, x := range d.Arms {
		if len(x) == 0 {
			return fmt.Errorf(`"arms[%d]" is empty: give at least one number`, i)
		}
		if len(x) != len(d.Arms[0]) {
			return fmt.Errorf(`"arms[%d]" has dimension %d, "arms[0]" has %d: all arms must be alike`,
				i, len(x), len(d.Arms[0]))
		}
		for j, v := range x {
			if !(math.Abs(v) <= Largest) {
				return fmt.Errorf(`"arms[%d][%d]" is beyond %g: scale the features to norm 1`, i, j, Largest)
			}
		}
	}
	if math.IsNaN(d.Reward) || math.IsInf(d.Reward, 0) {
		return errors.New(`"reward" must be a finite number`)
	}
	if !(d.Propensity > 0 && d.Propensity <= 1) {
		return errors.New(`"propensity" must be above 0 and at most 1: it is the probability of the arm played`)
	}
	return nil
}

// fits reports whether the reward is of the family's range.
func (d Decision) fits(f family.Family) error {
	if f == nil || d.Reward >= f.MinReward() && d.Reward <= f.MaxReward() {
		return nil
	}
	return fmt.Errorf(`"reward" is not from %g to %g, as in this family: give the family and the largest reward`,
		f.MinReward(), f.MaxReward())
}
