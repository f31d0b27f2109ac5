package randomizer

import (
	"hash/maphash"
	"maps"
	"slices"
	"sync"

	"github.com/riffle-dp/riffle/internal/randomizer/api"
	"github.com/riffle-dp/riffle/pkg/device"
	"github.com/riffle-dp/riffle/pkg/glm"
	"github.com/riffle-dp/riffle/pkg/protocol"
)

// mostPlayed bounds the counts of an epoch, some 60 bytes each: an app may make up names, and people who have no place
// on the host are counted too.
const mostPlayed = 1 << 20

// played counts how often the devices of this host played the arms that the announced schema limits, in the epoch in
// force, whether or not a device reports on it or has a place. It is in memory only: a restart forgets it, and so does
// the announcement of another epoch. Where it is full, a device that it has no count of plays no arm that has a limit.
//
// What it holds is behind a function, like a device.Record: nothing of it can be printed.
type played struct{ open func() *counts }

type counts struct {
	mu    sync.Mutex
	epoch uint64
	seed  maphash.Seed
	most  int // mostPlayed, but for tests
	times map[play]uint32
}

// play is a device and the id of an arm, by the hash of its name: of two that have the same, which happens with a
// chance of 1 in 2^64, both have what the two played.
type play struct {
	device uint64
	arm    string
}

func newPlayed() played {
	c := &counts{seed: maphash.MakeSeed(), most: mostPlayed}
	return played{func() *counts { return c }}
}

// begin forgets all other epochs.
func (p played) begin(epoch uint64) {
	c := p.open()
	c.mu.Lock()
	defer c.mu.Unlock()
	if epoch != c.epoch {
		c.epoch, c.times = epoch, map[play]uint32{}
	}
}

// forget forgets what a device played.
func (p played) forget(name string) {
	c := p.open()
	by := maphash.String(c.seed, name)
	c.mu.Lock()
	defer c.mu.Unlock()
	maps.DeleteFunc(c.times, func(of play, _ uint32) bool { return of.device == by })
}

// decide is a decision of the announced policy. Arms that the device played as often as it may are excluded.
func (p played) decide(name string, a *device.Announced, set api.Arms, src protocol.Source) (glm.Decision, error) {
	if a.Features == nil || len(a.Features.Limits()) == 0 || set.IDs == nil {
		return a.Policy.DecideFor(set.Vectors, set.Choice, src)
	}
	c := p.open()
	by := maphash.String(c.seed, name)
	for {
		choice := set.Choice
		choice.Excluded = slices.Concat(choice.Excluded, c.full(by, a, set.IDs))
		made, err := a.Policy.DecideFor(set.Vectors, choice, src)
		if err != nil || c.take(play{by, set.IDs[made.Arm]}, a) {
			return made, err
		} // else another decision of this device played the arm for the last time meanwhile
	}
}

// full lists the arms that the device may not play again in this epoch. An epoch that is over is not counted.
func (c *counts) full(by uint64, a *device.Announced, ids []string) (arms []int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for i, id := range ids {
		if !c.mayPlay(play{by, id}, a) {
			arms = append(arms, i)
		}
	}
	return arms
}

// mayPlay reports whether a device may play an arm once more. The lock is held.
func (c *counts) mayPlay(p play, a *device.Announced) bool {
	most, limited := a.Features.AtMost(p.arm)
	if !limited || a.Epoch != c.epoch {
		return true
	}
	times, counted := c.times[p]
	return times < most && (counted || len(c.times) < c.most)
}

// take notes that the device plays the arm, if it still may.
func (c *counts) take(p play, a *device.Announced) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.mayPlay(p, a) {
		return false
	}
	if _, limited := a.Features.AtMost(p.arm); limited && a.Epoch == c.epoch {
		c.times[p]++
	}
	return true
}
