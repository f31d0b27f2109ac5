package web

import (
	"testing"
	"time"
)

// Where the reply to an enrolment is lost, the device asks again with the same wish some times, before the arms are
// read. Afterwards it does not: how long a page stays open is nothing that the shuffler may learn by losing
// replies. The next decision asks again.
func TestALostReplyIsAskedForAgain(t *testing.T) {
	d := startDeployment(t, people{cohort: 40, window: 10 * time.Second, mailbox: true})
	c := openChromium(t)
	visit := func(name, script string, sampled bool) *page {
		t.Helper()
		p := d.make(name)
		must(must(c.window()).open(p.address(d.app, name, "")))
		var s said
		if p.run(t, script, &s); s.Sampled != sampled {
			t.Fatalf("page %s: %+v", name, s)
		}
		return p
	}
	const open = `globalThis.riffle = await Riffle.open(options); `

	visit("a", open+decided, true) // the shuffler is in the epoch then
	d.lose.Store(3)                // a browser may send a request twice by itself, not four times
	visit("b", open+decided, true)
	d.arrive(t, 2)

	d.lose.Store(1 << 30)
	p := visit("c", open+decided, false)
	before := d.lose.Load()
	p.run(t, `await sleep(3000)`, nil) // of the page's time, in which it asks nothing
	if asked := before - d.lose.Load(); asked != 0 {
		t.Errorf("an open page asked %d times after its decision", asked)
	}
	d.lose.Store(0)
}
