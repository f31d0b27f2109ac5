// Package shuffler is the role that stands between devices and the analyzer.
//
// It enrols devices into cohorts, opens the outer envelopes of their reports, admits one report per device and round,
// commits the membership of a release durably before anything leaves, has the channel send it, and signs a manifest. It
// never releases a round below the minimum cohort, however it is asked, and a retry after a crash sends the same bytes.
//
// Its decisions are a function of its journal (State, Event). The channel (package channel) determines what a report
// carries and what leaves the shuffler. This package does not protect anyone from a malicious shuffler,
// which knows who reported and could release what it likes.
package shuffler

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rs/zerolog"
	"golang.org/x/sync/errgroup"

	"github.com/riffle-dp/riffle/internal/bus"
	"github.com/riffle-dp/riffle/internal/channel"
	"github.com/riffle-dp/riffle/internal/channel/shares"
	"github.com/riffle-dp/riffle/internal/channel/shuffle"
	"github.com/riffle-dp/riffle/internal/channel/spill"
	"github.com/riffle-dp/riffle/internal/role"
	"github.com/riffle-dp/riffle/internal/role/journal"
	"github.com/riffle-dp/riffle/internal/role/outcome"
	"github.com/riffle-dp/riffle/internal/role/worker"
	"github.com/riffle-dp/riffle/internal/shuffler/cohort"
	"github.com/riffle-dp/riffle/internal/shuffler/work"
	"github.com/riffle-dp/riffle/internal/translog"
	"github.com/riffle-dp/riffle/pkg/plan"
	"github.com/riffle-dp/riffle/pkg/protocol"
	"github.com/riffle-dp/riffle/pkg/seal"
	"github.com/riffle-dp/riffle/pkg/wire"
)

// Config is what a shuffler needs.
type Config struct {
	Deployment string
	Analyzer   []byte           // Ed25519 public key that announcements must be signed with
	Registrar  []byte           // Ed25519 public key that credentials must be signed with
	Hosts      *wire.Hosts      // whose keys were replaced or withdrawn; nil: none
	Identity   *seal.Identity   // signs manifests and replies
	Keys       []*seal.HPKEKey  // that reports may be sealed to, newest first
	MinCohort  int              // fewest reports of a release, whatever is announced
	HostShare  float64          // largest share of a cohort's slots that one host may hold; 0: 1, all of them
	Devices    int              // the most devices that are remembered; 0: DefaultDevices
	Channels   []plan.Channel   // whose cohorts are served; nil: every one
	StateDir   string           // folder of journal, log and disk where these are nil; it belongs to one process
	Journal    Journal          // nil: the file "journal" in StateDir
	Compact    int              // bytes of its events that a snapshot replaces; 0: compactAfter
	LogJournal translog.Journal // of the log; nil: the file "log" in StateDir
	Disk       channel.Disk     // for the channel; nil: StateDir
	Source     protocol.Source  // for the channel: a CSPRNG
	Memory     int              // MiB that mixing may take of the process's memory; 0: DefaultMemory
	Retain     time.Duration    // how long what is forwarded is retained for the auditor; 0: not at all
	Auditor    []byte           // HPKE public key that it is sealed to; empty: none, and Retain must be 0
	Clock      role.Clock       // nil: the system's
	Bus        Broker
	Log        zerolog.Logger
	Reports    *outcome.Outcomes // account of reports; made with Reasons
	Enrolments *outcome.Outcomes // account of enrolment requests; made with Reasons
	// Workers do parts of the mixing; nil: this process mixes alone. See Answers.
	Workers worker.Pool
	// Further accounts, made with Reasons, and times, made with Steps. All may be nil.
	Messages      *outcome.Outcomes // the channel's messages in admitted reports
	Announcements *outcome.Outcomes
	Steps         *role.Steps
	// Notice hears of a condition of readiness, by name, that is met (nil) or not. May be nil.
	Notice func(condition string, err error)
}

const (
	// tick is how often the open round's deadline is looked at.
	tick = 100 * time.Millisecond
	// workers is how many enrolments are answered, and how many reports opened, at the same time. Most of a worker's
	// time is waiting for the disk, and many share one write.
	workers = 64
	// retryPause is the wait before a release that failed for outside reasons is tried again.
	retryPause = time.Second
)

// Shuffler is the running role.
type Shuffler struct {
	c         Config
	envelopes *work.Envelopes
	requests  *seal.RequestOpener
	admitted  *wire.Credentials // that the registrar admits
	channels  map[plan.Channel]channel.Mixing
	journal   Journal
	log       *translog.Log
	store     *spill.Store // of admitted reports, and of messages that are mixed
	full      atomic.Bool  // the store could not keep the last report
	clock     *clock
	outages   outages
	counter   *counter      // where workers ask about reports
	once      sync.Once     // closes begun
	begun     chan struct{} // closed when reports may be decided on: the journal was held against the broker
	waits     wait          // a report for a worker
	wake      chan struct{} // a report was admitted

	mu         sync.Mutex
	state      *cohort.State
	covered    cohort.Covered // by the latest credential of each host
	compacting cohort.Compaction
	refusals   cohort.Refusals               // of the open round, as reports came
	strangers  cohort.Strangers              // of the open epoch
	latest     func() error                  // waits until the last decision is durable; nil before the first
	planned    map[uint64]*plan.Announcement // first announcement of each epoch
	epsilon    map[sized]float64             // by epoch and reports: it takes a while to compute
	promises   map[uint64]promise            // by epoch
	unfit      map[roundID]*opening          // announcements that do not fit yet, by epoch and round
	never      map[roundID]cohort.Digest     // announcements that are refused for good, by epoch and round
	doubt      bool                          // one came since the broker was last held against the journal
	trouble    error                         // the broker shows less than the journal knows
	lost       bool                          // the state folder is known to be older than what was signed
	recalled   bool                          // the journal was held against the broker
	newest     *opening                      // the latest announcement by then
	looked     cohort.Round                  // the last round whose stored reports were looked through, or need not be
	warned     uint64                        // epoch of the last warning that one host holds most of its cohort
	filled     bool                          // somebody was refused because as many devices are known as may be
	warnings   []string                      // for people

	drawing drawer          // of the releasing goroutine alone
	pool    *cohort.Pooling // as last looked at; guarded by mu
	fixing  bool            // a pool is fixed, and nobody registers; guarded by mu

	drawEvery   time.Duration
	forgetEvery time.Duration
	forgotten   uint64 // last sequence up to which the broker forgot the reports; guarded by mu
	owed        uint64 // sequence up to which it must, for the rounds that are finished; guarded by mu
}

// New opens the shuffler's state and replays its journal. Run closes it when it returns; call Close if Run is
// never called.
func New(c Config) (*Shuffler, error) {
	retention, err := c.retention()
	if err != nil {
		return nil, err
	}
	opener, err := seal.NewReportOpener(c.Keys...)
	if err != nil {
		return nil, err
	}
	requests, err := seal.NewRequestOpener(c.Deployment, c.Keys...)
	if err != nil {
		return nil, err
	}
	if c.Journal == nil {
		if c.Journal, err = journal.Open(filepath.Join(c.StateDir, "journal")); err != nil {
			return nil, err
		}
	}
	if c.Disk == nil {
		c.Disk = channel.Folder(c.StateDir)
	}
	if c.Clock == nil {
		c.Clock = role.SystemClock()
	}
	s := &Shuffler{
		c: c, journal: c.Journal, requests: requests, counter: newCounter(), begun: make(chan struct{}),
		wake: make(chan struct{}, 1), forgetEvery: forgetEvery,
		drawEvery: drawEvery, compacting: cohort.Compaction{After: c.Compact},
		state:    cohort.NewState(cohort.Admission{Minimum: uint32(max(1, c.MinCohort)), HostShare: c.HostShare, Devices: c.Devices}),
		admitted: wire.NewCredentials(wire.Party{Deployment: c.Deployment, Key: c.Registrar, Hosts: c.Hosts}),
		planned:  map[uint64]*plan.Announcement{}, epsilon: map[sized]float64{}, promises: map[uint64]promise{},
		unfit: map[roundID]*opening{}, never: map[roundID]cohort.Digest{},
	}
	s.log, err = translog.New(translog.Config{
		Deployment: c.Deployment, Role: bus.Shuffler, Identity: c.Identity, Broker: c.Bus,
		Path: filepath.Join(c.StateDir, "log"), Journal: c.LogJournal, Log: c.Log,
	})
	if err != nil {
		return nil, errors.Join(err, s.journal.Close())
	}
	// Half of the memory is live at most, because the heap grows to twice of that before it is collected: a quarter for
	// the store, and as much for what is loaded of it.
	s.store, err = spill.New(c.StateDir, int64(cmp.Or(c.Memory, DefaultMemory))<<20/4)
	if err != nil {
		return nil, errors.Join(err, s.journal.Close(), s.log.Close())
	}
	var private [][]byte
	for _, k := range c.Keys {
		private = append(private, k.Bytes())
	}
	s.channels = map[plan.Channel]channel.Mixing{}
	for _, mixed := range []plan.Channel{plan.Shuffle, plan.Local, plan.Central} {
		mixing := &shuffle.Mixing{
			Channel: mixed, Reports: s.reread, Chunks: c.Bus, Disk: c.Disk, Store: s.store, Source: c.Source,
		}
		if shuffle.Retainable(mixed) {
			mixing.Retain = retention
		}
		if c.Workers != nil {
			mixing.Exchange = &shuffle.Exchange{Pool: c.Workers, Segments: c.Bus, Chunks: c.Bus, Keys: private}
		}
		s.channels[mixed] = mixing
	}
	s.channels[plan.Shares] = &shares.Mixing{
		Deployment: c.Deployment, Reports: s.reread, Broker: logged{c.Bus, s.log}, Disk: c.Disk, Source: c.Source,
		Identity: c.Identity, Analyzer: c.Analyzer, Log: c.Log, Pool: c.Workers,
		Silent: func(err error) { s.notice(analyzerCondition, err) },
	}
	s.envelopes = work.NewEnvelopes(c.Deployment, opener, s.channels)
	err = s.journal.Replay(func(entry []byte) error {
		ev, err := cohort.DecodeEvent(entry)
		if err != nil {
			return err
		}
		s.compacting.Read(ev, len(entry))
		return s.state.Apply(ev)
	})
	if err != nil {
		return nil, errors.Join(fmt.Errorf("shuffler: replaying the journal: %w", err), s.Close())
	}
	s.covered = cohort.CoveredBy(s.state)
	s.clock = newClock(readings(c.Clock), s.state.Clock())
	return s, nil
}

// mixing is the channel of a round's layout.
func (s *Shuffler) mixing(l channel.Layout) channel.Mixing { return s.channels[l.Of()] }

// Close lets go of the journal, of the log and of what is kept in memory and beyond it for mixing.
func (s *Shuffler) Close() error {
	return errors.Join(s.journal.Close(), s.log.Close(), s.store.Close())
}

// Held counts the reports that are admitted and neither released nor destroyed.
func (s *Shuffler) Held() int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	reports, _ := s.state.Held()
	return int64(reports)
}

// HeldMessages counts the messages in held reports.
func (s *Shuffler) HeldMessages() int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	_, messages := s.state.Held()
	return int64(messages)
}

// Filling describes the latest cohort; ok is false before the first announcement.
func (s *Shuffler) Filling() (f cohort.Filling, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.state.Filling()
}

// Run works until the context ends or something happens after which the shuffler must not go on, like a journal that
// cannot be written. Its error is never nil.
func (s *Shuffler) Run(ctx context.Context) error {
	defer s.Close()
	if err := s.canRetain(ctx); err != nil {
		return err
	}
	s.c.Reports.Resumed(int(s.Held()))
	s.c.Messages.Resumed(int(s.HeldMessages()))
	if err := s.look(ctx); err != nil {
		return err
	}
	switch _, err := s.recall(ctx); {
	case ctx.Err() != nil:
		return ctx.Err()
	case errors.Is(err, errFatal):
		return err
	case err != nil: // the releasing goroutine tries again, and nothing is committed before
		s.doubt = true
		s.c.Log.Error().Err(err).Msg("the broker could not be held against the journal; tried again")
	}
	keys := s.publishKeys(ctx)
	if keys != nil && !errors.Is(keys, bus.ErrFull) {
		return keys
	}
	g, ctx := errgroup.WithContext(ctx)
	if keys != nil { // beside the rest: the reports that this shuffler takes in and forgets may be what makes room
		g.Go(func() error { return s.keepPublishing(ctx, keys) })
	}
	deliveries := make(chan *bus.Delivery)
	g.Go(func() error {
		return s.c.Bus.WatchAnnouncements(ctx, func(a bus.Announcement) error { return s.announced(ctx, a) })
	})
	g.Go(func() error {
		ctx, stop := context.WithCancelCause(ctx)
		defer stop(nil)
		return s.c.Bus.ServeEnrol(ctx, workers, func(_ context.Context, request []byte) ([]byte, error) {
			reply, err := s.asked(request)
			if err != nil {
				stop(err)
			}
			return reply, err
		})
	})
	g.Go(func() error {
		defer close(deliveries)
		// A journal that lacks a round, or the draw of its panel, would refuse reports that it admits a moment later.
		select {
		case <-s.begun:
		case <-ctx.Done():
			return ctx.Err()
		}
		return s.c.Bus.Reports(ctx, func(d *bus.Delivery) {
			s.waits.set(true, s.c.Clock.Now())
			select {
			case deliveries <- d:
			case <-ctx.Done(): // nobody may take it any more; the broker delivers it again
			}
			s.waits.set(false, time.Time{})
		})
	})
	for range workers {
		g.Go(func() error {
			for d := range deliveries {
				if err := s.take(d); err != nil {
					return err // which ends the group, and so the reader too
				}
			}
			return nil
		})
	}
	g.Go(func() error {
		select {
		case err := <-s.counter.failed:
			return err
		case <-ctx.Done():
			return ctx.Err()
		}
	})
	g.Go(func() error { return s.release(ctx) })
	g.Go(func() error { return s.keepForgetting(ctx) })
	g.Go(func() error { return s.keepTime(ctx) })
	g.Go(func() error { return s.watchBroker(ctx) })
	return g.Wait()
}

// decide makes one decision on the state and returns once it is durable, and with it every decision that it was made
// upon. A refusal, or the repetition of an answer, must not be heard of before what it rests on can no longer be
// forgotten.
func (s *Shuffler) decide(f func(*cohort.State) (*cohort.Event, error)) error {
	durable, err := s.begin(f)
	if durable != nil {
		if err := durable(); err != nil {
			return fatal(err)
		}
	}
	return err
}

// begin makes one decision on the state. Nothing may be said of it, not even a refusal, before durable has returned;
// nil where nothing was ever decided, and with an error that is fatal. The error of durable is fatal.
func (s *Shuffler) begin(f func(*cohort.State) (*cohort.Event, error)) (durable func() error, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	ev, err := f(s.state)
	if err == nil && ev != nil {
		if err := s.apply(ev); err != nil {
			return nil, err
		}
	}
	return s.latest, err
}

// apply makes a decision part of the state, and appends it to the journal. The lock is held, and nobody may hear of the
// decision before latest says that it is durable. Its error is fatal.
func (s *Shuffler) apply(ev *cohort.Event) error {
	if err := s.state.Apply(ev); err != nil {
		return fatal(err)
	}
	s.keepEvent(ev)
	return nil
}

// record makes a decision that does not depend on the state.
func (s *Shuffler) record(ev *cohort.Event) error {
	return s.decide(func(*cohort.State) (*cohort.Event, error) { return ev, nil })
}

// errFatal marks an error after which the shuffler must stop: its memory may be ahead of its journal.
var errFatal = errors.New("shuffler: cannot go on")

func fatal(err error) error { return fmt.Errorf("%w: %w", errFatal, err) }

// about names a round in a log line.
func about(epoch uint64, round uint32) func(*zerolog.Event) {
	return func(e *zerolog.Event) { e.Uint64("epoch", epoch).Uint32("round", round) }
}

// notice tells readiness of a condition.
func (s *Shuffler) notice(condition string, err error) {
	if s.c.Notice != nil {
		s.c.Notice(condition, err)
	}
}
