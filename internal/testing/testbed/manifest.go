package testbed

import (
	"crypto/sha256"
	"encoding/binary"
	"testing"

	"github.com/riffle-dp/riffle/pkg/wire"
)

// RefusedIn demands that a manifest names these refusals and no others, of them so many of reports that were taken out
// of their slots, and that its slots add up.
func RefusedIn(t testing.TB, m *wire.Manifest, want, takenOut map[wire.Refusal]int) {
	t.Helper()
	slots, last := m.Reports, wire.NoRefusal
	for _, r := range m.Refused {
		if int(r.Reports) != want[r.Reason] || int(r.TakenOut) != takenOut[r.Reason] || r.Reason <= last {
			t.Errorf("the manifest says %+v, want %v, of them taken out %v", m.Refused, want, takenOut)
		}
		slots, last = slots+r.TakenOut, r.Reason
	}
	if len(m.Refused) != len(want) || slots > m.Enrolled {
		t.Errorf("the manifest says %+v, want %v; %d slots of %d", m.Refused, want, slots, m.Enrolled)
	}
}

// Contribution is the analyzer's to the draw of an epoch's panel.
func Contribution(epoch uint64) []byte {
	c := sha256.Sum256(binary.BigEndian.AppendUint64([]byte("analyzer"), epoch))
	return c[:]
}
