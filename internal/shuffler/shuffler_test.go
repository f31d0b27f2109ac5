package shuffler

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/riffle-dp/riffle/internal/bus"
	"github.com/riffle-dp/riffle/internal/channel"
	"github.com/riffle-dp/riffle/internal/testing/testbed"
	"github.com/riffle-dp/riffle/pkg/glm"
	"github.com/riffle-dp/riffle/pkg/seal"
	"github.com/riffle-dp/riffle/pkg/wire"
)

// A whole cohort on a real broker: enrolled, reported, mixed, forwarded, forgotten.
func TestRelease(t *testing.T) {
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
		for at := 0; at < len(report.Bits); at += seal.BitSize {
			sent[string(report.Bits[at:at+seal.BitSize])] = true
		}
		s.send(envelope)
	}
	m := s.manifest(1, 0)
	s.finished()
	if m.Outcome != wire.Released || m.Reports != 12 || m.Enrolled != 12 || m.Messages != uint64(len(sent)) || !bytes.Equal(m.Announcement, s.digest[:]) {
		t.Errorf("manifest %v for %d messages", m, len(sent))
	}
	var digests [][32]byte
	forwarded := 0
	for _, payload := range s.left(1, 0) {
		digests = append(digests, wire.ChunkDigest(payload))
		chunk, err := wire.ParseChunk(payload)
		s.must(err)
		for at := 0; at < len(chunk.Bits); at += seal.BitSize {
			key := string(chunk.Bits[at : at+seal.BitSize])
			if !sent[key] {
				t.Fatal("a message left that nobody sent, or twice")
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
		testbed.Eventually(s.t, fmt.Sprintf("forgotten: report %d", sequence), func() bool {
			_, err := s.shuffler.c.Bus.GetReport(s.Context(), sequence)
			return errors.Is(err, bus.ErrGone)
		})
	}
	files, err := os.ReadDir(s.config.StateDir)
	s.must(err)
	for _, f := range files {
		if f.Name() != "journal" {
			s.t.Errorf("%s is still in the state folder", f.Name())
		}
	}
}

// Nothing below the minimum leaves, at the deadline or ever, and the reports are forgotten (conditions 5 and 16).
func TestBelowTheMinimumNeverLeaves(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ own, reports int }{"announced": {4, 9}, "the shuffler's own": {11, 10}, "nobody": {4, 0}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newScene(t)
			s.config.MinCohort = 4
			s.start()
			a := s.announcement()
			if c.own > 4 { // stricter than what was announced: the shuffler that opened it is another one than releases it
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
	testbed.Eventually(t, "refused", func() bool { return s.ask(0).Refusal == wire.RefusalWrongEpoch })
	if _, ok := s.shuffler.Filling(); ok {
		t.Error("opened")
	}
}

// At the deadline those who reported are released, if they are enough; who comes later is late. Drop-outs do not move
// anybody.
func TestDropOuts(t *testing.T) {
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
func TestRefusedReports(t *testing.T) {
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
	testbed.Eventually(t, "admitted", func() bool { return s.shuffler.Held() == 1 })
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
	refuse(wire.RefusalWrongAnnouncement, s.report(1, func(r *wire.Report) { r.Announcement[0] ^= 1 })) // two plans, one number of messages
	refuse(wire.RefusalWrongSize, s.report(1, func(r *wire.Report) { r.Bits = r.Bits[seal.BitSize:] }))
	refuse(wire.RefusalWrongSize, s.report(1, func(r *wire.Report) { r.Bits = append(r.Bits, r.Bits[:seal.BitSize]...) }))
	tampered := bytes.Clone(good[1])
	tampered[len(tampered)-1] ^= 1
	refuse(wire.RefusalUndecryptable, tampered)
	other := *s.Bed
	other.ShufflerKey = testbed.NewKey(t)
	report, err := wire.BuildReport(wire.Report{Announcement: s.digest, Epoch: 1, Slot: 1, Device: 1, Bits: s.Open(good[1], a).Bits}, s.host)
	s.must(err)
	elsewhere, err := wire.SealReport(report, other.ShufflerKey.Public(), seal.ReportContext{Deployment: testbed.Deployment, Epoch: 1})
	s.must(err)
	refuse(wire.RefusalUndecryptable, elsewhere)
	elsewhere, err = wire.SealReport(report, s.ShufflerKey.Public(), seal.ReportContext{Deployment: "elsewhere", Epoch: 1})
	s.must(err)
	refuse(wire.RefusalUndecryptable, elsewhere) // another deployment's
	report[len(report)-1] ^= 1
	unsigned, err := wire.SealReport(report, s.ShufflerKey.Public(), seal.ReportContext{Deployment: testbed.Deployment, Epoch: 1})
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
	s.forgotten()
}

// Who may enrol: devices that the registrar admitted, once each, under the one announcement that is open (conditions 10
// and 18).
func TestEnrolment(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	s.start()
	s.opened = s.announcement()
	if r := s.ask(0); r.Refusal != wire.RefusalWrongEpoch {
		t.Errorf("before any announcement: %v", r)
	}
	a := s.announcement()
	s.open(a)
	first := s.ask(0)
	low, high := a.Timing.RewardWindow-50*time.Millisecond, a.Timing.RewardWindow+a.Timing.Jitter
	if !first.Enrolled || first.Held || first.Slot != 0 || first.ReportAfter < low || first.ReportAfter > high {
		t.Errorf("first: %v, the window is %v", first, a.Timing)
	}
	if again := s.ask(0); !again.Enrolled || !again.Held || again.Slot != 0 || again.ReportAfter > first.ReportAfter {
		t.Errorf("asked again: %v after %v", again, first)
	}
	stranger, _ := s.Host(capacity)
	refuse := func(what string, want wire.Refusal, reply *wire.EnrolReply) {
		t.Helper()
		if reply.Enrolled || reply.Refusal != want {
			t.Errorf("%s: %v", what, reply)
		}
	}
	refuse("two digests", wire.RefusalWrongAnnouncement, s.ask(1, func(r *wire.EnrolRequest) { r.Announcement = make([]byte, 32) }))
	refuse("another epoch", wire.RefusalWrongEpoch, s.ask(1, func(r *wire.EnrolRequest) { r.Epoch = 2 }))
	refuse("a device beyond the credential", wire.RefusalNoCredential, s.ask(capacity))
	refuse("another deployment", wire.RefusalWrongDeployment, s.ask(1, func(r *wire.EnrolRequest) { r.Deployment = "elsewhere" }))
	request := &wire.EnrolRequest{Deployment: testbed.Deployment, Epoch: 1, Announcement: s.digest[:], Device: 1, Credential: s.credential}
	stolen, _ := s.Sign(request, stranger)
	refuse("somebody else's credential", wire.RefusalNoCredential, s.askRaw(stolen))
	forged, _ := s.Sign(&wire.Credential{Deployment: testbed.Deployment, HostKey: stranger.Public(), Devices: 9}, stranger)
	request.Credential = forged
	selfMade, _ := s.Sign(request, stranger)
	refuse("a credential of one's own making", wire.RefusalNoCredential, s.askRaw(selfMade))
	refuse("junk", wire.RefusalMalformed, s.askRaw([]byte("junk")))
	if f, _ := s.shuffler.Filling(); f.Enrolled != 1 {
		t.Errorf("%d are enrolled", f.Enrolled)
	}
}

// A host with its share of a cohort is refused more, and people are told where one host holds most of it.
func TestOneHostsShare(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	s.config.HostShare = 0.6
	s.start()
	s.open(s.announcement())
	warned := func() bool {
		return slices.ContainsFunc(s.shuffler.Snapshot().Warnings, func(w string) bool { return strings.Contains(w, "admission.host_share") })
	}
	s.enrol(6)
	if warned() || *s.shuffler.Snapshot().Cohort.Largest != 6 {
		t.Error("warned of a host with half of the slots")
	}
	if r := s.ask(6); !r.Enrolled || !warned() { // the seventh of twelve is the last within 0.6
		t.Errorf("%v, warned %v", r, warned())
	}
	if r := s.ask(7); r.Enrolled || r.Refusal != wire.RefusalHostShare {
		t.Errorf("the eighth: %v", r)
	}
	s.host, s.credential = s.Host(capacity)
	if r := s.ask(0); !r.Enrolled || r.Slot != 7 {
		t.Errorf("another host's: %v", r)
	}
}

// Two faces: a second announcement for an open round is refused, and the manifest names the one that was admitted
// (condition 10).
func TestOneDigestPerRound(t *testing.T) {
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
	if _, err := s.shuffler.state.Open(second, digest, layout, time.Now()); err == nil || !strings.Contains(err.Error(), "is open under digest") {
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
func TestReportAheadOfItsAnnouncement(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	s.start()
	a := s.Announcement(glm.Paper, 12)
	a.Timing.Grace = 600_000 * time.Millisecond
	s.open(a)
	s.enrol(12)
	for i := range uint32(12) {
		s.send(s.report(i))
	}
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

// The next cohort takes nobody who was in an earlier one: one person is one record (condition 15).
func TestNobodyTwice(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	s.start()
	s.open(s.announcement())
	s.enrol(12)
	for i := range uint32(12) {
		s.send(s.report(i))
	}
	s.manifest(1, 0)
	s.finished()
	next := s.announcement()
	next.Epoch, next.Previous = 2, s.digest[:]
	old := s.report(3)
	s.open(next)
	if r := s.ask(3); r.Refusal != wire.RefusalAlreadyEnrolled {
		t.Errorf("in the second cohort: %v", r)
	}
	if r := s.ask(30); !r.Enrolled || r.Slot != 0 {
		t.Errorf("somebody new: %v", r)
	}
	s.sendTo(1, 0, old)
	s.account(12, 0, map[wire.Refusal]int{wire.RefusalLate: 1})
	s.must(s.stop())
	s.start()
	if r := s.ask(3); r.Refusal != wire.RefusalAlreadyEnrolled {
		t.Errorf("after a restart: %v", r)
	}
}

// The state folder belongs to one process.
func TestOneProcessPerStateFolder(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("waits for a time limit")
	}
	s := newScene(t)
	s.start()
	if _, err := New(s.configured()); err == nil || !strings.Contains(err.Error(), "another process has it open") {
		t.Errorf("%v", err)
	}
}

// A journal that was tampered with, or is another shuffler's, is not worked on.
func TestForeignJournal(t *testing.T) {
	t.Parallel()
	for name, entries := range map[string][]string{
		"not an event":        {`{`},
		"unknown kind":        {`{"opened":{"at_ms":1,"epoch":1,"digest":"` + strings.Repeat("A", 43) + `=","size":1,"minimum":1,"rounds":1,"messages":1}}`, `{}`},
		"out of order":        {`{"enrolled":{"host":"AA==","device":1,"report_at_ms":1}}`},
		"a digest cut short":  {`{"opened":{"at_ms":1,"epoch":1,"digest":"AA==","size":1,"minimum":1,"rounds":1,"messages":1}}`},
		"a round from beyond": {`{"opened":{"at_ms":1,"epoch":1,"digest":"` + strings.Repeat("A", 43) + `=","size":1,"minimum":1,"rounds":1,"messages":1}}`, `{"committed":{"round":3,"outcome":1}}`},
	} {
		state := NewState(Admission{Minimum: 1})
		var err error
		for _, e := range entries {
			var ev *Event
			if ev, err = DecodeEvent([]byte(e)); err == nil {
				err = state.Apply(ev)
			}
		}
		if err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
	if _, err := New(Config{Keys: nil, StateDir: filepath.Join(t.TempDir(), "none")}); err == nil {
		t.Error("no keys: accepted")
	}
}
