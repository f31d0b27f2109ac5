package randomizer

import (
	"strings"
	"testing"
	"time"

	"github.com/riffle-dp/riffle/pkg/device"
	"github.com/riffle-dp/riffle/pkg/privacy"
)

// An analyzer announces epochs of two hours and a budget for each three of them, which the host's limits allow, and
// publishes the next epoch as soon as the last report is there, until the numbers of epochs alone would let the budget
// begin anew. By the host's clock it does not, over restarts too, until the time that people agreed to has passed.
func TestAPeriodIsTimeWhateverIsPublished(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	p := ofPanels(s)
	p.period, p.every = 3, 2*time.Hour
	s.config.Limits.Records, s.config.Limits.Period, s.config.Limits.MinEpoch = 2, 3, device.Duration(time.Hour)
	s.start()
	var in uint32
	reported := 0
	epoch := func(members ...uint32) {
		a := p.next(time.Second)
		if in == 0 {
			in = p.name("in")
			members = []uint32{in}
		}
		p.drawNow(a, in)
		p.awaitDraw(len(members))
		reported += len(members)
		s.reports(reported)
	}
	epoch()
	s.clock.Pass(time.Hour)
	epoch(in)
	for range 4 { // epochs 3 to 6: by their numbers alone the device reports in two of them
		epoch()
		if d := s.decide("in", twoArms); d["reason"] != "record_used" {
			t.Errorf("two reports in two windows, and then %v", d)
		}
		s.must(s.stop())
		s.start()
		s.awaitRound(p.epochs[len(p.epochs)-1])
		p.awaitDraw(0)
	}
	if d := s.decide("in", twoArms); !strings.Contains(d["detail"].(string), "in any 3h0m0s") {
		t.Errorf("the app is told %v", d)
	}
	l := s.device("in").Ledger
	if len(l.Entries) != 2 || l.Entries[1].State != privacy.Spent || l.Span != 3*time.Hour {
		t.Errorf("%+v", l)
	}
	s.clock.Pass(l.Entries[0].At.Add(l.Span).Sub(s.clock.Now())) // the first report counts no more
	epoch(in)
	if d := s.decide("in", twoArms); d["reason"] != "window_over" {
		t.Errorf("in the next span: %v", d)
	}
	epoch()
	if d := s.decide("in", twoArms); d["reason"] != "record_used" {
		t.Errorf("the second report counts still: %v", d)
	}
}
