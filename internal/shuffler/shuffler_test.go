package shuffler

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/riffle-dp/riffle/internal/bus"
	"github.com/riffle-dp/riffle/internal/channel"
	"github.com/riffle-dp/riffle/internal/shuffler/cohort"
	"github.com/riffle-dp/riffle/internal/testing/testbed"
	"github.com/riffle-dp/riffle/pkg/glm"
	"github.com/riffle-dp/riffle/pkg/seal"
	"github.com/riffle-dp/riffle/pkg/wire"
)

// A whole cohort on a real broker: enrolled, reported, mixed, forwarded, forgotten.
func TestACohortIsReleasedWhole(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	s.start()
	s.open(s.announcement())
	s.enrol(12)
	if r := s.ask(12); r.Refusal != wire.RefusalCohortFull {
		t.Errorf("the thirteenth: %v", r)
	}
	sent := map[string]bool{}
	for i := range uint32(12) {
		envelope := s.report(i)
		report := s.Open(envelope, s.opened)
		for at := 0; at < len(report.Payload); at += seal.BitSize {
			sent[string(report.Payload[at:at+seal.BitSize])] = true
		}
		s.send(envelope)
	}
	m := s.manifest(1, 0)
	s.finished()
	if m.Outcome != wire.Released || m.Reports != 12 || m.Enrolled != 12 || m.Messages != uint64(len(sent)) ||
		!bytes.Equal(m.Announcement, s.digest[:]) {
		t.Errorf("manifest %v for %d messages", m, len(sent))
	}
	var digests [][32]byte
	forwarded := 0
	for _, payload := range s.left(1, 0) {
		digests = append(digests, wire.ChunkDigest(payload))
		chunk, err := wire.ParseChunk(payload)
		s.must(err)
		for at := 0; at < len(chunk.Payload); at += seal.BitSize {
			key := string(chunk.Payload[at : at+seal.BitSize])
			if !sent[key] {
				t.Fatal("a message left that no device sent, or twice")
			}
			delete(sent, key)
			forwarded++
		}
	}
	if all := wire.ChunksDigest(digests); len(sent) != 0 || !bytes.Equal(m.ChunksDigest, all[:]) {
		t.Errorf("%d of %d messages did not leave", len(sent), forwarded)
	}
	s.account(12, 0, nil)
	s.forgotten()
}

// forgotten checks that no report is kept, in the stream or in the state folder, and no permuted message.
func (s *scene) forgotten() {
	s.t.Helper()
	for sequence := uint64(1); sequence <= uint64(len(s.reports)+1); sequence++ {
		s.eventually(fmt.Sprintf("forgotten: report %d", sequence), func() bool {
			_, err := s.shuffler.c.Bus.GetReport(s.Context(), sequence)
			return errors.Is(err, bus.ErrGone)
		})
	}
	files, err := os.ReadDir(s.config.StateDir)
	s.must(err)
	for _, f := range files {
		if name, _, _ := strings.Cut(f.Name(), ".log"); name != "journal" && name != "log" { // or what continues them
			s.t.Errorf("%s is still in the state folder", f.Name())
		}
	}
}

// Nothing below the minimum leaves, at the deadline or ever, and the reports are forgotten (conditions 5 and 16).
func TestBelowTheMinimumNeverLeaves(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ own, reports int }{
		"announced": {4, 9}, "the shuffler's own": {11, 10}, "no report": {4, 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newScene(t)
			s.config.MinCohort = 4
			s.start()
			a := s.announcement()
			if c.own > 4 { // stricter than announced: the shuffler that opens the round is configured otherwise
				s.open(a)
				s.must(s.stop())
				s.config.MinCohort = c.own
				s.start()
			} else {
				s.open(a)
			}
			s.enrol(12)
			for i := range uint32(c.reports) {
				s.send(s.report(i))
			}
			s.pass(c.reports)
			m := s.manifest(1, 0)
			s.finished()
			if m.Outcome != wire.Destroyed || int(m.Reports) != c.reports || m.Messages != 0 {
				t.Errorf("manifest %v", m)
			}
			if n := len(s.left(1, 0)); n != 0 {
				t.Errorf("%d chunks left", n)
			}
			s.forgotten()
			// Asked again it does not change its mind.
			s.send(s.report(11))
			s.account(0, c.reports, map[wire.Refusal]int{wire.RefusalLate: 1})
		})
	}
}

// A plan below the shuffler's own minimum is not even opened.
func TestWeakPlanIsNotOpened(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	s.config.MinCohort = 11
	s.start()
	s.opened = s.announcement()
	s.digest = s.Announce(s.analyzer, s.opened)
	s.eventually("refused", func() bool {
		for _, c := range s.shuffler.c.Announcements.Balance().Refused {
			if c.Reason == cohort.Reason(wire.RefusalWeakPlan) {
				return c.Items == 1
			}
		}
		return false
	})
	if r := s.ask(0); r.Refusal != wire.RefusalWrongEpoch {
		t.Errorf("a device that asks is told %v", r)
	}
	if _, ok := s.shuffler.Filling(); ok {
		t.Error("opened")
	}
}

// At the deadline those who reported are released, if they are enough; a report that comes later is late. Drop-outs
// move no other device.
func TestDropOutsMoveNoOtherDevice(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	s.start()
	s.open(s.announcement())
	s.enrol(12)
	for i := range uint32(10) {
		s.send(s.report(11 - i))
	}
	s.pass(10)
	m := s.manifest(1, 0)
	s.finished()
	if m.Outcome != wire.Released || m.Reports != 10 || m.Enrolled != 12 {
		t.Errorf("manifest %v", m)
	}
	s.send(s.report(0))
	s.send(s.report(1))
	s.account(10, 0, map[wire.Refusal]int{wire.RefusalLate: 2})
	s.forgotten()
}

// Every kind of report that is not one device's one report of this round is refused with its reason, is accounted, and
// is forgotten; and the honest reports around it are released as if it had not been.
func TestEachBadReportIsRefusedForItsReason(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	s.start()
	a := s.announcement()
	s.open(a)
	s.enrol(12)
	good := make([][]byte, 12)
	for i := range good {
		good[i] = s.report(uint32(i))
	}
	s.send(good[0])
	s.admitted(1)
	stranger, _ := s.Host(capacity)
	foreign := func(f func()) []byte { // made by a host that is not the slot's
		own := s.host
		s.host = stranger
		defer func() { s.host = own }()
		f()
		return s.report(1)
	}
	want := map[wire.Refusal]int{}
	refuse := func(r wire.Refusal, envelope []byte) {
		want[r]++
		s.send(envelope)
	}
	refuse(wire.RefusalDuplicate, good[0])              // a replayed copy
	refuse(wire.RefusalAlreadyReported, s.report(0))    // a second, different one
	refuse(wire.RefusalNotEnrolled, s.report(50))       // a slot that does not exist
	refuse(wire.RefusalNotEnrolled, foreign(func() {})) // another host's word for this slot
	refuse(wire.RefusalNotEnrolled, s.report(1, func(r *wire.Report) { r.Slot = 2 }))
	refuse(wire.RefusalNotEnrolled, s.report(1, func(r *wire.Report) { r.Device = 2 }))
	// Two plans, one number of messages.
	refuse(wire.RefusalWrongAnnouncement, s.report(1, func(r *wire.Report) { r.Announcement[0] ^= 1 }))
	refuse(wire.RefusalWrongSize, s.report(1, func(r *wire.Report) { r.Payload = r.Payload[seal.BitSize:] }))
	refuse(wire.RefusalWrongSize, s.report(1, func(r *wire.Report) {
		r.Payload = append(r.Payload, r.Payload[:seal.BitSize]...)
	}))
	tampered := bytes.Clone(good[1])
	tampered[len(tampered)-1] ^= 1
	refuse(wire.RefusalUndecryptable, tampered)
	other := *s.Bed
	other.ShufflerKey = testbed.NewKey(t)
	report, err := wire.BuildReport(wire.Report{
		Announcement: s.digest, Epoch: 1, Slot: 1, Device: 1, Payload: s.Open(good[1], a).Payload,
	}, s.host)
	s.must(err)
	here := seal.ReportContext{Deployment: testbed.Deployment, Epoch: 1}
	elsewhere, err := wire.SealReport(report, other.ShufflerKey.Public(), here)
	s.must(err)
	refuse(wire.RefusalUndecryptable, elsewhere)
	there := seal.ReportContext{Deployment: "elsewhere", Epoch: 1}
	elsewhere, err = wire.SealReport(report, s.ShufflerKey.Public(), there)
	s.must(err)
	refuse(wire.RefusalUndecryptable, elsewhere) // another deployment's
	report[len(report)-1] ^= 1
	unsigned, err := wire.SealReport(report, s.ShufflerKey.Public(), here)
	s.must(err)
	refuse(wire.RefusalBadSignature, unsigned)
	refuse(wire.RefusalMalformed, make([]byte, len(good[1])))
	refuse(wire.RefusalWrongSize, []byte("not an envelope"))
	refuse(wire.RefusalWrongSize, nil)
	want[wire.RefusalMalformed]++
	s.sendTo(0, 0, good[1]) // of no round
	want[wire.RefusalWrongEpoch] += 2
	s.sendTo(2, 0, good[1]) // into another round's stream
	s.sendTo(1, 1, good[1])
	s.account(0, 0, want)
	for _, g := range good[1:] {
		s.send(g)
	}
	m := s.manifest(1, 0)
	s.finished()
	if m.Reports != 12 || m.Messages != uint64(12*a.ReportMessages()) {
		t.Errorf("manifest %v", m)
	}
	s.account(12, 0, want)
	want[wire.RefusalMalformed]-- // of no round
	delete(want, wire.RefusalWrongEpoch)
	testbed.RefusedIn(t, m, want, nil)
	s.forgotten()
}

// Two faces: a second announcement for an open round is refused, and the manifest names the one that was admitted
// (condition 10).
func TestARoundAdmitsOneDigest(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	s.start()
	a := s.announcement()
	s.open(a)
	s.enrol(12)
	second := s.announcement()
	second.Plan.Rounds[0].Releases[0].NoiseBits += 3 // 13 + 6 bits or 16 + 3: the same number of messages
	second.Encodings[0].NoiseBits += 3
	for i := range second.Encodings[0].Coordinates {
		second.Encodings[0].Coordinates[i].Levels += 3
	}
	_, digest := s.Sign(second, s.Analyzer)
	// The broker would not store it; a shuffler that is shown it all the same keeps to what it opened.
	layout := channel.Layout{Messages: second.ReportMessages()}
	_, err := s.shuffler.state.Open(second, digest, layout, time.Now())
	if err == nil || !strings.Contains(err.Error(), "is open under digest") {
		t.Errorf("a second announcement: %v", err)
	}
	for i := range uint32(12) {
		change := func(*wire.Report) {}
		if i < 2 {
			change = func(r *wire.Report) { r.Announcement = digest }
		}
		s.send(s.report(i, change))
	}
	s.pass(10)
	m := s.manifest(1, 0)
	s.finished()
	if m.Reports != 10 || !bytes.Equal(m.Announcement, s.digest[:]) {
		t.Errorf("manifest %v", m)
	}
	s.account(10, 0, map[wire.Refusal]int{wire.RefusalWrongAnnouncement: 2})
}

// A report of the next round that arrives before its announcement does waits; one of a round that will never come does
// not.
func TestAReportAheadOfItsAnnouncementWaits(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	s.start()
	a := s.Announcement(glm.Paper, 12)
	a.Timing.Grace = 10 * time.Minute
	s.open(a)
	s.enrol(12)
	s.sendAll(12)
	s.manifest(1, 0)
	s.finished()
	firstDigest := s.digest
	next := s.Announcement(glm.Paper, 12)
	next.Round, next.Previous, next.Encodings, next.Timing = 1, firstDigest[:], next.Encodings[1:], a.Timing
	_, s.digest = s.Sign(next, s.Analyzer)
	s.opened = next
	s.send(s.report(0))
	time.Sleep(100 * time.Millisecond)
	if b := s.shuffler.c.Reports.Balance(); b.Received != 12 {
		t.Errorf("decided on before the round was opened: %+v", b)
	}
	s.open(next)
	for i := range uint32(11) {
		s.send(s.report(i + 1))
	}
	if m := s.manifest(1, 1); m.Reports != 12 {
		t.Errorf("manifest %v", m)
	}
	s.finished()
	s.sendTo(1, 2, s.report(0))
	s.account(24, 0, map[wire.Refusal]int{wire.RefusalWrongEpoch: 1})
}

// The state folder belongs to one process.
func TestAStateFolderBelongsToOneProcess(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("waits for a time limit")
	}
	s := newScene(t)
	s.start()
	if _, err := s.configured().open(); err == nil || !strings.Contains(err.Error(), "another process has it open") {
		t.Errorf("%v", err)
	}
}

// A shuffler without keys to open reports with does not start.
func TestWithoutKeysNothingStarts(t *testing.T) {
	t.Parallel()
	if _, err := newConfig(Party{Identity: testbed.NewIdentity(t)}, t.TempDir()).open(); err == nil {
		t.Error("no keys: accepted")
	}
}
