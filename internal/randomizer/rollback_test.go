package randomizer

import (
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	bolterrors "go.etcd.io/bbolt/errors"

	"github.com/riffle-dp/riffle/internal/randomizer/store"
	"github.com/riffle-dp/riffle/internal/role"
	"github.com/riffle-dp/riffle/internal/testing/testbed"
	"github.com/riffle-dp/riffle/pkg/device"
	"github.com/riffle-dp/riffle/pkg/glm"
	"github.com/riffle-dp/riffle/pkg/wire"
)

// The store of a host is set back to an older copy. What the shuffler knows of the host's next numbers proves it: the
// host enrols nobody and sends nothing from then on, also after a restart, and says so everywhere; with its newest
// store it goes on.
func TestARolledBackStoreStopsTheHost(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	a := s.unhurried(20)
	s.start()
	s.open(a)
	path := filepath.Join(s.config.StateDir, "devices")
	copyTo := func(from, to string) {
		t.Helper()
		b, err := os.ReadFile(from)
		s.must(err)
		s.must(os.WriteFile(to, b, 0o600))
	}
	for i := range 3 {
		s.decide(fmt.Sprint("p", i), twoArms)
	}
	s.must(s.stop())
	copyTo(path, path+".old")
	s.start()
	s.awaitRound(a)
	for i := range 5 {
		if d := s.decide(fmt.Sprint("twice", i), twoArms); d["sampled"] != true {
			t.Fatalf("%v", d)
		}
	}
	s.must(s.stop())
	copyTo(path, path+".new")
	copyTo(path+".old", path)

	env, err := role.NewEnv("randomizer", role.DefaultSettings("127.0.0.1:0"), io.Discard)
	s.must(err)
	s.config.State = env.Health.Condition("state")
	stopped := func(when string) {
		t.Helper()
		for i := range 5 { // in another order than before, after which the same people would have new numbers
			d := s.decide(fmt.Sprint("twice", 4-i), twoArms)
			if d["reason"] != "state_rolled_back" || d["sampled"] != false {
				t.Errorf("%s: %v", when, d)
			}
		}
		if n := len(s.enrolments()); n != 8 {
			t.Errorf("%s: %d devices are enrolled", when, n)
		}
		if st := s.host.Status(); st.Enrolling || !strings.Contains(st.Refused, "older than what it has done") {
			t.Errorf("%s: status %+v", when, st)
		}
		if err := env.Health.Ready(); err == nil ||
			!strings.Contains(err.Error(), "state: the state of this host is older") {
			t.Errorf("%s: ready: %v", when, err)
		}
		if !strings.Contains(s.logged.String(), "restore the newest copy") ||
			!strings.Contains(s.logged.String(), `"reason":"state_rolled_back"`) {
			t.Errorf("%s: the log does not say what to do", when)
		}
		s.reports(0) // nor is anything pending
	}
	s.start()
	s.awaitRound(a)
	if env.Health.Ready() != nil {
		t.Errorf("not ready before anything is proved: %v", env.Health.Ready())
	}
	stopped("proved")
	if n := s.countRefused(StateRolledBack); n != 3 { // what the older store had promised
		t.Errorf("%d reports were withheld", n)
	}
	s.must(s.stop())
	s.start()
	s.awaitRound(a)
	stopped("after a restart")
	s.must(s.stop())

	copyTo(path+".new", path)
	s.start()
	s.awaitRound(a)
	testbed.Eventually(t, "the promises of the newest store are taken up", func() bool { return s.host.Pending() == 8 })
	if err := env.Health.Ready(); err != nil {
		t.Errorf("with the newest store: ready: %v", err)
	}
	if d := s.decide("somebody", twoArms); d["sampled"] != true {
		t.Errorf("with the newest store: %v", d)
	}
}

// A raised number hides nothing: the host gives the numbers again that it gave before the credential that covers more,
// a place that was vacant included, so that the shuffler's answer is the proof.
func TestARaisedNumberHidesNoRollback(t *testing.T) {
	t.Parallel()
	for _, vacant := range []bool{false, true} {
		s := newScene(t)
		later := s.config.Devices
		s.config.Devices = 6
		a := s.unhurried(20)
		s.start()
		s.open(a)
		s.expectAll(0, 3, "sampled")
		if vacant { // all numbers are given, and three of them leave their places
			s.refusing(wire.RefusalSponsorShare)
			s.expectAll(3, 6, "not_admitted")
			s.refusing(wire.NoRefusal)
		}
		s.must(s.stop())
		path := filepath.Join(s.config.StateDir, "devices")
		old, err := os.ReadFile(path)
		s.must(err)
		s.start()
		s.awaitRound(a)
		s.expectAll(7, 10, "sampled")
		s.must(s.stop())
		s.must(os.WriteFile(path, old, 0o600))
		s.config.Devices = later
		s.start()
		s.awaitRound(a)
		s.expectAll(7, 10, "state_rolled_back")
		if n := len(s.enrolments()); n != 6 {
			t.Errorf("%d devices are enrolled", n)
		}
	}
}

// The next epoch proves it as well, and reports that were sealed since the older copy was restored are withheld: their
// people may have reported before.
func TestARolledBackStoreIsProvedByALaterEpoch(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	s.start()
	a := s.unhurried(12)
	s.open(a)
	s.decide("x", twoArms)
	s.mu.Lock()
	s.answer = func(wire.Enrolment) *wire.EnrolReply {
		return &wire.EnrolReply{Refusal: wire.RefusalAlreadyEnrolled}
	}
	s.mu.Unlock()
	if d := s.decide("y", twoArms); d["reason"] != "state_rolled_back" {
		t.Errorf("%v", d)
	}
	if n := s.countRefused(StateRolledBack); n != 1 || s.host.Pending() != 0 {
		t.Errorf("%d reports were withheld, %d are pending", n, s.host.Pending())
	}
	// A sealed one that waits for a sender.
	s.host.c.Reports.Received(1)
	s.host.promises.lock.Lock()
	s.host.promises.pending++
	s.host.promises.lock.Unlock()
	s.host.reports.outbox <- store.Outgoing{Epoch: 1, Number: 7, Envelope: []byte("sealed")}
	testbed.Eventually(t, "withheld", func() bool { return s.countRefused(StateRolledBack) == 2 })
	s.reports(0)
}

// A disk that takes nothing any more is no reason to go on with a store that is proved old.
func TestARolledBackStoreThatCannotBeMarkedStopsTheHost(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	s.start()
	a := s.unhurried(12)
	s.open(a)
	s.decide("x", twoArms)
	s.ends = bolterrors.ErrDatabaseNotOpen // if the broker shows an announcement or keys again
	s.mu.Lock()
	s.answer = func(wire.Enrolment) *wire.EnrolReply {
		if err := s.host.store.Close(); err != nil { // what is written from here on fails
			t.Error(err)
		}
		return &wire.EnrolReply{Refusal: wire.RefusalAlreadyEnrolled}
	}
	s.mu.Unlock()
	if status, answer := s.post("/v1/devices/y/decisions", twoArms); status != http.StatusInternalServerError {
		t.Errorf("%d %v", status, answer)
	}
	if n := s.countRefused(StateRolledBack); n != 1 || s.host.Pending() != 0 {
		t.Errorf("%d reports were withheld, %d are pending", n, s.host.Pending())
	}
	if d := s.decide("z", twoArms); d["reason"] != "state_rolled_back" {
		t.Errorf("%v", d)
	}
	s.reports(0)
}

// A promise that becomes durable while another device's answer proves the store old is not kept.
func TestAPromiseBesideTheProofIsWithheld(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	s.start()
	s.open(s.Announcement(glm.Practical, 12))
	dev, _, _, err := s.host.places.find("x")
	s.must(err)
	s.host.mu.Lock()
	a := s.host.current
	s.host.rolledBack = device.ErrRolledBack
	s.host.mu.Unlock()
	dev.mu.Lock()
	dev.state, err = dev.state.Ask(a, time.Now())
	dev.mu.Unlock()
	s.must(err)
	promised, err := s.host.promises.promise(a, dev,
		&wire.EnrolReply{Enrolled: true, ReportAfter: 100 * time.Millisecond})
	s.must(err)
	dev.mu.Lock()
	over := promised.record.Over()
	dev.mu.Unlock()
	if n := s.countRefused(StateRolledBack); !over || n != 1 || s.host.Pending() != 0 {
		t.Errorf("over %v; %d reports were withheld, %d are pending", over, n, s.host.Pending())
	}
	s.reports(0)
}

// No false alarm: answers get lost (seven in ten, over a seed), processes stop at any moment, the shuffler is away and
// comes back, epochs end meanwhile. Whatever the shuffler says of the places that it gave then, the host never takes
// its store for an old one, every place of the epoch in force is filled, and nothing is unaccounted for.
func TestLossesAndRestartsAreNoRollback(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	s.config.Limits.Records, s.config.Limits.Epsilon = 3, 20
	coins := rand.New(rand.NewPCG(8, 2))
	var held, lost int
	s.lost = func(reply *wire.EnrolReply) bool {
		no := coins.IntN(10) < 7
		if no {
			lost++
		} else if reply.Held {
			held++
		}
		return no
	}
	a := s.Announcement(glm.Practical, 40)
	s.start()
	digest := s.open(a)
	people := 0
	epoch := func() {
		for range 3 {
			for range 6 {
				s.decideWithoutWaiting(fmt.Sprint("p", people))
				people++
				s.decideWithoutWaiting(fmt.Sprint("p", people/2))
			}
			s.must(s.stop())
			s.start()
			s.awaitRound(a)
		}
	}
	epoch()
	s.mu.Lock()
	earlier := s.slots
	s.slots = map[uint32]uint32{}
	s.answer = func(e wire.Enrolment) *wire.EnrolReply {
		switch _, before := earlier[e.Request.Device]; {
		case e.Request.Epoch != 2:
			return &wire.EnrolReply{Refusal: wire.RefusalWrongEpoch}
		case before:
			return &wire.EnrolReply{Refusal: wire.RefusalAlreadyEnrolled}
		}
		return nil
	}
	s.mu.Unlock()
	a = s.Announcement(glm.Practical, 40)
	a.Epoch, a.Previous = 2, digest[:]
	s.open(a)
	epoch()
	testbed.Eventually(t, "resolved", func() bool {
		s.clock.Pass(longestPause) // most answers get lost: by the system's time the tries would take minutes
		for _, dev := range s.host.places.all() {
			if dev.now().Asked(2) {
				return false
			}
		}
		return true
	})
	if refused := s.host.Status().Refused; refused != "" || strings.Contains(s.logged.String(), "no further part") {
		t.Fatalf("a false alarm: %q", refused)
	}
	testbed.Eventually(t, "quiet", func() bool { return s.host.Pending() == 0 })
	// The broker has every report now, and may still have to deliver the last ones.
	testbed.Eventually(t, "delivered", func() bool {
		s.mu.Lock()
		defer s.mu.Unlock()
		n := 0
		for _, r := range s.arrived {
			if r.epoch == a.Epoch {
				n++
			}
		}
		return n >= len(s.slots)
	})
	s.mu.Lock()
	defer s.mu.Unlock()
	reported := map[uint32]bool{}
	for _, r := range s.arrived {
		if r.epoch == a.Epoch {
			reported[s.Open(r.envelope, a).Slot] = true
		}
	}
	for number, slot := range s.slots {
		if !reported[slot] {
			t.Errorf("slot %d of device %d stays empty", slot, number)
		}
	}
	if lost < 20 || held < 10 || len(s.slots) < 10 {
		t.Errorf("no power: %d answers were lost, %d answers spoke of a place that was given before, %d places", lost,
			held, len(s.slots))
	}
}
