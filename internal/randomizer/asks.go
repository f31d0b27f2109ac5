package randomizer

import (
	"cmp"
	"context"
	"slices"
	"sync"
	"time"

	"github.com/riffle-dp/riffle/pkg/device"
	"github.com/riffle-dp/riffle/pkg/wire"
)

// Devices that wish for a slot at the same time ask with one request, so that host and shuffler sign and verify once for
// all of them. Nobody waits for company: a question that comes while few requests are on their way leaves at once, and
// those that come while many are leave together.
//
// It says nothing new to the broker, which sees each request with the host that sends it and the devices' numbers, in
// one message or in several. Within a request the devices stand in the order of their numbers, which is not that of
// arrival.

// maxRequests bounds how many requests of one kind are on their way.
const maxRequests = 4

// asks are the questions of one kind that wait to be put.
type asks struct {
	h     *Host
	limit time.Duration // for one answer; 0: the broker connection's own

	mu      sync.Mutex
	waiting []*wish
	running int  // requests on their way
	singly  bool // the shuffler is of a version that answers one device at a time
}

// wish is one question with its answer.
type wish struct {
	q     *question
	done  chan struct{} // closed when the rest is known
	reply *wire.EnrolReply
	err   error
}

// put puts a question once, and returns the shuffler's answer to it. An error is that of the request that it was part
// of.
func (k *asks) put(q *question) (*wire.EnrolReply, error) {
	w := &wish{q: q, done: make(chan struct{})}
	k.mu.Lock()
	k.waiting = append(k.waiting, w)
	begin := k.running < maxRequests
	if begin {
		k.running++
	}
	k.mu.Unlock()
	if begin {
		k.h.asking.Go(k.run) // whoever puts a question is waited for, too
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
func (k *asks) next() (together []*wish) {
	k.mu.Lock()
	defer k.mu.Unlock()
	most := wire.MaxFurther + 1
	if k.singly {
		most = 1
	}
	k.waiting = slices.DeleteFunc(k.waiting, func(w *wish) bool {
		fits := len(together) < most && (len(together) == 0 || w.q.a == together[0].q.a)
		if fits {
			together = append(together, w)
		}
		return fits
	})
	if len(together) == 0 {
		k.running--
	}
	slices.SortFunc(together, func(a, b *wish) int { return cmp.Compare(a.q.number, b.q.number) })
	return together
}

// ask sends one request, and one for each device to a shuffler that refuses requests for several: it has given nothing
// then.
func (k *asks) ask(together []*wish) {
	ctx := k.h.life
	if k.limit > 0 {
		var cancel context.CancelFunc
		ctx, cancel = k.h.c.Clock.WithTimeout(ctx, k.limit)
		defer cancel()
	}
	k.request(ctx, together)
	accepted := func(w *wish) bool { return w.err != nil || w.reply.Refusal != wire.RefusalMalformed }
	if len(together) == 1 || slices.ContainsFunc(together, accepted) {
		return
	}
	k.mu.Lock()
	k.singly = true
	k.mu.Unlock()
	for i := range together { // each with an error of its own: of those before it the shuffler has heard
		k.request(ctx, together[i:i+1])
	}
}

// request puts questions with one request, and notes the answers.
func (k *asks) request(ctx context.Context, together []*wish) {
	numbers := make([]uint32, len(together))
	for i, w := range together {
		numbers[i] = w.q.number
	}
	replies, err := k.h.requested(ctx, together[0].q.a, numbers)
	for i, w := range together {
		if w.err = err; err == nil {
			w.reply = replies[i]
		}
	}
}

// requested asks for devices under an announcement, once.
func (h *Host) requested(ctx context.Context, a *device.Announced, numbers []uint32) ([]*wire.EnrolReply, error) {
	request, err := h.core.Requests(a, numbers)
	if err != nil {
		return nil, err
	}
	signed, err := h.c.Bus.EnrolOnce(ctx, request)
	if err != nil {
		return nil, err
	}
	return h.core.Replies(a, request, signed, len(numbers))
}
