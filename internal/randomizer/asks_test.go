package randomizer

import (
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/riffle-dp/riffle/pkg/wire"
)

// asking is how many devices have a question that is not resolved.
func asking(h *Host) (n int) {
	for _, s := range h.places.all() {
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
	s.several = func(devices []uint32) { // the first request is answered once everybody asks
		for begin := time.Now(); asking(s.host) < awaited && time.Since(begin) < patience; {
			time.Sleep(time.Millisecond)
		}
		awaited = 0
		several(devices)
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
	slots := map[uint32]bool{}
	for i := range people {
		e := s.device(fmt.Sprint("p", i)).Enrolment
		if e == nil || slots[e.Slot] {
			t.Fatalf("p%d has no slot of its own: %+v", i, e)
		}
		slots[e.Slot] = true
	}
	s.due(s.announced)
	s.reports(people)
}

// People who decide at the same time are enrolled with few requests, each in a slot of its own. The devices of a
// request are in the order of their numbers, which says nothing of who came first.
func TestPeopleEnrolTogether(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	s.start()
	a := s.unhurried(40)
	s.open(a)
	var requests [][]uint32
	s.mu.Lock()
	s.several = func(devices []uint32) {
		requests = append(requests, devices)
		time.Sleep(20 * time.Millisecond)
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
