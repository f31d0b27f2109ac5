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
		if got := a.judge(devices.Present{Participant: who}); got != want {
			t.Errorf("device %d: %q, want %q", i, got, want)
		}
		if got := free.judge(devices.Present{Participant: who}); got != "" {
			t.Errorf("without a panel device %d is refused: %q", i, got)
		}
	}
	if refused < 40 {
		t.Errorf("%d of 50 devices are refused: too few to show anything", refused)
	}
}
