package mailbox_test

import (
	"bytes"
	"crypto/sha256"
	"fmt"
	"math"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/riffle-dp/riffle/pkg/channel"
	"github.com/riffle-dp/riffle/pkg/channel/envelope"
	"github.com/riffle-dp/riffle/pkg/channel/registry"
	"github.com/riffle-dp/riffle/pkg/device"
	"github.com/riffle-dp/riffle/pkg/glm"
	"github.com/riffle-dp/riffle/pkg/glm/learner"
	"github.com/riffle-dp/riffle/pkg/plan"
	"github.com/riffle-dp/riffle/pkg/seal"
	"github.com/riffle-dp/riffle/pkg/wire"
)

// world is a deployment as its devices see it.
type world struct {
	config    device.Config
	core      *device.Core
	signed    []byte // the announcement
	announced *device.Announced
	plan      *plan.Announcement
	registrar *seal.Identity
	enrols    *seal.Identity // the shuffler's, which signs
	shuffler  *seal.HPKEKey
	analyzer  *seal.HPKEKey
}

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

func newWorld(t *testing.T) *world {
	t.Helper()
	ids := make([]*seal.Identity, 4)
	for i := range ids {
		ids[i] = must(seal.NewIdentity(bytes.Repeat([]byte{byte(i + 1)}, 32)))
	}
	w := &world{
		analyzer: must(seal.NewHPKEKey(bytes.Repeat([]byte{5}, 32))),
		shuffler: must(seal.NewHPKEKey(bytes.Repeat([]byte{6}, 32))),
	}
	l := must(learner.New(learner.Config{
		Profile: glm.Practical, Dimension: 2, Radius: 2, Horizon: people, Epsilon: 4, Delta: 1e-3, MinCohort: people,
		Practical: learner.PracticalConfig{FirstCohort: people, Growth: 1},
	}))
	step := l.Next()
	step.Cohort = people
	p := must(plan.Propose(step, plan.Terms{
		Epsilon: 4, Delta: 1e-3, DropOut: 0.2, MinCohort: people / 2, MaxShift: 2, VarianceRatio: 64,
	}))
	// Through the channel local, where a report is one envelope: what is tested is the same in all of them.
	p.Plan.Channel = plan.Local
	for i := range p.Plan.Rounds[0].Releases {
		bits := p.Plan.Rounds[0].Releases[i].NoiseBits * uint32(p.Cohort.Minimum)
		p.Plan.Rounds[0].Releases[i].NoiseBits, p.Encodings[i].NoiseBits = bits, bits
	}
	w.plan = &plan.Announcement{
		Deployment: "fixture", Epoch: 1, Policy: step.Policy, Reference: make([]float64, 2), Plan: p.Plan,
		Cohort: p.Cohort, Encodings: p.Encodings, AnalyzerKey: w.analyzer.Public(),
		Timing: plan.Timing{
			RewardWindow: time.Minute, Jitter: 10 * time.Second, Grace: 10 * time.Second, RoundWindow: 20 * time.Second,
		},
	}
	signed, _, err := wire.Sign(w.plan, ids[0])
	if err != nil {
		t.Fatal(err)
	}
	credential, _, err := wire.Sign(&wire.Credential{Deployment: "fixture", HostKey: ids[3].Public(), Devices: people},
		ids[2])
	if err != nil {
		t.Fatal(err)
	}
	w.registrar, w.enrols, w.signed = ids[2], ids[1], signed
	w.config = device.Config{
		Deployment: "fixture", Analyzer: ids[0].Public(), Shuffler: ids[1].Public(), Identity: ids[3],
		Credential: credential,
		Limits: device.Limits{
			Epsilon: 4, Delta: 1e-3, MinCohort: 4, MaxReleases: 8, MaxNorm: 10, MaxMessages: 1000, Records: 1,
		},
	}
	w.core = must(device.New(w.config))
	w.announced = must(w.core.Judge(signed, 1, 0))
	if w.announced.Weak() != nil {
		t.Fatal(w.announced.Weak())
	}
	return w
}

// people are enough for the test of presence: see TestPresenceTellsNothing.
const people = 600

// person is what somebody does: a decision at a time, and a reward some time after, if the page is open still.
type person struct {
	decides time.Duration
	reward  float64
	after   time.Duration // from the decision to the reward
	closes  time.Duration // from the decision to the end of the page
}

// visits draws people who close the page when they did not like what they saw: before their reward with a probability
// of .65 where it would be 0, and of .15 where it would be 1. A reward of 1 comes sooner.
func visits(seed uint64) (all []person) {
	r := rand.New(rand.NewPCG(seed, 28))
	for i := range people {
		p := person{decides: time.Duration(i) * 500 * time.Millisecond, closes: time.Hour}
		p.after, p.reward = time.Duration(20+r.IntN(30))*time.Second, 0
		leaves := 0.65
		if r.IntN(2) == 0 {
			p.reward, leaves = 1, 0.15
			p.after /= 4
		}
		if r.Float64() < leaves {
			p.closes = time.Duration(r.Int64N(int64(p.after)))
		}
		all = append(all, p)
	}
	return all
}

// seen is what the shuffler, and whoever is behind it, can tell of a report before it is opened: when it came, its
// ticket, and its length.
func (s sent) seen() string {
	return fmt.Sprintf("%d %s %s %d", s.at, s.path[:len(s.path)-64], s.ticket, s.size)
}

// reports lets people visit, with a mailbox or without one, and returns all reports in the order of their times, and
// what the mailbox was given.
func reports(t *testing.T, w *world, visitors []person, mailboxed bool) (all []sent, deposits map[uint32][]string) {
	t.Helper()
	deposits = map[uint32][]string{}
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t)
		f.restart()
		defer f.run()()
		for i, p := range visitors {
			go w.visit(f, uint32(i), p, mailboxed, deposits)
		}
		time.Sleep(time.Hour)
		all = f.ingress.got()
	})
	slices.SortStableFunc(all, func(a, b sent) int { return strings.Compare(a.ticket, b.ticket) })
	slices.SortStableFunc(all, func(a, b sent) int { return int(a.at - b.at) })
	return all, deposits
}

// visit is one person's page.
func (w *world) visit(f *fixture, slot uint32, p person, mailboxed bool, deposits map[uint32][]string) {
	time.Sleep(p.decides)
	jitter := sha256.Sum256([]byte{byte(slot), byte(slot >> 8)}) // public, as the shuffler's is
	window := time.Minute + time.Duration(jitter[0])*10*time.Second/256
	asked := must(w.core.NewState(slot).Ask(w.announced, time.Now()))
	given := &wire.EnrolReply{Enrolled: true, Slot: slot, ReportAfter: window}
	state := must(asked.Promise(w.announced, given, time.Now()))
	record := state.Begin(w.announced)
	due := state.Enrolment.ReportAt
	src := rand.NewChaCha8(sha256.Sum256([]byte{byte(slot), byte(slot >> 8), 1}))
	put := func(envelope []byte) {
		f.mu.Lock()
		deposits[slot] = append(deposits[slot], string(envelope))
		f.mu.Unlock()
		f.must(http.StatusNoContent, deposit{
			account: fmt.Sprint(slot), epoch: 1, slot: slot, due: due.Sub(f.start), body: string(envelope),
		})
	}
	if mailboxed {
		envelope, next, err := w.core.Deposit(state, record, w.announced, w.shuffler.Public(), src)
		if err != nil {
			f.Error(err)
			return
		}
		state = next
		put(envelope)
		record.Placed()
	}
	decided := time.Now()
	record.Remember([]float64{0.6, 0.2}, glm.Decision{Weight: 1})
	if p.closes < p.after {
		return // the tab is closed before the reward
	}
	time.Sleep(p.after)
	if _, err := record.Reward(0, p.reward, time.Now()); err != nil {
		f.Error(err)
		return
	}
	if mailboxed {
		envelope, _, err := w.core.Deposit(state, record, w.announced, w.shuffler.Public(), src)
		if err != nil {
			f.Error(err)
			return
		}
		put(envelope)
		return
	}
	if open := due.Sub(decided); p.closes < open {
		return
	}
	time.Sleep(time.Until(due))
	envelope, _, err := w.core.Report(state, record, w.announced, w.shuffler.Public(), src)
	if err != nil {
		f.Error(err)
		return
	}
	r := must(http.NewRequest(http.MethodPut, fmt.Sprintf("https://ingress.example/riffle/v1/reports/1.0/%x",
		sha256.Sum256(envelope)), bytes.NewReader(envelope)))
	r.Header.Set("Riffle-Ticket", ticketHeader(1, slot))
	_, _ = f.ingress.RoundTrip(r)
}

// dependence is how many standard deviations the share of those present differs between rewards of 1 and of 0.
func dependence(visitors []person, present map[string]bool) float64 {
	var n, came [2]float64
	for slot, p := range visitors {
		n[int(p.reward)]++
		if present[ticketHeader(1, uint32(slot))] {
			came[int(p.reward)]++
		}
	}
	all := (came[0] + came[1]) / (n[0] + n[1])
	if all == 0 || all == 1 {
		return 0
	}
	return (came[1]/n[1] - came[0]/n[0]) / math.Sqrt(all*(1-all)*(1/n[0]+1/n[1]))
}

// With a mailbox, what leaves for the shuffler is the same to the byte, but for what is encrypted, whatever people do
// with their pages: all their reports, at times fixed before they saw anything. Without one, who is there tells the
// reward, and the same test finds it: at 4.9 deviations its false-alarm rate is below 1e-6, and with 600 people of whom
// 40 % leave, of those with a reward of 0 four times as many, it misses with a probability below 1e-10.
func TestPresenceTellsNothing(t *testing.T) {
	w := newWorld(t)
	visitors := visits(1)
	left := 0
	for _, p := range visitors {
		if p.closes < p.after {
			left++
		}
	}
	if share := float64(left) / people; share < 0.35 || share > 0.45 {
		t.Fatalf("%.2f of the pages are closed, and the test is about .4", share)
	}
	presence := func(all []sent) map[string]bool {
		present := map[string]bool{}
		for _, s := range all {
			present[s.ticket] = true
		}
		return present
	}
	schedule := func(all []sent) (out []string) {
		for _, s := range all {
			out = append(out, s.seen())
		}
		return out
	}
	all, deposits := reports(t, w, visitors, true)
	want := schedule(all)
	if z := dependence(visitors, presence(all)); z != 0 || len(all) != people {
		t.Errorf("with a mailbox %d of %d reports come, and presence is %.1f deviations off", len(all), people, z)
	}
	stayed := visits(2) // others, with other rewards at other times
	for i := range stayed {
		stayed[i].closes = time.Hour
	}
	gone := slices.Clone(visitors)
	for i := range gone {
		gone[i].closes = 0
	}
	for name, others := range map[string][]person{"all stay": stayed, "all leave at once": gone} {
		if got, _ := reports(t, w, others, true); !slices.Equal(schedule(got), want) {
			t.Errorf("%s: another schedule leaves", name)
		}
	}
	without, _ := reports(t, w, visitors, false)
	if z := dependence(visitors, presence(without)); z < 4.9 {
		t.Errorf("without a mailbox presence is %.1f deviations off: the test sees nothing", z)
	} else {
		t.Logf("without a mailbox: %d of %d reports, presence %.1f deviations off", len(without), people, z)
	}
	w.colludes(t, visitors, all, deposits)
}

// colludes is what a mailbox sees together with a server: a second deposit of those who were rewarded before they left;
// ciphertexts of one length, of which the analyzer opens none, and the shuffler no more than the envelope.
func (w *world) colludes(t *testing.T, visitors []person, all []sent, deposits map[uint32][]string) {
	t.Helper()
	context := seal.ReportContext{Deployment: "fixture", Epoch: 1}
	for slot, p := range visitors {
		given := deposits[uint32(slot)]
		if want := 1 + btoi(p.closes >= p.after); len(given) != want {
			t.Fatalf("slot %d has %d deposits, want %d", slot, len(given), want)
		}
		if slot%20 != 0 {
			continue
		}
		for _, deposited := range given {
			if len(deposited) != all[0].size {
				t.Errorf("slot %d: a deposit of %d bytes among reports of %d", slot, len(deposited), all[0].size)
			}
			analyzer := must(seal.NewReportOpener(w.analyzer))
			if _, err := wire.OpenEnvelope([]byte(deposited), analyzer, context); err == nil {
				t.Error("the analyzer opens a deposit")
			}
			plain := must(wire.OpenEnvelope([]byte(deposited), must(seal.NewReportOpener(w.shuffler)), context))
			payload := registry.PayloadSize(plan.Local, w.plan.Encodings)
			report, _, err := wire.ParseReport(plain, payload)
			if err != nil || report.Slot != uint32(slot) {
				t.Fatalf("slot %d: %+v %v", slot, report, err)
			}
			for key, opens := range map[*seal.HPKEKey]bool{w.shuffler: false, w.analyzer: true} {
				by := channel.NewVerifier(wire.Party{Deployment: "fixture", Key: w.registrar.Public()})
				inner := must(envelope.NewOpener(w.plan, w.announced.Digest, key, by))
				if _, _, err := inner.Open(nil, report.Payload); (err == nil) != opens {
					t.Errorf("what is for the analyzer opens: %v, want %v", err == nil, opens)
				}
			}
		}
	}
}

func btoi(b bool) int {
	if b {
		return 1
	}
	return 0
}
