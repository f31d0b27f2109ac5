package envelope

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"

	"github.com/riffle-dp/riffle/internal/channel"
	"github.com/riffle-dp/riffle/internal/channel/chunks"
	"github.com/riffle-dp/riffle/internal/role/outcome"
	"github.com/riffle-dp/riffle/pkg/channel/envelope"
	"github.com/riffle-dp/riffle/pkg/learn"
	"github.com/riffle-dp/riffle/pkg/plan"
	"github.com/riffle-dp/riffle/pkg/wire"
)

// Curator reads the records of one round after the other, and adds the noise to what it gives out.
type Curator interface {
	// Absorb takes the records of the next round and returns what leaves, as wire.ReleaseCounts.Curated. After an error
	// the curator is used no more.
	Absorb(records []learn.Record) ([]int64, error)
	// Replay takes the records of the next round and what Absorb returned for them, and draws no noise.
	Replay(records []learn.Record, curated []int64) error
}

// Curating is the analyzer's side of the channel central in rounds of records (plan.Curator).
//
// # What it guarantees
//
// Records in the clear are in this process's memory only. What the curator gives out is drawn once for a round, and
// is on the disk before Count returns it; it stays there, so that a broker whose data was set back gets the same
// again. Where it shows other envelopes then, or a destroyed cohort, Count stops (ErrGivenOut): going on would give out
// a second time what holds the records of the rounds before. A later process builds the same curator from what was
// given out and from the envelopes of the rounds before, as they came: sealed, and only those that were counted. They
// are kept on the disk until End, since the curator needs the records of all rounds as long as it gives out anything.
// Whoever has the disk and the analyzer's private key can read them, and no one else.
type Curating struct {
	*Counting
	New func() Curator // a curator before the first round

	past     []curatedRound
	curator  Curator // nil: it must be built from what is kept
	absorbed int     // rounds that the curator was given
	given    []int64 // what it gave out for the last of them
}

// ErrGivenOut says that the curator gave something out for a round that was over then, and now is another: the broker's
// data was set back, and the round went another way. Nothing more may be given out.
var ErrGivenOut = errors.New("the curator gave out noised sums for this round already, and the broker's data was set " +
	"back since: restore the broker's newer data, or start a new deployment, since going on would reveal more of the " +
	"people of earlier rounds than was promised to them")

// curatedRound is a round that is in the audit log.
type curatedRound struct {
	*channel.Round
	curated []int64
}

const (
	sealedDomain  = "riffle/v1/sealed-records\x00"
	curatedDomain = "riffle/v1/curated\x00"
)

func sealedFile(of *channel.Round) string {
	return fmt.Sprintf("sealed-%d-%d", of.Epoch, of.Announcement.Round)
}

func curatedFile(of *channel.Round) string {
	return fmt.Sprintf("curated-%d-%d", of.Epoch, of.Announcement.Round)
}

// Count waits for all chunks that the manifest names, opens the envelopes and lets the curator read them.
func (c *Curating) Count(
	ctx context.Context, of *channel.Round, manifest channel.Manifest,
) ([]wire.ReleaseCounts, error) {
	opener, err := envelope.NewOpener(of.Announcement, of.Digest, of.Key, c.Verifier)
	if err != nil {
		return nil, err
	}
	size := envelope.Size(of.Encodings)
	// Records are read in this process alone: no worker opens them, and they travel nowhere.
	r, end := c.Begin(ctx, of, chunks.Opening[*Found]{Size: size, Open: func(envelopes []byte) *Found {
		f := open(opener, envelopes, size)
		f.envelopes = envelopes
		return f
	}})
	defer end()
	m, err := manifest(ctx)
	if err != nil {
		return nil, c.over(of, err)
	}
	given, err := c.readCurated(of, m)
	if err != nil {
		return nil, err
	}
	if given == nil {
		if err := c.Complete(ctx, r, m.Chunks); err != nil {
			return nil, err
		}
		if given, err = c.curate(r, m); err != nil {
			return nil, err
		}
	}
	return []wire.ReleaseCounts{{Curated: given}}, nil
}

// over is the error of a round without a manifest: the reason why the round is refused for good only where nothing was
// given out for it.
func (c *Curating) over(of *channel.Round, err error) error {
	var why outcome.Reason
	if !errors.As(err, &why) {
		return err
	}
	b, readErr := channel.ReadFile(c.Disk, curatedFile(of))
	if readErr != nil {
		return readErr
	}
	if b != nil {
		return fmt.Errorf("%w (now the cohort is destroyed)", ErrGivenOut)
	}
	return err
}

// curate lets the curator read a round, and returns what it gave out once that is durable.
func (c *Curating) curate(r *chunks.Round[*Found], m *wire.Manifest) ([]int64, error) {
	var records []learn.Record
	sealed := append([]byte(sealedDomain), r.Digest[:]...)
	each, size := len(r.Encodings[0].Coordinates), envelope.Size(r.Encodings)
	who, err := c.examine(r, m, func(_ uint32, chunk *chunks.Chunk[*Found], counted []bool) error {
		for i, in := range counted {
			if in { // a record that is refused is as one that is null
				records = append(records, record(r.Announcement, chunk.Found.entries[i*each:(i+1)*each]))
				sealed = append(sealed, chunk.Found.envelopes[i*size:(i+1)*size]...)
			}
		}
		clear(chunk.Found.entries)
		return nil
	})
	if err != nil {
		return nil, err
	}
	if err := c.remember(r.Round, who); err != nil {
		return nil, err
	}
	if err := c.catchUp(); err != nil {
		return nil, err
	}
	if err := channel.StoreFile(c.Disk, sealedFile(r.Round), appendChecksum(sealed)); err != nil {
		return nil, err
	}
	curator := c.curator
	c.curator = nil // until all of this is done
	given, err := curator.Absorb(records)
	if err != nil {
		return nil, err
	}
	if err := channel.StoreFile(c.Disk, curatedFile(r.Round), encodeCurated(r.Round, m, given)); err != nil {
		return nil, err
	}
	c.curator, c.absorbed, c.given = curator, c.absorbed+1, given
	return given, nil
}

// encodeCurated is the file of what the curator gave out for a round: its head, the values, 8 bytes each, and SHA-256
// of that.
func encodeCurated(of *channel.Round, m *wire.Manifest, given []int64) []byte {
	b := head(curatedDomain, of, m)
	for _, v := range given {
		b = binary.BigEndian.AppendUint64(b, uint64(v))
	}
	return appendChecksum(b)
}

// readCurated reads what the curator gave out for a round in an earlier process; nil if it did not. The error wraps
// ErrGivenOut if that was for other envelopes, and channel.ErrDamagedState where the file is not whole.
func (c *Curating) readCurated(of *channel.Round, m *wire.Manifest) ([]int64, error) {
	b, err := channel.ReadFile(c.Disk, curatedFile(of))
	if err != nil || b == nil {
		return nil, err
	}
	return decodeCurated(b, of, m)
}

// decodeCurated reads what encodeCurated wrote, with the errors of readCurated.
func decodeCurated(b []byte, of *channel.Round, m *wire.Manifest) ([]int64, error) {
	body, err := cutChecksum(b)
	if err != nil {
		return nil, err
	}
	begin := head(curatedDomain, of, m)
	if !bytes.HasPrefix(body, begin) {
		return nil, fmt.Errorf("%w: now it has other envelopes", ErrGivenOut)
	}
	if body = body[len(begin):]; len(body) == 0 || len(body)%8 != 0 {
		return nil, fmt.Errorf("%w: what the curator gave out has %d bytes", channel.ErrDamagedState, len(body))
	}
	given := make([]int64, len(body)/8)
	for i := range given {
		given[i] = int64(binary.BigEndian.Uint64(body[8*i:]))
	}
	return given, nil
}

// Learned notes a released round whose counts are in the audit log: of this process, or of an earlier one. The
// round's key may be nil where it is not known.
func (c *Curating) Learned(of *channel.Round, counts *wire.Counts) {
	curated := counts.Releases[0].Curated
	c.past = append(c.past, curatedRound{of, curated})
	if c.absorbed == len(c.past) && !slices.Equal(curated, c.given) {
		c.curator = nil // the log had others first
	}
}

// catchUp brings the curator to the end of what is in the audit log, from what is kept of each round. The error wraps
// channel.ErrOldState or channel.ErrDamagedState where that is not all there.
func (c *Curating) catchUp() error {
	if c.curator == nil || c.absorbed > len(c.past) {
		c.curator, c.absorbed = c.New(), 0
	}
	for ; c.absorbed < len(c.past); c.absorbed++ {
		of := c.past[c.absorbed]
		records, err := c.reopen(of.Round)
		if err == nil {
			err = c.curator.Replay(records, of.curated)
		}
		if err != nil {
			c.curator = nil
			return fmt.Errorf("records of epoch %d: %w", of.Epoch, err)
		}
	}
	return nil
}

// reopen reads the records of a round again.
func (c *Curating) reopen(of *channel.Round) ([]learn.Record, error) {
	if of.Key == nil {
		return nil, errors.New("the analyzer's HPKE key of the epoch is not configured, which is needed until the " +
			"last policy is out: bring it back")
	}
	b, err := channel.ReadFile(c.Disk, sealedFile(of))
	if err != nil {
		return nil, err
	}
	if b == nil {
		return nil, fmt.Errorf("%w: they are not there", channel.ErrOldState)
	}
	body, err := cutChecksum(b)
	if err != nil {
		return nil, err
	}
	begin := append([]byte(sealedDomain), of.Digest[:]...)
	size := envelope.Size(of.Encodings)
	if !bytes.HasPrefix(body, begin) || (len(body)-len(begin))%size != 0 {
		return nil, fmt.Errorf("%w: they are another round's", channel.ErrDamagedState)
	}
	body = body[len(begin):]
	opener, err := envelope.NewOpener(of.Announcement, of.Digest, of.Key, c.Verifier)
	if err != nil {
		return nil, err
	}
	f := open(opener, body, size)
	defer clear(f.entries)
	var records []learn.Record
	for i, refused := range f.refused {
		if refused != 0 {
			return nil, fmt.Errorf("%w: an envelope that was read does not open again (%s)", channel.ErrDamagedState,
				f.reason(i))
		}
		records = append(records, record(of.Announcement, f.entries[i*opener.Entries():(i+1)*opener.Entries()]))
	}
	return records, nil
}

// Forget drops the round's chunks from the broker. What a later process needs of it stays until End.
func (c *Curating) Forget(ctx context.Context, epoch uint64, round uint32) error {
	return c.Receiver.Forget(ctx, epoch, round)
}

// End destroys the sealed records of all rounds in the audit log: nothing more is given out. What was given out stays:
// it is public, and a broker that is set back to the first round would have it drawn again. It can be repeated.
func (c *Curating) End() error {
	c.curator = nil
	for _, of := range c.past {
		if err := c.Disk.Remove(sealedFile(of.Round)); err != nil {
			return err
		}
	}
	return nil
}

// record is what the entries of an envelope say.
func record(a *plan.Announcement, entries []uint32) learn.Record {
	arm, reward, explored := plan.DecodeRecord(a.Encodings[0], entries, a.Policy.MaxReward)
	r := learn.Record{Arm: arm, Reward: reward}
	if explored {
		r.Tag = learn.Explored
	}
	return r
}
