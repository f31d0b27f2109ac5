// Package randomizer is the role that runs on people's side: one process for one device, or for all the devices of a
// gateway.
//
// It follows the analyzer's announcements, recomputes the guarantee of every plan and refuses one weaker than its own
// limits, decides locally with the public policy, and sends exactly one report per round at a time that was fixed at
// enrolment, whatever happened meanwhile: a record if the reward came, the null record otherwise. Records live in
// memory until they are reported and are never written anywhere; after a crash the promised reports are null records.
//
// What the outside can see of a person (enrolment, report time, report size) is the same for every record.
//
// A host is parts that share one core: what the deployment shows, under its lock, and the store (package store). Each
// part asks those below it, and none above (TestCallsRunOneWay has their order): places and promises, reports,
// questions for slots, panels, decisions. testdata/walk.txt is the way of a record through the files.
package randomizer

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"runtime"

	"github.com/rs/zerolog"
	"golang.org/x/sync/errgroup"
	"golang.org/x/sync/semaphore"

	"github.com/riffle-dp/riffle/internal/bus"
	"github.com/riffle-dp/riffle/internal/randomizer/api"
	"github.com/riffle-dp/riffle/internal/randomizer/store"
	"github.com/riffle-dp/riffle/internal/role"
	"github.com/riffle-dp/riffle/internal/role/outcome"
	"github.com/riffle-dp/riffle/pkg/device"
	"github.com/riffle-dp/riffle/pkg/protocol"
	"github.com/riffle-dp/riffle/pkg/seal"
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
	Enrolments    *outcome.Outcomes // questions for a slot, where no panels are drawn; made with EnrolmentReasons
	Announcements *outcome.Outcomes // made with AnnouncementReasons
	KeySets       *outcome.Outcomes // the shuffler's, as the broker shows them; made with KeySetReasons
}

// senders hand reports to the broker at the same time; they wait for its disk more than they work.
const senders = 64

// Host runs the devices of one process: it starts its parts, each of which says what it is for.
type Host struct {
	*core
	*decisions // what apps ask for
	*overview  // what apps and people are shown
	*forgetting

	following  *following
	places     *places
	promises   *promises
	reports    *reports
	rollback   *rollback
	enrolments *enrolments
	panels     *panels
}

// New opens the host's state. Records that an earlier process held are gone; what it promised is kept.
func New(c Config) (*Host, error) {
	rules, err := device.New(device.Config{
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
	h := assemble(&core{c: c, rules: rules, store: st, changed: make(chan struct{})})
	h.life, h.stop = context.WithCancel(context.Background())
	if err := h.restore(); err != nil {
		return nil, errors.Join(fmt.Errorf("randomizer: %w", err), st.Close())
	}
	h.rollback.say()
	h.promises.pending = len(h.reports.unsent)
	c.Reports.Resumed(len(h.reports.unsent))
	return h, nil
}

// assemble makes the parts of a host, each after those that it asks.
func assemble(k *core) *Host {
	h := &Host{core: k}
	played := newPlayed()
	h.following = &following{core: k, played: played}
	h.places = &places{
		store: k.store, newState: k.rules.NewState, capacity: k.c.Devices, devices: map[string]*localDevice{},
		out: map[string]bool{},
	}
	h.promises = &promises{
		core: k, places: h.places, timetable: newTimetable(k.c.Clock), tokens: map[string]decision{},
		open: map[uint32]*session{},
	}
	h.reports = &reports{core: k, promises: h.promises, outbox: make(chan store.Outgoing)}
	h.rollback = &rollback{core: k, promises: h.promises}
	line := &line{k}
	h.enrolments = &enrolments{
		core: k, places: h.places, promises: h.promises, rollback: h.rollback,
		promptly: &asks{core: k, line: line, limit: tryTime}, patiently: &asks{core: k, line: line},
		waiting: semaphore.NewWeighted(api.MaxEnrolling),
	}
	evidence := &accusations{core: k}
	h.panels = &panels{
		core: k, places: h.places, promises: h.promises, rollback: h.rollback, line: line,
		attendance: newAttendance(k.c.Clock), evidence: evidence,
	}
	h.decisions = &decisions{
		core: k, places: h.places, promises: h.promises, enrolments: h.enrolments, panels: h.panels, played: played,
	}
	h.forgetting = &forgetting{core: k, places: h.places, promises: h.promises, reports: h.reports, times: played}
	h.overview = &overview{core: k, places: h.places, promises: h.promises, panels: h.panels, evidence: evidence}
	return h
}

// restore reads what earlier processes kept.
func (h *Host) restore() error {
	covered, err := coveredSoFar(h.store, uint32(h.c.Devices))
	if err != nil {
		return err
	}
	h.places.numbers = newNumbers(h.c.Identity, covered...)
	if h.c.Order != nil {
		h.places.numbers.order = *h.c.Order
	}
	err = h.store.Load(func(d store.Device) error {
		h.places.devices[d.Name] = &localDevice{name: d.Name, state: h.rules.Restored(d.State), stored: true}
		h.places.numbers.take(d.Number)
		if d.Registered() {
			h.panels.registered++
		}
		// Known before the broker shows an announcement, so that no decision is counted meanwhile.
		h.drawing = h.drawing || d.Registration != nil
		return nil
	})
	if err != nil {
		return err
	}
	if err := h.store.OptedOut(func(key string) { h.places.out[key] = true }); err != nil {
		return err
	}
	if h.seen, err = h.store.Latest(); err != nil {
		return err
	}
	proof, err := h.store.Note(store.RolledBack)
	if err != nil {
		return err
	}
	if len(proof) > 0 {
		h.rolledBack = fmt.Errorf("%w: %s", device.ErrRolledBack, proof)
	}
	if h.evidence.first, err = readEvidence(h.store); err != nil {
		return err
	}
	signedKeys, err := h.store.Note(store.Keys)
	if err != nil {
		return err
	}
	err = h.store.Unsent(func(o store.Outgoing) { h.reports.unsent = append(h.reports.unsent, o) })
	if err != nil {
		return err
	}
	if h.c.DryRun && len(h.places.devices)+len(h.reports.unsent) > 0 {
		return errDryRunState
	}
	// one that another shuffler signed says nothing of this one's
	if kept, err := h.rules.Keys(signedKeys); err == nil {
		h.following.useKeys(kept)
	}
	return nil
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
	h.asking.Go(func() { h.panels.attendance.run(h.life, h.panels.visit) })
	if err := h.catchUp(ctx); err != nil {
		return err
	}
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error {
		return h.c.Bus.WatchKeys(ctx, func(role bus.Role, payload []byte) error {
			return h.following.takeKeySet(ctx, role, payload)
		})
	})
	g.Go(func() error {
		return h.c.Bus.WatchAnnouncements(ctx, func(a bus.Announcement) error {
			fresh, err := h.following.follow(a)
			if fresh {
				h.promises.resume()
				err = h.askOn()
			}
			return err
		})
	})
	due := make(chan job)
	g.Go(func() error { return h.promises.timetable.run(ctx, due) })
	cores := runtime.GOMAXPROCS(0)
	from := newSources(cores, h.c.Source)
	for range cores * sealersPerCore {
		g.Go(func() error { return h.reports.sealDue(ctx, due, from) })
	}
	for range senders {
		g.Go(func() error { return h.reports.send(ctx) })
	}
	g.Go(func() error { return h.reports.resend(ctx) })
	return g.Wait()
}

// catchUp reads everything that was announced so far, and takes up what an earlier process promised for the epoch in
// force.
func (h *Host) catchUp(ctx context.Context) error {
	all, err := h.c.Bus.ReadAnnouncements(ctx)
	if err != nil {
		return err
	}
	if err := h.following.catchUp(all); err != nil {
		return err
	}
	h.mu.Lock()
	h.caughtUp = true
	h.mu.Unlock()
	h.following.sayFollowing()
	h.promises.recall()
	h.promises.resume()
	return h.askOn()
}

// askOn asks for what the epoch in force has for the devices.
func (h *Host) askOn() error {
	if a := h.inForce(); a != nil && h.drawsPanels() && h.rewound(a) == nil {
		h.panels.attendAll(a)
		return nil
	}
	return h.enrolments.resume()
}

// Pending counts the promised reports that have not left.
func (h *Host) Pending() int64 { return h.promises.Pending() }

// Asking counts the questions for a slot that wait for the shuffler's answer.
func (h *Host) Asking() int64 { return h.enrolments.Asking() }
