package randomizer

import (
	"testing"

	"github.com/riffle-dp/riffle/pkg/wire"
)

// whileAsked does something while the shuffler is asked for a slot for a device, which it then answers so, and is what
// was decided. Without a reply the shuffler answers as it does.
func (s *scene) whileAsked(name string, reply *wire.EnrolReply, do func()) map[string]any {
	s.t.Helper()
	asked, answer := make(chan struct{}), make(chan struct{})
	s.mu.Lock()
	s.answer = func(wire.Enrolment) *wire.EnrolReply {
		s.mu.Unlock()
		close(asked)
		<-answer
		s.mu.Lock()
		s.answer = nil
		return reply
	}
	s.mu.Unlock()
	decided := make(chan map[string]any, 1)
	go func() { decided <- s.decide(name, twoArms) }()
	<-asked
	do()
	close(answer)
	return <-decided
}

// What is asked for when somebody is erased, or opts out, is promised all the same if the shuffler gives the slot, and
// is reported as the null record: the decision that waits does not come into it.
func TestForgettingWhileTheShufflerIsAsked(t *testing.T) {
	t.Parallel()
	for what, by := range map[string]func(*scene, string){"erase": (*scene).erase, "opt out": (*scene).optOut} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			s := newScene(t)
			s.start()
			a := s.unhurried(12)
			s.open(a)
			d := s.whileAsked("x", nil, func() { by(s, "x") })
			if d["sampled"] != true {
				t.Fatalf("%v", d)
			}
			held := s.host.promises.of(s.device("x").Number)
			held.dev.mu.Lock()
			if !held.record.Full() {
				t.Error("the record takes what was decided")
			}
			for _, reward := range []float64{0.1, 0.2} {
				if _, err := held.record.Reward(0, reward, s.clock.Now()); err != nil {
					t.Errorf("the record holds a decision: %v", err)
				}
			}
			held.dev.mu.Unlock()
			s.due(a)
			s.reports(1)
		})
	}
}

// Who is erased while the shuffler is asked, and gets no slot, has spent nothing: nothing of them is left then.
func TestErasureWhileTheShufflerRefuses(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	s.start()
	s.open(s.unhurried(12))
	key := map[string][]byte{"the keyed hash": []byte(s.host.store.Key("x"))}
	d := s.whileAsked("x", &wire.EnrolReply{Refusal: wire.RefusalCohortFull}, func() {
		if s.erase("x"); len(s.onDisk(key)) == 0 {
			t.Error("the question is not on the disk, which the next process goes on with")
		}
	})
	if d["reason"] != "cohort_full" {
		t.Fatalf("%v", d)
	}
	if found := s.onDisk(key); len(found) > 0 || s.host.places.get("x") != nil {
		t.Errorf("%v", found)
	}
}
