package cohort

import "testing"

// A request is known by its device and its nonce, in the open epoch and the one before.
func TestAWishIsKnownForTwoEpochs(t *testing.T) {
	var r requests
	id := DeviceID{Number: 3}
	r.grant(id, 7)
	for _, other := range []DeviceID{{Number: 4}, {Host: [32]byte{1}, Number: 3}} {
		if r.granted(other, 7) {
			t.Errorf("the request of device %d of one host is taken for that of device %d of host %x", id.Number,
				other.Number, other.Host[:1])
		}
	}
	for turns, known := range []bool{true, true, false} {
		if r.granted(id, 7) != known {
			t.Errorf("after %d epochs, known %v", turns, !known)
		}
		r.turn()
	}
}
