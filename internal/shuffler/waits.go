package shuffler

import (
	"fmt"
	"sync"
	"time"
)

// wait is since when something has been waiting.
type wait struct {
	mu      sync.Mutex
	waiting bool
	since   time.Time
}

func (w *wait) set(waiting bool, since time.Time) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.waiting, w.since = waiting, since
}

// tooLong is an error where a report has waited for more than stuckAfter.
func (w *wait) tooLong(now time.Time) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.waiting || now.Sub(w.since) < stuckAfter {
		return nil
	}
	return fmt.Errorf("all %d workers are busy and have decided on no report for %v; "+
		"restart the shuffler if the broker and the disk are well", workers, stuckAfter)
}
