package envelope

import (
	"testing"

	"github.com/riffle-dp/riffle/internal/channel"
	"github.com/riffle-dp/riffle/internal/role/outcome"
	devices "github.com/riffle-dp/riffle/pkg/channel"
	"github.com/riffle-dp/riffle/pkg/panel"
	"github.com/riffle-dp/riffle/pkg/plan"
)

// An envelope counts only if its device can be in the epoch's panel, whatever the shuffler says.
func TestOnlyDevicesOfThePanelAreCounted(t *testing.T) {
	t.Parallel()
	c := &Counting{}
	drawn := &channel.Drawn{Seed: panel.Seed{1}, Registered: 10_000, Size: 5}
	round := &channel.Round{Announcement: &plan.Announcement{Cohort: plan.Cohort{Size: 5}}, Drawn: drawn}
	a, free := c.admission(round, 1), c.admission(&channel.Round{Announcement: round.Announcement}, 1)
	refused := 0
	for i := range uint32(50) {
		who := devices.Participant{Number: i}
		want := outcome.Reason("")
		if !drawn.Holds(who) {
			want = NotDrawn
			refused++
		}
		if got := a.judge(who); got != want {
			t.Errorf("device %d: %q, want %q", i, got, want)
		}
		if got := free.judge(who); got != "" {
			t.Errorf("without a panel device %d is refused: %q", i, got)
		}
	}
	if refused < 40 {
		t.Errorf("%d of 50 devices are refused: too few to show anything", refused)
	}
}

// A host may have more envelopes of a panel than of a cohort that came as it liked: its share is of the pool.
func TestAHostsShareIsOfThePool(t *testing.T) {
	t.Parallel()
	c := &Counting{HostShare: 0.5}
	round := &channel.Round{Announcement: &plan.Announcement{Cohort: plan.Cohort{Size: 50}}}
	if got := c.admission(round, 1).most; got != 25 {
		t.Errorf("as devices arrive %d envelopes of a host", got)
	}
	round.Drawn = &channel.Drawn{Seed: panel.Seed{1}, Registered: 100, Size: 50}
	if got := c.admission(round, 1).most; got <= 25 || got >= 50 {
		t.Errorf("of a panel %d envelopes of a host", got)
	}
}
