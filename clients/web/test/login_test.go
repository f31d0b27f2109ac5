package web

import (
	"net/http"
	"strings"
	"testing"
	"time"
)

// What somebody else answers in the mailbox's place, as a login page, is no answer: if a device took it for one it would
// report on its decision, and only whose page stays open until the reward would have a report.
func TestALoginPageIsNoMailbox(t *testing.T) {
	d := startDeployment(t, people{cohort: 40, window: time.Minute, mailbox: true})
	c := openChromium(t)
	for name, login := range map[string]http.HandlerFunc{
		"a page": func(w http.ResponseWriter, _ *http.Request) { w.Write([]byte("log in")) },
		"a redirection": func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, "/riffle.json", http.StatusSeeOther)
		},
	} {
		d.out.Store(login)
		p := d.make(name)
		must(must(c.window()).open(p.address(d.app, name, "")))
		var s said
		p.run(t, `globalThis.riffle = await Riffle.open(options); `+decided, &s)
		if s.Sampled || s.Reason != "mailbox" {
			t.Errorf("%s: %+v", name, s)
		}
	}

	// Who asks at a wrong address is not told to log in, which would change nothing.
	p := d.make("wrong address")
	must(must(c.window()).open(p.address(d.app, "lost", "")))
	var s said
	p.run(t, `globalThis.riffle = await Riffle.open({ ...options, issuer: "/nowhere" }); `+decided, &s)
	if s.Reason != "not_admitted" || strings.Contains(s.Detail, "Log in") || !strings.Contains(s.Detail, "404") {
		t.Errorf("an issuer that is not there: %+v", s)
	}

	// Whose limits refuse the plan asks the issuer nothing, for which a credential would be counted for good.
	p = d.make("strict")
	must(must(c.window()).open(p.address(d.app, "strict", "")))
	p.run(t, `globalThis.riffle = await Riffle.open({ ...options, issuer: "/nowhere", limits: { epsilon: 0.001 } }); `+
		decided, &s)
	if s.Reason != "limits" {
		t.Errorf("whose limits refuse the plan: %+v", s)
	}
}
