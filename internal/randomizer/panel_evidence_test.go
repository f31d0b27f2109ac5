package randomizer

import (
	"strings"
	"testing"
	"time"

	"github.com/riffle-dp/riffle/internal/testing/testbed"
	"github.com/riffle-dp/riffle/pkg/device"
	"github.com/riffle-dp/riffle/pkg/panel"
	"github.com/riffle-dp/riffle/pkg/wire"
)

// awaitEvidence waits until the host shows evidence, and returns it.
func (p *panelScene) awaitEvidence() *device.Evidence {
	p.t.Helper()
	testbed.Eventually(p.t, "accused", func() bool { return p.host.Status().Evidence != nil })
	return p.host.Status().Evidence
}

// A shuffler that denies a registration which it confirmed, and one whose replies lack what they must hold, is shown in
// status and warnings, logged once, and not believed; also after a restart. Other epochs go on.
func TestALieOfTheShufflerIsKept(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	p := ofPanels(s)
	s.start()
	a := p.next(time.Second)
	x, y := p.name("x"), p.name("y")
	s.mu.Lock()
	p.lie = func(e wire.Enrolment, r *wire.EnrolReply) {
		if n := e.Request.Epoch; (n == 1 || n == 2) && p.slots != nil {
			*r = wire.EnrolReply{Refusal: wire.RefusalNotRegistered}
		}
	}
	s.mu.Unlock()
	p.drawNow(a, x)
	p.awaitDraw(0)
	if e := s.host.Status().Evidence; e != nil {
		t.Fatalf("a device that may have come late accuses the shuffler: %+v", e)
	}
	if d := s.decide("x", twoArms); d["reason"] != "not_drawn" ||
		!strings.Contains(d["detail"].(string), "registered after") {
		t.Errorf("%v", d)
	}
	b := p.next(time.Second)
	p.drawNow(b, x)
	p.awaitDraw(0)
	e := p.awaitEvidence()
	if e.Epoch != 2 || e.Device != x && e.Device != y || !strings.Contains(e.What, "had confirmed") ||
		len(e.Registration) == 0 {
		t.Errorf("%+v", e)
	}
	if d := s.decide("x", twoArms); d["sampled"] != false || d["reason"] != "not_admitted" {
		t.Errorf("%v", d)
	}
	if w := s.host.Snapshot().Warnings; len(w) != 1 || !strings.Contains(w[0], "cannot be true") {
		t.Errorf("warnings %v", w)
	}
	s.must(s.stop())
	s.start()
	s.awaitRound(b)
	if again := p.awaitEvidence(); again.What != e.What || string(again.Reply) != string(e.Reply) {
		t.Errorf("after a restart %+v", again)
	}
	if n := strings.Count(s.logged.String(), "signed reply cannot be true"); n != 1 {
		t.Errorf("logged %d times:\n%s", n, s.logged.String())
	}
	c := p.next(time.Second)
	p.drawNow(c, x)
	p.awaitDraw(1)
	s.reports(1)
	for _, d := range []string{"x", "y"} {
		if l := s.device(d).Ledger; len(l.Entries) > 1 {
			t.Errorf("%s: %+v", d, l)
		}
	}
}

// Two devices of one host are shown two draws of one epoch's panel, each signed by both servers.
func TestTwoDrawsOfOneEpochAreEvidence(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	p := ofPanels(s)
	s.start()
	a := p.next(time.Second)
	x, y := p.name("x"), p.name("y")
	_, digest := s.Sign(a, s.Analyzer)
	c := contributionOf(a.Epoch)
	var other wire.EnrolReply
	for try := byte(0); ; try++ { // another pool of the shuffler's, under which y cannot be in the panel
		pool, of := s.Sign(&wire.Pool{
			Deployment: testbed.Deployment, Epoch: 1, Announcement: digest[:], Registered: panelPool,
			Root: make([]byte, 32), Contribution: append(make([]byte, 31), try),
		}, s.Shuffler)
		draw, _ := s.Sign(&wire.Draw{
			Deployment: testbed.Deployment, Epoch: 1, Announcement: digest[:], Pool: of[:], Contribution: c[:],
		}, s.Analyzer)
		rank := panel.NewSeed(of, c[:]).Rank(panel.Device{Host: [32]byte(s.identity.Public()), Number: y})
		if panel.Plausible(rank, panelPool, int(a.Cohort.Size), false) {
			other = wire.EnrolReply{Refusal: wire.RefusalNotDrawn, Pool: pool, Draw: draw}
			break
		}
	}
	s.mu.Lock()
	p.lie = func(e wire.Enrolment, r *wire.EnrolReply) {
		if e.Request.Device == y && e.Request.Epoch > 0 {
			*r = other
		}
	}
	s.mu.Unlock()
	p.drawNow(a, x) // not before: the lie must be there when a device asks
	if e := p.awaitEvidence(); !strings.Contains(e.What, "another draw") || len(e.Other) == 0 || e.Epoch != 1 {
		t.Errorf("%+v", e)
	}
	s.must(s.stop())
}

// The shuffler says that a device is in the panel that by its rank is not: the device takes no place, and the host says
// so.
func TestAPlaceThatCannotBeIsNotTaken(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	p := ofPanels(s)
	s.start()
	a := p.next(time.Second)
	x := p.name("x")
	_, digest := s.Sign(a, s.Analyzer)
	c := contributionOf(a.Epoch)
	var wrong wire.EnrolReply
	for try := byte(0); ; try++ {
		pool, of := s.Sign(&wire.Pool{
			Deployment: testbed.Deployment, Epoch: 1, Announcement: digest[:], Registered: 1000,
			Root: make([]byte, 32), Contribution: append(make([]byte, 31), try),
		}, s.Shuffler)
		draw, _ := s.Sign(&wire.Draw{
			Deployment: testbed.Deployment, Epoch: 1, Announcement: digest[:], Pool: of[:], Contribution: c[:],
		}, s.Analyzer)
		rank := panel.NewSeed(of, c[:]).Rank(panel.Device{Host: [32]byte(s.identity.Public()), Number: x})
		if !panel.Plausible(rank, 1000, int(a.Cohort.Size), true) {
			wrong = wire.EnrolReply{Enrolled: true, Slot: 1, Pool: pool, Draw: draw}
			break
		}
	}
	s.mu.Lock()
	p.lie = func(e wire.Enrolment, r *wire.EnrolReply) {
		if e.Request.Epoch > 0 {
			*r = wrong
		}
	}
	s.mu.Unlock()
	if e := p.awaitEvidence(); e.Device != x || !strings.Contains(e.What, "by its rank it is not") {
		t.Errorf("%+v", e)
	}
	p.awaitDraw(0)
	if st := s.device("x"); len(st.Ledger.Entries) != 0 || st.Enrolment != nil {
		t.Errorf("%+v", st)
	}
	s.reports(0)
}
