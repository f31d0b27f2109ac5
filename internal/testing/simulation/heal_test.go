package simulation

import (
	"fmt"
	"testing/synctest"
	"time"

	"github.com/riffle-dp/riffle/internal/testing/fakebroker"
)

// heal ends all faults, and starts what does not run.
func (w *World) heal() {
	w.noted("everything is healed")
	w.calm, w.rules, w.rough = true, nil, time.Time{}
	w.broker.Fill(false)
	w.filled = time.Time{}
	for _, name := range who() {
		p := w.parties[name]
		p.cut, p.stalled = time.Time{}, time.Time{}
		p.clock.freeze(false)
		p.setFull(false)
		w.mu.Lock()
		p.armed = nil
		w.mu.Unlock()
		p.reap()
		if p.run == nil {
			p.start()
		}
	}
	w.gate.held(func(h *waiting) { h.until = time.Now() })
}

// recover has new people decide until another cohort is counted. That must happen within bounded time, unless what the
// list did ends the deployment, or one of its parties, as documented.
func (w *World) recover() {
	until := time.Now().Add(recovery)
	before, calls := w.oracle.progress(), 0
	w.advance(5 * time.Second)
	for !w.oracle.final() && w.oracle.progress() == before {
		if refused := w.refusing(); refused != "" {
			if calls++; calls > patientCalls {
				w.noted("the shuffler says why it does not go on: %s", refused)
				return
			}
		} else {
			calls = 0
		}
		if time.Now().After(until) || w.steps >= mostSteps {
			w.stuck()
			return
		}
		w.restoreNewest()
		w.recruit()
		w.advance(time.Second)
	}
	w.noted("another cohort is counted, or learning is over")
	w.advance(3 * time.Second)
}

// patientCalls is for how many seconds a shuffler may say why it does not go on before that is taken for its last
// word.
const patientCalls = 10

// refusing is what the shuffler's readiness says where its state was set back. What it knows of registered devices,
// and of what it signed, is nowhere else: it decides nothing then, as documented, and says so.
func (w *World) refusing() string {
	p := w.parties["shuffler"]
	if !p.back || p.run == nil {
		return ""
	}
	p.run.mu.Lock()
	defer p.run.mu.Unlock()
	for _, condition := range []string{"history", "panel"} {
		if err := p.run.unmet[condition]; err != nil {
			return err.Error()
		}
	}
	return ""
}

// restoreNewest does what is documented for an analyzer that refuses an older folder: the newest one is put back.
func (w *World) restoreNewest() {
	p := w.parties["analyzer"]
	if p.spare == nil || p.run != nil {
		return
	}
	w.noted("the analyzer gets its newest folder back")
	w.mu.Lock()
	p.disk, p.spare = p.spare, nil
	w.mu.Unlock()
	p.start()
}

// stuck says that nothing goes on, unless it is known why.
func (w *World) stuck() {
	var why, unready []string
	for _, name := range who() {
		p := w.parties[name]
		w.mu.Lock()
		for _, e := range p.excuse {
			why = append(why, name+": "+e)
		}
		w.mu.Unlock()
		if p.run != nil {
			unready = append(unready, p.run.unready()...)
		}
		if p.run != nil && p.run.host != nil {
			s := p.run.host.Status()
			unready = append(unready, fmt.Sprintf("%s: epoch %d, enrolling %v, pending %d, refused %q", name, s.Epoch,
				s.Enrolling, s.Pending, s.Refused))
		}
	}
	w.violated("liveness", "no cohort is counted within %v after everything was healed; %v; excuses %v", recovery,
		unready, why)
}

// end stops everything, and closes the accounts.
func (w *World) end() {
	for _, name := range who() {
		p := w.parties[name]
		if i := p.run; i != nil {
			p.finish()
			for _, o := range i.accounts {
				if err := o.Check(); err != nil {
					w.violated("account", "%s: %v", name, err)
				}
			}
		}
	}
	synctest.Wait()
	var left []*waiting
	w.gate.held(func(h *waiting) { left = append(left, h) })
	for _, h := range left {
		w.gate.let(h, fakebroker.Lose)
	}
}
