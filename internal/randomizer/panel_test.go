package randomizer

import (
	"fmt"
	"strings"
	"testing"

	"github.com/riffle-dp/riffle/internal/testing/testbed"
)

// Two epochs of panels through the API: devices register when the app names them, each asks by itself, those in the
// panel keep as many decisions as a report holds, and report once, at the panel's time.
func TestPanels(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	p := ofPanels(s)
	s.start()
	if _, answer := s.post("/v1/devices/early", ""); answer["registered"] != false {
		t.Errorf("before anything is announced: %v", answer)
	}
	a := p.next(testbed.Long)
	early, in, out := p.name("early"), p.name("in"), p.name("out")
	if b, of := s.host.Snapshot().Budget, s.host.Status(); b == nil || b.Records != 2 ||
		b.Decisions != panelDecisions ||
		float64(b.Epsilon) != of.Epsilon || !strings.Contains(of.Guarantee, "reports in 2 of its epochs at most") {
		t.Errorf("people are told %+v and %+v", b, of)
	}
	if d := s.decide("in", twoArms); d["sampled"] != false || d["reason"] != "not_drawn" || d["reward_by"] != nil {
		t.Errorf("before the draw: %v", d)
	}
	p.drawNow(a, early, in)
	p.awaitDraw(2)
	var tokens []string
	for i := range panelDecisions + 2 {
		d := s.decide("in", twoArms)
		if kept := i < panelDecisions; d["sampled"] != kept || (d["reward_by"] != nil) != kept {
			t.Errorf("decision %d: %v", i, d)
		}
		tokens = append(tokens, d["token"].(string))
	}
	if d := s.decide("in", twoArms); d["reason"] != "report_full" || d["epoch"] != 1.0 {
		t.Errorf("a decision too many: %v", d)
	}
	if d := s.decide("out", twoArms); d["sampled"] != false || d["reason"] != "not_drawn" {
		t.Errorf("a device that is not in the panel: %v", d)
	}
	for i, reward := range []string{"1", "0", "1", "1"} { // the last one is not sampled, which the app is not told
		status, answer := s.post("/v1/rewards", fmt.Sprintf(`{"token": %q, "reward": %s}`, tokens[i], reward))
		if status != 200 || answer["accepted"] != true {
			t.Errorf("reward %d: %d %v", i, status, answer)
		}
	}
	if status, _ := s.post("/v1/rewards", fmt.Sprintf(`{"token": %q, "reward": 0}`, tokens[0])); status != 409 {
		t.Errorf("another reward for a decision: %d", status)
	}
	s.due(a)
	for _, r := range s.reports(2) {
		if report := s.Open(r.envelope, a); report.Device != in && report.Device != early {
			t.Errorf("a report of device %d", report.Device)
		}
	}
	if status, _ := s.post("/v1/rewards", fmt.Sprintf(`{"token": %q, "reward": 1}`, tokens[0])); status != 410 {
		t.Errorf("a reward after the report: %d", status)
	}
	if d := s.decide("in", twoArms); d["reason"] != "window_over" {
		t.Errorf("a decision after the report: %v", d)
	}
	p.knows("in", "panels", 1.0)

	b := p.next(testbed.Long)
	late := p.name("late") // registers during the epoch
	p.drawNow(b, in, late)
	p.awaitDraw(2)
	if d := s.decide("early", twoArms); d["reason"] != "not_drawn" || d["epoch"] != 2.0 {
		t.Errorf("%v", d)
	}
	s.due(b)
	s.reports(4)
	p.knows("in", "panels", 2.0)
	c := p.next(testbed.Long)
	p.drawNow(c, out)
	p.awaitDraw(1)
	if d := s.decide("in", twoArms); d["reason"] != "record_used" {
		t.Errorf("a device that was in two panels: %v", d)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	for number := range p.registered {
		if n := p.asks[[2]uint64{uint64(number), 0}]; n != 1 {
			t.Errorf("device %d registered %d times", number, n)
		}
	}
	if n := p.asks[[2]uint64{uint64(in), 3}]; n != 0 {
		t.Errorf("a device that was in two panels asks %d times in the third epoch", n)
	}
}
