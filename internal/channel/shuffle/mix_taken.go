package shuffle

import (
	"bytes"
	"cmp"
	"context"
	"encoding/binary"
	"fmt"
	"slices"
	"sync"

	"golang.org/x/sync/errgroup"

	"github.com/riffle-dp/riffle/internal/channel"
	"github.com/riffle-dp/riffle/internal/channel/spill"
)

// Reports are kept as they are admitted, in the order in which they are, each with who it is from. That would undo the
// protection if anyone saw it, so they are in memory and, beyond the store's bound, in a file that only this process
// can read and that goes with it. A release never rests on them: its members say whose reports it has, and a member's
// report that is not here is read again from the broker.

// roundID names a round.
type roundID struct {
	epoch uint64
	round uint32
}

func (a roundID) compare(b roundID) int {
	return cmp.Or(cmp.Compare(a.epoch, b.epoch), cmp.Compare(a.round, b.round))
}

// taken are reports by round. Its zero value has none. It is safe for concurrent use.
type taken struct {
	mu    sync.Mutex
	piles map[roundID]*spill.Pile
}

// memberSize is how many bytes precede a payload: slot, sequence, digest.
const memberSize = 4 + 8 + 32

// memberBytes is how a member is written before its payload.
func memberBytes(m channel.Member) (b [memberSize]byte) {
	binary.BigEndian.PutUint32(b[:], m.Slot)
	binary.BigEndian.PutUint64(b[4:], m.Sequence)
	copy(b[12:], m.Digest[:])
	return b
}

// pile is the one of a round.
func (t *taken) pile(store *spill.Store, id roundID) *spill.Pile {
	t.mu.Lock()
	defer t.mu.Unlock()
	p := t.piles[id]
	if p == nil {
		if t.piles == nil {
			t.piles = map[roundID]*spill.Pile{}
		}
		p = store.Pile()
		t.piles[id] = p
	}
	return p
}

func (t *taken) add(store *spill.Store, id roundID, m channel.Member, payload []byte) error {
	head := memberBytes(m)
	return t.pile(store, id).Append(head[:], payload)
}

// forget drops the reports of this round and of those before it.
func (t *taken) forget(last roundID) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for id, p := range t.piles {
		if id.compare(last) <= 0 {
			_ = p.Close() // never fails
			delete(t.piles, id)
		}
	}
}

// readers is how many reports are read from the broker at the same time.
const readers = 16

// gather calls f with the payload of every member of the release, once, in no order that means anything. f is called by
// one goroutine at a time, and the payload is valid only during the call.
func (m *Mixing) gather(ctx context.Context, r *channel.Release, f func(slot uint32, payload []byte) error) error {
	each, id := r.Layout.Size(), roundID{r.Epoch, r.Round}
	found := make([]bool, len(r.Members))
	err := m.taken.pile(m.Store, id).Read(memberSize+each, func(b []byte) error {
		for ; len(b) > 0; b = b[memberSize+each:] {
			i, ok := slices.BinarySearchFunc(r.Members, binary.BigEndian.Uint32(b), bySlot)
			if !ok || found[i] {
				continue
			}
			if head := memberBytes(r.Members[i]); !bytes.Equal(head[:], b[:memberSize]) {
				continue // another report of this slot, which is not a member
			}
			found[i] = true
			if err := f(r.Members[i].Slot, b[memberSize:memberSize+each]); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	var missing []channel.Member
	for i, member := range r.Members {
		if !found[i] {
			missing = append(missing, member)
		}
	}
	return m.reread(ctx, r, missing, f)
}

func bySlot(m channel.Member, slot uint32) int { return cmp.Compare(m.Slot, slot) }

// reread reads reports from the broker, in the order in which they are there, as gather does, and keeps them.
func (m *Mixing) reread(
	ctx context.Context, r *channel.Release, missing []channel.Member, f func(slot uint32, payload []byte) error,
) error {
	slices.SortFunc(missing, func(a, b channel.Member) int { return cmp.Compare(a.Sequence, b.Sequence) })
	reading, reads := errgroup.WithContext(ctx)
	reading.SetLimit(readers)
	var mu sync.Mutex
	for _, member := range missing {
		if reads.Err() != nil {
			break
		}
		reading.Go(func() error {
			report, err := m.Reports(reads, r, member)
			if err != nil {
				return err
			}
			if len(report.Payload) != r.Layout.Size() { // it was so when it was admitted
				return fmt.Errorf("%w: a report of %d bytes, admitted were %d",
					channel.ErrImpossible, len(report.Payload), r.Layout.Size())
			}
			if err := m.Take(r.Epoch, r.Round, member, report.Payload); err != nil {
				return err
			}
			mu.Lock()
			defer mu.Unlock()
			return f(member.Slot, report.Payload)
		})
	}
	return cmp.Or(reading.Wait(), context.Cause(ctx))
}
