package mailbox

import (
	"container/heap"
	"context"
	"errors"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/riffle-dp/riffle/pkg/client/ingress"
)

const (
	// forwarding is how many reports are on their way to the ingress at a time.
	forwarding = 16
	// A report that could not be sent is tried again after firstPause, and each time after twice as long, up to
	// longestPause.
	firstPause   = time.Second
	longestPause = time.Minute
	// longestAsked bounds how long an ingress may ask to be left alone.
	longestAsked = 10 * time.Minute
)

// Run sends what is due until the context ends, whose cause it returns. Call it once.
func (m *Mailbox) Run(ctx context.Context) error {
	var g errgroup.Group
	g.SetLimit(forwarding)
	defer func() { _ = g.Wait() }() // no task returns an error
	for ctx.Err() == nil {
		e, wait := m.next()
		if e != nil {
			g.Go(func() error {
				m.attend(ctx, e)
				return nil
			})
			continue
		}
		select {
		case <-ctx.Done():
		case <-m.earlier:
		case <-m.c.Clock.After(wait):
		}
	}
	return context.Cause(ctx)
}

// next takes an entry whose time has come out of the queue; without one it tells how long there will be none.
func (m *Mailbox) next() (e *entry, wait time.Duration) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if len(m.due) == 0 {
		return nil, time.Hour
	}
	if wait = m.due[0].next.Sub(m.c.Clock.Now()); wait > 0 {
		return nil, wait
	}
	return heap.Pop(&m.due).(*entry), 0
}

// forget is when the mailbox forgets that a report was sent.
func (m *Mailbox) forget(e *entry) time.Time { return e.due.Add(m.c.Keep) }

// attend sends the report of an entry whose time has come, or forgets it. The entry is in the queue again afterwards,
// but where it is forgotten.
func (m *Mailbox) attend(ctx context.Context, e *entry) {
	name := e.at.name()
	e.lock() // what is being stored is stored first
	sent := e.sent
	var value []byte
	var err error
	if !sent {
		value, err = m.c.Store.Get(name)
	} else if err = m.c.Store.Delete(name); err == nil {
		m.drop(e)
	}
	e.unlock()
	if sent {
		if err != nil {
			m.again(e, 0)
		}
		return
	}
	became, pause := waiting, time.Duration(0)
	d, bad := parseDeposit(value)
	if err == nil && bad == nil { // else the store may come back
		became, pause = m.send(ctx, e, d)
	}
	if ctx.Err() != nil {
		return // the next process sends it, and the ingress takes it once
	}
	if became == waiting && !m.retry(e, pause).Before(m.forget(e)) {
		became = givenUp
	}
	if became == waiting {
		m.again(e, pause)
		return
	}
	d = deposit{slot: e.slot, ticket: e.ticket, due: e.due}
	e.lock()
	defer e.unlock()
	if m.c.Store.Put(name, d.append(nil)) != nil {
		m.again(e, pause) // it is sent again
		return
	}
	e.sent, e.next = true, m.forget(e)
	m.count(became)
	m.push(e)
}

// outcome is what became of a report that was due.
type outcome int

const (
	waiting outcome = iota // it is tried again
	taken                  // the ingress has it
	denied                 // the ingress will never take it
	givenUp
)

func (m *Mailbox) count(became outcome) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.counts.Waiting--
	switch became {
	case taken:
		m.counts.Forwarded++
	case denied:
		m.counts.Refused++
	default:
		m.counts.GivenUp++
	}
}

// retry is when the mailbox attends to an entry again, or later where the ingress asked for a pause.
func (m *Mailbox) retry(e *entry, pause time.Duration) time.Time {
	own := min(longestPause, firstPause<<min(e.tries, 10))
	return m.c.Clock.Now().Add(max(own, min(pause, longestAsked)))
}

func (m *Mailbox) again(e *entry, pause time.Duration) {
	e.next = m.retry(e, pause)
	e.tries++
	m.push(e)
}

// send offers a report to the ingress once. pause is what the ingress asked for.
func (m *Mailbox) send(ctx context.Context, e *entry, d deposit) (became outcome, pause time.Duration) {
	err := m.ingress.Report(ctx, ingress.Report{Epoch: e.at.epoch, Round: e.at.round, Slot: d.slot, Ticket: d.ticket,
		Body: d.body})
	var no *ingress.Refusal
	switch {
	case err == nil:
		return taken, 0
	case !errors.As(err, &no):
		return waiting, 0
	case no.Final(): // an ingress says so, and not something before it, or another server
		return denied, 0
	}
	return waiting, no.After
}
