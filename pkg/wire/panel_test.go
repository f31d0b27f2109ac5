package wire_test

import (
	"bytes"
	"math"
	"testing"

	rifflev1 "github.com/riffle-dp/riffle/messages/riffle/v1"
	"github.com/riffle-dp/riffle/pkg/seal"
	"github.com/riffle-dp/riffle/pkg/wire"
)

func TestPanelsRoundTrip(t *testing.T) {
	roundTrip(t, seal.Announcement, panelAnnouncement(t))
	roundTrip(t, seal.Pool, pool())
	roundTrip(t, seal.Draw, draw())
}

func TestPanelOutOfRangeIsRefused(t *testing.T) {
	type a = rifflev1.Announcement
	cases := []bad[a]{
		{"commitment", func(m *a) { m.Commitment = m.Commitment[:31] }},
		{"schema", func(m *a) { m.Schema = make([]byte, wire.MaxSchema+1) }},
		{"plan.panel", func(m *a) { m.Plan.Panel = nil }},
		{"plan.panel", func(m *a) {
			m.Plan.Rounds = append(m.Plan.Rounds, m.Plan.Rounds[0])
		}},
		{"plan.panel.registered", func(m *a) { m.Plan.Panel.Registered = 0 }},
		{"plan.panel.tail", func(m *a) { m.Plan.Panel.Tail = m.Plan.Delta }},
		{"plan.panel.tail", func(m *a) { m.Plan.Panel.Tail = math.Copysign(0, -1) }},
		{"plan.panel.dishonest", func(m *a) { m.Plan.Panel.Dishonest = 1 }},
		{"plan.panel.dishonest", func(m *a) { m.Plan.Panel.Dishonest = -0.1 }},
		{"plan.decisions", func(m *a) { m.Plan.Decisions = 0 }},
		{"plan.decisions", func(m *a) { m.Plan.Decisions = wire.MaxDecisions + 1 }},
		{"plan.records", func(m *a) { m.Plan.Records = 0 }},
		{"plan.period", func(m *a) { m.Plan.Period = m.Plan.Records - 1 }},
		{"policy", func(m *a) { m.Policy.Control = 1 }},
		{"policy", func(m *a) { m.Policy.Caution = -1 }},
		{"timing.every_ms", func(m *a) { m.Timing.EveryMs = wire.MaxTiming + 1 }},
	}
	for _, x := range notFinite {
		cases = append(cases,
			bad[a]{"plan.panel.tail", func(m *a) { m.Plan.Panel.Tail = x }},
			bad[a]{"plan.panel.dishonest", func(m *a) { m.Plan.Panel.Dishonest = x }},
			bad[a]{"policy", func(m *a) { m.Policy.Control = x }}, bad[a]{"policy",
				func(m *a) { m.Policy.Caution = x }})
	}
	refuses(t, seal.Announcement, func() *a { return panelAnnouncement(t) }, cases)
	refuses(t, seal.Announcement, func() *a { return announcement(t) }, []bad[a]{
		{"commitment", func(m *a) { m.Commitment = digestOf(1) }},
		{"plan.panel", func(m *a) { m.Plan.Decisions = 1 }},
		{"plan.panel", func(m *a) { m.Plan.Records = 1 }},
		{"plan.panel", func(m *a) { m.Plan.Period = 1 }},
	})
	refuses(t, seal.Announcement, func() *a { return finalAnnouncement(t) }, []bad[a]{
		{"commitment", func(m *a) { m.Commitment = digestOf(1) }},
	})
}

func TestPoolsAndDrawsOutOfRangeAreRefused(t *testing.T) {
	type p = rifflev1.Pool
	type d = rifflev1.Draw
	refuses(t, seal.Pool, pool, []bad[p]{
		{"deployment", func(m *p) { m.Deployment = "" }}, {"epoch", func(m *p) { m.Epoch = 0 }},
		{"announcement", func(m *p) { m.Announcement = nil }}, {"registered", func(m *p) { m.Registered = 0 }},
		{"root", func(m *p) { m.Root = nil }}, {"contribution", func(m *p) { m.Contribution = make([]byte, 33) }},
	})
	refuses(t, seal.Draw, draw, []bad[d]{
		{"deployment", func(m *d) { m.Deployment = "" }}, {"epoch", func(m *d) { m.Epoch = 0 }},
		{"announcement", func(m *d) { m.Announcement = nil }}, {"pool", func(m *d) { m.Pool = make([]byte, 31) }},
		{"contribution", func(m *d) { m.Contribution = nil }},
	})
}

func TestComparisonsOutOfRangeAreRefused(t *testing.T) {
	type l = rifflev1.Learned
	cases := []bad[l]{
		{"unchanged", func(m *l) { m.Unchanged = -0.1 }}, {"unchanged", func(m *l) { m.Unchanged = 1.1 }},
		{"action", func(m *l) { m.Action = "x" }}, {"lift.low", func(m *l) { m.Lift.Low = m.Lift.High + 1 }},
		{"total.low", func(m *l) { m.Total.Low = m.Total.High + 1 }},
	}
	for _, x := range notFinite {
		cases = append(cases, bad[l]{"lift.decisions", func(m *l) { m.Lift.Decisions = x }},
			bad[l]{"lift.treated", func(m *l) { m.Lift.Treated = x }},
			bad[l]{"lift.control", func(m *l) { m.Lift.Control = x }},
			bad[l]{"lift.lift", func(m *l) { m.Lift.Lift = x }}, bad[l]{"total.high", func(m *l) { m.Total.High = x }},
			bad[l]{"total.low", func(m *l) { m.Total.Low = x }}, bad[l]{"unchanged", func(m *l) { m.Unchanged = x }})
	}
	refuses(t, seal.Learned, comparedLearned, cases)
	type c = rifflev1.Configuration
	refuses(t, seal.Configuration, func() *c { return lastingConfiguration(t) }, []bad[c]{
		{"schema", func(m *c) { m.Schema = make([]byte, wire.MaxSchema+1) }},
	})
}

// The statements of a panel are in their role's log, under their own kind alone.
func TestPoolsAndDrawsAreLeaves(t *testing.T) {
	by, other := signer(t, goldenSigner), signer(t, goldenHost)
	p, d := forge(t, seal.Pool, pool(), by), forge(t, seal.Draw, draw(), by)
	for _, c := range []struct {
		kind   string
		signed []byte
		leaf   bool
	}{
		{wire.KindPool, p, true}, {wire.KindDraw, d, true}, {wire.KindDraw, p, false}, {wire.KindPool, d, false},
		{wire.KindManifest, p, false}, {wire.KindPool, forge(t, seal.Pool, pool(), other), false},
	} {
		if got := wire.Leaf(c.kind, c.signed, party(by)); got != c.leaf {
			t.Errorf("%s, %.4x: leaf %t, want %t", c.kind, c.signed, got, c.leaf)
		}
	}
	// They fit into a reply, beside all else that it holds.
	reply, err := largestReply(t, by)
	if err != nil || len(reply) > wire.MaxEnrolment || bytes.Equal(p, d) || max(len(p), len(d)) > wire.MaxContribution {
		t.Errorf("a reply of %d bytes with statements of %d and %d: %v", len(reply), len(p), len(d), err)
	}
}

// largestReply is the largest reply: of a deployment with the longest name, in the channel of shares.
func largestReply(t *testing.T, by *seal.Identity) ([]byte, error) {
	t.Helper()
	long := string(bytes.Repeat([]byte("a"), wire.MaxDeployment))
	p, d := pool(), draw()
	p.Deployment, d.Deployment, p.Epoch, d.Epoch, p.Registered = long, long, math.MaxUint64, math.MaxUint64,
		math.MaxUint32
	reply, _, err := wire.Sign(&wire.EnrolReply{Request: digestOf(7), Enrolled: true, Slot: math.MaxUint32, Held: true,
		Commitment: digestOf(8), Pool: forge(t, seal.Pool, p, by), Draw: forge(t, seal.Draw, d, by)}, by)
	return reply, err
}
