package bench

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
)

// Result is what a benchmark measured. Its JSON form is a stable interface: keys are added, never renamed or removed.
type Result struct {
	Machine    Machine     `json:"machine"`
	Sync       bool        `json:"sync"` // the broker synced the disk before every acknowledgement
	Rows       []Row       `json:"rows"`
	Bounds     Bounds      `json:"bounds"`
	Mixed      []Mixed     `json:"mixed"`
	InMemory   *InMemory   `json:"in_memory,omitempty"`
	Workers    []Working   `json:"workers"`
	Costs      []Cost      `json:"costs"`
	Prices     Prices      `json:"prices"`
	Comparison []Compared  `json:"comparison"`
	Published  []Published `json:"published"`
	Took       []Took      `json:"took"`

	streams []streamed
}

// Took is how long a section ran.
type Took struct {
	Section string  `json:"section"`
	Seconds float64 `json:"seconds"`
}

// Check refuses a result with a row that is not whole, or with sums that differ.
func (r *Result) Check() error {
	var faults []error
	for _, row := range r.Rows {
		faults = append(faults, row.Check())
	}
	for _, w := range r.Workers {
		if !w.Same {
			faults = append(faults, fmt.Errorf("%w: with %d workers the sums differ", ErrRow, w.Workers))
		}
	}
	return errors.Join(faults...)
}

// WriteJSON writes the result as one indented JSON object and a newline.
func (r *Result) WriteJSON(w io.Writer) error {
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	return e.Encode(r)
}

// like reports whether two rows differ in their number of people alone.
func like(a, b Row) bool {
	return a.Role == b.Role && a.Channel == b.Channel && a.Dimension == b.Dimension && a.Source == b.Source &&
		a.Workers == b.Workers
}

// growth fills in how much more memory a person takes than in the smallest run.
func growth(rows []Row) {
	for i := range rows {
		r := &rows[i]
		first := slices.IndexFunc(rows, func(a Row) bool { return like(a, *r) })
		if least := rows[first]; r.Users > least.Users && least.ResidentBytes > 0 && r.ResidentBytes > 0 {
			r.ResidentPerUser = max(0, float64(r.ResidentBytes-least.ResidentBytes)/float64(r.Users-least.Users))
		}
	}
}

// find is the row of a role with the most people of those that devices sealed for; nil if there is none.
func (r *Result) find(role, channel string, dim int) *Row {
	var best *Row
	for i := range r.Rows {
		row := &r.Rows[i]
		if row.Role == role && row.Channel == channel && row.Dimension == dim && row.Source == FromDevices &&
			(best == nil || row.Users > best.Users) {
			best = row
		}
	}
	return best
}
