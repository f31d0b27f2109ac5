package shuffler

import (
	"context"
	"errors"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/riffle-dp/riffle/internal/bus"
	"github.com/riffle-dp/riffle/internal/role"
	"github.com/riffle-dp/riffle/internal/testing/testbed"
	"github.com/riffle-dp/riffle/pkg/glm"
	"github.com/riffle-dp/riffle/pkg/wire"
)

// slow is a journal whose disk a test can hold up: what is appended meanwhile is not durable.
type slow struct {
	Journal
	mu   sync.Mutex
	gate chan struct{} // closed: writes reach the disk
}

func (s *slow) Append(entry []byte) func() error {
	s.mu.Lock()
	gate := s.gate
	s.mu.Unlock()
	durable := s.Journal.Append(entry)
	return func() error {
		<-gate
		return durable()
	}
}

// hold holds the disk up until what it returns is called.
func (s *slow) hold() (release func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	gate := make(chan struct{})
	s.gate = gate
	return sync.OnceFunc(func() { close(gate) })
}

// quiet is for how long the tests below watch that nothing happens: the mistake, which is not to wait, would take a few
// milliseconds.
const quiet = 300 * time.Millisecond

// onSlowDisk is a running shuffler with an open cohort, and its disk.
func onSlowDisk(t *testing.T) (*scene, *slow) {
	s, disk := newScene(t), &slow{}
	s.prepare = func(sh *Shuffler) {
		disk.Journal, sh.journal = sh.journal, disk
		disk.hold()()
	}
	s.start()
	s.open(s.announcement())
	return s, disk
}

// unanswered sends a signed request, and expects no reply before this many are enrolled in memory, nor for a moment
// after.
func (s *scene) unanswered(signed []byte, enrolled int) {
	s.t.Helper()
	r, err := wire.SealRequest(signed, s.ShufflerKey.Public(), testbed.Deployment)
	s.must(err)
	ctx, cancel := context.WithCancel(s.Context())
	defer cancel()
	over := make(chan error, 1)
	go func() {
		_, err := s.devices.Enrolment.Enrol(ctx, r.Sealed)
		over <- err
	}()
	s.eventually("enrolled in memory", func() bool { f, _ := s.shuffler.Filling(); return f.Enrolled == enrolled })
	select {
	case err := <-over:
		s.t.Fatalf("answered before it was durable: %v", err)
	case <-time.After(quiet):
	}
	cancel()
	if err := <-over; !errors.Is(err, bus.ErrUnknown) {
		s.t.Errorf("an answer that came too early, or %v", err)
	}
}

// No one hears of an enrolment before it is durable: neither the device when it asks first, nor when it asks again.
func TestNoReplyBeforeTheEnrolmentIsDurable(t *testing.T) {
	t.Parallel()
	s, disk := onSlowDisk(t)
	release := disk.hold()
	t.Cleanup(release)
	two := s.request(0)
	further(5)(two)
	request, _ := s.Sign(two, s.host)
	for range 2 {
		s.unanswered(request, 2)
	}
	release()
	if reply := s.askRaw(request); !reply.Enrolled || !reply.Of(1).Enrolled || reply.Held || reply.Of(1).Held {
		t.Errorf("once it is durable: %v", reply)
	}
}

// No one hears a refusal before what it rests on is durable: that the cohort is full may be forgotten until then.
func TestNoRefusalBeforeWhatItRestsOnIsDurable(t *testing.T) {
	t.Parallel()
	s, disk := onSlowDisk(t)
	s.enrol(11)
	release := disk.hold()
	t.Cleanup(release)
	for device := uint32(11); device < 13; device++ { // the last slot, and one that comes too late
		request, _ := s.Sign(s.request(device), s.host)
		s.unanswered(request, 12)
	}
	release()
	if reply := s.ask(12); reply.Refusal != wire.RefusalCohortFull {
		t.Errorf("once it is durable: %v", reply)
	}
}

// A report is acknowledged once its admission is durable.
func TestNoReportIsAcknowledgedBeforeItsAdmissionIsDurable(t *testing.T) {
	t.Parallel()
	s, disk := onSlowDisk(t)
	s.enrol(1)
	release := disk.hold()
	t.Cleanup(release)
	s.send(s.report(0))
	s.eventually("decided on", func() bool { return s.shuffler.Held() == 1 })
	time.Sleep(quiet)
	if b, err := s.broker.Reports.Backlog(s.Context()); err != nil || b.Waiting != 1 {
		t.Errorf("%d reports wait at the broker, %v", b.Waiting, err)
	}
	release()
	s.eventually("acknowledged", func() bool {
		b, err := s.broker.Reports.Backlog(s.Context())
		return err == nil && b.Waiting == 0
	})
}

// Nothing leaves before the membership is durable: no chunk, no statement.
func TestNothingLeavesBeforeTheMembershipIsDurable(t *testing.T) {
	t.Parallel()
	s, disk := onSlowDisk(t)
	s.enrol(12)
	s.sendAll(10)
	s.eventually("admitted", func() bool {
		b, err := s.broker.Reports.Backlog(s.Context())
		return err == nil && b.Waiting == 0 && s.shuffler.Held() == 10
	})
	release := disk.hold()
	t.Cleanup(release)
	s.pass(10)
	s.eventually("committed in memory", func() bool {
		s.shuffler.mu.Lock()
		defer s.shuffler.mu.Unlock()
		_, ok := s.shuffler.state.Unfinished()
		return ok
	})
	time.Sleep(quiet)
	if chunks, logged := len(s.left(1, 0)), len(s.logged()); chunks+logged > 0 {
		t.Errorf("%d chunks and %d manifests left", chunks, logged)
	}
	if _, err := s.analyzer.Mixed.ReadManifest(s.Context(), 1, 0); !errors.Is(err, bus.ErrGone) {
		t.Errorf("manifest: %v", err)
	}
	release()
	s.released(10)
}

// broken is a journal of which one entry does not become durable from some moment on. Only who waits for it first
// hears so: what asks the journal for other reasons must not be what ends the shuffler.
type broken struct {
	Journal
	now atomic.Bool
}

var errBroken = errors.New("the disk is broken")

func (b *broken) Append(entry []byte) func() error {
	durable := b.Journal.Append(entry)
	return func() error {
		if b.now.CompareAndSwap(true, false) {
			return errBroken
		}
		return durable()
	}
}

// A shuffler that cannot make an admission durable stops at once, and not only when it is asked to: it says nothing of
// the report, which the broker still has.
func TestAShufflerThatCannotAdmitStops(t *testing.T) {
	t.Parallel()
	s, disk := newScene(t), &broken{}
	sh, err := s.configured().open()
	s.must(err)
	disk.Journal, sh.journal, s.shuffler = sh.journal, disk, sh
	ctx, cancel := context.WithTimeout(s.Context(), testbed.Patience)
	defer cancel()
	done := make(chan error, 1)
	go func() { done <- sh.Run(ctx) }()
	s.open(s.announcement())
	s.enrol(1)
	disk.now.Store(true)
	s.send(s.report(0))
	if err := <-done; !errors.Is(err, errFatal) || !errors.Is(err, errBroken) {
		t.Errorf("stopped by %v", err)
	}
	if b, err := s.broker.Reports.Backlog(s.Context()); err != nil || b.Waiting != 1 {
		t.Errorf("%d reports wait at the broker, %v", b.Waiting, err)
	}
}

// A shuffler all of whose workers are busy is not ready, and says so: here the disk takes nothing, and more reports
// wait than there are workers.
func TestStuckWorkersAreNotReady(t *testing.T) {
	t.Parallel()
	s, disk, clock := newScene(t), &slow{}, &shifted{Clock: role.SystemClock()}
	s.config.Clock = clock
	s.prepare = func(sh *Shuffler) {
		disk.Journal, sh.journal = sh.journal, disk
		disk.hold()()
	}
	s.start()
	a := s.Announcement(glm.Practical, workers+2)
	a.Timing.Grace = 10 * time.Minute
	s.open(a)
	s.enrol(workers + 2)
	release := disk.hold()
	t.Cleanup(release)
	for i := range uint32(workers + 2) {
		s.send(s.report(i))
	}
	s.eventually("all busy", func() bool {
		w := &s.shuffler.waits
		w.mu.Lock()
		defer w.mu.Unlock()
		return w.waiting && clock.Now().Sub(w.since) > quiet
	})
	w := &s.shuffler.waits
	why := s.why(workersCondition)
	w.mu.Lock()
	since := w.since
	w.mu.Unlock()
	if why != "" && clock.Now().Sub(since) < stuckAfter { // else the machine is busy
		t.Errorf("stuck within the first moments: %s", why)
	}
	clock.by.Store(int64(2 * stuckAfter))
	s.eventually("not ready", func() bool { return strings.Contains(s.why(workersCondition), "workers are busy") })
	release()
	s.eventually("ready", func() bool { return s.why(workersCondition) == "" })
}

// stuckDisk is a journal whose disk does not come to an end until it is freed.
type stuckDisk struct {
	Journal
	asked sync.Once
	waits chan struct{} // closed once somebody waits for the disk
	freed chan struct{} // closed: writes reach the disk
}

func (s *stuckDisk) Append(entry []byte) func() error {
	durable := s.Journal.Append(entry)
	return func() error {
		s.asked.Do(func() { close(s.waits) })
		<-s.freed
		return durable()
	}
}

// No set of keys leaves before its number is durable: a shuffler that forgot it would give the number to another set.
func TestNoKeySetLeavesBeforeItsNumberIsDurable(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	disk := &stuckDisk{waits: make(chan struct{}), freed: make(chan struct{})}
	free := sync.OnceFunc(func() { close(disk.freed) })
	s.prepare = func(sh *Shuffler) { disk.Journal, sh.journal = sh.journal, disk }
	s.start()
	t.Cleanup(free)
	select {
	case <-disk.waits:
	case <-time.After(testbed.Patience):
		t.Fatal("the number is not waited for")
	}
	if _, err := s.devices.Keys.ReadKeys(s.Context(), bus.Shuffler); !errors.Is(err, bus.ErrGone) {
		t.Errorf("keys are shown before their number is durable: %v", err)
	}
	free()
	s.eventually("published", func() bool {
		_, err := s.devices.Keys.ReadKeys(s.Context(), bus.Shuffler)
		return err == nil
	})
}
