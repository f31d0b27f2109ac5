package web

import (
	"strings"
	"testing"
	"time"
)

// One page of Chromium lives the life of a device in a whole deployment. Its arms are read once the mailbox has the
// null record, and not before.
func TestAPageDecidesAndReports(t *testing.T) {
	d := startDeployment(t, people{cohort: 40, window: 20 * time.Second, mailbox: true})
	w := must(openChromium(t).window())
	p := d.make("one")
	tab := must(w.open(p.address(d.app, "one", "")))
	p.noWorker(t)
	var s said
	if p.run(t, opens, &s); s.State != "active" {
		t.Fatalf("%+v", s)
	}
	var read []struct{ Held, Sampled, Has bool }
	p.run(t, `globalThis.read = [];
	for (let i = 0; i < 20; i++) { // the shuffler may not be in the epoch yet
		globalThis.decision = await riffle.decide(async () => {
			read.push({ held: (await (await fetch("/held")).json()) === 1 });
			return { arms: [[1, 0], [0, 1]] };
		});
		read.at(-1).sampled = decision.sampled;
		if (decision.sampled) break;
	}
	return read`, &read)
	for _, r := range read {
		if r.Held != r.Sampled {
			t.Errorf("the mailbox holds the null record when the arms are read: %v; the decision is sampled: %v",
				r.Held, r.Sampled)
		}
	}
	var taken, twice struct{ Accepted bool }
	p.run(t, `return riffle.reward(decision, 1)`, &taken)
	p.run(t, `return riffle.reward(decision, 0)`, &twice)
	if !taken.Accepted || twice.Accepted {
		t.Errorf("a reward is taken: %v, and a second one: %v", taken.Accepted, twice.Accepted)
	}
	var ledger struct{ Words string }
	if p.run(t, `return riffle.ledger()`, &ledger); !strings.Contains(ledger.Words, "a report has left the device") {
		t.Errorf("the ledger says %q", ledger.Words)
	}
	if err := w.closeTab(tab); err != nil {
		t.Fatal(err)
	}
	d.arrive(t, 1)

	warm := d.make("warm")
	must(w.open(warm.address(d.app, "one", "")))
	var v visit
	if warm.run(t, decides, &v); v.Sampled {
		t.Error("a second decision of the epoch is sampled")
	}
	t.Logf("warm page: device open after %.0f ms, decision after %.0f ms", v.Opened, v.Decided)
}
