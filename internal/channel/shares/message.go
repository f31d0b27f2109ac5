package shares

import (
	"cmp"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"

	"github.com/riffle-dp/riffle/internal/role/outcome"
	"github.com/riffle-dp/riffle/pkg/channel/shares"
	"github.com/riffle-dp/riffle/pkg/seal"
	"github.com/riffle-dp/riffle/pkg/wire"
)

// The messages of a round. The shuffler's are chunks: chunk 0 is the header, chunks 1 to n are prepare messages of
// reports (pkg/channel/shares), and chunk n+1 is the sum. The analyzer's are answers: answer i to chunk i of 1 to n,
// and answer 0, which ends the round, is its signed statement of the reports that it accepted. All integers are big
// endian.

// maxMessages is how many reports are prepared in one chunk, where they fit.
const maxMessages = 512

// messagesPerChunk is how many prepare messages of this size are in one chunk, at most wanted, or maxMessages where
// that is 0. It follows from the announcement.
func messagesPerChunk(size, wanted int) int {
	return max(1, min(cmp.Or(wanted, maxMessages), (wire.MaxChunk-countSize)/size))
}

const countSize = 4

// statementIndex is the index of the answer that ends a round.
const statementIndex = 0

// header is chunk 0: how many chunks of prepare messages follow, the number of members, and the epoch's secret, sealed
// to the analyzer.
type header struct {
	chunks, reports uint32
	secret          []byte
}

const secretSize = seal.EnvelopeOverhead + shares.SecretSize

func (h header) encode() []byte {
	b := binary.BigEndian.AppendUint32(nil, h.chunks)
	b = binary.BigEndian.AppendUint32(b, h.reports)
	return append(b, h.secret...)
}

func parseHeader(b []byte) (h header, err error) {
	if len(b) != 8+secretSize {
		return h, fmt.Errorf("a header of %d bytes, must have %d", len(b), 8+secretSize)
	}
	return header{binary.BigEndian.Uint32(b), binary.BigEndian.Uint32(b[4:]), b[8:]}, nil
}

// parseMessages splits the payload of a chunk of prepare messages: their number, 4 bytes, and the messages. There may
// be none. most is how many there may be.
func parseMessages(b []byte, size, most int) ([][]byte, error) {
	if len(b) < countSize {
		return nil, fmt.Errorf("prepare messages of %d bytes", len(b))
	}
	n, rest := uint64(binary.BigEndian.Uint32(b)), b[countSize:]
	if n > uint64(most) || uint64(len(rest)) != n*uint64(size) {
		return nil, fmt.Errorf("%d prepare messages in %d bytes, each has %d and a chunk at most %d",
			n, len(rest), size, most)
	}
	messages := make([][]byte, 0, n)
	for ; len(rest) > 0; rest = rest[size:] {
		messages = append(messages, rest[:size])
	}
	return messages, nil
}

// verdictSize is the length of what an answer says of one prepare message: a refusal's number or 0, and the two
// servers' preparation shares combined, which is zero for a refused message.
const verdictSize = 1 + shares.AnswerSize

// parseAnswer splits an answer about this many prepare messages.
func parseAnswer(b []byte, messages int) ([][]byte, error) {
	if len(b) != messages*verdictSize {
		return nil, fmt.Errorf("an answer of %d bytes about %d prepare messages, must have %d",
			len(b), messages, messages*verdictSize)
	}
	return slices.Collect(slices.Chunk(b, verdictSize)), nil
}

// sum is chunk n+1: the set whose sum it is, and the shuffler's share of the sum with its noise.
type sum struct {
	set   set
	share []byte
}

// set is a set of reports: how many, and SHA-256 over their nonces in ascending order.
type set struct {
	Reports uint32
	Digest  [sha256.Size]byte
}

type nonce = [shares.NonceSize]byte

// setOf sorts the nonces. It refuses a duplicate nonce.
func setOf(nonces []nonce) (set, error) {
	slices.SortFunc(nonces, func(a, b nonce) int { return slices.Compare(a[:], b[:]) })
	h := sha256.New()
	for i, n := range nonces {
		if i > 0 && n == nonces[i-1] {
			return set{}, errors.New("duplicate nonce in a set of reports")
		}
		h.Write(n[:])
	}
	return set{uint32(len(nonces)), [sha256.Size]byte(h.Sum(nil))}, nil
}

func (s sum) encode() []byte {
	b := binary.BigEndian.AppendUint32(nil, s.set.Reports)
	return append(append(b, s.set.Digest[:]...), s.share...)
}

// sumFixed is the length of what precedes the share.
const sumFixed = 4 + sha256.Size

func parseSum(b []byte, shareSize int) (s sum, err error) {
	if len(b) != sumFixed+shareSize {
		return s, fmt.Errorf("a sum of %d bytes, must have %d", len(b), sumFixed+shareSize)
	}
	return sum{set{binary.BigEndian.Uint32(b), [sha256.Size]byte(b[4:])}, b[sumFixed:]}, nil
}

// reason is a refusal as an error that a role's account knows.
func reason(r wire.Refusal) outcome.Reason { return outcome.Reason(r.String()) }

// refusalOf is the refusal with this number; malformed where there is none.
func refusalOf(number byte) wire.Refusal {
	if r := wire.Refusal(number); slices.Contains(wire.Refusals(), r) {
		return r
	}
	return wire.RefusalMalformed
}

// name is a file of a round on a server's disk.
func name(what string, epoch uint64, round uint32) string {
	return fmt.Sprintf("shares-%s-%d-%d", what, epoch, round)
}
