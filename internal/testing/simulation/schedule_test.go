package simulation

import (
	"fmt"
	"slices"
	"strings"
	"testing/synctest"
	"time"

	"github.com/riffle-dp/riffle/internal/testing/fakebroker"
	"github.com/riffle-dp/riffle/pkg/wire"
)

// A run's schedule is one goroutine: everything else waits at the gate, for a time, or for something of its own
// process.

const (
	// mostSteps bounds the choices of one run.
	mostSteps = 60_000
	// recovery is how long a deployment may take to count another cohort, once everything works again. Patience with
	// outages (shuffler) and what is put off by them add up to some minutes.
	recovery = 10 * time.Minute
)

// play runs the list, heals everything, and has the oracle look at what is left.
func (w *World) play() {
	for _, p := range w.order {
		p.start()
	}
	if w.list.Panel {
		w.advance(time.Second)
		for n := range hosts {
			w.register(w.parties[hostName(n)], (pool+hosts)/hosts)
		}
	}
	w.advance(time.Second)
	for _, o := range w.list.Ops {
		w.apply(o)
		w.advance(time.Duration(w.rng.IntN(100)) * time.Millisecond)
	}
	w.heal()
	w.recover()
	w.audit()
	w.oracle.look()
	w.end()
}

// advance lets the time pass, and everything that comes to the gate meanwhile go on.
func (w *World) advance(d time.Duration) {
	until := time.Now().Add(d)
	for w.steps < mostSteps {
		synctest.Wait()
		w.tend()
		if h := w.choose(); h != nil {
			w.decide(h)
			continue
		}
		left := time.Until(until)
		if left <= 0 {
			return
		}
		wait := time.NewTimer(min(left, w.soon()))
		select {
		case <-w.gate.arrived:
		case <-wait.C:
		}
		wait.Stop()
	}
	w.violated("endless", "%d steps do not end the list", w.steps)
}

// tend does what is due: processes that ended are taken away and started again, faults that had their time are over.
func (w *World) tend() {
	now := time.Now()
	for _, p := range w.order {
		p.reap()
		if p.run == nil && !p.again.IsZero() && !now.Before(p.again) {
			w.noted("%s starts", p.name)
			p.start()
		}
		if !p.stalled.IsZero() && !now.Before(p.stalled) {
			p.stalled = time.Time{}
			p.clock.freeze(false)
		}
		if !p.roomy.IsZero() && !now.Before(p.roomy) {
			p.setFull(false)
		}
	}
	if !w.filled.IsZero() && !now.Before(w.filled) {
		w.filled = time.Time{}
		w.broker.Fill(false)
	}
}

// soon is how long nothing changes but by what comes to the gate.
func (w *World) soon() time.Duration {
	next := time.Hour
	at := func(t time.Time) {
		if !t.IsZero() {
			next = min(next, max(time.Until(t), 0)+time.Microsecond)
		}
	}
	for _, p := range w.order {
		if p.run == nil {
			at(p.again)
		}
		at(p.stalled)
		at(p.roomy)
	}
	at(w.filled)
	w.gate.held(func(h *waiting) {
		if !w.standsStill(h) { // what waits for that is not due before, and would be asked for all the time
			at(h.until)
		}
	})
	return next
}

// choose picks what goes on next of all that may; nil where nothing may.
func (w *World) choose() *waiting {
	now := time.Now()
	var ready []*waiting
	w.gate.held(func(h *waiting) {
		if h.until.IsZero() {
			h.until = now.Add(w.latency(h))
		}
		if !w.standsStill(h) && !now.Before(h.until) {
			ready = append(ready, h)
		}
	})
	if len(ready) == 0 {
		return nil
	}
	return ready[w.rng.IntN(len(ready))]
}

// standsStill reports whether the process that something waits for stands still.
func (w *World) standsStill(h *waiting) bool {
	p := w.parties[h.op.Client]
	return p != nil && time.Now().Before(p.stalled)
}

// latency is how long something is on its way.
func (w *World) latency(h *waiting) time.Duration {
	for _, r := range w.rules {
		if r.delay > 0 && r.left > 0 && r.fits(h) {
			r.left--
			w.faults["delayed"]++
			return r.delay
		}
	}
	switch {
	case w.calm:
		return 0
	case time.Now().Before(w.rough):
		return time.Duration(w.rng.IntN(500)) * time.Millisecond
	case w.rng.IntN(50) == 0:
		return time.Duration(w.rng.IntN(20)) * time.Millisecond
	}
	return 0
}

func (r *rule) fits(h *waiting) bool {
	return r.who == h.op.Client && r.what == h.op.Name && (r.delay > 0 || r.after == h.after)
}

// decide says what becomes of something that goes on.
func (w *World) decide(h *waiting) {
	v := fakebroker.Pass
	p := w.parties[h.op.Client]
	if p != nil && time.Now().Before(p.cut) && h.op.Name != writes {
		v = fakebroker.Lose
		w.faults["cut off"]++
	}
	for _, r := range w.rules {
		if v == fakebroker.Pass && r.left > 0 && r.delay == 0 && r.fits(h) {
			r.left--
			v = r.verdict
			w.faults[verdictName(v, r.after)]++
		}
	}
	w.steps++
	if w.first == "" && strings.HasSuffix(h.op.Subject, ".analyzer."+wire.KindCounts) {
		w.first = w.digest()
	}
	fmt.Fprintln(w.trace, w.since(), h.op.Client, h.op.Name, h.op.Subject, h.op.Nth, h.after, v)
	if w.talk && loud() {
		fmt.Println(w.since(), h.op.Client, h.op.Name, h.op.Subject, h.op.Nth, h.after, v)
	}
	w.gate.let(h, v)
}

func verdictName(v fakebroker.Verdict, after bool) string {
	switch {
	case v == fakebroker.Twice:
		return "duplicated"
	case after:
		return "answer lost"
	}
	return "dropped"
}

// apply does one operation of the list.
func (w *World) apply(o Operation) {
	w.noted("%s %s %s %d %dms", o.Do, o.Who, o.What, o.N, o.Ms)
	p, span := w.parties[o.Who], time.Duration(o.Ms)*time.Millisecond
	until := time.Now().Add(span)
	if p == nil && !slices.Contains([]Kind{Wait, Reorder, PowerLoss, Fill}, o.Do) {
		w.violated("list", "there is no %q", o.Who)
		return
	}
	switch o.Do {
	case Decide:
		for range o.N {
			w.decideOn(p)
			synctest.Wait() // one after the other: who asks together would be a matter of chance
		}
		return
	case Reward:
		w.reward(p)
		return
	case Wait:
		w.advance(span)
		return
	case Copy:
		w.mu.Lock()
		p.old = append(p.old, p.disk.clone())
		w.mu.Unlock()
		return
	}
	w.faults[string(o.Do)]++
	switch o.Do {
	case Stall:
		p.clock.freeze(true)
		p.stalled, p.slow = until, true
	case Crash:
		w.mu.Lock()
		when, of, _ := strings.Cut(o.What, " ")
		p.armed = append(p.armed, &trap{max(1, o.N), of, when == "after"})
		w.mu.Unlock()
	case Restart:
		w.restart(p, o)
	case Drop:
		w.rules = append(w.rules, &rule{who: o.Who, what: o.What, verdict: fakebroker.Lose, left: o.N})
	case LoseAnswer:
		w.rules = append(w.rules, &rule{who: o.Who, what: o.What, verdict: fakebroker.Lose, after: true, left: o.N})
	case Double:
		w.rules = append(w.rules, &rule{who: o.Who, what: o.What, verdict: fakebroker.Twice, left: o.N})
	case Delay:
		w.rules = append(w.rules, &rule{who: o.Who, what: o.What, delay: span, left: o.N})
	case Reorder:
		w.rough = until
	case Partition:
		p.cut = until
	case Rotate:
		w.rotate(p)
	case Jump:
		p.clock.jump(span)
	case Fill:
		if o.Who == "broker" {
			w.broker.Fill(true)
			w.filled = until
			// which stop, and say so, where they cannot publish
			for _, server := range []string{"shuffler", "analyzer"} {
				w.excuse(w.parties[server], "the broker was full")
			}
		} else if p != nil {
			p.setFull(true)
			p.roomy = until
			w.excuse(p, "its disk was full")
		}
	case PowerLoss:
		w.broker.LoseUnsynced(o.N)
	default:
		w.violated("list", "no operation %q", o.Do)
	}
}

// excuse notes that something was done to a process after which it may end by itself, or take no further part.
func (w *World) excuse(p *process, why string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	p.excuse = append(p.excuse, why)
}

func (p *process) setFull(full bool) {
	p.w.mu.Lock()
	defer p.w.mu.Unlock()
	if p.full = full; !full {
		p.roomy = time.Time{}
	}
}

// restart kills a process and starts it with what it has, or with less.
func (w *World) restart(p *process, o Operation) {
	p.stop()
	switch o.What {
	case "older", "lost":
		w.mu.Lock()
		older := newDisk()
		if n := len(p.old); o.What == "older" && n > 0 {
			older = p.old[o.N%n].clone()
		}
		if p.spare == nil {
			p.spare = p.disk
		}
		p.disk = older
		p.excuse = append(p.excuse, "its state was set back")
		p.back = true
		w.mu.Unlock()
	}
	p.start()
}

// rotate restarts a server with a new key before the others.
func (w *World) rotate(p *process) {
	keys := &w.keys.messages
	if p.name == "shuffler" {
		keys = &w.keys.reports
	}
	if len(*keys) >= 4 {
		return
	}
	p.stop()
	w.mu.Lock()
	*keys = append([]*hpke{newKey()}, *keys...)
	w.mu.Unlock()
	p.start()
}
