// Package shuffler is the role that stands between devices and the analyzer.
//
// It enrols devices into cohorts, opens the outer envelopes of their reports (it cannot open a bit message), admits one report per
// device and round, commits the membership durably before anything leaves, permutes all bit messages uniformly, forwards them and
// signs a manifest. It never releases a round below the minimum cohort, however it is asked, and a retry after a crash forwards the
// same bytes.
//
// What it decides is a pure function of its journal (State, Event); what it does about that stands in shuffler.go and release.go.
package shuffler

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"sync"
	"time"

	"github.com/rs/zerolog"
	"golang.org/x/sync/errgroup"

	"github.com/riffle-dp/riffle/internal/bus"
	"github.com/riffle-dp/riffle/internal/role"
	"github.com/riffle-dp/riffle/internal/role/outcome"
	"github.com/riffle-dp/riffle/internal/shuffler/journal"
	"github.com/riffle-dp/riffle/pkg/plan"
	"github.com/riffle-dp/riffle/pkg/protocol"
	"github.com/riffle-dp/riffle/pkg/seal"
	"github.com/riffle-dp/riffle/pkg/wire"
)

// Config is what a shuffler needs.
type Config struct {
	Deployment string
	Analyzer   []byte          // Ed25519 public key that announcements must be signed with
	Registrar  []byte          // Ed25519 public key that credentials must be signed with
	Identity   *seal.Identity  // signs manifests and replies
	Keys       []*seal.HPKEKey // that reports may be sealed to, newest first
	MinCohort  int             // releases no fewer, whatever is announced
	HostShare  float64         // largest share of a cohort's slots that one host may hold; 0: 1, all of them
	StateDir   string          // journal and spools; belongs to one process
	Source     protocol.Source // permutes; a CSPRNG
	Clock      Clock           // nil: MachineClock
	Bus        *bus.Conn
	Log        zerolog.Logger
	Reports    *outcome.Outcomes // account of reports; made with Reasons
	Enrolments *outcome.Outcomes // account of enrolment requests; made with Reasons
	// Further accounts, made with Reasons, and times, made with Steps. All may be nil.
	Messages      *outcome.Outcomes // bit messages of admitted reports
	Announcements *outcome.Outcomes
	Steps         *role.Steps
	// Notice hears of a condition of readiness that is met (nil) or not, by name. May be nil.
	Notice func(condition string, err error)
}

const (
	// tick is how often the open round's deadline is looked at.
	tick = 100 * time.Millisecond
	// chunkMessages is how many bit messages travel together to the analyzer: under a megabyte.
	chunkMessages = 16384
	// workers answer enrolments, and open reports, at the same time. Most of a worker's time is waiting for the disk, which many share.
	workers = 64
	// laterPause is how long a report waits whose round was announced to its device before it was announced here.
	laterPause = 200 * time.Millisecond
	// laterAgainPause is how long it waits every further time: whoever sends many that wait must not keep the broker sending them.
	laterAgainPause = time.Second
	// retryPause is the wait before a release that failed for outside reasons is tried again.
	retryPause = time.Second
)

// Shuffler is the running role.
type Shuffler struct {
	c        Config
	opener   *seal.ReportOpener
	journal  store
	clock    *clock
	outages  outages
	waits    wait                     // a report for a worker
	wake     chan struct{}            // a report was admitted
	chunk    int                      // bit messages of one chunk
	gathered *gathered                // of the release under way; the releasing goroutine's
	crash    func(after string) error // of tests

	mu       sync.Mutex
	state    *State
	latest   func() error                  // waits until the last decision is durable; nil before the first
	rounds   []finished                    // that are over, oldest first
	planned  map[uint64]*plan.Announcement // first announcement of each epoch
	epsilon  map[place]float64             // by epoch and reports: it takes a while to compute
	unfit    map[place]*opening            // announcements that do not follow what is open, by epoch and round: they may later
	never    map[place]Digest              // announcements that are refused for good, by epoch and round
	doubt    bool                          // one came since the broker was last held against the journal
	trouble  error                         // the broker shows less than the journal knows
	lost     bool                          // the state folder is known to be older than what was signed
	recalled bool                          // the journal was held against the broker
	newest   *opening                      // the latest announcement by then
	looked   seenRound                     // the last round whose stored reports were looked through, where they had to be
	warned   uint64                        // epoch of the last warning that one host holds most of its cohort
	warnings []string                      // for people

	forgetEvery time.Duration
	forgotten   uint64 // up to this sequence the broker forgot the reports last; guarded by mu
	owed        uint64 // up to this one it must, for the rounds that are finished; guarded by mu
}

// store is the shuffler's journal.
type store interface {
	Append(entry []byte) (durable func() error)
	Close() error
}

// New opens the shuffler's state and replays its journal. Close it with Run's return or, if Run is never called, with Close.
func New(c Config) (*Shuffler, error) {
	opener, err := seal.NewReportOpener(c.Keys...)
	if err != nil {
		return nil, err
	}
	j, err := journal.Open(filepath.Join(c.StateDir, "journal"))
	if err != nil {
		return nil, err
	}
	s := &Shuffler{
		c: c, opener: opener, journal: j, wake: make(chan struct{}, 1), chunk: chunkMessages, state: NewState(Admission{Minimum: uint32(max(1, c.MinCohort)), HostShare: c.HostShare}),
		planned: map[uint64]*plan.Announcement{}, epsilon: map[place]float64{}, unfit: map[place]*opening{}, never: map[place]Digest{}, forgetEvery: forgetEvery,
	}
	if s.c.Clock == nil {
		s.c.Clock = MachineClock()
	}
	err = j.Replay(func(entry []byte) error {
		ev, err := DecodeEvent(entry)
		if err != nil {
			return err
		}
		defer s.note(ev)
		return s.state.Apply(ev)
	})
	if err != nil {
		return nil, errors.Join(fmt.Errorf("shuffler: replaying the journal: %w", err), j.Close())
	}
	s.clock = newClock(s.c.Clock, s.state.Clock())
	return s, nil
}

// wall is the time of day.
func (s *Shuffler) wall() time.Time {
	t, _ := s.c.Clock()
	return t
}

// ran is for how long the process has run.
func (s *Shuffler) ran() time.Duration {
	_, run := s.c.Clock()
	return run
}

// Close lets go of the journal.
func (s *Shuffler) Close() error { return s.journal.Close() }

// Held counts the reports that are admitted and neither released nor destroyed.
func (s *Shuffler) Held() int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return int64(s.state.Held())
}

// Filling describes the latest cohort; ok is false before the first announcement.
func (s *Shuffler) Filling() (Filling, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.state.Filling()
}

// Run works until the context ends or something happens that the shuffler must not work on after, like a journal that cannot be
// written.
func (s *Shuffler) Run(ctx context.Context) error {
	defer s.Close()
	s.c.Reports.Resumed(int(s.Held()))
	s.c.Messages.Resumed(int(s.HeldMessages()))
	switch _, err := s.recall(ctx); {
	case ctx.Err() != nil:
		return ctx.Err()
	case errors.Is(err, errFatal):
		return err
	case err != nil: // the releasing goroutine tries again, and nothing is committed before
		s.doubt = true
		s.c.Log.Error().Err(err).Msg("the broker is not held against the journal; tried again")
	}
	if err := s.publishKeys(ctx); err != nil {
		return err
	}
	g, ctx := errgroup.WithContext(ctx)
	deliveries := make(chan *bus.Delivery)
	g.Go(func() error {
		return s.c.Bus.WatchAnnouncements(ctx, func(a bus.Announcement) error { return s.announced(ctx, a) })
	})
	g.Go(func() error {
		ctx, stop := context.WithCancelCause(ctx)
		defer stop(nil)
		return s.c.Bus.ServeEnrol(ctx, workers, func(_ context.Context, request []byte) ([]byte, error) {
			reply, err := s.enrol(request)
			if err != nil {
				stop(err)
			}
			return reply, err
		})
	})
	g.Go(func() error {
		defer close(deliveries)
		return s.c.Bus.Reports(ctx, func(d *bus.Delivery) {
			s.waits.set(true, s.ran())
			deliveries <- d
			s.waits.set(false, 0)
		})
	})
	for range workers {
		g.Go(func() (err error) {
			for d := range deliveries { // to the end, so that the reader never blocks
				if err == nil {
					err = s.take(d)
				}
			}
			return err
		})
	}
	g.Go(func() error { return s.release(ctx) })
	g.Go(func() error { return s.keepForgetting(ctx) })
	g.Go(func() error { return s.keepTime(ctx) })
	g.Go(func() error { return s.watchBroker(ctx) })
	return g.Wait()
}

// decide makes one decision on the state and returns once it is durable, and with it every decision that it was made upon: a refusal,
// or the repetition of an answer, must not be heard of before what it rests on can no longer be forgotten.
func (s *Shuffler) decide(f func(*State) (*Event, error)) error {
	s.mu.Lock()
	ev, err := f(s.state)
	if err == nil && ev != nil {
		if err := s.state.Apply(ev); err != nil {
			s.mu.Unlock()
			return fatal(err)
		}
		s.note(ev)
		s.latest = s.journal.Append(ev.Encode())
	}
	latest := s.latest
	s.mu.Unlock()
	if latest != nil {
		if err := latest(); err != nil {
			return fatal(err)
		}
	}
	return err
}

// errFatal marks what the shuffler must stop at: its memory may be ahead of its journal.
var errFatal = errors.New("shuffler: cannot go on")

func fatal(err error) error { return fmt.Errorf("%w: %w", errFatal, err) }

// enrol answers one request. Its error is fatal.
func (s *Shuffler) enrol(signed []byte) ([]byte, error) {
	defer s.c.Steps.Since(stepEnrolment, time.Now())
	s.c.Enrolments.Received(1)
	reply := &wire.EnrolReply{}
	place, digest, err := s.admitDevice(signed)
	reply.Request = digest[:]
	var refused *Refused
	switch {
	case errors.As(err, &refused):
		reply.Refusal = refused.Reason
		s.c.Enrolments.Refused(err, 1)
	case err != nil:
		return nil, err
	default:
		reply.Enrolled, reply.Slot, reply.ReportAfter, reply.Held = true, place.slot, max(0, place.after.Truncate(time.Millisecond)), place.held
		s.c.Enrolments.Released(1)
	}
	b, _, err := wire.Sign(reply, s.c.Identity)
	return b, err
}

// given is a device's slot, when its report is due from now on, and whether it held the slot before it asked.
type given struct {
	slot  uint32
	after time.Duration
	held  bool
}

func (s *Shuffler) admitDevice(signed []byte) (place given, digest [32]byte, err error) {
	e, err := wire.OpenEnrolRequest(signed, wire.Party{Deployment: s.c.Deployment, Key: s.c.Registrar})
	if err != nil {
		return given{}, e.Digest, refuse(wire.Reason(err), "%v", err)
	}
	err = s.decide(func(state *State) (*Event, error) {
		now, _ := s.clock.now()
		slot, reportAt, ev, err := state.Enrol(DeviceID{e.HostKey, e.Request.Device}, e.Request.Epoch, Digest(e.Request.Announcement), now)
		place = given{slot, reportAt.Sub(now), ev == nil}
		return ev, err
	})
	s.dominated()
	return place, e.Digest, err
}

// dominated warns once in each epoch where one host holds most of the cohort. It names nobody: who enrolled is in the journal.
func (s *Shuffler) dominated() {
	s.mu.Lock()
	f, ok := s.state.Filling()
	warn := ok && f.Dominated() && s.warned != f.Epoch
	if warn {
		s.warned = f.Epoch
	}
	s.mu.Unlock()
	if warn {
		s.c.Log.Warn().Uint64("epoch", f.Epoch).Int("slots", f.Largest).Int("of", f.Slots).Uint32("size", f.Size).
			Msg("one host holds more than half of the cohort: the others are hidden among few that it does not know; admission.host_share limits that")
	}
}

// take decides on one delivered report and acknowledges it once the decision is durable. A refusal leaves nothing to be made durable, and
// waits for nothing: the report is acknowledged, and forgotten with all others that nobody needs. The error is fatal.
func (s *Shuffler) take(d *bus.Delivery) error {
	s.mu.Lock()
	messages, ahead := s.state.Expects(d.Epoch, d.Round)
	s.mu.Unlock()
	if ahead {
		s.c.Reports.Retried(Ahead)
		wait := laterPause
		if d.Redelivered {
			wait = laterAgainPause
		}
		s.redeliver(d.Retry(wait))
		return nil
	}
	defer s.c.Steps.Since(stepAdmission, time.Now())
	fresh, err := s.admitReport(d)
	var refused *Refused
	switch {
	case errors.As(err, &refused):
		s.c.Reports.Received(1)
		s.c.Reports.Refused(err, 1)
	case err != nil:
		return err
	case fresh:
		s.c.Reports.Received(1)
		s.c.Messages.Received(messages)
		select {
		case s.wake <- struct{}{}:
		default:
		}
	}
	s.redeliver(d.Ack())
	return nil
}

// redeliver notes that an acknowledgement was lost: the broker will deliver the report again, and State knows it.
func (s *Shuffler) redeliver(err error) {
	if err != nil {
		s.c.Log.Debug().Err(err).Msg("acknowledgement lost")
	}
}

// admitReport tells whether the report is a new member of its round.
func (s *Shuffler) admitReport(r *bus.Delivery) (fresh bool, err error) {
	s.mu.Lock()
	messages, _ := s.state.Expects(r.Epoch, r.Round)
	past := s.state.Past(r.Epoch)
	s.mu.Unlock()
	if r.Epoch == 0 {
		return false, refuse(wire.RefusalMalformed, "the report names no round")
	}
	if past {
		return false, refuse(wire.RefusalLate, "epoch %d is over", r.Epoch)
	}
	report, digest, err := s.open(r.Payload, r.Epoch, r.Round, messages)
	if err != nil {
		return false, err
	}
	err = s.decide(func(state *State) (*Event, error) {
		ev, err := state.Admit(DeviceID{report.HostKey, report.Device}, r.Epoch, r.Round, report.Slot, report.Announcement, digest, r.Sequence)
		fresh = ev != nil
		return ev, err
	})
	return fresh, err
}

// open opens a sealed report of the round and checks all that can be checked without knowing who is enrolled.
func (s *Shuffler) open(envelope []byte, epoch uint64, round uint32, messages int) (*wire.Report, Digest, error) {
	if messages == 0 {
		return nil, Digest{}, refuse(wire.RefusalWrongEpoch, "round %d of epoch %d is not open", round, epoch)
	}
	// All envelopes of a round have one size. What has another costs no more than this.
	if want := wire.EnvelopeSize(messages); len(envelope) != want {
		return nil, Digest{}, refuse(wire.RefusalWrongSize, "an envelope of %d bytes, this round's have %d", len(envelope), want)
	}
	plain, err := wire.OpenEnvelope(envelope, s.opener, seal.ReportContext{Deployment: s.c.Deployment, Epoch: epoch, Round: round})
	if err != nil {
		return nil, Digest{}, refuse(wire.Reason(err), "%v", err)
	}
	report, digest, err := wire.ParseReport(plain, messages)
	if err != nil {
		return nil, Digest{}, refuse(wire.Reason(err), "%v", err)
	}
	if report.Epoch != epoch || report.Round != round {
		return nil, Digest{}, refuse(wire.RefusalWrongEpoch, "a report of round %d of epoch %d in the stream of round %d of epoch %d", report.Round, report.Epoch, round, epoch)
	}
	return report, digest, nil
}
