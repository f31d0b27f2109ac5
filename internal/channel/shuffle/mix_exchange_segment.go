package shuffle

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/hkdf"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/riffle-dp/riffle/internal/channel"
	"github.com/riffle-dp/riffle/pkg/protocol"
	"github.com/riffle-dp/riffle/pkg/seal"
)

// Names of what keys are for that follow from a release's secret.
const (
	segmentDomain = "riffle/v1/mixing-segment"
	repeatsDomain = "riffle/v1/mixing-repeats"
	// Of the shuffler's HPKE keys.
	wrappingDomain = "riffle/v1/mixing-secret"
)

// secret is what everything that the processes of one release exchange is sealed with: 32 bytes that the lead draws for
// the release and forgets with it.
type secret []byte

const secretSize = 32

// draw fills b from the source.
func draw(b []byte, src protocol.Source) []byte {
	for i := 0; i < len(b); i += 8 {
		binary.LittleEndian.PutUint64(b[i:], src.Uint64())
	}
	return b
}

// wrapping is the key that wraps the secrets of releases, of one of the shuffler's HPKE keys.
func wrapping(key []byte) (cipher.AEAD, error) {
	k, err := hkdf.Key(sha256.New, key, nil, wrappingDomain, 32)
	if err != nil {
		return nil, err
	}
	block, err := aes.NewCipher(k)
	if err != nil {
		return nil, err
	}
	return cipher.NewGCM(block)
}

// wrap returns the secret, sealed to whoever has the first of the keys, and bound to the members. The nonce is
// random: a key wraps one secret for each release, and again where a lead dies before its barrier.
func (s secret) wrap(members []byte, keys [][]byte, src protocol.Source) ([]byte, error) {
	if len(keys) == 0 {
		return nil, errKeys
	}
	aead, err := wrapping(keys[0])
	if err != nil {
		return nil, err
	}
	fresh := draw(make([]byte, 16), src)[:aead.NonceSize()]
	return aead.Seal(slices.Clone(fresh), fresh, s, members), nil
}

// unwrap opens a secret with any of the keys.
func unwrap(sealed, members []byte, keys [][]byte) (secret, error) {
	for _, key := range keys {
		aead, err := wrapping(key)
		if err != nil {
			return nil, err
		}
		if n := aead.NonceSize(); len(sealed) > n {
			if s, err := aead.Open(nil, sealed[:n], sealed[n:], members); err == nil {
				return s, nil
			}
		}
	}
	return nil, errKeys
}

// errKeys says that a release cannot go on for want of a key.
var errKeys = errors.New("shuffle: this release was begun with workers under a key of the shuffler's that is not " +
	"here any more: put the old key back beside the new one until the release's manifest is out")

// execution names one execution of a gather task: 16 random bytes. Two executions of the same task have different
// names, so no two segments are ever sealed with one key and nonce.
type execution [16]byte

func (n execution) String() string { return hex.EncodeToString(n[:]) }

// segmentSealer seals and opens the segments of one execution: AES-256-GCM under a key of its own, with the bucket as
// the nonce, bound to deployment, release and announcement. A segment that another execution made, or that is in
// the place of another bucket, does not open.
type segmentSealer struct {
	aead  cipher.AEAD
	bound []byte
}

// errSegment says that a segment is not the one that was stored under its name.
var errSegment = errors.New("shuffle: a segment was altered or exchanged at the broker")

func (s secret) sealer(deployment string, r *channel.Release, n execution) (*segmentSealer, error) {
	key, err := hkdf.Key(sha256.New, s, n[:], segmentDomain, 32)
	if err != nil {
		return nil, err
	}
	block, err := aes.NewCipher(key)
	if err != nil {
		return nil, err
	}
	aead, err := cipher.NewGCM(block)
	if err != nil {
		return nil, err
	}
	at := seal.ReportContext{Deployment: deployment, Epoch: r.Epoch, Round: r.Round}
	return &segmentSealer{aead, append(at.AAD(), r.Announcement[:]...)}, nil
}

// nonce is the bucket's, 12 bytes.
func nonce(bucket uint32) []byte { return binary.BigEndian.AppendUint32(make([]byte, 8, 12), bucket) }

// seal seals a segment in place: b has room for the tag.
func (s *segmentSealer) seal(b []byte, bucket uint32) []byte {
	return s.aead.Seal(b[:0], nonce(bucket), b, s.bound)
}

// open opens a segment in place.
func (s *segmentSealer) open(sealed []byte, bucket uint32) ([]byte, error) {
	b, err := s.aead.Open(sealed[:0], nonce(bucket), sealed, s.bound)
	if err != nil {
		return nil, fmt.Errorf("%w (bucket %d)", errSegment, bucket)
	}
	return b, nil
}

// capacity is how many messages every segment of an execution has room for that scatters so many messages to so many
// buckets: eight standard deviations above the mean. All are padded to it.
func capacity(messages, buckets int) int {
	mean := float64(messages) / float64(buckets)
	return min(messages, int(math.Ceil(mean+8*math.Sqrt(mean)))+8)
}

// digester digests the messages' public keys, to find duplicates.
func (s secret) digester() (*digester, error) {
	key, err := hkdf.Key(sha256.New, s, nil, repeatsDomain, 32)
	if err != nil {
		return nil, err
	}
	return digesterOf(key), nil
}

// digests appends those of messages of this size, one after another: digested bytes each.
func (d *digester) digests(dst, messages []byte, size int) []byte {
	for ; len(messages) >= size; messages = messages[size:] {
		dst = binary.BigEndian.AppendUint64(dst, d.digest(messages))
	}
	return dst
}
