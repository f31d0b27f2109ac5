package work

import (
	"testing"

	"github.com/riffle-dp/riffle/internal/shuffler/cohort"
	"github.com/riffle-dp/riffle/pkg/wire"
)

// Every field of a claim comes over, and what it says does not show in its length.
func TestClaimsComeOver(t *testing.T) {
	t.Parallel()
	full := Claim{
		Epoch: 1<<40 + 1, Round: 2, Sequence: 1<<40 + 3, Redelivered: true, Unopened: true, Refused: wire.RefusalLate,
		Device: cohort.DeviceID{Host: [32]byte{4, 31: 5}, Number: 6}, Slot: 7, Announced: cohort.Digest{8, 31: 9},
		Digest: cohort.Digest{10, 31: 11},
	}
	for _, c := range []Claim{{}, full, {Redelivered: true}, {Unopened: true}} {
		b := c.Append(nil)
		if len(b) != ClaimSize || readClaim(b) != c {
			t.Errorf("%d bytes, %+v", len(b), readClaim(b))
		}
	}
}
