package uniform

import (
	"errors"
	"fmt"
)

// MaxItems is how many items a release may have.
const MaxItems = 1 << 24

// Release is the order of one release, and what is known of where its items came from.
type Release struct {
	// Order has at each place the number of the item that is there. Items are numbered from 0 as they came.
	Order []int
	// Reports has for each item by its number which report it came in, as a number from 0 and below the number of
	// items; nil: not known.
	Reports []int
	// Chunks are how many items left together each time; nil: not known. They may not depend on the order.
	Chunks []int
}

// ErrRelease says that a release is no permutation, or that what is said of its items does not fit.
var ErrRelease = errors.New("not a release")

// Check returns ErrRelease with what is wrong.
func (r *Release) Check() error {
	n := len(r.Order)
	if n > MaxItems {
		return fmt.Errorf("%w: %d items, at most %d are judged", ErrRelease, n, MaxItems)
	}
	seen := make([]bool, n)
	for place, item := range r.Order {
		if item < 0 || item >= n {
			return fmt.Errorf("%w: item %d at place %d: must be from 0 to %d", ErrRelease, item, place, n-1)
		}
		if seen[item] {
			return fmt.Errorf("%w: item %d is there twice", ErrRelease, item)
		}
		seen[item] = true
	}
	if r.Reports != nil && len(r.Reports) != n {
		return fmt.Errorf("%w: the reports of %d items, there are %d", ErrRelease, len(r.Reports), n)
	}
	for item, report := range r.Reports {
		if report < 0 || report >= n {
			return fmt.Errorf("%w: report %d of item %d: must be from 0 to %d", ErrRelease, report, item, n-1)
		}
	}
	sum := 0
	for _, c := range r.Chunks {
		if c < 1 || c > n {
			return fmt.Errorf("%w: a chunk of %d items of %d", ErrRelease, c, n)
		}
		sum += c
	}
	if r.Chunks != nil && sum != n {
		return fmt.Errorf("%w: chunks of %d items, there are %d", ErrRelease, sum, n)
	}
	return nil
}
