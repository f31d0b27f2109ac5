package envelope

import (
	"encoding/binary"
	"errors"
	"runtime"
	"slices"
	"sync"

	"github.com/riffle-dp/riffle/internal/channel"
	"github.com/riffle-dp/riffle/internal/channel/chunks"
	"github.com/riffle-dp/riffle/internal/role/outcome"
	"github.com/riffle-dp/riffle/internal/worker"
	devices "github.com/riffle-dp/riffle/pkg/channel"
	"github.com/riffle-dp/riffle/pkg/channel/envelope"
	"github.com/riffle-dp/riffle/pkg/protocol"
	"github.com/riffle-dp/riffle/pkg/seal"
	"github.com/riffle-dp/riffle/pkg/wire"
)

// TaskCount is the kind of task by which a worker opens a chunk of envelopes and adds them up.
const TaskCount = "count-boxes"

// CountHandler opens chunks of envelopes on all processors and adds up their entries, for rounds whose analyzer's key
// is among keys. Who of them is counted is the lead's decision.
func CountHandler(from chunks.Reader, keys []*seal.HPKEKey, verifier *devices.Verifier) worker.Handler {
	size := func(of *channel.Round) int { return envelope.Size(of.Encodings) }
	return chunks.Handler(from, keys, size, func(of *channel.Round, envelopes []byte) ([]byte, error) {
		opener, err := envelope.NewOpener(of.Announcement, of.Digest, of.Key, verifier)
		if err != nil {
			return nil, err
		}
		return open(opener, envelopes, size(of)).sumUp().append(nil), nil
	})
}

// Found is what was in the envelopes of one chunk, in their order: 73 bytes of each, and their sum.
type Found struct {
	sum     []uint64 // of the entries of all envelopes that are not refused
	by      []devices.Present
	refused []byte // 0, or what refusals has at this number less 1

	envelopes []byte // as they came; only where a curator reads records
	// entries are of all envelopes, one after another; zeros for an envelope that is refused. Only where a curator
	// reads records, and of pairs.
	entries []uint32
}

// refusals are why an envelope is refused that is looked at alone. A worker's answer names them by number.
var refusals = [...]outcome.Reason{chunks.Undecryptable, OutOfRange, NoCredential}

func (f *Found) reason(i int) outcome.Reason {
	if f.refused[i] == 0 {
		return ""
	}
	return refusals[f.refused[i]-1]
}

// sumUp keeps the sum of all entries in place of the entries.
func (f *Found) sumUp() *Found {
	each := len(f.entries) / max(1, len(f.by))
	f.sum = make([]uint64, each)
	for i, entry := range f.entries {
		f.sum[i%each] += uint64(entry)
	}
	clear(f.entries)
	f.entries = nil
	return f
}

// foundEach is what append appends of each envelope.
const foundEach = 1 + devices.PresentSize

// append appends what parseFound reads: of each envelope the number of its refusal and whose it is, and then each
// sum as 8 bytes, big endian.
func (f *Found) append(b []byte) []byte {
	for i, by := range f.by {
		b = by.Append(append(b, f.refused[i]))
	}
	for _, n := range f.sum {
		b = binary.BigEndian.AppendUint64(b, n)
	}
	return b
}

var errFound = errors.New("envelope: what a worker found is not about envelopes of this round")

// parseFound reads what a worker found in this many envelopes of a round with these encodings.
func parseFound(encodings []protocol.Encoding, envelopes int, b []byte) (*Found, error) {
	var most []uint64
	for _, e := range encodings {
		for j := range e.Coordinates {
			most = append(most, uint64(e.MessagesAt(j)))
		}
	}
	if len(b) != envelopes*foundEach+8*len(most) {
		return nil, errFound
	}
	f := &Found{
		by: make([]devices.Present, envelopes), refused: make([]byte, envelopes), sum: make([]uint64, len(most)),
	}
	in := uint64(envelopes)
	for i := range envelopes {
		f.refused[i], f.by[i] = b[0], devices.ParsePresent([devices.PresentSize]byte(b[1:]))
		b = b[foundEach:]
		if int(f.refused[i]) > len(refusals) {
			return nil, errFound
		}
		if f.refused[i] != 0 {
			in--
		}
	}
	for i := range f.sum {
		if f.sum[i] = binary.BigEndian.Uint64(b[8*i:]); f.sum[i] > in*most[i] {
			return nil, errFound
		}
	}
	return f, nil
}

// open opens envelopes on all processors.
func open(opener *envelope.Opener, envelopes []byte, size int) *Found {
	n, parts, each := len(envelopes)/size, runtime.GOMAXPROCS(0), opener.Entries()
	f := &Found{entries: make([]uint32, n*each), by: make([]devices.Present, n), refused: make([]byte, n)}
	var opening sync.WaitGroup
	for p := range parts {
		opening.Go(func() {
			for i := p * n / parts; i < (p+1)*n/parts; i++ {
				_, by, err := opener.Open(f.entries[i*each:i*each:(i+1)*each], envelopes[i*size:(i+1)*size])
				f.by[i] = by
				if err != nil {
					f.refused[i] = byte(slices.Index(refusals[:], reason(err)) + 1)
				}
			}
		})
	}
	opening.Wait()
	return f
}

// reason is why an envelope is refused that did not open with this error.
func reason(err error) outcome.Reason {
	if errors.Is(err, envelope.ErrRange) {
		return OutOfRange
	}
	switch wire.Reason(err) {
	case wire.RefusalUndecryptable, wire.RefusalWrongSize:
		return chunks.Undecryptable
	}
	return NoCredential
}
