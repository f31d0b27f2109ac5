package shuffler

import (
	"testing"

	"github.com/riffle-dp/riffle/internal/testing/testbed"
	"github.com/riffle-dp/riffle/pkg/seal"
	"github.com/riffle-dp/riffle/pkg/wire"
)

// replace gives the scene's host a new key whose credential names the first one, and the shuffler's configuration the
// list that says so. It returns a way back to the old key.
func (s *scene) replace() (old func()) {
	s.t.Helper()
	first, credential := s.host, s.credential
	s.host = testbed.NewIdentity(s.t)
	s.credential, _ = s.Sign(&wire.Credential{Deployment: testbed.Deployment, HostKey: s.host.Public(),
		Devices: capacity, FirstKey: first.Public()}, s.Registrar)
	var err error
	s.config.Hosts, err = wire.NewHosts([]wire.HostKeys{{First: [32]byte(first.Public()),
		Then: [][32]byte{[32]byte(s.host.Public())}}})
	s.must(err)
	return func() { s.host, s.credential = first, credential }
}

// A host whose key is replaced in the middle of an epoch keeps its devices' slots and gains none: the new key's devices
// are the old one's, in this cohort and in the next. What the old key signs is refused, also where it was signed
// before.
func TestAHostsNewKeyGivesNoDeviceASecondPlace(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	s.start()
	s.open(s.announcement())
	s.enrol(12)
	s.send(s.report(0))
	s.admitted(1)
	before := s.report(1) // signed with the old key, and not admitted yet
	s.must(s.stop())

	newKey, newCredential := func() (*seal.Identity, []byte) {
		old := s.replace()
		key, credential := s.host, s.credential
		old()
		return key, credential
	}()
	s.start()
	s.send(before)
	if r := s.ask(2); r.Refusal != wire.RefusalNoCredential {
		t.Errorf("the old key asks: %+v", r)
	}
	s.host, s.credential = newKey, newCredential
	if r := s.ask(2); !r.Enrolled || !r.Held || r.Slot != 2 {
		t.Errorf("the new key asks for a slot that the old one got: %+v", r)
	}
	for device := uint32(2); device < 12; device++ {
		s.send(s.report(device))
	}
	s.pass(11)
	if m := s.manifest(1, 0); m.Reports != 11 {
		t.Errorf("%d reports in the release, expected 11: all but the one of the old key", m.Reports)
	}
	s.finished()
	s.account(11, 0, map[wire.Refusal]int{wire.RefusalNoCredential: 1})

	next := s.announcement()
	next.Epoch, next.Previous = 2, s.digest[:]
	s.open(next)
	if r := s.ask(3); r.Refusal != wire.RefusalAlreadyEnrolled {
		t.Errorf("a device of the old key in the second cohort: %+v", r)
	}
	if r := s.ask(30); !r.Enrolled {
		t.Errorf("a device that was in no cohort: %+v", r)
	}
}

// A shuffler that has not got the bundle with a host's new key refuses that key: it could not tell the host's devices
// from new ones.
func TestANewKeyThatTheBundleDoesNotListIsRefused(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	s.start()
	s.open(s.announcement())
	s.enrol(2)
	s.replace()
	if r := s.ask(2); r.Enrolled || r.Refusal != wire.RefusalNoCredential {
		t.Errorf("%+v", r)
	}
}

// Workers open reports, and their lead knows which keys are in force.
func TestALeadRefusesTheOldKeyOfAHost(t *testing.T) {
	t.Parallel()
	c := newCrew(t)
	old := c.replace()
	c.start()
	c.work(nil)
	c.open(c.announcement())
	c.enrol(3)
	old()
	c.send(c.report(0))
	c.account(0, 0, map[wire.Refusal]int{wire.RefusalNoCredential: 1})
}

// What a worker opens of a host with a new key is for the slots that the host's first key has.
func TestALeadKnowsTheDevicesOfANewKey(t *testing.T) {
	t.Parallel()
	c := newCrew(t)
	c.replace()
	c.start()
	c.work(nil)
	c.open(c.announcement())
	c.enrol(3)
	c.send(c.report(0))
	c.admitted(1)
}
