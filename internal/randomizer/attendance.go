package randomizer

import (
	"container/heap"
	"context"
	"sync"
	"time"

	"github.com/riffle-dp/riffle/internal/role"
	"github.com/riffle-dp/riffle/pkg/device"
)

// Where panels are drawn, each device of a host registers and asks of itself, and nothing that its person does has a
// part in when. A host has many devices that mostly wait: each of them is an entry in one timetable, and a few
// goroutines do what is due.
//
// While the panel is not drawn it serves nobody to ask for each device. The devices that have come to their turn wait
// together, and one after the other asks for all; with the first answer all of them ask. It is the same while the
// shuffler answers nobody: how often a host asks then does not grow with its devices.

// attendance is that timetable. Safe for concurrent use.
type attendance struct {
	clock role.Clock
	wake  chan struct{} // something may be due sooner
	free  chan struct{} // a place for each visit at the same time

	mu      sync.Mutex
	visits  agenda[visit]
	waiting []*localDevice // for the panel to be drawn, or for an answer, in the order in which they ask for all
	asked   time.Time      // when one of them last did
	next    time.Time      // when one does again
	gap     time.Duration
	hush    time.Duration // between requests while the shuffler answers none; 0: it answers
	hushed  time.Time     // when that became longer
}

// task is what a device does under an announcement.
type task struct {
	a     *device.Announced
	step  step
	turn  bool // it asks for all that wait
	heard bool // the shuffler may have heard a request to register to which no answer came
	pause time.Duration
}

// step is how far a task has come.
type step int

const (
	tidying step = iota
	registering
	placing
)

// never is the time of what is not done again under the announcement.
const never = time.Duration(-1)

// inTurn is the time of a device that waits with the others, for the panel to be drawn or for the shuffler to answer.
const inTurn = time.Duration(-2)

func newAttendance(clock role.Clock) *attendance {
	return &attendance{clock: clock, wake: make(chan struct{}, 1), free: make(chan struct{}, maxPatient)}
}

// enter has a device visited at a time.
func (t *attendance) enter(dev *localDevice, at time.Time) {
	t.mu.Lock()
	heap.Push(&t.visits, visit{at, dev})
	t.mu.Unlock()
	t.rouse()
}

func (t *attendance) rouse() {
	select {
	case t.wake <- struct{}{}:
	default:
	}
}

// wait has a device wait with the others.
func (t *attendance) wait(dev *localDevice) {
	t.mu.Lock()
	t.waiting = append(t.waiting, dev)
	t.mu.Unlock()
	t.rouse()
}

// mayAsk reports whether a device may ask, where one of all may in each pause; with a pause of 0 each of them may, but
// for when the shuffler answers none.
func (t *attendance) mayAsk(pause time.Duration) bool {
	now := t.clock.Now()
	t.mu.Lock()
	defer t.mu.Unlock()
	pause = max(pause, t.hush)
	if pause == 0 {
		return true
	}
	t.gap = pause
	if t.next = t.asked.Add(pause); now.Before(t.next) { // the pause is shorter once there are more devices
		t.rouse()
		return false
	}
	t.asked, t.next = now, now.Add(pause)
	return true
}

// noteSilence notes that a request brought no answer. The pause until the next one doubles, once for all the requests
// that were on their way together.
func (t *attendance) noteSilence() {
	now := t.clock.Now()
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.hush == 0 || now.Sub(t.hushed) >= t.hush {
		t.hush, t.hushed = min(max(2*t.hush, firstPause), longestPause), now
	}
	t.gap, t.asked, t.next = max(t.gap, t.hush), now, now.Add(t.hush)
}

// noteAnswer notes that the shuffler answers. Where it did not before, all devices that wait are visited.
func (t *attendance) noteAnswer() {
	t.mu.Lock()
	silent := t.hush > 0
	t.hush = 0
	t.mu.Unlock()
	if silent {
		t.visitWaiting()
	}
}

// isSilent reports whether the shuffler answered none of the last requests.
func (t *attendance) isSilent() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.hush > 0
}

// visitWaiting has all devices that wait visited now: there is an answer.
func (t *attendance) visitWaiting() {
	now := t.clock.Now()
	t.mu.Lock()
	for _, dev := range t.waiting {
		heap.Push(&t.visits, visit{now, dev})
	}
	t.waiting = nil
	t.mu.Unlock()
	t.rouse()
}

// visitAll has everything visited now: there is another announcement, or nothing is asked any more.
func (t *attendance) visitAll() {
	t.mu.Lock()
	t.asked, t.next = time.Time{}, time.Time{}
	for i := range t.visits {
		t.visits[i].at = time.Time{} // a heap as before
	}
	t.mu.Unlock()
	t.visitWaiting()
}

// due takes out the next device that is due, or says how long nothing is; never where nothing waits.
func (t *attendance) due() (dev *localDevice, wait time.Duration) {
	now := t.clock.Now()
	t.mu.Lock()
	defer t.mu.Unlock()
	wait = never
	if len(t.visits) > 0 {
		if wait = max(0, t.visits[0].at.Sub(now)); wait == 0 {
			return heap.Pop(&t.visits).(visit).dev, 0
		}
	}
	if len(t.waiting) > 0 {
		asks := max(0, t.next.Sub(now))
		if asks == 0 {
			dev, t.waiting = t.waiting[0], t.waiting[1:]
			dev.task.turn = true // nobody else visits a device that waits
			t.asked, t.next = now, now.Add(t.gap)
			return dev, 0
		}
		if wait == never || asks < wait {
			wait = asks
		}
	}
	return nil, wait
}

// run has devices visited as they are due, a few at a time, until the context ends.
func (t *attendance) run(ctx context.Context, visit func(*localDevice)) {
	var visiting sync.WaitGroup
	defer visiting.Wait()
	for {
		dev, wait := t.due()
		if dev == nil {
			var later <-chan time.Time
			if wait != never {
				later = t.clock.After(wait)
			}
			select {
			case <-ctx.Done():
				return
			case <-t.wake:
			case <-later:
			}
			continue
		}
		select {
		case <-ctx.Done():
			return
		case t.free <- struct{}{}:
		}
		visiting.Go(func() {
			defer func() { <-t.free }()
			visit(dev)
		})
	}
}

// visit is when a device is visited.
type visit struct {
	at  time.Time
	dev *localDevice
}

func (v visit) before(w visit) bool { return v.at.Before(w.at) }

// later is the pause before a task is tried again; it doubles.
func (t *task) later() time.Duration {
	pause := t.pause
	t.pause = min(2*pause, longestPause)
	return pause
}

// lets reports whether a device may ask now: it is its turn to ask for all, or there is none to keep.
func (t *attendance) lets(of *task, pause time.Duration) bool {
	turn := of.turn
	of.turn = false
	return turn || t.mayAsk(pause)
}
