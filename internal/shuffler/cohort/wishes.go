package cohort

import (
	"crypto/sha256"
	"encoding/binary"
)

// wishes remembers to which wishes slots and registrations were given, so that a request that comes a second time, or
// another one because of the same wish, is not told that somebody else was there before: a host takes that for proof
// that its state is old. A wish has a random nonce that its device keeps; whoever runs an older copy of the device's
// state draws another one.
//
// It is kept for the open epoch and the one before: a request is under way for seconds, and an epoch may open
// meanwhile. Per wish it is a number of 64 bits, so that two of a billion wishes are taken for one with a probability
// below 2^-34 for each that is asked about.
type wishes [2]map[uint64]struct{}

// wish is the number of a device's wish with this nonce.
func wish(id DeviceID, nonce uint32) uint64 {
	b := append(make([]byte, 0, len(id.Host)+8), id.Host[:]...)
	b = binary.BigEndian.AppendUint32(binary.BigEndian.AppendUint32(b, id.Number), nonce)
	digest := sha256.Sum256(b)
	return binary.BigEndian.Uint64(digest[:])
}

// granted reports whether what a device has was given to this very wish.
func (w *wishes) granted(id DeviceID, nonce uint32) bool {
	_, now := w[0][wish(id, nonce)]
	_, before := w[1][wish(id, nonce)]
	return now || before
}

// grant remembers a wish to which a slot or a registration is given.
func (w *wishes) grant(id DeviceID, nonce uint32) {
	if w[0] == nil {
		w[0] = map[uint64]struct{}{}
	}
	w[0][wish(id, nonce)] = struct{}{}
}

// turn begins an epoch.
func (w *wishes) turn() { w[1], w[0] = w[0], nil }
