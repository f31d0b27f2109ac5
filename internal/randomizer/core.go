package randomizer

import (
	"context"
	"fmt"
	"sync"

	"github.com/riffle-dp/riffle/internal/randomizer/api"
	"github.com/riffle-dp/riffle/internal/randomizer/store"
	"github.com/riffle-dp/riffle/pkg/device"
	"github.com/riffle-dp/riffle/pkg/panel"
	"github.com/riffle-dp/riffle/pkg/plan"
	"github.com/riffle-dp/riffle/pkg/wire"
)

// core is what every part of the host works with: what the deployment shows, under one lock, and the store that has
// what a device does before anyone hears of it. A part embeds it. It asks another part only where one of its fields is
// that part, and the fields make no circle.
type core struct {
	c     Config
	rules *device.Core // by which a device judges what it is shown
	store store.Store

	// life ends when the process stops; questions to the shuffler live as long.
	life   context.Context
	stop   context.CancelFunc
	asking sync.WaitGroup

	seen store.Round // the latest announcement that an earlier process saw

	mu         sync.Mutex
	caughtUp   bool  // what was announced before the start is read
	refusal    error // why the latest announcement is not in force; nil where it is
	rolledBack error // proof that the store is older than what the host has done
	current    *device.Announced
	pinned     plan.Channel  // the deployment's; empty before the first announcement
	drawing    bool          // the deployment draws its cohorts from registered devices
	news       *news         // of the epoch's panel; nil before the first announcement
	changed    chan struct{} // closed when current changes, or nothing is asked any more
	full       bool          // the current cohort takes no more devices
	keys       *wire.KeySet  // the shuffler's latest
	shuffler   []byte        // its key that reports are sealed to
}

// news is what a host has heard of the epoch's panel. The core's lock guards it.
type news struct {
	drawn   bool             // there was an answer
	seed    panel.Seed       // that the panel follows from; zero before an answer told
	reply   []byte           // the signed one that did
	members int              // of the host's devices in the panel
	whys    map[string]error // why devices are in no panel, by text
}

// keep makes a device's state durable, and only then its own. The device's lock is held.
func (k *core) keep(dev *localDevice, next device.State) error {
	if err := k.store.Put(store.Device{Name: dev.name, State: next}); err != nil {
		return err
	}
	dev.state, dev.stored = next, true
	return nil
}

// inForce is the announcement that is in force, nil before the first one.
func (k *core) inForce() *device.Announced {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.current
}

// isRolledBack reports whether the store is proved older than what the host has done.
func (k *core) isRolledBack() bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.rolledBack != nil
}

// shufflerKey is the key of the shuffler that reports and requests are sealed to; nil before one was seen.
func (k *core) shufflerKey() []byte {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.shuffler
}

// drawsPanels reports whether the deployment's cohorts are drawn from registered devices.
func (k *core) drawsPanels() bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.drawing
}

// countMember counts a device of this host in the panel.
func (k *core) countMember(a *device.Announced) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.current == a {
		k.news.members++
	}
}

// mostWhys bounds the texts that are shared in an epoch.
const mostWhys = 64

// share is an error with the same text for all devices that have it: most of a host's devices are in no panel for the
// same reason.
func (k *core) share(why error) error {
	text := why.Error()
	k.mu.Lock()
	defer k.mu.Unlock()
	n := k.news
	if n == nil {
		return why
	}
	if kept := n.whys[text]; kept != nil {
		return kept
	}
	if n.whys == nil {
		n.whys = map[string]error{}
	}
	if len(n.whys) < mostWhys {
		n.whys[text] = why
	}
	return why
}

// over is closed when the announcement is not in force any more, or the host asks no more.
func (k *core) over(a *device.Announced) <-chan struct{} {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.current == a && k.rolledBack == nil {
		return k.changed
	}
	over := make(chan struct{})
	close(over)
	return over
}

// isOver reports whether the announcement is not in force any more, or the host asks no more.
func (k *core) isOver(a *device.Announced) bool {
	select {
	case <-k.over(a):
		return true
	case <-k.life.Done():
		return true
	default:
		return false
	}
}

// isPast reports whether a report's round is over: the shuffler would not admit it any more.
func (k *core) isPast(o store.Outgoing) bool {
	a := k.inForce()
	return a != nil && (a.Epoch > o.Epoch || a.Epoch == o.Epoch && a.Round > o.Round)
}

// rewound reports whether the broker shows less than an earlier process of this host saw: the policy is not the one in
// force, and nothing is decided with it. It is so for moments after a start, while the announcements are read.
func (k *core) rewound(a *device.Announced) error {
	if a.Epoch > k.seen.Epoch || a.Epoch == k.seen.Epoch && a.Round >= k.seen.Round {
		return nil
	}
	return fmt.Errorf(
		"%w: the last one shown is round %d of epoch %d, but this host has seen round %d of epoch %d before",
		device.ErrRewound, a.Round, a.Epoch, k.seen.Round, k.seen.Epoch)
}

// enrolling is the announcement in force. why says for what reason no device is enrolled under it; err that there is
// none to decide with.
func (k *core) enrolling() (a *device.Announced, why, err error) {
	k.mu.Lock()
	a = k.current
	full, refusal, rolledBack := k.full, k.refusal, k.rolledBack
	k.mu.Unlock()
	switch {
	case a == nil && refusal != nil:
		return nil, nil, fmt.Errorf("%w that this host accepts: %w", api.ErrNoPolicy, refusal)
	case a == nil:
		return nil, nil, api.ErrNoPolicy
	case k.rewound(a) != nil:
		return nil, nil, k.rewound(a)
	case a.Final:
		return a, because(FinalPolicy, "learning is over; this is the last policy"), nil
	case a.Weak() != nil:
		return a, because(PlanRefused, "%v", a.Weak()), nil
	case rolledBack != nil:
		return a, because(StateRolledBack, "%v", rolledBack), nil
	case a.Round > 0:
		return a, because(RoundsUnderWay, "the cohort of epoch %d is closed and answers further rounds", a.Epoch), nil
	case full:
		return a, because(CohortFull, "the cohort of epoch %d is full", a.Epoch), nil
	}
	return a, nil, nil
}

// localDevice is a device of this host, with its lock.
type localDevice struct {
	// mu is never held while the shuffler is asked or anything is computed from arms: a report that falls due must not
	// wait for what a person's app does meanwhile. It is taken before the locks of the host's parts.
	mu       sync.Mutex
	name     string // the store's key of what the app calls the device
	state    device.State
	question *question // the one that is open
	stored   bool      // the store knows the device
	spent    bool      // the shuffler says that the number was enrolled before
	blank    bool      // what the open question promises is reported as the null record
	erased   bool      // who is asked for was erased meanwhile: without a slot nothing of them is left

	// Guarded by the lock of the places.
	vacant bool          // the place may go to another device
	listed bool          // among the host's vacant ones
	gone   chan struct{} // the place went to another device; closed when the store has forgotten the name

	// Where panels are drawn.
	attended *device.Announced // under which the device takes part, or tries to
	task     *task             // nil where nothing is left to ask; the visit's alone, but for when it begins and ends
	why      error             // why it is in no panel now
}

// now is the device's state.
func (dev *localDevice) now() device.State {
	dev.mu.Lock()
	defer dev.mu.Unlock()
	return dev.state
}
