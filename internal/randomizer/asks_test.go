package randomizer

import (
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/riffle-dp/riffle/internal/testing/testbed"
	"github.com/riffle-dp/riffle/pkg/wire"
)

// asking is how many devices have a question that is not settled.
func asking(h *Host) (n int) {
	for _, s := range h.seats() {
		s.mu.Lock()
		if s.question != nil {
			n++
		}
		s.mu.Unlock()
	}
	return n
}

// together has so many people of a scene's host decide at once, while the shuffler takes its time.
func together(t *testing.T, s *scene, people int) {
	t.Helper()
	s.mu.Lock()
	several, awaited := s.several, people
	s.several = func(devices []uint32) bool { // the first request is answered once everybody asks
		for begin := time.Now(); asking(s.host) < awaited && time.Since(begin) < patience; {
			time.Sleep(time.Millisecond)
		}
		awaited = 0
		return several(devices)
	}
	s.mu.Unlock()
	var deciding sync.WaitGroup
	for i := range people {
		deciding.Go(func() {
			if d := s.decide(fmt.Sprint("p", i), twoArms); d["sampled"] != true {
				t.Errorf("p%d: %v", i, d)
			}
		})
	}
	deciding.Wait()
	s.due(s.announced)
	s.reports(people)
	slots := map[uint32]bool{}
	for i := range people {
		e := s.device(fmt.Sprint("p", i)).Enrolment
		if e == nil || slots[e.Slot] {
			t.Fatalf("p%d has no slot of its own: %+v", i, e)
		}
		slots[e.Slot] = true
	}
}

// People who decide at the same time are enrolled with few requests, each in a slot of its own. The devices of a request
// stand in the order of their numbers, which says nothing of who came first.
func TestPeopleEnrolTogether(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	s.start()
	a := s.unhurried(40)
	s.open(a)
	var requests [][]uint32
	s.mu.Lock()
	s.several = func(devices []uint32) bool {
		requests = append(requests, devices)
		time.Sleep(20 * time.Millisecond)
		return true
	}
	s.mu.Unlock()
	together(t, s, 40)
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, devices := range requests {
		if !slices.IsSorted(devices) || len(devices) > wire.MaxFurther+1 {
			t.Errorf("a request for %v", devices)
		}
	}
	if len(requests) > 30 {
		t.Errorf("%d requests for 40 people", len(requests))
	}
}

// A shuffler of a version before that of such requests refuses them, and gives nothing. Everybody is enrolled all the
// same, and nothing is taken for proof of an older state.
func TestAnEarlierShufflerIsAskedSingly(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	s.start()
	a := s.unhurried(40)
	s.open(a)
	refused := 0
	s.mu.Lock()
	s.several = func(devices []uint32) bool {
		time.Sleep(10 * time.Millisecond)
		if len(devices) > 1 {
			refused++
		}
		return len(devices) == 1
	}
	s.mu.Unlock()
	together(t, s, 30)
	s.mu.Lock()
	n := refused
	s.mu.Unlock()
	if n == 0 || n > maxRequests {
		t.Errorf("%d requests for several, want 1 to %d", n, maxRequests)
	}
	if st := s.host.Status(); st.Refused != "" {
		t.Errorf("the host says %q", st.Refused)
	}
	testbed.Eventually(t, "all answered", func() bool { return s.host.Pending() == 0 })
}
