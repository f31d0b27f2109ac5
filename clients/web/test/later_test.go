package web

import (
	"testing"
	"time"
)

// kept says whether the browser stores something of a record.
const kept = stored + `const state = await all("device", (s) => s.get("state"));
	db.close();
	const { record } = JSON.parse(new TextDecoder().decode(state));
	return { accepted: record !== undefined && [...atob(record)].slice(3, -32).some((c) => c !== "\0") }`

// A page decides and is closed. Another one, to which the app kept the decision, is told the reward: the mailbox gets
// the report of the record, and nothing of it is left in the browser. Nor is there once the report is due without a
// reward, and after an opt-out.
func TestARewardComesInALaterPage(t *testing.T) {
	d := startDeployment(t, people{cohort: 40, window: 40 * time.Second, mailbox: true})
	c := openChromium(t)
	type answer struct{ Accepted bool }
	visit := func(t *testing.T, w *window, name string) (*page, string) {
		t.Helper()
		p := d.make(name)
		tab := must(w.open(p.address(d.app, name[:1], "")))
		var s said
		if p.run(t, opens, &s); s.State != "active" {
			t.Fatalf("%+v", s)
		}
		return p, tab
	}
	does := func(t *testing.T, p *page, script string, want bool) {
		t.Helper()
		var a answer
		if p.run(t, script, &a); a.Accepted != want {
			t.Errorf("%v, want %v, of %s", a.Accepted, want, script)
		}
	}
	decides := func(t *testing.T, p *page) {
		t.Helper()
		var s said
		if p.run(t, decided, &s); !s.Sampled {
			t.Fatalf("%+v", s)
		}
		does(t, p, kept, true)
	}

	w := must(c.window())
	one, tab := visit(t, w, "a1")
	decides(t, one)
	one.run(t, `localStorage.setItem("decision", JSON.stringify(decision))`, nil)
	if err := w.closeTab(tab); err != nil {
		t.Fatal(err)
	}
	later, _ := visit(t, w, "a2")
	does(t, later, kept, true)
	before := d.puts.Load()
	const rewards = `return riffle.reward(JSON.parse(localStorage.getItem("decision")), 1)`
	does(t, later, rewards, true)
	if n := d.puts.Load() - before; n != 1 {
		t.Errorf("%d deposits with the reward", n)
	}
	does(t, later, kept, false)
	does(t, later, rewards, false)

	out, _ := visit(t, must(c.window()), "b")
	decides(t, out)
	out.run(t, `await riffle.optOut()`, nil)
	does(t, out, kept, false)
	does(t, out, `return riffle.reward(decision, 1)`, false)

	never, _ := visit(t, must(c.window()), "c")
	decides(t, never)
	d.arrive(t, 3)
	for ended := time.Now().Add(longest); ; time.Sleep(50 * time.Millisecond) {
		var a answer
		if never.run(t, kept, &a); !a.Accepted {
			break
		}
		if time.Now().After(ended) {
			t.Fatal("a record is stored after its report was due")
		}
	}
}
