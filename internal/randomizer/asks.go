package randomizer

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/riffle-dp/riffle/internal/bus"
	"github.com/riffle-dp/riffle/pkg/device"
	"github.com/riffle-dp/riffle/pkg/wire"
)

// Devices that want a slot at the same time ask with one request, so that host and shuffler sign and verify once
// for all of them. Nobody waits for company: a question that comes while few requests are on their way leaves at once,
// and those that come while many are leave together.
//
// It says nothing new to the broker, which sees that a host asks, and not for whom or for how many: every request is
// sealed to the shuffler and has one size, and so has every answer. Within a request the devices are in the order of
// their numbers, which is not that of arrival.

// line is the host's line to the shuffler.
type line struct{ *core }

// request asks for devices under an announcement, once.
func (l *line) request(ctx context.Context, a *device.Announced, asking []device.State) ([]*wire.EnrolReply, error) {
	request, err := l.rules.Requests(a, asking...)
	if err != nil {
		return nil, err
	}
	signed, err := l.exchange(ctx, request)
	if err != nil {
		return nil, err
	}
	return l.rules.Replies(a, request, signed, len(asking))
}

// errNoKeys says that no set of the shuffler's keys was seen yet, so that nothing can be sealed.
var errNoKeys = errors.New("the shuffler's keys are not known yet")

// exchange sends a signed request, sealed to the newest key of the shuffler that this host has seen, and returns the
// signed reply. No request leaves the host in the clear, whatever the shuffler is said to read. An answer that the
// shuffler could not open the request is none: a broker that keeps the shuffler's later keys from the host can bring
// it about.
func (l *line) exchange(ctx context.Context, request []byte) (signed []byte, err error) {
	key := l.shufflerKey()
	if key == nil {
		return nil, errNoKeys
	}
	sealed, err := l.rules.Seal(request, key)
	if err != nil {
		return nil, err
	}
	reply, err := l.c.Bus.EnrolOnce(ctx, sealed.Sealed)
	if err != nil {
		return nil, err
	}
	return l.rules.Unseal(sealed, reply)
}

// isUnheard reports whether an error says that the shuffler did not hear a request. Only the broker knows that.
func isUnheard(err error) bool {
	return errors.Is(err, bus.ErrNoShuffler) || errors.Is(err, bus.ErrForbidden) || errors.Is(err, bus.ErrTooLarge) ||
		errors.Is(err, errNoKeys)
}

// maxRequests bounds how many requests of one kind are on their way.
const maxRequests = 4

// asks are the questions of one kind that wait to be put.
type asks struct {
	*core
	line  *line
	limit time.Duration // for one answer; 0: the broker connection's own

	lock    sync.Mutex
	waiting []*queued
	running int // requests on their way
}

// queued is one question with its answer.
type queued struct {
	q     *question
	done  chan struct{} // closed when the rest is known
	reply *wire.EnrolReply
	err   error
}

// put puts a question once, and returns the shuffler's answer to it. An error is that of the request that it was part
// of.
func (k *asks) put(q *question) (*wire.EnrolReply, error) {
	w := &queued{q: q, done: make(chan struct{})}
	k.lock.Lock()
	k.waiting = append(k.waiting, w)
	begin := k.running < maxRequests
	if begin {
		k.running++
	}
	k.lock.Unlock()
	if begin {
		k.asking.Go(k.run) // whoever puts a question is waited for, too
	}
	<-w.done
	return w.reply, w.err
}

// run puts questions until none waits.
func (k *asks) run() {
	for {
		together := k.next()
		if len(together) == 0 {
			return
		}
		k.ask(together)
		for _, w := range together {
			close(w.done)
		}
	}
}

// next takes the questions of the next request, which are about one announcement, in the order of the devices' numbers.
func (k *asks) next() (together []*queued) {
	k.lock.Lock()
	defer k.lock.Unlock()
	k.waiting = slices.DeleteFunc(k.waiting, func(w *queued) bool {
		fits := len(together) <= wire.MaxFurther && (len(together) == 0 || w.q.a == together[0].q.a)
		if fits {
			together = append(together, w)
		}
		return fits
	})
	if len(together) == 0 {
		k.running--
	}
	slices.SortFunc(together, func(a, b *queued) int { return cmp.Compare(a.q.number, b.q.number) })
	return together
}

// ask puts questions with one request, and notes the answers.
func (k *asks) ask(together []*queued) {
	ctx := k.life
	if k.limit > 0 {
		var cancel context.CancelFunc
		ctx, cancel = k.c.Clock.WithTimeout(ctx, k.limit)
		defer cancel()
	}
	asking := make([]device.State, len(together))
	for i, w := range together {
		asking[i] = w.q.dev.now()
	}
	replies, err := k.line.request(ctx, together[0].q.a, asking)
	for i, w := range together {
		if w.err = err; err == nil {
			w.reply = replies[i]
		}
	}
}
