package page_test

import (
	"bytes"
	"strings"
	"testing"

	"github.com/riffle-dp/riffle/internal/audit"
	"github.com/riffle-dp/riffle/internal/audit/effect"
	"github.com/riffle-dp/riffle/internal/audit/page"
)

// lifted is a report of a deployment with a control group, of so many epochs.
func lifted(epochs int) *audit.Report {
	r := &audit.Report{OK: true, Deployment: "<shop>", Channel: "shares", Notes: []string{}, Breaches: []audit.Breach{}}
	for i := range epochs {
		l := &audit.Lift{
			Reports:   uint64(40 * (i + 1)),
			Decisions: 2,
			Treated:   0.5625,
			Control:   0.5,
			Lift:      0.0625,
			Low:       -0.03,
			High:      0.15,
		}
		r.Rounds = append(r.Rounds, audit.Row{Epoch: uint64(i + 1), Outcome: "released", Left: true, Reports: 40,
			Epsilon: 0.5, SoFar: 0.7, Lift: l, Total: l})
		r.Lift, r.EpsilonSoFar = l, 0.7
	}
	return r
}

// The page of a report, and an audit's page, show the lift with its interval, as text and as a picture.
func TestLiftIsShown(t *testing.T) {
	r := lifted(60)
	r.Rounds[59].Action = "stop"
	var b bytes.Buffer
	if err := page.WriteEffect(&b, effect.Of(r)); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{`data-field="lift">&#43;0.0625<`, "-0.03 to &#43;0.15", `id="lift-title"`, "<polygon",
		"by the rules: stop", "&lt;shop&gt;", "10 earlier ones", `data-field="so_far">0.7000<`, "In numbers"} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("no %s in the page of a report", want)
		}
	}
	if strings.Contains(b.String(), "<shop>") || strings.Contains(b.String(), "<script") {
		t.Error("text of the logs is not escaped, or there is a script")
	}
	whole := write(t, r)
	for _, want := range []string{"Whether the policy helps", `id="lift-title"`,
		`data-field="lift">It is not known yet`} {
		if !strings.Contains(whole, want) {
			t.Errorf("no %s in the page of an audit", want)
		}
	}
	r.Lift = nil
	if strings.Contains(write(t, r), "Whether the policy helps") {
		t.Error("a lift is shown where there is none")
	}
}
