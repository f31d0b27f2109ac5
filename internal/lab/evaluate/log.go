// Package evaluate values a policy on a log that another policy made, without playing it: off-policy evaluation.
//
// A log holds decisions with the probability with which each arm was played. Devices know that probability: it comes
// with every decision (glm.Decision.Propensity). Make a log only of people who agreed to it, or keep it on the devices.
// Riffle itself never sends it anywhere. The estimates are not private: they are for those who hold the log anyway.
package evaluate

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
)

// ErrLog wraps every reason to refuse a log.
var ErrLog = errors.New("evaluate: bad log")

// Decision is one line of a log.
type Decision struct {
	Arms       [][]float64 `json:"arms"`       // all arms that could be played, norm at most 1
	Arm        int         `json:"arm"`        // index of the arm played
	Reward     float64     `json:"reward"`     // reward of that arm
	Propensity float64     `json:"propensity"` // probability with which it was played, in (0, 1]
}

const maxLine = 1 << 20

// Writer writes decisions as Read reads them, one at a time.
type Writer struct{ lines *json.Encoder }

// NewWriter writes to out. The caller flushes and closes it.
func NewWriter(out io.Writer) *Writer { return &Writer{json.NewEncoder(out)} }

// Write refuses a decision that Read would (ErrLog).
func (w *Writer) Write(d Decision) error {
	if err := d.check(); err != nil {
		return fmt.Errorf("%w: %w", ErrLog, err)
	}
	return w.lines.Encode(d)
}

// Read reads a log of JSON Lines and skips blank lines. A line that is not a decision is an error that names the line:
// leaving it out would bias the estimates.
func Read(in io.Reader) ([]Decision, error) {
	lines := bufio.NewScanner(in)
	lines.Buffer(make([]byte, 0, 1<<16), maxLine)
	var log []Decision
	n := 0
	for lines.Scan() {
		n++
		text := bytes.TrimSpace(lines.Bytes())
		if len(text) == 0 {
			continue
		}
		var d Decision
		decoder := json.NewDecoder(bytes.NewReader(text))
		decoder.DisallowUnknownFields()
		if err := decoder.Decode(&d); err != nil {
			return nil, fmt.Errorf("%w: line %d: %w", ErrLog, n, err)
		}
		if decoder.More() {
			return nil, fmt.Errorf("%w: line %d: more than one decision", ErrLog, n)
		}
		if err := d.check(); err != nil {
			return nil, fmt.Errorf("%w: line %d: %w", ErrLog, n, err)
		}
		if len(log) > 0 && len(d.Arms[0]) != len(log[0].Arms[0]) {
			return nil, fmt.Errorf("%w: line %d: arms of dimension %d, before of %d", ErrLog, n,
				len(d.Arms[0]), len(log[0].Arms[0]))
		}
		log = append(log, d)
	}
	if err := lines.Err(); err != nil {
		return nil, fmt.Errorf("%w: line %d: %w", ErrLog, n+1, err)
	}
	return log, nil
}

func (d Decision) check() error {
	if len(d.Arms) == 0 || d.Arm < 0 || d.Arm >= len(d.Arms) {
		return fmt.Errorf("arm %d of %d", d.Arm, len(d.Arms))
	}
	for i, x := range d.Arms {
		if len(x) == 0 || len(x) != len(d.Arms[0]) {
			return fmt.Errorf("arm %d has dimension %d, arm 0 has %d", i, len(x), len(d.Arms[0]))
		}
	}
	if math.IsNaN(d.Reward) || math.IsInf(d.Reward, 0) {
		return fmt.Errorf("reward %v", d.Reward)
	}
	if !(d.Propensity > 0 && d.Propensity <= 1) {
		return fmt.Errorf("propensity %v must be in (0, 1]", d.Propensity)
	}
	return nil
}
