package mailbox

import (
	"container/heap"
	"errors"
	"io"
	"net/http"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/riffle-dp/riffle/pkg/problem"
	"github.com/riffle-dp/riffle/pkg/wire"
)

// refusal is why a deposit is not taken.
type refusal struct {
	status int
	reason string
	detail string
	retry  time.Duration // after which the same request may do; 0: never
}

func refused(status int, reason, detail string) *refusal { return &refusal{status, reason, detail, 0} }

func again(status int, reason, detail string, after time.Duration) *refusal {
	return &refusal{status, reason, detail, after}
}

var (
	foreign = refused(http.StatusForbidden, "origin",
		"pages of this origin may not deposit: the mailbox's operator lists those that may")
	unauthorized = refused(http.StatusUnauthorized, "unauthorized", "log in to the app first")
	malformed    = refused(http.StatusBadRequest, "malformed", "the path must be "+
		"/v1/deposits/EPOCH.ROUND/SLOT, with the headers Riffle-Ticket (TICKET.SLOT), Riffle-Due (milliseconds of "+
		"Unix time) and Content-Length")
	tooFar = refused(http.StatusBadRequest, "too_far",
		"the report is due later than this mailbox waits: is the device's clock right?")
	tooLarge = refused(http.StatusRequestEntityTooLarge, "too_large", "the report is longer than reports are here")
	short    = refused(http.StatusBadRequest, "malformed", "the body ended before its length")
	slow     = refused(http.StatusRequestTimeout, "slow", "the body did not come in time")
	late     = refused(http.StatusGone, "late", "the report was due so long ago that its round is over")
	another  = refused(http.StatusConflict, "another", "the account has a deposit in this round with another slot, "+
		"ticket, time or size: only its content can be replaced")
	foreignTicket = refused(http.StatusConflict, "another", "another account has a deposit with this ticket in this "+
		"round: log in as who made it")
	forwarded = refused(http.StatusConflict, "forwarded",
		"the report is on its way: nothing takes its place any more")
	tooMany = again(http.StatusTooManyRequests, "too_many", "the account has deposits in too many epochs", time.Hour)
	busy    = again(http.StatusServiceUnavailable, "busy", "too many deposits come at a time", time.Second)
	noRoom  = again(http.StatusServiceUnavailable, "no_room", "the mailbox is full", time.Minute)
	unknown = again(http.StatusServiceUnavailable, "unknown",
		"the deposit may have been stored, or not: repeat the same request", time.Second)
)

// put takes a deposit.
func (m *Mailbox) put(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Cache-Control", "no-store")
	no := m.take(w, r)
	if no == nil {
		w.WriteHeader(http.StatusNoContent)
		return
	}
	no.write(w)
}

func (no *refusal) write(w http.ResponseWriter) {
	if no.retry > 0 {
		w.Header().Set("Retry-After", strconv.Itoa(int(no.retry/time.Second)))
	}
	problem.Write(w, no.status, no.reason, no.detail)
}

// cross reports whether a page of the request's origin may deposit, and says so in the answer's header.
func (m *Mailbox) cross(w http.ResponseWriter, r *http.Request) bool {
	origin := r.Header.Get("Origin")
	if origin == "" {
		return true
	}
	w.Header().Add("Vary", "Origin")
	if slices.Contains(m.c.Origins, origin) {
		w.Header().Set("Access-Control-Allow-Origin", origin)
		w.Header().Set("Access-Control-Allow-Credentials", "true")
		return true
	}
	return origin == "https://"+r.Host || origin == "http://"+r.Host
}

func (m *Mailbox) take(w http.ResponseWriter, r *http.Request) *refusal {
	if !m.cross(w, r) {
		return foreign
	}
	name, err := m.c.Account(r)
	if err != nil || name == "" {
		return unauthorized
	}
	at, d, ok := parseRequest(r)
	if !ok {
		return malformed
	}
	at.account = m.hash(name)
	now := m.c.Clock.Now()
	switch {
	case d.due.Sub(now) > m.c.MaxWait:
		return tooFar
	case now.Sub(d.due) >= m.c.Keep:
		return late
	case r.ContentLength > int64(m.c.MaxSize):
		return tooLarge
	case !m.bodies.TryAcquire(r.ContentLength):
		return busy
	}
	defer m.bodies.Release(r.ContentLength)
	control := http.NewResponseController(w)
	begun := time.Now()                              // by the connection's clock
	_ = control.SetReadDeadline(begun.Add(bodyTime)) // a server that has none has bounds of its own
	// Servers count the time for an answer from the request's header on. A body may take longer than that, and a device
	// that never hears that the mailbox has its report makes no other.
	_ = control.SetWriteDeadline(begun.Add(bodyTime + answerTime))
	d.body = make([]byte, r.ContentLength)
	if _, err := io.ReadFull(r.Body, d.body); errors.Is(err, os.ErrDeadlineExceeded) {
		return slow
	} else if err != nil {
		return short
	}
	_ = control.SetReadDeadline(time.Time{}) // of the connection, whose next request has times of its own
	return m.store(at, d)
}

// parseRequest reads all but the account and the body.
func parseRequest(r *http.Request) (at place, d deposit, ok bool) {
	epoch, round, found := strings.Cut(r.PathValue("round"), ".")
	e, e1 := strconv.ParseUint(epoch, 10, 64)
	n, e2 := strconv.ParseUint(round, 10, 32)
	slot, e3 := strconv.ParseUint(r.PathValue("slot"), 10, 32)
	ms, e4 := strconv.ParseInt(r.Header.Get("Riffle-Due"), 10, 64)
	ticket, of, e5 := wire.ParseTicketHeader(r.Header.Get("Riffle-Ticket"))
	canonical := strconv.FormatUint(e, 10) == epoch && strconv.FormatUint(n, 10) == round &&
		strconv.FormatUint(slot, 10) == r.PathValue("slot")
	if err := errors.Join(e1, e2, e3, e4, e5); err != nil || !found || !canonical || e == 0 || ms < 0 || ms > maxDue ||
		uint64(of) != slot || r.ContentLength < 1 {
		return at, d, false
	}
	at.epoch, at.round = e, uint32(n)
	return at, deposit{slot: of, ticket: ticket, due: time.UnixMilli(ms).UTC()}, true
}

// store keeps a deposit, in place of the one of its account and round if there is one.
func (m *Mailbox) store(at place, d deposit) *refusal {
	e, first, no := m.find(at, d)
	if no != nil {
		return no
	}
	if !first {
		e.lock()
	}
	defer e.unlock()
	switch {
	case e.gone: // while this deposit waited
		return unknown
	case e.slot != d.slot || e.ticket != d.ticket || !e.due.Equal(d.due) || e.size != 0 && e.size != len(d.body):
		return another
	case e.sent, !first && !m.c.Clock.Now().Before(e.due.Add(-still)):
		return forwarded
	}
	if err := m.c.Store.Put(at.name(), d.append(nil)); err != nil {
		if first {
			m.drop(e)
		}
		return unknown
	}
	if first {
		m.push(e)
	}
	return nil
}

// find is the entry of a place; first says that it is new, and then the caller holds its lock.
func (m *Mailbox) find(at place, d deposit) (e *entry, first bool, no *refusal) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if e = m.entries[at]; e != nil {
		return e, false, nil
	}
	switch {
	case m.tickets[ticketed{at.epoch, at.round, d.ticket}] != nil:
		return nil, false, foreignTicket
	case m.accounts[at.account] >= perAccount:
		return nil, false, tooMany
	case len(m.entries) >= m.c.MaxDeposits:
		return nil, false, noRoom
	}
	e = newEntry(at, d)
	e.lock()
	m.enter(e)
	m.counts.Waiting++
	return e, true, nil
}

// enter adds an entry that is new. The lock is held, or the mailbox does not run yet.
func (m *Mailbox) enter(e *entry) {
	m.entries[e.at] = e
	m.tickets[e.ticketed()] = e
	m.accounts[e.at.account]++
}

// drop forgets an entry that is not in the queue. The caller holds its lock.
func (m *Mailbox) drop(e *entry) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.entries, e.at)
	delete(m.tickets, e.ticketed())
	if m.accounts[e.at.account]--; m.accounts[e.at.account] == 0 {
		delete(m.accounts, e.at.account)
	}
	if !e.sent {
		m.counts.Waiting--
	}
	e.gone = true
}

// push gives an entry to whoever forwards, at its time.
func (m *Mailbox) push(e *entry) {
	m.mu.Lock()
	defer m.mu.Unlock()
	heap.Push(&m.due, e)
	if m.due[0] == e {
		select {
		case m.earlier <- struct{}{}:
		default:
		}
	}
}
