package ingress

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"net/http"
	"time"

	"github.com/riffle-dp/riffle/internal/bus"
	"github.com/riffle-dp/riffle/pkg/wire"
)

// ticketHeader is the header of a report that shows the ticket of its slot.
const ticketHeader = "Riffle-Ticket"

// storeTime is how long the broker may take to store a report.
const storeTime = 20 * time.Second

// report stores a report. Everything that its header tells is checked before its body is read, and its body before the
// broker hears of it.
func (s *Ingress) report(w http.ResponseWriter, r *http.Request) error {
	at, err := parsePlace(r.PathValue("round"))
	if err != nil {
		return err
	}
	var digest [sha256.Size]byte
	if name := r.PathValue("digest"); hex.DecodedLen(len(name)) != len(digest) ||
		hex.EncodeToString(decoded(name)) != name {
		return wrong(http.StatusBadRequest, Malformed, "a report is named by its SHA-256, in 64 lower-case hex digits")
	} else {
		copy(digest[:], decoded(name))
	}
	ticket, slot, err := wire.ParseTicketHeader(r.Header.Get(ticketHeader))
	if err != nil || !hmacEqual(ticket, wire.NewTicket(s.c.Ticket, s.c.Deployment, at.epoch, slot)) {
		return wrong(http.StatusForbidden, NoTicket, "the header %s is not the ticket of a slot of epoch %d",
			ticketHeader, at.epoch)
	}
	l, err := s.open(at, slot)
	if err != nil {
		return err
	}
	body, release, err := s.bodies.read(w, r, l.size)
	if err != nil {
		return err
	}
	defer release()
	if sha256.Sum256(body) != digest {
		return wrong(http.StatusBadRequest, WrongDigest, "the body has another SHA-256 than its path says")
	}
	ctx, cancel := detached(r, storeTime)
	defer cancel()
	err = s.used.once(ctx, at, slot, digest, func() error {
		return s.batches.store(ctx, bus.Ticketed{Epoch: at.epoch, Round: at.round, Ticket: ticket[:], Payload: body})
	})
	switch {
	case err == nil:
	case errors.Is(err, errAnother):
		return wrong(http.StatusConflict, Repeated, "the ticket's report of the round is another one, and is stored")
	case errors.Is(err, bus.ErrFull):
		return later(30*time.Second, NoRoom, "the broker has no room for reports now")
	default:
		return later(time.Second, Unknown, "the broker's answer did not come: repeat the same request")
	}
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(http.StatusNoContent)
	return nil
}

// open is the round at a place, if it takes the slot's report: the last one announced. A round is over when the next
// one is announced, since its result decides on that.
func (s *Ingress) open(at place, slot uint32) (link, error) {
	last, any := s.chain.last()
	switch {
	case !any || last.at.before(at):
		return link{}, later(time.Second, NotAnnounced, "round %d of epoch %d is not announced here yet", at.round,
			at.epoch)
	case at.before(last.at), last.size == 0:
		return link{}, wrong(http.StatusGone, Late, "round %d of epoch %d is over", at.round, at.epoch)
	case slot >= last.slots:
		return link{}, wrong(http.StatusForbidden, NoTicket, "the cohort of epoch %d has no slot %d", at.epoch, slot)
	}
	return last, nil
}

// decoded is what hex digits say; nothing where they are none.
func decoded(digits string) []byte {
	b, _ := hex.DecodeString(digits) // compared with what it must be
	return b
}
