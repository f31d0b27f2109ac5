package randomizer

import (
	"bytes"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/riffle-dp/riffle/internal/testing/testbed"
	"github.com/riffle-dp/riffle/pkg/glm"
	"github.com/riffle-dp/riffle/pkg/privacy"
)

// A process that dies with promises outstanding: the next one keeps every promise, at its time, under its slot, with
// the null record, and the ledger knows the record as reserved until then and as spent afterwards.
func TestRestartKeepsPromises(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	s.start()
	a := s.unhurried(12) // the first process must die before it
	digest := s.open(a)
	var tokens []any
	for i := range 3 {
		d := s.decide(fmt.Sprint("p", i), twoArms)
		tokens = append(tokens, d["token"])
		s.post("/v1/rewards", fmt.Sprintf(`{"token": %q, "reward": 1}`, d["token"]))
	}
	promised := map[uint32]time.Time{}
	for i := range 3 {
		d := s.device(fmt.Sprint("p", i))
		promised[d.Enrolment.Slot] = d.Enrolment.ReportAt
		if d.Ledger.Entries[0].State != privacy.Reserved {
			t.Errorf("ledger before the report: %+v", d.Ledger)
		}
	}
	s.must(s.stop())

	s.start()
	s.awaitRound(a)
	recalled := s.host.promises.sessions()
	for _, open := range recalled {
		open.dev.mu.Lock()
		if _, kept := open.record.Remember([]float64{1, 0}, glm.Decision{Weight: 1}); !kept {
			t.Error("a record survived the process")
		}
		open.dev.mu.Unlock()
	}
	if status, _ := s.post("/v1/rewards",
		fmt.Sprintf(`{"token": %q, "reward": 1}`, tokens[0])); status != http.StatusGone {
		t.Errorf("reward of the earlier process: %d", status)
	}
	if d := s.decide("p0", twoArms); d["reason"] != "record_used" {
		t.Errorf("a second decision of a device whose report is promised: %v", d)
	}
	first := slices.MinFunc(slices.Collect(maps.Values(promised)), time.Time.Compare)
	s.clock.Pass(first.Sub(s.clock.Now()) - time.Second) // within which what leaves too early is there too early
	for _, r := range s.reports(3) {
		report := s.Open(r.envelope, a)
		if report.Announcement != digest {
			t.Errorf("report for %x", report.Announcement[:4])
		}
		if late := r.at.Sub(promised[report.Slot]); late < 0 || late > patience {
			t.Errorf("slot %d reported %v after its time", report.Slot, late)
		}
		delete(promised, report.Slot)
	}
	if len(promised) != 0 {
		t.Errorf("promises not kept: %v", promised)
	}
	b := s.host.c.Reports.Balance()
	if b.Resumed != 3 || b.Received != 0 || b.Released != 3 {
		t.Errorf("account %+v", b)
	}
	if l := s.host.State("p1").Ledger; len(l.Entries) != 1 || l.Entries[0].State != privacy.Spent {
		t.Errorf("ledger after the report: %+v", l)
	}
}

// A process that dies after the shuffler enrolled a device and before it heard so: when the same person comes again,
// the device has the number that it had, and with it the slot. Nobody else gets it, and it does not stay empty.
func TestRestartWhileTheShufflerAnswers(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	found := s.losing()
	s.start()
	a := s.unhurried(12)
	s.open(a)
	asked := make(chan struct{})
	for _, name := range []string{"a", "b", "c"} {
		go func() {
			defer func() { asked <- struct{}{} }()
			_, _ = s.host.Decide(t.Context(), name, func(int) ([][]float64, error) { return [][]float64{{1, 0}}, nil })
		}()
		testbed.Eventually(t, "asked", func() bool {
			s.mu.Lock()
			defer s.mu.Unlock()
			return len(s.slots) > int(name[0]-'a')
		})
	}
	s.must(s.stop())
	for range 3 {
		<-asked
	}
	found()
	s.start()
	s.awaitRound(a)
	for _, name := range []string{"d", "c", "b", "a"} {
		s.decide(name, twoArms)
	}
	for name, slot := range map[string]uint32{"a": 0, "b": 1, "c": 2, "d": 3} {
		testbed.Eventually(t, "promised", func() bool { return s.device(name).Enrolment != nil })
		s.mu.Lock()
		given, known := s.slots[s.device(name).Number]
		s.mu.Unlock()
		if d := s.device(name); !known || given != slot || d.Enrolment.Slot != slot {
			t.Errorf("device %s: %+v, its slot was %d", name, d, slot)
		}
	}
	s.due(a)
	s.reports(4)
}

// A promise that fell due while no process ran is kept late, not never.
func TestRestartAfterTheReportTime(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	s.start()
	a := s.unhurried(12)
	s.open(a)
	s.decide("x", twoArms)
	s.must(s.stop())
	if n := len(s.arrivals()); n != 0 {
		t.Errorf("%d reports before their time", n)
	}
	s.due(a)
	s.start()
	s.reports(1)
}

// A report that was sealed leaves as it was sealed, however often the process dies before the broker has it: never
// sealed anew, which would let the noise be averaged away.
func TestSealedReportLeavesUnchanged(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	s.start()
	a := s.unhurried(12)
	s.open(a)
	s.decide("x", twoArms)
	held, current := s.host.promises.of(s.host.places.get("x").state.Number), s.host.inForce()
	// sealed, and never handed to a sender
	o, ok, err := s.host.reports.sealOne(job{time.Now(), held, current}, newSources(1, testbed.Source))
	if err != nil || !ok {
		t.Fatal(ok, err)
	}
	s.must(s.stop())
	// The process before this one may have got it through without learning so: the same bytes are harmless.
	s.must(s.config.Bus.PublishReport(s.Context(), o.Epoch, o.Round, "0123456789abcdef0123456789abcdef", o.Envelope))
	s.start()
	if n := s.host.Pending(); n != 1 {
		t.Errorf("%d reports are pending", n)
	}
	testbed.Eventually(t, "sent", func() bool { return s.host.Pending() == 0 })
	s.must(s.stop())
	s.start() // nothing is left to send
	testbed.Eventually(t, "arrived", func() bool { s.mu.Lock(); defer s.mu.Unlock(); return len(s.arrived) >= 1 })
	time.Sleep(200 * time.Millisecond)
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, r := range s.arrived {
		if !bytes.Equal(r.envelope, o.Envelope) {
			t.Error("another report than the sealed one left")
		}
	}
	if l := s.host.State("x").Ledger; l.Entries[0].State != privacy.Spent {
		t.Errorf("ledger %+v", l)
	}
	if b := s.host.c.Reports.Balance(); b.Resumed != 0 {
		t.Errorf("a report that was sent is still in the outbox: %+v", b)
	}
}

// Between the rounds of the paper's profile the record is lost with the process; the device goes on with the null
// record.
func TestRestartBetweenRounds(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	s.start()
	a := s.Announcement(glm.Paper, 12)
	digest := s.open(a)
	s.decide("x", twoArms)
	s.reports(1)
	s.must(s.stop())
	s.start()
	s.awaitRound(a)
	next := nextRound(s, a, digest)
	s.open(next)
	s.reports(2)
	s.must(s.stop())
	s.start()
	s.awaitRound(next)
	s.clock.Pass(testbed.Long)
	s.reports(2) // the round is answered once
}

// A later round that breaks the plan gets no report: the people of the cohort drop out, of a running host and of one
// that finds the round when it starts.
func TestAWeakLaterRoundIsNotAnswered(t *testing.T) {
	t.Parallel()
	for _, running := range []bool{true, false} {
		t.Run(map[bool]string{true: "running", false: "restarted"}[running], func(t *testing.T) {
			t.Parallel()
			s := newScene(t)
			s.start()
			a := s.Announcement(glm.Paper, 12)
			a.Timing.RoundWindow, a.Timing.Jitter = 50*time.Millisecond, 10*time.Millisecond
			digest := s.open(a)
			s.decide("x", twoArms)
			s.decide("y", twoArms)
			s.reports(2)
			weak := nextRound(s, a, digest)
			weak.Encodings[0].Scale *= 1.01
			payload, _ := s.Sign(weak, s.Analyzer)
			if !running {
				s.must(s.stop())
			}
			s.must(s.analyzer.Announcements.PutAnnouncement(s.Context(), 1, 1, payload))
			if !running {
				s.start()
			}
			s.awaitRound(weak)
			testbed.Eventually(t, "without promises", func() bool {
				s.host.promises.lock.Lock()
				defer s.host.promises.lock.Unlock()
				return len(s.host.promises.open) == 0
			})
			s.clock.Pass(testbed.Long) // past the time at which they would report
			s.reports(2)
			if b := s.host.c.Reports.Balance(); b.Received+b.Resumed != b.Released {
				t.Errorf("a report of the weak round is promised: %+v", b)
			}
		})
	}
}

// A host whose limits became stricter while it was away breaks a promise rather than its limits.
func TestStricterLimitsAfterRestart(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	s.start()
	a := s.unhurried(12)
	s.open(a)
	s.decide("x", twoArms)
	s.must(s.stop())
	s.config.Limits.MinCohort = 11
	s.start()
	s.awaitRound(a)
	testbed.Eventually(t, "dropped", func() bool { return s.countRefused(BadPlan) == 1 })
	s.reports(0)
}

// A broker that shows less than a host has seen is not believed, even though each announcement by itself is genuine.
func TestRewoundBroker(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	s.start()
	a := s.Announcement(glm.Practical, 12)
	digest := s.open(a)
	next := s.Announcement(glm.Practical, 12)
	next.Epoch, next.Previous = 2, digest[:]
	s.open(next)
	s.must(s.stop())

	other := newScene(t) // a broker that was set back
	other.Analyzer, other.Shuffler, other.config.Analyzer = s.Analyzer, s.Shuffler, s.Analyzer.Public()
	other.config.StateDir = s.config.StateDir
	other.PublishKeys(other.shuffler)
	other.start()
	other.open(a)
	status, answer := other.post("/v1/devices/x/decisions", twoArms)
	if status != http.StatusServiceUnavailable || answer["reason"] != "rewound" {
		t.Fatalf("decision under a policy that is not in force: %d %v", status, answer)
	}
	if got := other.host.Status(); !strings.Contains(got.Refused, "has seen round 0 of epoch 2 before") ||
		got.Enrolling {
		t.Errorf("status %+v", got)
	}
	forked := next.Clone()
	forked.Cohort.Size++
	other.Announce(other.analyzer, forked)
	testbed.Eventually(t, "refused", func() bool {
		return strings.Contains(other.host.Status().Refused, "had digest") ||
			strings.Contains(other.logged.String(), "had digest")
	})
	if len(other.enrolments()) != 0 {
		t.Error("somebody was enrolled")
	}
}
