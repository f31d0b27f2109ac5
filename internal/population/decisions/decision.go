package decisions

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"

	"github.com/riffle-dp/riffle/pkg/feature"
)

// Decision is one decision of a log.
type Decision struct {
	Arms       [][]float64 `json:"arms"`       // all arms that could be played; a policy scales longer ones to norm 1
	Arm        int         `json:"arm"`        // index of the arm played
	Reward     float64     `json:"reward"`     // reward of that arm
	Propensity float64     `json:"propensity"` // probability with which it was played, in (0, 1]

	Rewards []float64 `json:"-"` // of every arm, where they were asked for: Arm, Reward and Propensity are then 0
	// Named are the context and the arms that Arms was made of by a schema, where the rewards of every arm were asked
	// for.
	Named *Named `json:"-"`

	ID   string `json:"-"` // what the log calls the decision; mostly empty
	Line int    `json:"-"` // of the file, from 1; 0: of no file
}

// Named are a context and arms as an app knows them.
type Named struct {
	Context feature.Values
	Arms    []feature.Arm
}

// Largest is the largest number that an arm or a parameter may have: products and squares of it are numbers.
const Largest = 1e100

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

func (d Decision) check() error {
	if err := d.checkArms(); err != nil {
		return err
	}
	if d.Arm < 0 || d.Arm >= len(d.Arms) {
		return fmt.Errorf(`"arm" is none of the %d arms: it is the index of the one played, from 0`, len(d.Arms))
	}
	if math.IsNaN(d.Reward) || math.IsInf(d.Reward, 0) {
		return errors.New(`"reward" must be a finite number`)
	}
	if !(d.Propensity > 0 && d.Propensity <= 1) {
		return errors.New(`"propensity" must be above 0 and at most 1: it is the probability of the arm played`)
	}
	return nil
}

func (d Decision) checkArms() error {
	if len(d.Arms) == 0 {
		return errors.New(`"arms" is empty: list the features of every arm that could be played`)
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
	return nil
}
