package load

import (
	"sync"

	"github.com/riffle-dp/riffle/pkg/glm"
)

// truth keeps the records that the devices of this process's people hold. It exists because this process is the people;
// no role of a deployment has anything like it.
type truth struct {
	mu     sync.Mutex
	epochs map[uint64]*cohort
}

// cohort is what is known of one epoch's sampled people.
type cohort struct {
	sampled int          // people who were told that they are
	silent  int          // devices that may be enrolled although no person was told so: they hold the null record
	records []glm.Record // of the people whose reward was accepted; all others are null
	unsure  string       // why the records are not all known; empty: they are
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

// sampled counts a person whose device will report.
func (t *truth) sampled(epoch uint64) { t.change(epoch, func(c *cohort) { c.sampled++ }) }

// silent counts a device that may report, and then nothing but the null record.
func (t *truth) silent(epoch uint64) { t.change(epoch, func(c *cohort) { c.silent++ }) }

// rewarded keeps the record of a sampled person whose reward was accepted.
func (t *truth) rewarded(epoch uint64, arm []float64, reward float64) {
	t.change(epoch, func(c *cohort) { c.records = append(c.records, glm.Record{Arm: arm, Reward: reward, Weight: 1}) })
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
