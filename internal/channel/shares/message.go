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

// The messages of a round. The shuffler's stand in chunks: chunk 0 is the header, chunks 1 to n are rows of reports,
// and chunk n+1 is the sum. The analyzer's are answers: answer i to chunk i of 1 to n, and answer 0, which ends the
// round, is its signed statement of the reports that it accepted. All integers are big endian.

// maxRows is how many reports are prepared in one chunk, where they fit.
const maxRows = 512

// rowsOf is how many rows of this size stand in one chunk, at most wanted, or maxRows where that is 0. It follows from
// the announcement.
func rowsOf(rowSize, wanted int) int {
	return max(1, min(cmp.Or(wanted, maxRows), (wire.MaxChunk-countSize)/rowSize))
}

const countSize = 4

// statementIndex is the index of the answer that ends a round.
const statementIndex = 0

// header is chunk 0: how many chunks of rows follow, the number of members, and the epoch's secret, sealed to the
// analyzer.
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

// parseRows splits the payload of a chunk of rows: their number, 4 bytes, and the rows. There may be none.
// most is how many there may be.
func parseRows(b []byte, rowSize, most int) ([][]byte, error) {
	if len(b) < countSize {
		return nil, fmt.Errorf("rows of %d bytes", len(b))
	}
	n, rest := uint64(binary.BigEndian.Uint32(b)), b[countSize:]
	if n > uint64(most) || uint64(len(rest)) != n*uint64(rowSize) {
		return nil, fmt.Errorf("%d rows in %d bytes, a row has %d and a chunk at most %d", n, len(rest), rowSize,
			most)
	}
	rows := make([][]byte, 0, n)
	for ; len(rest) > 0; rest = rest[rowSize:] {
		rows = append(rows, rest[:rowSize])
	}
	return rows, nil
}

// verdictSize is the length of what an answer says of one row: a refusal's number or 0, and the preparation message,
// which is zero for a refused row.
const verdictSize = 1 + shares.AnswerSize

// parseAnswer splits an answer about this many rows.
func parseAnswer(b []byte, rows int) ([][]byte, error) {
	if len(b) != rows*verdictSize {
		return nil, fmt.Errorf("an answer of %d bytes about %d rows, must have %d", len(b), rows, rows*verdictSize)
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

// setOf sorts the nonces. It refuses a nonce that stands there twice.
func setOf(nonces []nonce) (set, error) {
	slices.SortFunc(nonces, func(a, b nonce) int { return slices.Compare(a[:], b[:]) })
	h := sha256.New()
	for i, n := range nonces {
		if i > 0 && n == nonces[i-1] {
			return set{}, errors.New("a nonce stands twice in a set of reports")
		}
		h.Write(n[:])
	}
	return set{uint32(len(nonces)), [sha256.Size]byte(h.Sum(nil))}, nil
}

func (s sum) encode() []byte {
	b := binary.BigEndian.AppendUint32(nil, s.set.Reports)
	return append(append(b, s.set.Digest[:]...), s.share...)
}

// sumFixed is the length of what stands before the share.
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
