package cohort

import (
	"errors"
	"reflect"
	"testing"
	"time"

	_ "github.com/riffle-dp/riffle/internal/testing/fixedseed"

	"github.com/riffle-dp/riffle/internal/channel"
	"github.com/riffle-dp/riffle/pkg/plan"
	"github.com/riffle-dp/riffle/pkg/wire"
)

var start = time.UnixMilli(1_700_000_000_000)

func announcement(epoch uint64, round uint32, size, minimum uint32, rounds int) *plan.Announcement {
	a := &plan.Announcement{
		Epoch: epoch, Round: round, Plan: plan.Plan{}, Cohort: plan.Cohort{Size: size, Minimum: minimum},
		Timing: plan.Timing{
			RewardWindow: time.Second, Jitter: 200 * time.Millisecond, Grace: 500 * time.Millisecond,
			RoundWindow: 300 * time.Millisecond,
		},
	}
	for range rounds {
		a.Plan.Rounds = append(a.Plan.Rounds, plan.Round{})
	}
	return a
}

func device(n int) DeviceID { return DeviceID{Host: [32]byte{1}, Number: uint32(n)} }

func digest(b ...byte) (d Digest) { copy(d[:], b); return d }

// script drives a State as the shuffler does: every decision's event is applied at once and journaled.
type script struct {
	t       testing.TB
	state   *State
	now     time.Time
	journal [][]byte
	// what is left of the journal where a snapshot is written at every epoch's opening
	short [][]byte
}

func newScript(t testing.TB, minimum uint32) *script {
	return &script{t: t, state: NewState(Admission{Minimum: minimum}), now: start}
}

func (s *script) apply(ev *Event) {
	s.t.Helper()
	if ev == nil {
		return
	}
	s.journal = append(s.journal, ev.Encode())
	if err := s.state.Apply(ev); err != nil {
		s.t.Fatal(err)
	}
	if ev.Opened != nil && ev.Opened.Round == 0 {
		s.short = [][]byte{s.state.Snapshot().Encode()}
	}
	s.short = append(s.short, ev.Encode())
}

func (s *script) open(a *plan.Announcement, d Digest) error {
	ev, err := s.state.Open(a, d, channel.Layout{Messages: 100}, s.now)
	s.apply(ev)
	return err
}

func (s *script) enrol(n int, epoch uint64, d Digest) (uint32, time.Time, error) {
	slot, at, ev, err := s.state.Enrol(device(n), nil, epoch, d, s.now)
	if ev != nil {
		ev.Enrolled.Nonce = uint32(n + 1) // so that what is replayed knows the request
	}
	s.apply(ev)
	return slot, at, err
}

func (s *script) report(n int, epoch uint64, round, slot uint32, d Digest, body byte) error {
	ev, err := s.state.Admit(device(n), epoch, round, slot, d, digest(body), uint64(len(s.journal)))
	s.apply(ev)
	return err
}

func (s *script) commit() *Committed {
	s.t.Helper()
	r := s.state.Due(Moment{Now: s.now, TakenIn: true})
	if r == nil {
		return nil
	}
	ev := s.state.Commit(r)
	if ev == nil {
		s.t.Fatal("what is due is not committed")
	}
	s.apply(ev)
	return ev.Committed
}

func (s *script) finish(round uint32) { s.apply(&Event{Finished: &Finished{Round: round}}) }

func (s *script) must(err error) {
	s.t.Helper()
	if err != nil {
		s.t.Fatal(err)
	}
}

func (s *script) refused(err error, want wire.Refusal) {
	s.t.Helper()
	var r *Refused
	if !errors.As(err, &r) || r.Reason != want {
		s.t.Fatalf("got %v, want refusal %s", err, want)
	}
}

// reopened checks that a shuffler that crashed now and replays its journal is exactly where this one is, and so
// does one whose journal begins with a snapshot.
func (s *script) reopened() {
	s.t.Helper()
	for name, journal := range map[string][][]byte{"whole": s.journal, "snapshot and tail": s.short} {
		again := NewState(Admission{Minimum: s.state.minimum, SponsorShare: s.state.share})
		for _, b := range journal {
			ev, err := DecodeEvent(b)
			if err != nil {
				s.t.Fatal(err)
			}
			if err := again.Apply(ev); err != nil {
				s.t.Fatalf("%s: %v", name, err)
			}
		}
		if !reflect.DeepEqual(normal(again), normal(s.state)) {
			s.t.Fatalf("%s: replayed state differs:\n%+v\n%+v", name, normal(again), normal(s.state))
		}
	}
}

// normal is the part of a state that can be compared.
func normal(s *State) any {
	type view struct {
		Devices  string // of earlier epochs
		Arrived  int
		Begun    bool
		Keys     Keys
		Requests requests
		Filling  Filling
		Slots    []DeviceID
		DueAt    []int64
		Rounds   []round
		Timing   Timing
		Clock    time.Time

		Registered string
		Count      int
		Of         map[sponsor]int
		Issuers    []issuing
		Marks      []byte
		Terms      *PanelTerms
		Times      []string
		Recent     map[uint64]string
		Drawing    *drawing
		Last       time.Time
	}
	v := view{
		Devices: string(encodeSet(s.earlier())), Arrived: s.arrived, Begun: s.begun, Keys: s.keys, Requests: s.requests,
		Clock: s.clock, Registered: string(encodeSet(s.registered.words())), Count: s.count, Terms: s.terms,
		Of: s.of, Marks: s.marks.bytes(), Recent: map[uint64]string{},
	}
	for i := range s.issuers.all {
		by := &s.issuers.all[i]
		v.Issuers = append(v.Issuers, issuing{by.key[:], by.admitted, by.pooled.bytes()})
	}
	for i := range s.history.times {
		v.Times = append(v.Times, string(encodeSet(s.history.times[i].words())))
	}
	for i := range s.history.recent {
		v.Recent[s.history.recent[i].epoch] = string(encodeSet(s.history.recent[i].devices.words()))
	}
	v.Filling, _ = s.Filling()
	if s.epoch != nil {
		v.Timing = timingOf(s.epoch.timing)
		for i := range s.epoch.slots.len() {
			at := s.epoch.slots.at(i)
			v.Slots, v.DueAt = append(v.Slots, s.idOf(s.epoch, at.device)), append(v.DueAt, at.reportAt)
		}
		v.Drawing, v.Last = s.epoch.drawing, s.epoch.last
		for _, r := range s.epoch.rounds {
			v.Rounds = append(v.Rounds, *r)
		}
	}
	return v
}
