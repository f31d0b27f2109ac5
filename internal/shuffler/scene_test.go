package shuffler

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/riffle-dp/riffle/internal/broker"
	"github.com/riffle-dp/riffle/internal/bus"
	"github.com/riffle-dp/riffle/internal/channel/shuffle"
	"github.com/riffle-dp/riffle/internal/journal"
	"github.com/riffle-dp/riffle/internal/shuffler/cohort"
	"github.com/riffle-dp/riffle/internal/testing/testbed"
	"github.com/riffle-dp/riffle/internal/translog"
	"github.com/riffle-dp/riffle/pkg/glm"
	"github.com/riffle-dp/riffle/pkg/plan"
	"github.com/riffle-dp/riffle/pkg/seal"
	"github.com/riffle-dp/riffle/pkg/wire"
)

func TestMain(m *testing.M) { os.Exit(testbed.RoleTests(m)) }

// scene is a shuffler on a real broker, with devices and an analyzer that do as the test says.
type scene struct {
	*testbed.Bed
	t                 testing.TB
	analyzer, devices *bus.Conn
	broker            *bus.Conn // the shuffler's
	host              *seal.Identity
	credential        []byte
	config            testConfig // but for its broker: see configured
	crash             func(after string) error
	wrap              func(Broker) Broker // the shuffler's broker; nil: as it is
	forgetEvery       time.Duration
	prepare           func(*Shuffler) // before it runs

	shuffler *Shuffler
	stop     func() error // ends the shuffler; its error unless the context ended it

	opened *plan.Announcement
	digest [32]byte

	mu      sync.Mutex
	mixed   []*bus.Mixed // what has arrived at the analyzer
	reports [][]byte
	dead    bool // the shuffler was crashed
	unmet   map[string]error
}

const capacity = 120

func newScene(t testing.TB, change ...func(*broker.Options, *bus.ProvisionOptions)) *scene {
	t.Helper()
	s := &scene{Bed: testbed.New(t, change...), t: t, forgetEvery: 20 * time.Millisecond, unmet: map[string]error{}}
	s.analyzer, s.devices, s.broker = s.Connect(bus.Analyzer), s.Connect(bus.Randomizer), s.Connect(bus.Shuffler)
	s.host, s.credential = s.Host(capacity)
	s.config = newConfig(Party{
		Deployment: testbed.Deployment, Analyzer: s.Analyzer.Public(), Registrar: s.Registrar.Public(),
		Identity: s.Shuffler, Keys: []*seal.HPKEKey{s.ShufflerKey},
	}, t.TempDir())
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = s.analyzer.Mixed.ReceiveMixed(ctx, func(m *bus.Mixed) {
			s.mu.Lock()
			s.mixed = append(s.mixed, m)
			s.mu.Unlock()
			_ = m.Ack()
		})
	}()
	t.Cleanup(func() { cancel(); <-done })
	return s
}

func (s *scene) must(err error) {
	s.t.Helper()
	if err != nil {
		s.t.Fatal(err)
	}
}

// start runs the shuffler until stop or the end of the test. Its accounts must balance whenever it stops by itself or
// is asked to.
func (s *scene) start() {
	s.t.Helper()
	var sh *Shuffler
	s.config.Reports = testbed.Account(s.t, "report", func() int64 { return sh.Held() }, Reasons())
	s.config.Messages = testbed.Account(s.t, "bit_message", func() int64 { return sh.HeldMessages() }, Reasons())
	s.config.Enrolments = testbed.Account(s.t, "enrolment", nil, Reasons())
	s.config.Announcements = testbed.Account(s.t, "announcement", nil, Reasons())
	s.config.Notice = func(condition string, err error) {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.unmet[condition] = err
	}
	sh, err := s.configured().open()
	s.must(err)
	sh.channels[plan.Shuffle].(*shuffle.Mixing).Chunk, sh.forgetting.forgetEvery = 100, s.forgetEvery
	if s.crash != nil {
		sh.channels[plan.Shuffle] = crashingChannel{sh.channels[plan.Shuffle], s.crash}
	}
	if s.prepare != nil {
		s.prepare(sh)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	s.mu.Lock()
	s.dead = false
	s.mu.Unlock()
	go func() { done <- sh.Run(ctx) }()
	s.shuffler = sh
	folder := s.config.StateDir
	s.stop = sync.OnceValue(func() error {
		if s.crashed() { // it ends by itself: asked to, it might say that it was asked
			select {
			case err := <-done:
				done <- err
			case <-time.After(testbed.Patience):
			}
		}
		cancel()
		err := <-done
		if errors.Is(err, context.Canceled) || errors.Is(err, errCrash) {
			s.replays(sh, folder)
		}
		c := &sh.c
		e := errors.Join(c.Reports.Check(), c.Messages.Check(), c.Enrolments.Check(), c.Announcements.Check())
		if e != nil {
			s.t.Error(e)
		}
		if errors.Is(err, context.Canceled) {
			return nil
		}
		return err
	})
	stop := s.stop
	s.t.Cleanup(func() {
		if err := stop(); err != nil && !errors.Is(err, errCrash) && !errors.Is(err, translog.ErrDisk) {
			s.t.Error(err)
		}
	})
}

// replays expects that the journal of a shuffler that ended says all that it knew. Behind a snapshot it says less.
func (s *scene) replays(ended *Shuffler, folder string) {
	s.t.Helper()
	kept, err := journal.Open(filepath.Join(folder, "journal"))
	s.must(err)
	defer kept.Close()
	again, whole := cohort.NewState(cohort.Admission{
		Minimum: uint32(max(1, ended.c.MinCohort)), SponsorShare: ended.c.SponsorShare, Devices: ended.c.Devices,
	}), true
	s.must(kept.Replay(func(entry []byte) error {
		ev, err := cohort.DecodeEvent(entry)
		if err != nil {
			return err
		}
		whole = whole && ev.Snapshot == nil
		return again.Apply(ev)
	}))
	ended.mu.Lock()
	defer ended.mu.Unlock()
	again.Stores(cohort.Room{})
	ended.state.Stores(cohort.Room{})
	if whole && !reflect.DeepEqual(again, ended.state) {
		s.t.Errorf("the journal says\n%+v\nand the shuffler knew\n%+v", again, ended.state)
	}
}

// pass lets the open round's deadline pass once this many reports are admitted: a deadline that the tests waited for
// would ask a busy machine to be in time. One that is so busy that its shuffler stands still puts the deadline off, so
// it passes until the round is decided, or the shuffler died of deciding.
func (s *scene) pass(reports int) {
	s.t.Helper()
	s.admitted(reports)
	s.eventually("decided", func() bool {
		s.shuffler.clock.skip(time.Hour)
		s.shuffler.mu.Lock()
		defer s.shuffler.mu.Unlock()
		_, decided := s.shuffler.state.Unfinished()
		return decided || s.shuffler.state.Finished(s.opened.Epoch, s.opened.Round) || s.crashed()
	})
}

// admitted waits until the shuffler holds this many reports.
func (s *scene) admitted(reports int) {
	s.t.Helper()
	s.eventually("admitted", func() bool { return s.shuffler.Held() == int64(reports) })
}

// skip lets time pass in which every process was awake.
func (c *clock) skip(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.at = c.at.Add(d)
}

// open announces and waits until the shuffler takes enrolments or reports of the round.
func (s *scene) open(a *plan.Announcement) {
	s.t.Helper()
	s.opened, s.digest = a, s.Announce(s.analyzer, a)
	s.eventually("open", func() bool {
		f, ok := s.shuffler.Filling()
		return ok && f.Epoch == a.Epoch && f.Round == int(a.Round)
	})
}

// ask enrols a device of the scene's host, under the announcement in force unless changed.
func (s *scene) ask(device uint32, change ...func(*wire.EnrolRequest)) *wire.EnrolReply {
	s.t.Helper()
	r := s.request(device)
	for _, f := range change {
		f(r)
	}
	signed, _ := s.Sign(r, s.host)
	return s.askRaw(signed)
}

// request is a device's request to take part, under the announcement in force.
func (s *scene) request(device uint32) *wire.EnrolRequest {
	return &wire.EnrolRequest{
		Deployment: testbed.Deployment, Epoch: s.opened.Epoch, Announcement: s.digest[:], Device: device,
		Credential: s.credential, Nonces: []uint32{seal.Nonce()},
	}
}

// further asks for these devices, too.
func further(devices ...uint32) func(*wire.EnrolRequest) {
	return func(r *wire.EnrolRequest) {
		r.Further = devices
		for range devices {
			r.Nonces = append(r.Nonces, seal.Nonce())
		}
	}
}

// askRaw asks with the bytes of a signed request, sealed.
func (s *scene) askRaw(signed []byte) *wire.EnrolReply {
	s.t.Helper()
	r, err := wire.SealRequest(signed, s.ShufflerKey.Public(), testbed.Deployment)
	s.must(err)
	b, err := s.devices.Enrolment.Enrol(s.Context(), r.Sealed)
	s.must(err)
	opened, err := r.OpenReply(b, s.Shuffler.Public())
	s.must(err)
	reply, err := wire.OpenEnrolReply(opened, s.Shuffler.Public(), wire.RequestDigest(signed))
	s.must(err)
	return reply
}

// enrol has the first n devices enrol.
func (s *scene) enrol(n int) {
	s.t.Helper()
	for i := range n {
		before := s.devices.Traffic().Repeats
		r := s.ask(uint32(i))
		repeated := s.devices.Traffic().Repeats != before // the machine was busy: the first answer came too late
		if !r.Enrolled || r.Held && !repeated || r.Slot != uint32(i) {
			s.t.Fatalf("device %d: %v", i, r)
		}
	}
}

// report makes the sealed report of a device that holds the slot of its own number. All its bits are ones, which does
// not matter here.
func (s *scene) report(device uint32, change ...func(*wire.Report)) []byte {
	s.t.Helper()
	sealer, err := seal.NewBitSealer(s.opened.AnalyzerKey, s.digest)
	s.must(err)
	var bits []byte
	for i, e := range s.opened.Encodings {
		for j := range e.Coordinates {
			n := e.MessagesAt(j)
			bits, err = sealer.AppendSealRun(bits, uint8(i), uint16(j), n, n)
			s.must(err)
		}
	}
	r := wire.Report{
		Announcement: s.digest, Epoch: s.opened.Epoch, Round: s.opened.Round, Slot: device, Device: device,
		Payload: bits,
	}
	for _, f := range change {
		f(&r)
	}
	return s.Seal(r, s.host)
}

// send publishes an envelope into the round's stream.
func (s *scene) send(envelope []byte) {
	s.t.Helper()
	s.sendTo(s.opened.Epoch, s.opened.Round, envelope)
}

// sendAll has the first n devices report.
func (s *scene) sendAll(n int) {
	s.t.Helper()
	for i := range n {
		s.send(s.report(uint32(i)))
	}
}

func (s *scene) sendTo(epoch uint64, round uint32, envelope []byte) {
	s.t.Helper()
	s.mu.Lock()
	s.reports = append(s.reports, envelope)
	id := fmt.Sprintf("m%d", len(s.reports)) // a fresh id: the broker does not take it for a repetition
	s.mu.Unlock()
	s.must(s.devices.Reports.PublishReport(s.Context(), epoch, round, id, envelope))
}

// manifest waits for a round's manifest.
func (s *scene) manifest(epoch uint64, round uint32) *wire.Manifest {
	s.t.Helper()
	var m *wire.Manifest
	s.eventually("released or destroyed", func() bool {
		signed, err := s.analyzer.Mixed.ReadManifest(s.Context(), epoch, round)
		if errors.Is(err, bus.ErrGone) {
			return false
		}
		s.must(err)
		m, _, err = wire.Open[wire.Manifest](signed, s.ShufflerParty())
		s.must(err)
		return true
	})
	return m
}

// finished waits until the shuffler has put a round behind it.
func (s *scene) finished() {
	s.t.Helper()
	s.eventually("finished", func() bool {
		s.shuffler.mu.Lock()
		defer s.shuffler.mu.Unlock()
		last, ok := s.shuffler.state.Last()
		return ok && s.shuffler.state.Finished(last.Epoch, last.Round)
	})
}

// left returns the bytes of all chunks of a round that are in the stream.
func (s *scene) left(epoch uint64, round uint32) (chunks [][]byte) {
	s.t.Helper()
	s.must(s.analyzer.Mixed.ReadChunks(s.Context(), epoch, round, func(_ uint32, payload []byte) error {
		chunks = append(chunks, slices.Clone(payload))
		return nil
	}))
	return chunks
}

// account checks how often each reason is in the reports' account, how many reports were released and how many
// destroyed, and that nothing else happened to any.
func (s *scene) account(released, destroyed int, want map[wire.Refusal]int) {
	s.t.Helper()
	check := func() error {
		var faults []error
		for _, c := range s.shuffler.c.Reports.Balance().Refused {
			n := 0
			if c.Reason == Destroyed {
				n = destroyed
			}
			for r, k := range want {
				if cohort.Reason(r) == c.Reason {
					n = k
				}
			}
			if int(c.Items) != n {
				faults = append(faults, fmt.Errorf("%s: %d, expected %d", c.Reason, c.Items, n))
			}
		}
		if n := s.shuffler.c.Reports.Balance().Released; int(n) != released {
			faults = append(faults, fmt.Errorf("%d released, expected %d", n, released))
		}
		return errors.Join(append(faults, s.shuffler.c.Reports.Check(), s.shuffler.c.Messages.Check())...)
	}
	err := check() // once it holds, that is that: a report that comes a moment later is counted in two steps
	for deadline := time.Now().Add(testbed.Patience); err != nil && time.Now().Before(deadline); err = check() {
		time.Sleep(5 * time.Millisecond)
	}
	if err != nil {
		s.t.Error(err)
	}
}

// announcement is a valid one for twelve people, ten of whom must report. It waits very long for those who are missing:
// see pass.
func (s *scene) announcement() *plan.Announcement {
	s.t.Helper()
	a := s.Announcement(glm.Practical, 12)
	a.Timing.Grace = 10 * time.Minute
	return a
}
