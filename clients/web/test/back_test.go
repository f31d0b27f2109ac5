package web

import (
	"testing"
	"time"
)

// Whose report the mailbox holds may decide again, come back, and open further tabs: the ingress is asked nothing until
// the report is due. Coming back may be the reward, and the ingress is the shuffler's.
func TestWhoComesBackAsksTheIngressNothing(t *testing.T) {
	d := startDeployment(t, people{cohort: 40, window: time.Minute, mailbox: true})
	w := must(openChromium(t).window())
	visit := func(name string) *page {
		t.Helper()
		p := d.make(name)
		must(w.open(p.address(d.app, "a", "")))
		return p
	}
	does := func(p *page, script string) (s said) {
		t.Helper()
		p.run(t, script, &s)
		return s
	}
	const again = `return riffle.decide({ arms: [[1, 0], [0, 1]] })`
	one, early := visit("one"), visit("early")
	does(one, alone+opens)
	if s := does(early, alone+opens); s.State != "waiting" {
		t.Fatalf("%+v", s)
	}
	if s := does(one, decided); !s.Sampled {
		t.Fatalf("%+v", s)
	}
	before := d.gets.Load()
	quiet := func(what string) {
		t.Helper()
		if asked := d.gets.Load() - before; asked != 0 {
			t.Errorf("%s: the ingress was asked %d times", what, asked)
		}
	}
	if s := does(one, again); s.Reason != "already" {
		t.Errorf("%+v", s)
	}
	quiet("another decision")
	if s := does(early, again); s.Reason != "another_tab" {
		t.Errorf("%+v", s)
	}
	quiet("a tab that was open before")
	later := visit("later")
	does(later, alone+opens)
	if s := does(later, again); s.Reason != "another_tab" {
		t.Errorf("%+v", s)
	}
	quiet("another tab")
	does(later, closes)
	does(early, closes)
	does(one, closes)
	if s := does(one, opens); s.State != "active" {
		t.Errorf("%+v", s)
	}
	if s := does(one, again); s.Reason != "already" {
		t.Errorf("%+v", s)
	}
	var a struct{ Accepted bool }
	if one.run(t, `return riffle.reward(decision, 1)`, &a); !a.Accepted {
		t.Error("the reward is not taken")
	}
	quiet("a page that comes back")
	d.arrive(t, 1)
	does(one, again)
	if d.gets.Load() == before {
		t.Error("the deployment is followed no more")
	}
}
