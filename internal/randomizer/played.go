package randomizer

import (
	"slices"
	"sync"

	"github.com/riffle-dp/riffle/pkg/device"
	"github.com/riffle-dp/riffle/pkg/glm"
)

// played counts how often the devices of this host played the arms that the announced schema limits, in the latest
// epoch in which one of them decided. It is in memory only: a restart forgets it, and so does the first decision in
// another epoch. It counts decisions whether or not the device reports on them.
type played struct {
	mu    sync.Mutex
	epoch uint64
	times map[*seat]map[string]uint32 // by the arm's id
}

// decide is a decision of the announced policy. Arms that the device played as often as it may are excluded.
func (p *played) decide(s *seat, a *device.Announced, set Arms, src glm.Source) (glm.Decision, error) {
	if a.Features == nil || len(a.Features.Limits()) == 0 || set.IDs == nil {
		return a.Policy.DecideFor(set.Vectors, set.Choice, src)
	}
	for {
		choice := set.Choice
		choice.Excluded = slices.Concat(choice.Excluded, p.full(s, a, set.IDs))
		made, err := a.Policy.DecideFor(set.Vectors, choice, src)
		if err != nil || p.take(s, a, set.IDs[made.Arm]) {
			return made, err
		} // else another decision of this device took the arm's last time meanwhile
	}
}

// full lists the arms that the device may not play again in this epoch.
func (p *played) full(s *seat, a *device.Announced, ids []string) (arms []int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if a.Epoch != p.epoch {
		return nil
	}
	for i, id := range ids {
		if most, limited := a.Features.AtMost(id); limited && p.times[s][id] >= most {
			arms = append(arms, i)
		}
	}
	return arms
}

// take notes that the device plays the arm, if it still may.
func (p *played) take(s *seat, a *device.Announced, id string) bool {
	most, limited := a.Features.AtMost(id)
	p.mu.Lock()
	defer p.mu.Unlock()
	if a.Epoch > p.epoch {
		p.epoch, p.times = a.Epoch, map[*seat]map[string]uint32{}
	}
	if !limited || a.Epoch < p.epoch { // an epoch that is over is counted no more
		return true
	}
	if p.times[s][id] >= most {
		return false
	}
	if p.times[s] == nil {
		p.times[s] = map[string]uint32{}
	}
	p.times[s][id]++
	return true
}
