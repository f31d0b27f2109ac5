package panel

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/binary"
)

// ContributionPurpose is for what the analyzer derives the secret of its contributions from its identity
// (seal.Identity.Derive).
const ContributionPurpose = "riffle/v1/panel-contribution"

// Contribution is the analyzer's contribution to the seed of an epoch's panel: HMAC-SHA256, under a secret that no one
// else knows, of the deployment's name, the epoch, and the digest of the announcement before the epoch's first one,
// which is empty for the first epoch. It is the same after any restart, so that an analyzer that lost its memory
// reveals nothing else than what it committed to; and another one in every epoch.
func Contribution(secret [32]byte, deployment string, epoch uint64, previous []byte) [ContributionSize]byte {
	h := hmac.New(sha256.New, secret[:])
	var b []byte
	b = append(binary.BigEndian.AppendUint32(b, uint32(len(deployment))), deployment...)
	b = append(binary.BigEndian.AppendUint64(b, epoch), previous...)
	h.Write(b)
	return [ContributionSize]byte(h.Sum(nil))
}
