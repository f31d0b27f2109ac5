package load

import (
	"slices"
	"sync"

	"github.com/riffle-dp/riffle/pkg/glm/statistic"
)

// truth keeps the records that the devices of this process's people hold. It exists because this process is the people;
// no role of a deployment has anything like it.
type truth struct {
	mu     sync.Mutex
	epochs map[uint64]*cohort
}

// cohort is what is known of one epoch's sampled people.
type cohort struct {
	sampled int     // people who were told that they are
	silent  int     // devices that may be enrolled although no person was told so: they hold the null record
	records records // of the people whose reward was accepted; all others are null
	unsure  string  // why the records are not all known; empty: they are
}

// records are arms with their rewards, one after another in blocks that are filled and never moved: a cohort of a
// million is kept in little more than its numbers, without a slice for each arm. All arms have one length.
type records struct {
	n, arm int
	blocks [][]float64
}

// recordBlock is how many records a block holds.
const recordBlock = 4096

// add keeps a copy.
func (r *records) add(arm []float64, reward float64) {
	r.arm = len(arm)
	if r.n%recordBlock == 0 {
		r.blocks = append(r.blocks, make([]float64, 0, recordBlock*(r.arm+1)))
	}
	last := &r.blocks[len(r.blocks)-1]
	*last = append(append(*last, arm...), reward)
	r.n++
}

// all yields the records, whose arms may not be changed.
func (r records) all(yield func(statistic.Record) bool) {
	for _, block := range r.blocks {
		for record := range slices.Chunk(block, r.arm+1) {
			if !yield(statistic.Record{Arm: record[:r.arm:r.arm], Reward: record[r.arm], Weight: 1}) {
				return
			}
		}
	}
}

func newTruth() *truth { return &truth{epochs: map[uint64]*cohort{}} }

func (t *truth) change(epoch uint64, f func(*cohort)) {
	t.mu.Lock()
	defer t.mu.Unlock()
	c := t.epochs[epoch]
	if c == nil {
		c = &cohort{}
		t.epochs[epoch] = c
	}
	f(c)
}

// addSampled counts a person whose device will report.
func (t *truth) addSampled(epoch uint64) { t.change(epoch, func(c *cohort) { c.sampled++ }) }

// silent counts a device that may report, and then nothing but the null record.
func (t *truth) silent(epoch uint64) { t.change(epoch, func(c *cohort) { c.silent++ }) }

// addRewarded keeps the record of a sampled person whose reward was accepted.
func (t *truth) addRewarded(epoch uint64, arm []float64, reward float64) {
	t.change(epoch, func(c *cohort) { c.records.add(arm, reward) })
}

// doubt says that a record of the epoch is not known.
func (t *truth) doubt(epoch uint64, why string) {
	t.change(epoch, func(c *cohort) {
		if c.unsure == "" {
			c.unsure = why
		}
	})
}

// of returns what is known of an epoch.
func (t *truth) of(epoch uint64) cohort {
	t.mu.Lock()
	defer t.mu.Unlock()
	if c := t.epochs[epoch]; c != nil {
		return *c
	}
	return cohort{}
}
