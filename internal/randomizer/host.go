// Package randomizer is the role that runs on people's side: one process for one device, or for all the devices of a
// gateway.
//
// It follows the analyzer's announcements, recomputes the guarantee of every plan and refuses one weaker than its own
// limits, decides locally with the public policy, and sends exactly one report per round at a time that was fixed at
// enrolment, whatever happened meanwhile: a record if the reward came, the null record otherwise. Records live in
// memory until they are reported and are never written anywhere; after a crash the promised reports are null records.
//
// What the outside can see of a person (enrolment, report time, report size) is the same for every record.
package randomizer

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"runtime"
	"slices"
	"sync"

	"github.com/rs/zerolog"
	"golang.org/x/sync/errgroup"
	"golang.org/x/sync/semaphore"

	"github.com/riffle-dp/riffle/internal/bus"
	"github.com/riffle-dp/riffle/internal/randomizer/api"
	"github.com/riffle-dp/riffle/internal/randomizer/store"
	"github.com/riffle-dp/riffle/internal/role"
	"github.com/riffle-dp/riffle/internal/role/outcome"
	"github.com/riffle-dp/riffle/pkg/device"
	"github.com/riffle-dp/riffle/pkg/panel"
	"github.com/riffle-dp/riffle/pkg/plan"
	"github.com/riffle-dp/riffle/pkg/protocol"
	"github.com/riffle-dp/riffle/pkg/seal"
	"github.com/riffle-dp/riffle/pkg/wire"
)

// Config is what a host needs.
type Config struct {
	Deployment string
	Analyzer   []byte         // Ed25519 public key that announcements must be signed with
	Shuffler   []byte         // Ed25519 public key that enrolment replies and key sets must be signed with
	Identity   *seal.Identity // the host's key
	Credential []byte         // the registrar's word that this host may enrol Devices devices
	Devices    int            // as in the credential
	Order      *[32]byte      // keyring.OrderOf the host's first key; nil: Identity is the first
	Limits     device.Limits
	DryRun     bool                   // it decides, enrols nobody and sends nothing
	StateDir   string                 // belongs to one process; not used where there is a Store
	Store      store.Store            // the host closes it; nil: a file in StateDir
	Source     func() protocol.Source // makes a CSPRNG for one goroutine
	State      *role.Condition        // met while the state is as new as what the host has done. May be nil
	Following  *role.Condition        // met while the host follows what the analyzer announces. May be nil
	Bus        Broker
	Clock      role.Clock // by which the host works; nil: the system's. Sockets of the API keep to the system's
	Log        zerolog.Logger
	Reports    *outcome.Outcomes // account of promised reports; made with Reasons
	// Further accounts. All may be nil.
	Enrolments    *outcome.Outcomes // wishes for a slot, where no panels are drawn; made with EnrolmentReasons
	Announcements *outcome.Outcomes // made with AnnouncementReasons
	KeySets       *outcome.Outcomes // the shuffler's, as the broker shows them; made with KeySetReasons
}

// senders hand reports to the broker at the same time; they wait for its disk more than they work.
const senders = 64

// Host runs the devices of one process.
type Host struct {
	c     Config
	core  *device.Core
	store store.Store

	// life ends when the process stops; questions to the shuffler live as long.
	life                context.Context
	stop                context.CancelFunc
	asking              sync.WaitGroup
	promptly, patiently *asks       // for slots: while a decision waits, and while none does
	attendance          *attendance // in panels

	waiting   *semaphore.Weighted // requests that wait for enrolment
	played    played              // how often, where arms have limits
	timetable *timetable
	outbox    chan store.Outgoing // sealed reports

	seen   store.Round      // the latest announcement that an earlier process saw
	unsent []store.Outgoing // what it sealed and may not have sent

	mu         sync.Mutex
	caughtUp   bool  // what was announced before the start is read
	refusal    error // why the latest announcement is not in force; nil where it is
	rolledBack error // proof that the store is older than what the host has done
	current    *device.Announced
	pinned     plan.Channel  // the deployment's; empty before the first announcement
	panels     bool          // the deployment draws its cohorts from registered devices
	news       *news         // of the epoch's panel; nil before the first announcement
	changed    chan struct{} // closed when current changes, or nothing is asked any more
	full       bool          // the current cohort takes no more devices
	keys       *wire.KeySet  // the shuffler's latest
	shuffler   []byte        // its key that reports are sealed to
	devices    map[string]*seat
	vacant     agenda[vacancy]     // seats that were vacant when they were entered
	vacancies  int                 // seats that are vacant
	numbers    *numbers            // of devices
	sessions   map[string]told     // by token
	open       map[uint32]*session // by device number
	pending    int                 // promised reports that have not left
	questions  int                 // for slots, that are not settled

	registeredHere int              // devices
	evidence       *device.Evidence // the first one against the shuffler
}

// seat is a device's state with its lock.
type seat struct {
	// mu is never held while the shuffler is asked or anything is computed from arms: a report that falls due must not
	// wait for what a person's app does meanwhile. It is taken before the host's.
	mu       sync.Mutex
	name     string // as the app calls the device; never leaves the host
	state    device.State
	question *question // the one that is open
	stored   bool      // the store knows the device
	spent    bool      // the shuffler says that the number was enrolled before

	// Guarded by the host's lock.
	vacant bool          // the place may go to another device
	listed bool          // among the host's vacant ones
	gone   chan struct{} // the place went to another device; closed when the store has forgotten the name

	// Where panels are drawn.
	attended *device.Announced // under which the device takes part, or tries to
	errand   *errand           // nil where nothing is left to ask; the visit's alone, but for when it begins and ends
	why      error             // why it is in no panel now
}

// now is the device's state.
func (s *seat) now() device.State {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.state
}

// keep makes a device's state durable, and only then its own. The seat's lock is held.
func (h *Host) keep(s *seat, next device.State) error {
	if err := h.store.Put(store.Device{Name: s.name, State: next}); err != nil {
		return err
	}
	s.state, s.stored = next, true
	return nil
}

// New opens the host's state. Records that an earlier process held are gone; what it promised is kept.
func New(c Config) (*Host, error) {
	core, err := device.New(device.Config{
		Deployment: c.Deployment, Analyzer: c.Analyzer, Shuffler: c.Shuffler, Identity: c.Identity,
		Credential: c.Credential,
		Limits:     c.Limits,
	})
	if err != nil {
		return nil, fmt.Errorf("randomizer: %w", err)
	}
	st := c.Store
	if st == nil {
		if st, err = store.Open(filepath.Join(c.StateDir, "devices")); err != nil {
			return nil, err
		}
	}
	if c.Clock == nil {
		c.Clock = role.SystemClock()
	}
	covered, err := coveredSoFar(st, uint32(c.Devices))
	if err != nil {
		return nil, errors.Join(fmt.Errorf("randomizer: %w", err), st.Close())
	}
	h := &Host{
		c: c, core: core, store: st, waiting: semaphore.NewWeighted(api.MaxEnrolling),
		timetable: newTimetable(c.Clock), played: newPlayed(), outbox: make(chan store.Outgoing), changed: make(chan struct{}),
		devices: map[string]*seat{}, sessions: map[string]told{}, open: map[uint32]*session{},
		numbers: newNumbers(c.Identity, covered...),
	}
	if c.Order != nil {
		h.numbers.order = *c.Order
	}
	h.life, h.stop = context.WithCancel(context.Background())
	h.attendance = newAttendance(h)
	h.promptly, h.patiently = &asks{h: h, limit: tryTime}, &asks{h: h}
	err = st.Load(func(d store.Device) error {
		h.devices[d.Name] = &seat{name: d.Name, state: core.Restored(d.State), stored: true}
		h.numbers.take(d.Number)
		if d.Registered() {
			h.registeredHere++
		}
		// Known before the broker shows an announcement, so that no decision is counted meanwhile.
		h.panels = h.panels || d.Registration != nil
		return nil
	})
	if err == nil {
		h.seen, err = st.Latest()
	}
	if err == nil {
		var proof []byte
		if proof, err = st.Note(store.RolledBack); len(proof) > 0 {
			h.rolledBack = fmt.Errorf("%w: %s", device.ErrRolledBack, proof)
		}
	}
	if err == nil {
		h.evidence, err = keptEvidence(st)
	}
	var signedKeys []byte
	if err == nil {
		signedKeys, err = st.Note(store.Keys)
	}
	if err == nil {
		err = st.Unsent(func(o store.Outgoing) { h.unsent = append(h.unsent, o) })
	}
	if err == nil && c.DryRun && len(h.devices)+len(h.unsent) > 0 {
		err = errDryRunState
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("randomizer: %w", err), st.Close())
	}
	if kept, err := h.core.Keys(signedKeys); err == nil { // one that another shuffler signed says nothing of this one's
		h.takeKeys(kept)
	}
	h.sayOld()
	h.pending = len(h.unsent)
	c.Reports.Resumed(len(h.unsent))
	return h, nil
}

// Close lets go of the state. Only for a host that was never run.
func (h *Host) Close() error {
	h.stop()
	return h.store.Close()
}

// Run works until the context ends. Reports that are due are not waited for: a restart sends what was promised.
func (h *Host) Run(ctx context.Context) error {
	defer func() {
		h.mu.Lock()
		h.stop() // from here on no question is opened
		h.mu.Unlock()
		h.asking.Wait()
		h.store.Close()
	}()
	h.asking.Go(func() { h.attendance.run(h.life) })
	if err := h.catchUp(ctx); err != nil {
		return err
	}
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error {
		return h.c.Bus.WatchKeys(ctx, func(role bus.Role,
			payload []byte) error {
			return h.rekeyed(ctx, role, payload)
		})
	})
	g.Go(func() error {
		return h.c.Bus.WatchAnnouncements(ctx, func(a bus.Announcement) error {
			fresh, err := h.follow(a)
			if fresh {
				h.resume()
				err = h.askOn()
			}
			return err
		})
	})
	due := make(chan job)
	g.Go(func() error { return h.timetable.run(ctx, due) })
	cores := runtime.GOMAXPROCS(0)
	at := newBench(cores, h.c.Source)
	for range cores * sealersPerCore {
		g.Go(func() error { return h.sealDue(ctx, due, at) })
	}
	for range senders {
		g.Go(func() error { return h.send(ctx) })
	}
	g.Go(func() error { return h.resend(ctx) })
	return g.Wait()
}

// catchUp reads everything that was announced so far, and takes up what an earlier process promised for the epoch in
// force.
func (h *Host) catchUp(ctx context.Context) error {
	all, err := h.c.Bus.ReadAnnouncements(ctx)
	if err != nil {
		return err
	}
	for _, a := range all {
		if _, err := h.follow(a); err != nil {
			return err
		}
	}
	h.mu.Lock()
	h.caughtUp = true
	h.mu.Unlock()
	h.sayFollowing()
	h.recall()
	h.resume()
	return h.askOn()
}

// Pending counts the promised reports that have not left.
func (h *Host) Pending() int64 {
	h.mu.Lock()
	defer h.mu.Unlock()
	return int64(h.pending)
}

// Asking counts the wishes for a slot that wait for the shuffler's answer.
func (h *Host) Asking() int64 {
	h.mu.Lock()
	defer h.mu.Unlock()
	return int64(h.questions)
}

// Status describes the host now, but for what the API counts.
func (h *Host) Status() api.Status {
	h.mu.Lock()
	defer h.mu.Unlock()
	s := api.Status{
		Deployment: h.c.Deployment, Devices: len(h.devices) - h.vacancies, Capacity: h.c.Devices, Pending: h.pending,
	}
	if h.refusal != nil {
		s.Refused = h.refusal.Error()
	}
	if h.rolledBack != nil {
		s.Refused = h.rolledBack.Error()
	}
	s.Evidence, s.DryRun = h.evidence, h.c.DryRun
	a := h.current
	if a == nil {
		return s
	}
	if h.panels {
		s.Panel = &api.PanelStatus{Registered: h.registeredHere, Decisions: a.Plan.Decisions, Records: a.Plan.Records,
			Period: a.Plan.Period}
		s.Panel.Drawn, s.Panel.Members = h.news.seed != panel.Seed{}, h.news.members
	}
	s.Epoch, s.Round, s.Final, s.Cohort = a.Epoch, a.Round, a.Final, a.Cohort.Size
	if err := h.rewound(a); err != nil {
		if h.caughtUp && h.rolledBack == nil {
			s.Refused = err.Error()
		}
		return s
	}
	if a.Final {
		return s
	}
	if h.rolledBack != nil {
		return s
	}
	s.Promise = h.core.Promise(a)
	if a.Weak != nil {
		s.Refused = a.Weak.Error()
		return s
	}
	s.Enrolling = a.Round == 0 && !h.full && h.shuffler != nil && !h.c.DryRun
	s.Delta, s.Messages = h.c.Limits.Delta, a.ReportMessages()
	return s
}

// Channel is the deployment's, empty before it is known.
func (h *Host) Channel() plan.Channel {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.pinned
}

// Announced is the announcement in force, nil before the first one.
func (h *Host) Announced() *device.Announced {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.current
}

// State is a device's state; that of one that has done nothing, where the device is not known.
func (h *Host) State(name string) device.State {
	h.mu.Lock()
	s := h.devices[name]
	h.mu.Unlock()
	if s == nil {
		return h.core.NewState(0)
	}
	return s.now()
}

// seats are the devices known so far.
func (h *Host) seats() []*seat {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.Collect(maps.Values(h.devices))
}
