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

// A crash after any step of a release: the next process forwards the same bytes, signs the same manifest, and nothing is left behind
// (conditions 4 and 19). The analyzer's side of the stream shows every chunk once.
func TestCrashAfterEveryStep(t *testing.T) {
	t.Parallel()
	for _, step := range []string{stepMixed, stepChunk, stepAudited, stepManifest, stepPurged, stepRemoved} {
		t.Run(step, func(t *testing.T) {
			t.Parallel()
			s := newScene(t)
			s.crashAt(step)
			s.start()
			s.open(s.announcement())
			s.enrol(12)
			for i := range uint32(12) {
				s.send(s.report(i))
			}
			testbed.Eventually(t, "crashed", func() bool { return s.crashed() })
			if err := s.stop(); !errors.Is(err, errCrash) {
				t.Fatalf("stopped by %v", err)
			}
			before := s.left(1, 0)
			spool, err := os.ReadFile(filepath.Join(s.config.StateDir, "release-1-0"))
			if err != nil && step != stepRemoved {
				t.Fatal(err)
			}
			_, err = s.analyzer.ReadManifest(s.Context(), 1, 0)
			if logged, out := len(s.logged()), err == nil; logged > 1 || out && logged == 0 || logged == 1 && (step == stepMixed || step == stepChunk) {
				t.Errorf("%d manifests in the audit log while the manifest is out: %v", logged, out)
			}
			if step == stepManifest { // the analyzer counts and drops as soon as there is a manifest
				s.must(s.analyzer.PurgeMixed(s.Context(), 1, 0))
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
			if out, err := s.analyzer.ReadManifest(s.Context(), 1, 0); err != nil || !slices.EqualFunc(s.logged(), [][]byte{out}, bytes.Equal) {
				t.Errorf("the audit log has %d manifests, and not the one that is out (%v)", len(s.logged()), err)
			}
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
	s.must(s.analyzer.ReadAudit(s.Context(), bus.AuditFilter{Role: bus.Shuffler, Kind: "manifest"}, func(st bus.Statement) error {
		all = append(all, st.Payload)
		return nil
	}))
	return all
}

// A manifest that the audit log does not take does not leave: nobody can act on what is not logged.
func TestNoManifestLeavesBeforeItIsLogged(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	s.crashAt(stepAudited)
	s.start()
	s.open(s.announcement())
	s.enrol(12)
	for i := range uint32(12) {
		s.send(s.report(i))
	}
	testbed.Eventually(t, "crashed", func() bool { return s.crashed() })
	if err := s.stop(); !errors.Is(err, errCrash) {
		t.Fatalf("stopped by %v", err)
	}
	if _, err := s.analyzer.ReadManifest(s.Context(), 1, 0); !errors.Is(err, bus.ErrGone) || len(s.logged()) != 1 {
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
		all = append(all, chunk.Bits...)
	}
	return all
}

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

// A crash before the commitment: admitted reports are members still, a redelivered one is no copy, and the rest is admitted.
func TestCrashWhileReportsArrive(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	s.start()
	s.open(s.announcement())
	s.enrol(12)
	for i := range uint32(7) {
		s.send(s.report(i))
	}
	testbed.Eventually(t, "admitted", func() bool { return s.shuffler.Held() == 7 })
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

// A committed report that is gone from the stream destroys the release: a smaller set than was committed never leaves, and nothing
// had left.
func TestLostReportDestroys(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	s.start()
	s.open(s.announcement())
	s.enrol(12)
	for i := range uint32(11) {
		s.send(s.report(i))
	}
	testbed.Eventually(t, "admitted", func() bool { return s.shuffler.Held() == 11 })
	s.must(s.shuffler.c.Bus.PurgeReports(s.Context(), 5))
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

// Membership is committed durably before anything leaves: at the first step out, the journal on disk has the commitment and all its
// members.
func TestMembershipIsDurableBeforeAnythingLeaves(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	s.crashAt(stepMixed)
	s.start()
	s.open(s.announcement())
	s.enrol(12)
	for i := range uint32(12) {
		s.send(s.report(i))
	}
	testbed.Eventually(t, "crashed", func() bool { return s.crashed() })
	if err := s.stop(); !errors.Is(err, errCrash) {
		t.Fatal(err)
	}
	if n := len(s.left(1, 0)); n != 0 {
		t.Fatalf("%d chunks left before the release was spooled", n)
	}
	again, err := New(s.config)
	s.must(err)
	defer again.Close()
	r, ok := again.state.Unfinished()
	if !ok || len(r.Members) != 12 || r.Outcome != wire.Released {
		t.Errorf("the journal has %+v", r)
	}
}

// Every order is as likely as every other, and the order of arrival has no part in it: over 400 releases of twelve messages, the
// place of each message is uniform (chi-square with 11 degrees of freedom for each; the largest of 12 passes 38 with probability
// below 1e-3), and a permutation that left the reports' own order alone would give more than 4000.
func TestOrderIsGone(t *testing.T) {
	t.Parallel()
	const releases, messages = 400, 12
	var places [messages][messages]int
	dir := t.TempDir()
	src := testbed.Source()
	for n := range releases {
		bits := make([][seal.BitSize]byte, messages)
		for i := range bits {
			bits[i] = [seal.BitSize]byte(slices.Repeat([]byte{byte(i)}, seal.BitSize))
		}
		sp := spoolOf(dir, &Release{Epoch: uint64(n)})
		if err := sp.write(bits, src); err != nil {
			t.Fatal(err)
		}
		at := 0
		count, err := sp.chunks(5, func(_ uint32, b []byte) error {
			for ; len(b) > 0; b = b[seal.BitSize:] {
				places[b[0]][at]++
				at++
			}
			return nil
		})
		if err != nil || count != messages || at != messages {
			t.Fatal(count, at, err)
		}
		if err := sp.remove(); err != nil {
			t.Fatal(err)
		}
	}
	for i := range places {
		chi := 0.0
		for _, n := range places[i] {
			d := float64(n) - float64(releases)/messages
			chi += d * d / (float64(releases) / messages)
		}
		if chi > 38 {
			t.Errorf("message %d: chi-square %.1f over its places: %v", i, chi, places[i])
		}
	}
}

// A torn spool is an error, not a shorter release.
func TestTornSpool(t *testing.T) {
	t.Parallel()
	s := spoolOf(t.TempDir(), &Release{Epoch: 1})
	if err := os.WriteFile(s.path, make([]byte, seal.BitSize+1), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := s.chunks(10, func(uint32, []byte) error { return nil }); err == nil {
		t.Error("accepted")
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
	testbed.Eventually(t, "admitted", func() bool { return s.shuffler.Held() == 4 })
	s.must(s.stop())
	b, err := os.ReadFile(filepath.Join(s.config.StateDir, "journal"))
	s.must(err)
	if !bytes.Contains(b, []byte(`"admitted"`)) {
		t.Fatal("no admission in the journal")
	}
	for _, e := range envelopes {
		report := s.Open(e, s.opened)
		for _, secret := range [][]byte{e[len(e)-64:], report.Bits[:seal.BitSize], report.Bits[32:52], e[40:72]} {
			if bytes.Contains(b, secret) {
				t.Error("part of a report is in the journal")
			}
		}
	}
}
