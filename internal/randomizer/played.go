package randomizer

import (
	"slices"
	"sync"

	"github.com/riffle-dp/riffle/pkg/device"
	"github.com/riffle-dp/riffle/pkg/glm"
)

// played counts how often the devices of this host played the arms that the announced schema limits, in the epoch in
// force, whether or not a device reports on it. It is in memory only: a restart forgets it, and so does the
// announcement of another epoch.
//
// What it holds is behind a function, like a device.Record: nothing of it can be printed.
type played struct{ open func() *counts }

type counts struct {
	mu    sync.Mutex
	epoch uint64
	times map[*seat]map[string]uint32 // by the arm's id
}

func newPlayed() played {
	c := new(counts)
	return played{func() *counts { return c }}
}

// begin forgets all other epochs.
func (p played) begin(epoch uint64) {
	c := p.open()
	c.mu.Lock()
	defer c.mu.Unlock()
	if epoch != c.epoch {
		c.epoch, c.times = epoch, map[*seat]map[string]uint32{}
	}
}

// decide is a decision of the announced policy. Arms that the device played as often as it may are excluded.
func (p played) decide(s *seat, a *device.Announced, set Arms, src glm.Source) (glm.Decision, error) {
	if a.Features == nil || len(a.Features.Limits()) == 0 || set.IDs == nil {
		return a.Policy.DecideFor(set.Vectors, set.Choice, src)
	}
	c := p.open()
	for {
		choice := set.Choice
		choice.Excluded = slices.Concat(choice.Excluded, c.full(s, a, set.IDs))
		made, err := a.Policy.DecideFor(set.Vectors, choice, src)
		if err != nil || c.take(s, a, set.IDs[made.Arm]) {
			return made, err
		} // else another decision of this device played the arm for the last time meanwhile
	}
}

// full lists the arms that the device may not play again in this epoch. An epoch that is over is not counted.
func (c *counts) full(s *seat, a *device.Announced, ids []string) (arms []int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for i, id := range ids {
		if most, limited := a.Features.AtMost(id); limited && a.Epoch == c.epoch && c.times[s][id] >= most {
			arms = append(arms, i)
		}
	}
	return arms
}

// take notes that the device plays the arm, if it still may.
func (c *counts) take(s *seat, a *device.Announced, id string) bool {
	most, limited := a.Features.AtMost(id)
	c.mu.Lock()
	defer c.mu.Unlock()
	if !limited || a.Epoch != c.epoch {
		return true
	}
	if c.times[s][id] >= most {
		return false
	}
	if c.times[s] == nil {
		c.times[s] = map[string]uint32{}
	}
	c.times[s][id]++
	return true
}
