package device

import (
	"fmt"
	"math"

	"github.com/riffle-dp/riffle/pkg/plan"
	"github.com/riffle-dp/riffle/pkg/privacy"
)

// Promise is what people are told of an announced plan's guarantee, as it was computed here. Nothing in it depends on a
// record.
type Promise struct {
	// what the plan reveals about one person at most, at the limits' delta: in one epoch, or of panels in all epochs in
	// which a device may report, of the deployment or of a period; absent where the device takes no part
	Epsilon float64 `json:"epsilon,omitempty"`
	// the same if no other device is honest; null where nothing is left, and where Epsilon is absent
	EpsilonAlone *float64     `json:"epsilon_alone"`
	Channel      plan.Channel `json:"channel,omitempty"`   // of the deployment; absent once learning is over
	RestsOn      string       `json:"rests_on,omitempty"`  // whom both rest on; continues "the guarantee"
	Guarantee    string       `json:"guarantee,omitempty"` // all of it in sentences; absent where Epsilon is
}

// Promise tells of the guarantee of an announcement.
func (c *Core) Promise(a *Announced) (p Promise) {
	if a.Final {
		return p
	}
	p.Channel, p.RestsOn = a.Plan.Channel, a.Plan.Channel.RestsOn()
	if a.Weak() != nil {
		return p
	}
	delta := c.c.Limits.Delta
	n := a.Plan.PerPerson()
	alone := privacy.Repeat(a.Alone(), n).Epsilon(delta)
	p.Epsilon = privacy.Repeat(a.Guarantee(), n).Epsilon(delta)
	p.Guarantee = a.Plan.Channel.Promise(p.Epsilon, alone, delta) + a.Plan.Together()
	if a.Span > 0 {
		p.Guarantee += fmt.Sprintf(" The same holds for any %v, by this device's own clock.", a.Span)
	}
	if !math.IsInf(alone, 0) && !math.IsNaN(alone) { // which JSON cannot write
		p.EpsilonAlone = &alone
	}
	return p
}
