package shuffler

import (
	"testing"

	"github.com/riffle-dp/riffle/internal/testing/testbed"
	"github.com/riffle-dp/riffle/pkg/wire"
)

// A running shuffler takes a credential that covers more devices, and from then on refuses the earlier one; after a
// restart it does so by the devices that it knows. A host's slots stay its own.
func TestALaterCredentialEndsTheEarlierOne(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	s.start()
	s.open(s.announcement())
	s.enrol(3)
	raised, _, err := wire.Sign(&wire.Credential{
		Deployment: testbed.Deployment, HostKey: s.host.Public(), Devices: 2 * capacity,
	}, s.Registrar)
	s.must(err)
	later := func(r *wire.EnrolRequest) { r.Credential = raised }
	if r := s.ask(capacity+5, later); !r.Enrolled || r.Slot != 3 {
		t.Fatalf("a device that only the later credential covers: %+v", r)
	}
	if r := s.ask(2, later); !r.Enrolled || r.Slot != 2 {
		t.Errorf("a device with a slot under the later credential: %+v", r)
	}
	for range 2 {
		if r := s.ask(4); r.Enrolled || r.Refusal != wire.RefusalNoCredential {
			t.Errorf("the earlier credential: %+v", r)
		}
		if r := s.ask(capacity+5, later); !r.Enrolled || r.Slot != 3 {
			t.Errorf("the later credential: %+v", r)
		}
		s.must(s.stop())
		s.start()
	}
}
