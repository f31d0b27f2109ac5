package channel

import (
	"github.com/riffle-dp/riffle/pkg/channel"
	"github.com/riffle-dp/riffle/pkg/panel"
)

// Drawn is what the panel of an epoch follows from, for who does not know whom it was drawn from.
type Drawn struct {
	Seed       panel.Seed
	Registered int // devices that it was drawn from
	Size       int // of the panel
}

// Holds reports whether a device can be in the panel: its rank must be as small as that of a device that is drawn.
// Ranks are uniform, so an honest shuffler's panel passes but for 1e-12 of devices, and a shuffler cannot count devices
// of its choice whose rank is that of an ordinary one. Without a panel (nil) every device passes.
func (d *Drawn) Holds(who channel.Participant) bool {
	if d == nil {
		return true
	}
	rank := d.Seed.Rank(panel.Device{Host: who.Host, Number: who.Number})
	return panel.Plausible(rank, d.Registered, d.Size, true)
}
