package mailbox

import (
	"encoding/binary"
	"errors"
	"slices"
	"time"

	"github.com/riffle-dp/riffle/pkg/wire"
)

// account is the keyed hash of an account's name.
type account [32]byte

// place is where a report goes: one of each account in each round.
type place struct {
	account account
	epoch   uint64
	round   uint32
}

// ticketed is where a report goes at the ingress: one of each ticket in each round. Two accounts have no deposits of
// one: the ingress, which is the shuffler's, would see both, and thereby that there was a reward. They come where a
// browser sends what is left of one person's after another one logged in.
type ticketed struct {
	epoch  uint64
	round  uint32
	ticket wire.Ticket
}

// deposit is what is stored under a place. Without a body the report was sent, or will not be: what is left says so to
// whoever comes too late.
type deposit struct {
	slot   uint32
	ticket wire.Ticket
	due    time.Time // whole milliseconds
	body   []byte
}

// entry is what is known of a deposit in memory.
type entry struct {
	at     place
	ticket wire.Ticket
	slot   uint32
	due    time.Time
	size   int // 0 where it was sent before this process began

	next  time.Time // when the mailbox looks at it again; who holds it alone may change it
	tries int

	busy chan struct{} // holds something while someone uses the stored deposit or the fields below
	sent bool          // or given up
	gone bool          // from the store
}

func (e *entry) ticketed() ticketed { return ticketed{e.at.epoch, e.at.round, e.ticket} }

func (e *entry) lock()   { e.busy <- struct{}{} }
func (e *entry) unlock() { <-e.busy }

func newEntry(at place, d deposit) *entry {
	return &entry{
		at: at, slot: d.slot, ticket: d.ticket, due: d.due, size: len(d.body), next: d.due,
		busy: make(chan struct{}, 1),
	}
}

// errStored says that the store holds what no mailbox put there.
var errStored = errors.New("mailbox: the store holds what is no deposit: give it a place of its own")

func (p place) name() []byte {
	b := slices.Clone(p.account[:])
	return binary.BigEndian.AppendUint32(binary.BigEndian.AppendUint64(b, p.epoch), p.round)
}

func parsePlace(name []byte) (p place, err error) {
	if len(name) != len(p.account)+8+4 {
		return p, errStored
	}
	p.account = account(name)
	rest := name[len(p.account):]
	return place{p.account, binary.BigEndian.Uint64(rest), binary.BigEndian.Uint32(rest[8:])}, nil
}

// header is how many bytes of a stored deposit are before its body: slot, due time in milliseconds of Unix time, and
// ticket.
const header = 4 + 8 + wire.TicketSize

func (d deposit) append(dst []byte) []byte {
	dst = binary.BigEndian.AppendUint32(slices.Grow(dst, header+len(d.body)), d.slot)
	dst = binary.BigEndian.AppendUint64(dst, uint64(d.due.UnixMilli()))
	return append(append(dst, d.ticket[:]...), d.body...)
}

// parseDeposit reads what append wrote. The body shares the memory of value.
func parseDeposit(value []byte) (d deposit, err error) {
	if len(value) < header {
		return d, errStored
	}
	d.slot = binary.BigEndian.Uint32(value)
	ms := int64(binary.BigEndian.Uint64(value[4:]))
	if ms < 0 || ms > maxDue {
		return d, errStored
	}
	d.due, d.ticket, d.body = time.UnixMilli(ms).UTC(), wire.Ticket(value[12:]), value[header:]
	return d, nil
}

// maxDue is the largest due time in milliseconds of Unix time: of the year 9999.
const maxDue = 253402300799999

// queue orders entries by the time at which the mailbox looks at them again, and then by slot: a heap.
type queue []*entry

func (q queue) Len() int { return len(q) }

func (q queue) Less(i, j int) bool {
	if !q[i].next.Equal(q[j].next) {
		return q[i].next.Before(q[j].next)
	}
	return q[i].slot < q[j].slot
}

func (q queue) Swap(i, j int) { q[i], q[j] = q[j], q[i] }

// Push implements heap.Interface.
func (q *queue) Push(e any) { *q = append(*q, e.(*entry)) }

// Pop implements heap.Interface.
func (q *queue) Pop() any {
	last := len(*q) - 1
	e := (*q)[last]
	(*q)[last] = nil
	*q = (*q)[:last]
	return e
}
