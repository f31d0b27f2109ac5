package ledger

import (
	"fmt"

	"github.com/riffle-dp/riffle/internal/bus"
	"github.com/riffle-dp/riffle/pkg/glm"
	"github.com/riffle-dp/riffle/pkg/panel"
	"github.com/riffle-dp/riffle/pkg/plan"
	"github.com/riffle-dp/riffle/pkg/wire"
)

// Living is the configuration of a small deployment of panels with a control group and rules: 12 of 60 registered
// devices, each in 2 panels, with up to 3 decisions in a report. So few people say nothing of the lift.
func Living(channel plan.Channel, cohorts int) wire.Configuration {
	return LivingOf(channel, cohorts, 12)
}

// LivingOf is Living with so many devices in a panel: from some hundreds on something is known of the lift.
func LivingOf(channel plan.Channel, cohorts, size int) wire.Configuration {
	const decisions, records = 3, 2
	registered := 5 * size
	c := Small(glm.Practical, channel, cohorts)
	c.Learner.Horizon = cohorts * size
	c.Terms.Registered, c.Terms.Decisions, c.Terms.Records = registered, decisions, records
	c.Terms.Tail, c.Terms.Dishonest, c.Terms.DishonestReports = c.Terms.Delta/10, 0, 0
	p := &c.Learner.Practical
	p.Panel, p.FirstCohort, p.Decisions, p.Control = size, 0, decisions, 0.25
	floor := -10.0
	c.Rules = plan.Rules{Stop: &floor, Window: 2}
	return c
}

// draw appends what both servers say of an epoch's panel.
func (m *maker) draw(a *plan.Announcement, digest, contribution [32]byte) error {
	devices := make([]panel.Device, int(a.Plan.Panel.Registered)+int(a.Epoch))
	for i := range devices {
		devices[i].Number = uint32(i)
	}
	root, own := panel.Root(devices), words(source(m.o.Seed, fmt.Sprintf("shuffler's contribution %d", a.Epoch)))
	pool, err := appendTo(m, bus.Shuffler, wire.KindPool, &wire.Pool{
		Deployment: a.Deployment, Epoch: a.Epoch, Announcement: digest[:], Registered: uint32(len(devices)),
		Root:         root[:],
		Contribution: own[:],
	}, m.o.Tamper.Pool)
	if err != nil {
		return err
	}
	_, err = appendTo(m, bus.Analyzer, wire.KindDraw, &wire.Draw{
		Deployment: a.Deployment, Epoch: a.Epoch, Announcement: digest[:], Pool: pool[:], Contribution: contribution[:],
	}, m.o.Tamper.Draw)
	return err
}
