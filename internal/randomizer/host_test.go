package randomizer

import (
	"context"
	"fmt"
	"math"
	"net/http"
	"testing"

	"github.com/riffle-dp/riffle/internal/testing/testbed"
	"github.com/riffle-dp/riffle/pkg/glm"
	"github.com/riffle-dp/riffle/pkg/glm/learner"
	"github.com/riffle-dp/riffle/pkg/glm/statistic"
	"github.com/riffle-dp/riffle/pkg/plan"
	"github.com/riffle-dp/riffle/pkg/privacy"
	"github.com/riffle-dp/riffle/pkg/wire"
)

// What arrives is what the records say: the decoded sums of twelve known records are within six standard deviations of
// the true sums on each of the five coordinates (false alarm below 1e-8). The plan has little privacy, so that this has
// power: six standard deviations are asserted to be less than what a wrong sign or a reward of 0 for 1 would shift the
// gradient's sums by.
func TestReportsCarryTheRecords(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	learner, err := learner.New(testbed.Learner(glm.Practical, 12))
	s.must(err)
	terms := testbed.Terms()
	terms.Epsilon, terms.MaxMessages, terms.MaxShift, terms.VarianceRatio = 100, 500, 400, 0
	a := s.Draw(learner.Next(), terms, 1, nil)
	a.Timing.RewardWindow = testbed.Long
	s.config.Limits.Epsilon, s.config.Limits.MaxMessages = 100, 1<<20
	s.start()
	check(t, s, a, s.open(a), 12)
}

func check(t *testing.T, s *scene, a *plan.Announcement, digest [32]byte, n int) {
	round, err := plan.CheckRound(a)
	s.must(err)
	truth := make([][]float64, len(round.Statistics))
	for i, st := range round.Statistics {
		truth[i] = make([]float64, st.Dim())
	}
	for i := range n {
		reward := float64(i % 2)
		arm := []float64{0.8*reward - 0.4, 0.6} // so that the rewards show in the gradient's first sum
		d := s.decide(fmt.Sprint("p", i), fmt.Sprintf(`{"arms": [[%v, %v]]}`, arm[0], arm[1]))
		if status, answer := s.post("/v1/rewards",
			fmt.Sprintf(`{"token": %q, "reward": %v}`, d["token"], reward)); status != http.StatusOK {
			t.Fatal(answer)
		}
		for k, st := range round.Statistics {
			v, err := st.Vector(nil, statistic.Record{Arm: arm, Reward: reward, Weight: 1})
			s.must(err)
			for j := range v {
				truth[k][j] += v[j]
			}
		}
	}
	ones := make([][]uint64, len(round.Encodings))
	for k, e := range round.Encodings {
		ones[k] = make([]uint64, len(e.Coordinates))
	}
	s.due(a)
	for _, r := range s.reports(n) {
		some, _ := s.bits(r.envelope, a, digest)
		for k := range some {
			for j := range some[k] {
				ones[k][j] += some[k][j]
			}
		}
	}
	for k, e := range round.Encodings {
		sum, err := e.Decode(ones[k], uint64(n), 0)
		s.must(err)
		for j, variance := range e.Variance(uint64(n), 0) {
			if z := (sum[j] - truth[k][j]) / math.Sqrt(variance); math.Abs(z) > 6 {
				t.Errorf("%s, coordinate %d: sum %v, true %v, z = %.1f", round.Statistics[k].Kind, j, sum[j],
					truth[k][j], z)
			}
			if round.Statistics[k].Kind == statistic.Gradient && !(6*math.Sqrt(variance) < 3) {
				t.Errorf("no power: six standard deviations are %v", 6*math.Sqrt(variance))
			}
		}
	}
}

// Every way in which a person is not sampled has its reason, changes nothing, and the app gets a decision all the same.
func TestWhyAPersonIsNotSampled(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	s.start()
	status, d := s.post("/v1/devices/x/decisions", twoArms)
	if status != http.StatusServiceUnavailable || d["reason"] != "no_policy" {
		t.Fatalf("before any policy: %d %v", status, d)
	}
	a := s.unhurried(12)
	digest := s.open(a)
	expect := func(device string, reason any) map[string]any {
		t.Helper()
		d := s.decide(device, twoArms)
		if d["reason"] != reason || (d["sampled"] == true) != (reason == "sampled") {
			t.Errorf("%s: %v, want reason %v", device, d, reason)
		}
		if d["sampled"] != true && (d["detail"] == nil || d["detail"] == "") {
			t.Errorf("%s: no explanation: %v", device, d)
		}
		return d
	}
	expect("first", "sampled")
	expect("first", "record_used")
	refuse := func(r wire.Refusal) {
		s.mu.Lock()
		s.answer = func(wire.Enrolment) *wire.EnrolReply { return &wire.EnrolReply{Refusal: r} }
		s.mu.Unlock()
	}
	refuse(wire.RefusalNoCredential)
	unsampled := expect("second", "not_admitted")
	if status, answer := s.post("/v1/rewards",
		fmt.Sprintf(`{"token": %q, "reward": 1}`, unsampled["token"])); status != http.StatusOK {
		t.Errorf("the reward of a person who is not sampled: %v", answer)
	}
	if l := s.host.State("second").Ledger; len(l.Entries) != 0 {
		t.Errorf("a refusal is in the ledger: %+v", l)
	}
	refuse(wire.RefusalCohortFull)
	expect("second", "cohort_full")
	refuse(wire.NoRefusal)
	before := len(s.enrolments())
	expect("third", "cohort_full") // known now: the shuffler is not asked again
	if len(s.enrolments()) != before {
		t.Error("the shuffler was asked although the cohort is full")
	}
	s.mu.Lock()
	s.answer = nil
	s.mu.Unlock()
	s.due(a)
	s.reports(1)
	final := &plan.Announcement{Deployment: a.Deployment, Epoch: 2, Previous: digest[:], Policy: a.Policy, Final: true}
	s.open(final)
	expect("second", "final_policy")
}

// A shuffler that has not heard of the epoch yet is asked again.
func TestShufflerBehindIsAskedAgain(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	s.start()
	asked := 0
	s.answer = func(wire.Enrolment) *wire.EnrolReply {
		if asked++; asked < 3 {
			return &wire.EnrolReply{Refusal: wire.RefusalWrongEpoch}
		}
		return nil
	}
	a := s.unhurried(12)
	s.open(a)
	if d := s.decide("x", twoArms); d["sampled"] != true {
		t.Fatalf("%v", d)
	}
	s.due(a)
	s.reports(1)
}

// A shuffler that gives no answer that holds leaves the person unsampled, whatever the arms; and nobody claims that
// nothing was promised.
func TestShufflerAway(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("waits for a time limit")
	}
	s := newScene(t)
	s.signer = s.Analyzer // every reply is signed by somebody else: as good as none
	s.clock.Strict = true
	s.start()
	s.announced = s.Announcement(glm.Practical, 12)
	s.Announce(s.analyzer, s.announced)
	testbed.Eventually(t, "announced", func() bool { return s.host.Status().Epoch == 1 })
	if d := s.decide("x", twoArms); d["reason"] != "shuffler_unreachable" {
		t.Fatalf("%v", d)
	}
	if l := s.host.State("x").Ledger; l.State(1) != privacy.Asked {
		t.Errorf("the ledger says %+v", l)
	}
}

// In the paper's profile the record answers each round once, and then is gone.
func TestRounds(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	s.start()
	a := s.Announcement(glm.Paper, 12)
	digest := s.open(a)
	for i := range 3 {
		d := s.decide(fmt.Sprint("p", i), twoArms)
		s.post("/v1/rewards", fmt.Sprintf(`{"token": %q, "reward": 1}`, d["token"]))
	}
	first := s.reports(3)
	next := nextRound(s, a, digest)
	nextDigest := s.open(next)
	if d := s.decide("late", twoArms); d["reason"] != "rounds_under_way" {
		t.Errorf("a person who comes between rounds: %v", d)
	}
	all := s.reports(6)
	for _, r := range all[len(first):] {
		report := s.Open(r.envelope, next)
		if report.Round != 1 || report.Announcement != nextDigest {
			t.Errorf("round %d for %x", report.Round, report.Announcement[:4])
		}
	}
	testbed.Eventually(t, "forgotten", func() bool {
		s.host.promises.lock.Lock()
		defer s.host.promises.lock.Unlock()
		return len(s.host.promises.open) == 0 && len(s.host.promises.tokens) == 0
	})
	for i := range 3 {
		if l := s.host.State(fmt.Sprint("p", i)).Ledger; len(l.Entries) != 1 || l.Entries[0].State != privacy.Spent ||
			l.Entries[0].Releases != 3 {
			t.Errorf("ledger %+v", l)
		}
	}
}

// nextRound is a valid second round of the paper's profile.
func nextRound(s *scene, a *plan.Announcement, digest [32]byte) *plan.Announcement {
	s.t.Helper()
	learner, err := learner.New(testbed.Learner(glm.Paper, 12))
	s.must(err)
	step := learner.Next()
	step.Round = 1
	encodings, err := plan.Encode(a.Plan, step)
	s.must(err)
	return &plan.Announcement{
		Deployment: a.Deployment, Epoch: a.Epoch, Round: 1, Previous: digest[:], Policy: a.Policy,
		Reference: a.Reference, Plan: a.Plan,
		Encodings: encodings, Cohort: a.Cohort, Timing: a.Timing, AnalyzerKey: a.AnalyzerKey,
	}
}

// An epoch that ends before the report's time takes the promise with it.
func TestEpochOver(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	s.start()
	a := s.unhurried(12)
	digest := s.open(a)
	token := s.decide("x", twoArms)["token"]
	next := s.Announcement(glm.Practical, 12)
	next.Epoch, next.Previous, next.Timing = 2, digest[:], a.Timing
	s.open(next)
	testbed.Eventually(t, "dropped", func() bool { return s.host.Pending() == 0 })
	if n := s.countRefused(EpochOver); n != 1 {
		t.Errorf("%d reports were dropped with the epoch", n)
	}
	if status, _ := s.post("/v1/rewards", fmt.Sprintf(`{"token": %q, "reward": 1}`, token)); status != http.StatusGone {
		t.Errorf("reward of a dropped promise: %d", status)
	}
	if d := s.decide("x", twoArms); d["reason"] != "record_used" { // it was promised: it stays counted
		t.Errorf("%v", d)
	}
	s.reports(0)
}

// Decisions that come together for one device enrol it once.
func TestConcurrentDecisions(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	s.start()
	a := s.unhurried(12)
	s.open(a)
	got := make(chan bool, 16)
	for range cap(got) {
		go func() {
			d, err := s.host.Decide(context.Background(), "x",
				func(int) ([][]float64, error) { return [][]float64{{1, 0}}, nil })
			if err != nil {
				t.Error(err)
			}
			got <- d.Sampled
		}()
	}
	sampled := 0
	for range cap(got) {
		if <-got {
			sampled++
		}
	}
	if sampled != 1 {
		t.Errorf("%d of %d decisions of one device are sampled", sampled, cap(got))
	}
	s.due(a)
	s.reports(1)
}
