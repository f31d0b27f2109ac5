package shares

import (
	"bytes"
	"testing"

	"github.com/riffle-dp/riffle/pkg/wire"
)

// FuzzHandover feeds any bytes, also of the right length, as what another process prepared or verified. What is read is
// written as the same bytes; whatever else is a bad share.
func FuzzHandover(f *testing.F) {
	encodings, releases := two()
	fix := newFixture(f, encodings, releases)
	message, pending := fix.message(fix.payload(1, 1, 2, 3, 4))
	f.Add(must(fix.round.AppendPending(nil, pending)))
	f.Add(must(fix.round.AppendVerified(nil, must(fix.helper.Verify(message)))))
	f.Fuzz(func(t *testing.T, data []byte) {
		check := func(b, again []byte, err, written error) {
			if err != nil {
				if why := wire.Reason(err); why != wire.RefusalBadShare {
					t.Fatalf("%v (%v)", err, why)
				}
			} else if written != nil || !bytes.Equal(again, b) {
				t.Fatalf("%x is written as %x, %v", b, again, written)
			}
		}
		for _, b := range [][]byte{data, resize(data, fix.round.PendingSize())} {
			p, err := fix.round.ParsePending(b)
			again, written := fix.round.AppendPending(nil, p)
			check(b, again, err, written)
		}
		for _, b := range [][]byte{data, resize(data, fix.round.VerifiedSize())} {
			v, err := fix.round.ParseVerified(b)
			again, written := fix.round.AppendVerified(nil, v)
			check(b, again, err, written)
		}
	})
}
