package randomizer

import (
	"container/heap"
	"context"
	"sync"
	"time"

	"github.com/riffle-dp/riffle/internal/role"
	"github.com/riffle-dp/riffle/pkg/device"
)

// job is one report that falls due.
type job struct {
	at      time.Time
	session *session
	under   *device.Announced
}

// timetable hands jobs out when their time has come. It is the one clock of reports: a job's time is fixed when it is
// entered.
type timetable struct {
	clock role.Clock
	wake  chan struct{}

	mu   sync.Mutex
	jobs agenda[job]
}

func newTimetable(clock role.Clock) *timetable {
	return &timetable{clock: clock, wake: make(chan struct{}, 1)}
}

func (t *timetable) enter(j job) {
	t.mu.Lock()
	heap.Push(&t.jobs, j)
	t.mu.Unlock()
	select {
	case t.wake <- struct{}{}:
	default:
	}
}

// run sends every job to due at its time or as soon after as a worker takes it, until the context ends.
func (t *timetable) run(ctx context.Context, due chan<- job) error {
	for {
		var wait <-chan time.Time
		var ready chan<- job
		var first job
		t.mu.Lock()
		if len(t.jobs) > 0 {
			first = t.jobs[0]
		}
		t.mu.Unlock()
		if first.session != nil {
			if d := first.at.Sub(t.clock.Now()); d > 0 {
				wait = t.clock.After(d)
			} else {
				ready = due
			}
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-t.wake: // the first job may be another one now
		case <-wait:
		case ready <- first:
			t.remove(first)
		}
	}
}

// remove takes out a job that was handed out. Another one may have come before it meanwhile.
func (t *timetable) remove(j job) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for i := range t.jobs {
		if t.jobs[i] == j {
			heap.Remove(&t.jobs, i)
			return
		}
	}
}

// ordered is what comes before or after others.
type ordered[T any] interface{ before(T) bool }

func (j job) before(k job) bool { return j.at.Before(k.at) }

// agenda is a heap, what comes first on top, for container/heap.
type agenda[T ordered[T]] []T

func (a agenda[T]) Len() int           { return len(a) }
func (a agenda[T]) Less(i, j int) bool { return a[i].before(a[j]) }
func (a agenda[T]) Swap(i, j int)      { a[i], a[j] = a[j], a[i] }
func (a *agenda[T]) Push(x any)        { *a = append(*a, x.(T)) }
func (a *agenda[T]) Pop() any {
	last := len(*a) - 1
	x := (*a)[last]
	clear((*a)[last:])
	*a = (*a)[:last]
	return x
}
