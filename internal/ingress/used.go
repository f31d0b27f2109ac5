package ingress

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"errors"
	"sync"

	"github.com/riffle-dp/riffle/pkg/wire"
)

// errAnother says that a ticket's report of the round is another one than this.
var errAnother = errors.New("ingress: the ticket's report is another one")

// used knows what this process stored under the tickets of the newest round that it was asked about: 40 bytes or so for
// each slot. It is a memory of answers, no state: see the package's comment for what happens without it.
type used struct {
	mu    sync.Mutex
	at    place
	slots map[uint32]*use
}

// use is the first report of a slot that is stored, or is on its way.
type use struct {
	digest [sha256.Size]byte
	done   chan struct{} // closed once it is stored, or not; nil: it is
}

// once stores a slot's report of a round, unless it is stored. A second one at the same time waits for the first. The
// error is errAnother where a report with another digest is stored; the context's; or that of store, and then another
// may be stored in its place.
func (u *used) once(ctx context.Context, at place, slot uint32, digest [sha256.Size]byte, store func() error) error {
	for {
		first, mine := u.begin(at, slot, digest)
		switch {
		case mine:
			return u.end(at, slot, first, store())
		case first.done == nil && first.digest == digest:
			return nil
		case first.done == nil:
			return errAnother
		}
		select {
		case <-first.done:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// begin is a copy of what is known of a slot, or a new entry, which is the caller's to end.
func (u *used) begin(at place, slot uint32, digest [sha256.Size]byte) (now use, mine bool) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.at.before(at) || u.slots == nil {
		u.at, u.slots = at, map[uint32]*use{}
	}
	if u.at == at {
		if first := u.slots[slot]; first != nil {
			return *first, false
		}
	}
	own := &use{digest, make(chan struct{})}
	if u.at == at { // of an earlier round, which ended while this request came, nothing is remembered
		u.slots[slot] = own
	}
	return *own, true
}

// end notes what became of the caller's own.
func (u *used) end(at place, slot uint32, own use, err error) error {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.at == at {
		if err == nil {
			u.slots[slot].done = nil
		} else {
			delete(u.slots, slot)
		}
	}
	close(own.done)
	return err
}

// hmacEqual compares in a time that tells nothing of where two tickets differ.
func hmacEqual(a, b wire.Ticket) bool { return hmac.Equal(a[:], b[:]) }
