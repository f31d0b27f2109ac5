// Package panel draws the cohort of an epoch from the devices that registered before: the devices of smallest rank, by
// a seed to which shuffler and analyzer contribute and that neither can choose.
//
// The analyzer commits to its contribution in the announcement (Commit). The shuffler then fixes the devices to draw
// from and its own contribution, and signs both as the pool (wire.Pool), before it can know the analyzer's. Only then
// the analyzer reveals its contribution (wire.Draw). The seed follows from both (NewSeed): if one of the two servers is
// honest, it is uniform and independent of the pool.
//
// This package has no clock, network or randomness of its own.
package panel

import (
	"bytes"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/binary"
	"slices"

	"github.com/riffle-dp/riffle/pkg/transparency"
)

// The domains of hashes. Each ends in a zero byte, so that none is the start of another.
const (
	commitDomain = "riffle/v1/panel-commitment\x00"
	seedDomain   = "riffle/v1/panel-seed\x00"
	rankDomain   = "riffle/v1/panel-rank\x00"
	deviceDomain = "riffle/v1/panel-device\x00"
)

// ContributionSize is the length in bytes of a server's contribution to a seed.
const ContributionSize = 32

// Device names a device: its host's Ed25519 public key, and its number there.
type Device struct {
	Host   [32]byte
	Number uint32
}

func (d Device) append(b []byte) []byte {
	return binary.BigEndian.AppendUint32(append(b, d.Host[:]...), d.Number)
}

// Commit is what the analyzer announces of its contribution before it reveals it.
func Commit(contribution []byte) [32]byte {
	return sha256.Sum256(append([]byte(commitDomain), contribution...))
}

// Opens reports whether a contribution is the one of a commitment.
func Opens(commitment, contribution []byte) bool {
	c := Commit(contribution)
	return len(contribution) == ContributionSize && subtle.ConstantTimeCompare(c[:], commitment) == 1
}

// Seed is what an epoch's panel follows from.
type Seed [32]byte

// NewSeed takes the digest of the shuffler's signed pool, which covers the announcement, the devices and the shuffler's
// contribution, and the analyzer's contribution.
func NewSeed(pool [32]byte, analyzer []byte) Seed {
	b := append([]byte(seedDomain), pool[:]...)
	return sha256.Sum256(append(b, analyzer...))
}

// Rank orders devices: those of smallest rank form the panel.
type Rank [32]byte

// Rank is a device's rank under the seed.
func (s Seed) Rank(d Device) Rank {
	return sha256.Sum256(d.append(append([]byte(rankDomain), s[:]...)))
}

// Compare orders ranks.
func (r Rank) Compare(q Rank) int { return bytes.Compare(r[:], q[:]) }

// Panel returns the devices of smallest rank, in ascending order of rank: as many as the size, or all if there are
// fewer. It changes nothing of registered, whose order does not matter. A device that occurs twice is drawn once.
func (s Seed) Panel(registered []Device, size int) []Device {
	type ranked struct {
		Device
		rank Rank
	}
	all := make([]ranked, len(registered))
	for i, d := range registered {
		all[i] = ranked{d, s.Rank(d)}
	}
	slices.SortFunc(all, func(a, b ranked) int { return a.rank.Compare(b.rank) })
	all = slices.CompactFunc(all, func(a, b ranked) bool { return a.Device == b.Device })
	out := make([]Device, 0, min(size, len(all)))
	for _, r := range all[:cap(out)] {
		out = append(out, r.Device)
	}
	return out
}

// Root is the Merkle root over the hashes of devices, whose order does not matter: what a pool says of them.
func Root(registered []Device) [32]byte {
	hashes := make([][32]byte, len(registered))
	for i, d := range registered {
		hashes[i] = sha256.Sum256(d.append([]byte(deviceDomain)))
	}
	return transparency.SortedRoot(hashes)
}
