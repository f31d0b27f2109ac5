package channel_test

import (
	"testing"

	"github.com/riffle-dp/riffle/internal/channel"
	devices "github.com/riffle-dp/riffle/pkg/channel"
	"github.com/riffle-dp/riffle/pkg/panel"
)

// Everybody of a panel can be in it, and hardly anybody of an ordinary rank can: for one seed, which decides all of it.
func TestOnlyDevicesOfSmallRankCanBeInAPanel(t *testing.T) {
	t.Parallel()
	const registered, size = 5000, 150
	d := &channel.Drawn{Seed: panel.Seed{7}, Registered: registered, Size: size}
	var all []panel.Device
	held := 0
	for _, who := range crowd(0, registered) {
		all = append(all, panel.Device{Host: who.Host, Number: who.Number})
		if d.Holds(who) {
			held++
		}
		if !(*channel.Drawn)(nil).Holds(who) {
			t.Fatal("a device is refused where there are no panels")
		}
	}
	for _, one := range d.Seed.Panel(all, size) {
		if !d.Holds(devices.Participant{Host: one.Host, Number: one.Number}) {
			t.Errorf("device %d of the panel cannot be in it", one.Number)
		}
	}
	// A rank passes up to about (size + 7 sqrt(size)) / registered.
	if held < size || held > 2*size {
		t.Errorf("%d of %d devices can be in a panel of %d", held, registered, size)
	}
}
