package randomizer

import (
	"testing"

	"github.com/rs/zerolog"

	"github.com/riffle-dp/riffle/internal/bus"
	"github.com/riffle-dp/riffle/internal/testing/testbed"
	"github.com/riffle-dp/riffle/pkg/device"
	"github.com/riffle-dp/riffle/pkg/glm"
	"github.com/riffle-dp/riffle/pkg/plan"
	"github.com/riffle-dp/riffle/pkg/protocol"
)

// A host that starts in a late epoch follows every link and judges only the plan in force: that a plan on the way was
// one that its limits rule out is not even noticed.
func TestAHostThatStartsLateJudgesOnePlan(t *testing.T) {
	bed := testbed.New(t)
	first := bed.Announcement(glm.Practical, 12)
	fine := first.Cohort
	const epochs = 12
	var all []bus.Announcement
	var previous []byte
	for epoch := uint64(1); epoch <= epochs; epoch++ {
		a := first.Clone()
		a.Epoch, a.Previous = epoch, previous
		if epoch < epochs {
			a.Cohort.Minimum = fine.MaxDishonest + 1
		}
		signed, digest := bed.Sign(a, bed.Analyzer)
		previous = digest[:]
		all = append(all, bus.Announcement{Epoch: epoch, Payload: signed})
	}
	late := func() *Host {
		limits := device.DefaultLimits()
		limits.Epsilon, limits.Delta, limits.MinCohort = 4, 1e-3, int(fine.Minimum)
		identity, credential := bed.Host(10)
		h, err := New(Config{
			Deployment: testbed.Deployment, Analyzer: bed.Analyzer.Public(), Shuffler: bed.Shuffler.Public(),
			Identity: identity, Credential: credential, Devices: 10, Limits: limits, StateDir: t.TempDir(),
			Source: func() protocol.Source { return testbed.Source() }, Log: zerolog.Nop(),
			Reports:       testbed.Account(t, "report", nil, Reasons()),
			Announcements: testbed.Account(t, "announcement", nil, AnnouncementReasons()),
		})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { h.Close() })
		return h
	}
	h := late()
	if err := h.following.catchUp(all); err != nil {
		t.Fatal(err)
	}
	if a := h.inForce(); a == nil || a.Epoch != epochs || a.Weak() != nil || h.pinned != plan.Shuffle {
		t.Fatalf("in force: %+v", a)
	}
	if n := testbed.Refused(h.c.Announcements, PlanRefused); n != 0 {
		t.Errorf("%d plans were judged and refused on the way", n)
	}
	if b := h.c.Announcements.Balance(); b.Received != epochs || b.Released != epochs {
		t.Errorf("the account does not add up: %+v", b)
	}
	h = late()
	for _, a := range all {
		if fresh, err := h.following.follow(a); !fresh || err != nil {
			t.Fatal(fresh, err)
		}
	}
	if n := testbed.Refused(h.c.Announcements, PlanRefused); n != epochs-1 {
		t.Errorf("%d of %d weak plans are noticed by a host that was there", n, epochs-1)
	}

	// A break of the chain is seen on the way, and what was in force before it stays.
	broken := first.Clone()
	broken.Epoch, broken.Previous = epochs+1, make([]byte, 32)
	signed, _ := bed.Sign(broken, bed.Analyzer)
	h = late()
	if err := h.following.catchUp(append(all, bus.Announcement{Epoch: epochs + 1, Payload: signed})); err != nil {
		t.Fatal(err)
	}
	if h.inForce().Epoch != epochs || h.Status().Refused == "" {
		t.Errorf("epoch %d is in force, and %q is said", h.inForce().Epoch, h.Status().Refused)
	}
}
