package channel_test

import (
	"testing"

	"github.com/riffle-dp/riffle/internal/channel"
	devices "github.com/riffle-dp/riffle/pkg/channel"
	"github.com/riffle-dp/riffle/pkg/panel"
	"github.com/riffle-dp/riffle/pkg/plan"
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
		if d.Holds(who.Participant) {
			held++
		}
		if !(*channel.Drawn)(nil).Holds(who.Participant) {
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

// A host with its whole share of an honest pool has all its reports counted, although chance gives it more than that
// share in about half of all panels; and a shuffler that gathers one host's devices in a panel gets little more than
// that. A panel exceeds the quota with a probability below 1e-12. The seeds are fixed.
func TestAHostsShareOfAPanelLeavesRoomForChance(t *testing.T) {
	t.Parallel()
	const pool, size, share, draws = 2000, 200, 0.5, 100
	all := make([]panel.Device, pool)
	for i := range all {
		all[i] = panel.Device{Host: [32]byte{byte(i % 2)}, Number: uint32(i)}
	}
	r := &channel.Round{Announcement: &plan.Announcement{Cohort: plan.Cohort{Size: size}}}
	plain := r.SponsorQuota(share)
	if plain != channel.SponsorQuota(share, size) {
		t.Errorf("as devices arrive a host may have %d", plain)
	}
	r.Drawn = &channel.Drawn{Registered: pool, Size: size}
	quota, more := r.SponsorQuota(share), 0
	for i := range draws {
		held := map[[32]byte]int{}
		for _, d := range (panel.Seed{byte(i), 3}).Panel(all, size) {
			held[d.Host]++
		}
		for _, n := range held {
			if n > quota {
				t.Errorf("draw %d: %d of one host, %d are counted", i, n, quota)
			}
			if n > plain {
				more++
			}
		}
	}
	if more < draws/2 {
		t.Errorf("a host has more than its share of the panel in %d of %d draws: too few to show anything", more, draws)
	}
	if quota != 149 {
		t.Errorf("a host may have %d of %d", quota, size)
	}
	for _, none := range []float64{0, 1} {
		if got := r.SponsorQuota(none); got != size {
			t.Errorf("without a limit (%v) a host may have %d", none, got)
		}
	}
}
