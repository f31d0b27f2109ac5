package cohort

import (
	"testing"
)

// What is known of a host's devices proves what its credential covered: of the cohort that is open, of earlier ones and
// of those that registered.
func TestDevicesProveWhatACredentialCovered(t *testing.T) {
	s := newScript(t, 1)
	s.must(s.open(announcement(1, 0, 2, 1, 1), digest(1)))
	for _, n := range []int{70, 5} {
		_, _, err := s.enrol(n, 1, digest(1))
		s.must(err)
	}
	for host, most := range CoveredBy(s.state) {
		if most != 71 {
			t.Errorf("in the open cohort: %d devices of %x", most, host[:2])
		}
	}
	s.state.devices.add(deviceKey{0, 95})
	s.state.registered.add(DeviceID{[32]byte{9}, 600})
	got := CoveredBy(s.state)
	if got[*s.state.hosts.keys.at(0)] != 96 || got[[32]byte{9}] != 601 || len(got) != 2 {
		t.Errorf("%v", got)
	}
}
