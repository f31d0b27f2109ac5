package shares

import (
	"testing"
)

// The sums of a release are those of its members' entries, and with server noise no more than that above them.
func TestAReleaseCountsTheMembersEntries(t *testing.T) {
	t.Parallel()
	d := newDeployment(t)
	s := d.newScene(size)
	s.exact(s.released(s.run(), nil))
	for _, one := range []uint64{1, 64} {
		s = d.newScene(size+5, noise(one, 2*one))
		counts := s.released(s.run(), nil)
		s.within(counts, 3*one)
	}
}
