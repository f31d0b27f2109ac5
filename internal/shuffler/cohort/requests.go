package cohort

import (
	"crypto/sha256"
	"encoding/binary"
)

// requests remembers to which requests slots and registrations were given, so that a message that comes a second time,
// or another one with the same request, is not told that somebody else was there before: a host takes that for proof
// that its state is old. A request has a random nonce that its device keeps; whoever runs an older copy of the device's
// state draws another one.
//
// It is kept for the open epoch and the one before: a message is under way for seconds, and an epoch may open
// meanwhile. Per request it is a number of 64 bits, so that two of a billion requests are taken for one with a
// probability below 2^-34 for each that is asked about.
type requests [2]map[uint64]struct{}

// requestOf is the number of a device's request with this nonce.
func requestOf(id DeviceID, nonce uint32) uint64 {
	b := append(make([]byte, 0, len(id.Host)+8), id.Host[:]...)
	b = binary.BigEndian.AppendUint32(binary.BigEndian.AppendUint32(b, id.Number), nonce)
	digest := sha256.Sum256(b)
	return binary.BigEndian.Uint64(digest[:])
}

// granted reports whether what a device has was given to this very request.
func (r *requests) granted(id DeviceID, nonce uint32) bool {
	_, now := r[0][requestOf(id, nonce)]
	_, before := r[1][requestOf(id, nonce)]
	return now || before
}

// grant remembers a request to which a slot or a registration is given.
func (r *requests) grant(id DeviceID, nonce uint32) {
	if r[0] == nil {
		r[0] = map[uint64]struct{}{}
	}
	r[0][requestOf(id, nonce)] = struct{}{}
}

// turn begins an epoch.
func (r *requests) turn() { r[1], r[0] = r[0], nil }
