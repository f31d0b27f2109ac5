package envelope

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"fmt"

	"github.com/riffle-dp/riffle/internal/channel"
	"github.com/riffle-dp/riffle/internal/channel/chunks"
	"github.com/riffle-dp/riffle/pkg/protocol"
	"github.com/riffle-dp/riffle/pkg/wire"
)

// noisedDomain starts a file of noised sums.
const noisedDomain = "riffle/v1/noised-sums\x00"

// noisedFile is kept as long as the state folder is: what is in it was published, and whoever sets the broker's
// data back to before the counts gets it again, not a second noise over the same sums.
func noisedFile(epoch uint64, round uint32) string { return fmt.Sprintf("noised-%d-%d", epoch, round) }

// addNoise adds the analyzer's noise to the exact sums of a round, in place, and returns them once they are durable.
// Noise of an attempt that ended before that was seen by no one. The noise itself is stored nowhere.
func (c *Counting) addNoise(
	of *channel.Round, m *wire.Manifest, sums []wire.ReleaseCounts,
) ([]wire.ReleaseCounts, error) {
	for i, release := range of.Releases() {
		if release.AnalyzerNoise == 0 { // no plan in range says so; it must hold whatever led here
			return nil, fmt.Errorf("%w: release %d has no noise of the analyzer", chunks.Rejected, i)
		}
		for j := range sums[i].Ones {
			sums[i].Ones[j] += protocol.Binomial(release.AnalyzerNoise, release.Bias, c.Source)
		}
	}
	err := channel.StoreFile(c.Disk, noisedFile(of.Epoch, of.Announcement.Round), encodeNoised(of, m, sums))
	if err != nil {
		return nil, err
	}
	return sums, nil
}

// readNoised reads what addNoise returned to an earlier process; nil if it did not. The error wraps chunks.Rejected if
// that was for other envelopes: with the sums of two sets one could tell what lies between them.
func (c *Counting) readNoised(of *channel.Round, m *wire.Manifest) ([]wire.ReleaseCounts, error) {
	b, err := channel.ReadFile(c.Disk, noisedFile(of.Epoch, of.Announcement.Round))
	if err != nil || b == nil {
		return nil, err
	}
	return decodeNoised(b, of, m)
}

// head is how the file of a round begins: domain, digests of announcement and chunks, and the number of reports.
func head(domain string, of *channel.Round, m *wire.Manifest) []byte {
	b := append([]byte(domain), of.Digest[:]...)
	b = append(b, m.ChunksDigest...)
	return binary.BigEndian.AppendUint32(b, m.Reports)
}

// encodeNoised is the file of a round: its head, the sums of all releases in order, 8 bytes each, and SHA-256 of that.
func encodeNoised(of *channel.Round, m *wire.Manifest, sums []wire.ReleaseCounts) []byte {
	b := head(noisedDomain, of, m)
	for _, release := range sums {
		for _, ones := range release.Ones {
			b = binary.BigEndian.AppendUint64(b, ones)
		}
	}
	return appendChecksum(b)
}

// appendChecksum appends SHA-256 of all that.
func appendChecksum(b []byte) []byte {
	sum := sha256.Sum256(b)
	return append(b, sum[:]...)
}

// cutChecksum returns a file without its checksum. The error wraps channel.ErrDamagedState where it is another.
func cutChecksum(b []byte) ([]byte, error) {
	if len(b) < sha256.Size {
		return nil, fmt.Errorf("%w: a file of %d bytes", channel.ErrDamagedState, len(b))
	}
	body := b[:len(b)-sha256.Size]
	if sum := sha256.Sum256(body); !bytes.Equal(sum[:], b[len(body):]) {
		return nil, fmt.Errorf("%w: a file has another checksum", channel.ErrDamagedState)
	}
	return body, nil
}

// decodeNoised reads what encodeNoised wrote. The error wraps channel.ErrDamagedState where the file is not whole, and
// chunks.Rejected where it is about other envelopes.
func decodeNoised(b []byte, of *channel.Round, m *wire.Manifest) (sums []wire.ReleaseCounts, err error) {
	length := 0
	for _, e := range of.Encodings {
		length += 8 * len(e.Coordinates)
	}
	begin := head(noisedDomain, of, m)
	if want := len(begin) + length + sha256.Size; len(b) != want {
		return nil, fmt.Errorf("%w: noised sums of %d bytes, want %d", channel.ErrDamagedState, len(b), want)
	}
	body, err := cutChecksum(b)
	if err != nil {
		return nil, err
	}
	if !bytes.HasPrefix(body, begin) {
		return nil, fmt.Errorf("%w: other envelopes of the round were summed before", chunks.Rejected)
	}
	body = body[len(begin):]
	for _, e := range of.Encodings {
		ones := make([]uint64, len(e.Coordinates))
		for j := range ones {
			ones[j] = binary.BigEndian.Uint64(body)
			body = body[8:]
		}
		sums = append(sums, wire.ReleaseCounts{Ones: ones})
	}
	return sums, nil
}
