package shuffler

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/riffle-dp/riffle/internal/bus"
	"github.com/riffle-dp/riffle/internal/testing/testbed"
	"github.com/riffle-dp/riffle/pkg/seal"
	"github.com/riffle-dp/riffle/pkg/wire"
)

var errCrash = errors.New("crash")

// A crash after any step of a release: the next process forwards the same bytes, signs the same manifest, and nothing
// is left behind (conditions 4 and 19). The analyzer's side of the stream shows every chunk once.
func TestCrashAfterEveryStep(t *testing.T) {
	t.Parallel()
	for _, step := range []string{stepMixed, stepChunk, stepAudited, stepSigned, stepManifest, stepPurged,
		stepRemoved} {
		t.Run(step, func(t *testing.T) {
			t.Parallel()
			s := newScene(t)
			s.crashAt(step)
			s.start()
			s.open(s.announcement())
			s.enrol(12)
			refused := map[wire.Refusal]int{wire.RefusalNotEnrolled: 2, wire.RefusalWrongSize: 1}
			s.send(s.report(50))
			s.send(s.report(51))
			s.send(nil)
			s.account(0, 0, refused)
			s.sendAll(12)
			s.eventually("crashed", s.crashed)
			if err := s.stop(); !errors.Is(err, errCrash) {
				t.Fatalf("stopped by %v", err)
			}
			before := s.left(1, 0)
			spool, err := os.ReadFile(filepath.Join(s.config.StateDir, "release-1-0"))
			if err != nil && step != stepRemoved {
				t.Fatal(err)
			}
			_, err = s.analyzer.Mixed.ReadManifest(s.Context(), 1, 0)
			logged, out := len(s.logged()), err == nil
			early := step == stepMixed || step == stepChunk
			if logged > 1 || out && logged == 0 || early && logged == 1 {
				t.Errorf("%d manifests in the audit log while the manifest is out: %v", logged, out)
			}
			if step == stepManifest { // the analyzer counts and drops as soon as there is a manifest
				s.must(s.analyzer.Mixed.PurgeMixed(s.Context(), 1, 0))
			}
			s.crash = nil
			s.config.Source = testbed.Source() // the next process draws other random words
			s.start()
			m := s.manifest(1, 0)
			s.finished()
			after := s.left(1, 0)
			switch {
			case step == stepManifest:
				if len(after) != 0 {
					t.Errorf("%d chunks came back after they were counted", len(after))
				}
			case len(after) < 2 || !slices.EqualFunc(before, after[:len(before)], bytes.Equal):
				t.Error("other bytes left after the crash")
			case !bytes.Equal(bits(t, after), spool) && step != stepRemoved:
				t.Error("what left is not what was permuted before the crash")
			}
			if m.Reports != 12 || m.Outcome != wire.Released {
				t.Errorf("manifest %v", m)
			}
			testbed.RefusedIn(t, m, refused, nil)
			shown, err := s.analyzer.Mixed.ReadManifest(s.Context(), 1, 0)
			if err != nil || !slices.EqualFunc(s.logged(), [][]byte{shown}, bytes.Equal) {
				t.Errorf("the audit log has %d manifests, and not the one that is out (%v)", len(s.logged()), err)
			}
			s.transparent(shown)
			s.account(12, 0, nil)
			if b := s.shuffler.c.Reports.Balance(); b.Resumed != 12 || b.Received != 0 {
				t.Errorf("account %+v", b)
			}
			s.forgotten()
		})
	}
}

// logged are the manifests in the audit log.
func (s *scene) logged() (all [][]byte) {
	s.t.Helper()
	of := bus.AuditFilter{Role: bus.Shuffler, Kind: "manifest"}
	s.must(s.analyzer.Audit.ReadAudit(s.Context(), of, func(st bus.Statement) error {
		all = append(all, st.Payload)
		return nil
	}))
	return all
}

// A manifest that the audit log does not take does not leave: nothing acts on what is not logged.
func TestNoManifestLeavesBeforeItIsLogged(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	s.crashAt(stepAudited)
	s.start()
	s.open(s.announcement())
	s.enrol(12)
	s.sendAll(12)
	s.eventually("crashed", s.crashed)
	if err := s.stop(); !errors.Is(err, errCrash) {
		t.Fatalf("stopped by %v", err)
	}
	if _, err := s.analyzer.Mixed.ReadManifest(s.Context(), 1, 0); !errors.Is(err,
		bus.ErrGone) || len(s.logged()) != 1 {
		t.Errorf("%d manifests are logged; the one that leaves: %v", len(s.logged()), err)
	}
}

// bits are the bit messages of some chunks.
func bits(t *testing.T, chunks [][]byte) (all []byte) {
	t.Helper()
	for _, c := range chunks {
		chunk, err := wire.ParseChunk(c)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, chunk.Payload...)
	}
	return all
}

// The steps of carrying out a release, each of which a crash may follow.
const (
	stepMixed    = "mixed"    // what leaves is on disk
	stepChunk    = "chunk"    // a chunk has left
	stepRetained = "retained" // a chunk is retained
	stepAudited  = "audited"  // the manifest is in the audit log
	stepSigned   = "signed"   // and a checkpoint over it
	stepManifest = "manifest" // the manifest has left
	stepPurged   = "purged"   // the reports are forgotten
	stepRemoved  = "removed"  // what was on disk is forgotten
)

// crashAt has the shuffler die after the step, as far as its own work goes: it does nothing more.
func (s *scene) crashAt(step string) {
	s.crash = func(after string) error {
		if after != step {
			return nil
		}
		s.mu.Lock()
		s.dead = true
		s.mu.Unlock()
		return fatal(errCrash)
	}
}

func (s *scene) crashed() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.dead
}

// A crash before the commitment: admitted reports are members still, a redelivered one is no copy, and the rest is
// admitted.
func TestAdmittedReportsOutliveACrash(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	s.start()
	s.open(s.announcement())
	s.enrol(12)
	s.sendAll(7)
	s.admitted(7)
	s.must(s.stop())
	s.start()
	for i := range uint32(12) {
		if r := s.ask(i); !r.Enrolled || !r.Held || r.Slot != i {
			t.Fatalf("device %d after the restart: %v", i, r)
		}
	}
	for i := range uint32(5) {
		s.send(s.report(7 + i))
	}
	m := s.manifest(1, 0)
	s.finished()
	if m.Reports != 12 {
		t.Errorf("manifest %v", m)
	}
	if b := s.shuffler.c.Reports.Balance(); b.Resumed != 7 || b.Received != 5 {
		t.Errorf("account %+v", b)
	}
	s.account(12, 0, nil)
}

// A committed report that is gone from the stream destroys the release of a process that did not admit it: a smaller
// set than was committed never leaves, and nothing had left.
func TestALostReportDestroysItsRelease(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	s.start()
	s.open(s.announcement())
	s.enrol(12)
	s.sendAll(11)
	s.admitted(11)
	s.must(s.shuffler.c.Bus.PurgeReports(s.Context(), 5))
	s.must(s.stop())
	s.start()
	s.send(s.report(11))
	m := s.manifest(1, 0)
	s.finished()
	if m.Outcome != wire.Destroyed || len(s.left(1, 0)) != 0 {
		t.Errorf("manifest %v", m)
	}
	s.account(0, 12, nil)
	s.forgotten()
	s.must(s.stop())
	s.start() // the journal says the same
	if f, _ := s.shuffler.Filling(); !f.Destroyed {
		t.Errorf("%+v", f)
	}
}

// Membership is committed durably before anything leaves: at the first step out, the journal on disk has the commitment
// and all its members.
func TestMembershipIsDurableBeforeAnythingLeaves(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	s.crashAt(stepMixed)
	s.start()
	s.open(s.announcement())
	s.enrol(12)
	s.sendAll(12)
	s.eventually("crashed", s.crashed)
	if err := s.stop(); !errors.Is(err, errCrash) {
		t.Fatal(err)
	}
	if n := len(s.left(1, 0)); n != 0 {
		t.Fatalf("%d chunks left before the release was spooled", n)
	}
	again, err := s.configured().open()
	s.must(err)
	defer again.Close()
	r, ok := again.state.Unfinished()
	if !ok || len(r.Members) != 12 || r.Outcome != wire.Released {
		t.Errorf("the journal has %+v", r)
	}
}

// The journal holds digests, slots and times, and nothing from inside a report: not even its ciphertext.
func TestJournalHoldsNoReport(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	s.start()
	s.open(s.announcement())
	s.enrol(4)
	var envelopes [][]byte
	for i := range uint32(4) {
		e := s.report(i)
		envelopes = append(envelopes, e)
		s.send(e)
	}
	s.admitted(4)
	s.must(s.stop())
	b, err := os.ReadFile(filepath.Join(s.config.StateDir, "journal"))
	s.must(err)
	if !bytes.Contains(b, []byte(`"admitted"`)) {
		t.Fatal("no admission in the journal")
	}
	for _, e := range envelopes {
		report := s.Open(e, s.opened)
		for _, secret := range [][]byte{e[len(e)-64:], report.Payload[:seal.BitSize], report.Payload[32:52], e[40:72]} {
			if bytes.Contains(b, secret) {
				t.Error("part of a report is in the journal")
			}
		}
	}
}

// A process that ends when its manifest is in the audit log and not yet out, and a state folder from before the round
// was committed: the next process publishes the manifest that was signed, and signs no second one.
func TestARestoredStateFolderSignsNoSecondManifest(t *testing.T) {
	t.Parallel()
	for _, step := range []string{stepAudited, stepSigned} {
		t.Run(step, func(t *testing.T) {
			t.Parallel()
			s := newScene(t)
			s.start()
			s.open(s.announcement())
			s.enrol(12)
			s.sendAll(5)
			s.admitted(5)
			s.crashAt(step)
			folder := s.backup()
			for i := range uint32(7) {
				s.send(s.report(5 + i))
			}
			s.eventually("crashed", s.crashed)
			first := s.logged()
			s.config.Source = testbed.Source() // the next process draws other random words
			s.restore(folder)
			m := s.manifest(1, 0)
			s.finished()
			if m.Outcome != wire.Released || m.Reports != 12 {
				t.Errorf("manifest %v", m)
			}
			shown, err := s.analyzer.Mixed.ReadManifest(s.Context(), 1, 0)
			s.must(err)
			if all := s.logged(); len(first) != 1 || len(all) != 1 || !bytes.Equal(all[0], shown) {
				t.Errorf("%d manifests were logged, now %d, and not the one that is out", len(first), len(all))
			}
			s.transparent(shown)
		})
	}
}

// Where the journal comes to the manifest that is in the audit log, the release is repeated as a whole before it is
// out: what a broker lost that went down at the same time leaves again.
func TestAReleaseIsRepeatedBeforeItsLoggedManifestIsOut(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	s.crashAt(stepSigned)
	s.start()
	s.open(s.announcement())
	s.enrol(12)
	s.sendAll(12)
	s.eventually("crashed", s.crashed)
	if err := s.stop(); !errors.Is(err, errCrash) {
		t.Fatalf("stopped by %v", err)
	}
	before := s.left(1, 0)
	s.must(s.analyzer.Mixed.PurgeMixed(s.Context(), 1, 0))
	s.crash = nil
	s.start()
	s.manifest(1, 0)
	s.finished()
	if after := s.left(1, 0); len(before) < 2 || !slices.EqualFunc(before, after, bytes.Equal) {
		t.Errorf("%d chunks had left, %d are there after the crash, or others", len(before), len(after))
	}
}
