package explain_test

import (
	"bytes"
	"errors"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/riffle-dp/riffle/internal/audit"
	"github.com/riffle-dp/riffle/internal/audit/explain"
	"github.com/riffle-dp/riffle/internal/testing/ledger"
	"github.com/riffle-dp/riffle/pkg/glm"
	"github.com/riffle-dp/riffle/pkg/plan"
	"github.com/riffle-dp/riffle/pkg/wire"
)

var update = flag.Bool("update", false, "write the golden texts")

// deployment makes the logs of two cohorts, of which the second is destroyed, with refusals in the first.
func deployment(t *testing.T, profile glm.Profile, channel plan.Channel, change func(*ledger.Options)) *ledger.Ledger {
	t.Helper()
	c := ledger.Small(profile, channel, 2)
	if profile == glm.Joint {
		c.Batch = 12
	}
	o := ledger.Options{
		Configuration: c, Destroyed: func(epoch uint64, _ uint32) bool { return epoch == 2 },
		Tamper: ledger.Tamper{Manifest: func(m *wire.Manifest) {
			if m.Epoch == 1 {
				m.Refused = []wire.Refused{
					{Reason: wire.RefusalBadSignature, Reports: 3}, {Reason: wire.RefusalDuplicate, Reports: 1},
				}
			}
		}},
	}
	if change != nil {
		change(&o)
	}
	l, err := ledger.Make(o)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func ask(t *testing.T, l *ledger.Ledger, words ...string) *explain.Answer {
	t.Helper()
	q, rest, err := explain.Parse(words)
	if err != nil || len(rest) > 0 {
		t.Fatalf("%q: %v, left over %q", words, err, rest)
	}
	a, err := explain.Of(t.Context(), q, l, audit.Options{Trust: l.Bundle})
	if err != nil {
		t.Fatalf("%q: %v", words, err)
	}
	return a
}

func text(t *testing.T, a *explain.Answer) string {
	t.Helper()
	var b bytes.Buffer
	if err := a.Write(&b); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// The explanations of a released and of a destroyed cohort and of a plan, in each channel, are the golden ones, which
// were read by people.
func TestExplanationsInEachChannel(t *testing.T) {
	for _, x := range []struct {
		name    string
		profile glm.Profile
		channel plan.Channel
		change  func(*ledger.Options)
	}{
		{"shuffle", glm.Practical, plan.Shuffle, nil}, {"shares", glm.Practical, plan.Shares, nil},
		{"local", glm.Practical, plan.Local, nil}, {"central", glm.Practical, plan.Central, nil},
		{"curator", glm.Joint, plan.Central, nil},
		{"pairs", glm.OnlineLinUCB, plan.Local, func(o *ledger.Options) { o.Configuration.Learner.MinCohort = 12 }},
		{"panels", glm.Practical, plan.Shares, func(o *ledger.Options) {
			o.Configuration = ledger.Living(plan.Shares, 3)
			o.Configuration.Terms.Dishonest, o.Configuration.Terms.Period = 0.01, 3
		}},
	} {
		t.Run(x.name, func(t *testing.T) {
			l := deployment(t, x.profile, x.channel, x.change)
			var all strings.Builder
			for _, question := range []string{"release 1.0", "2", "plan 1"} {
				all.WriteString("# " + question + "\n\n" + text(t, ask(t, l, question)) + "\n")
			}
			golden := filepath.Join("testdata", x.name+".txt")
			if *update {
				if err := os.WriteFile(golden, []byte(all.String()), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(golden)
			if err != nil {
				t.Fatal(err)
			}
			if all.String() != string(want) {
				t.Errorf("not as %s; if the new text is right: -update\n%s", golden, all.String())
			}
		})
	}
}

// An explanation's numbers are those of the signed statements.
func TestNumbersComeFromTheStatements(t *testing.T) {
	l := deployment(t, glm.Practical, plan.Shuffle, func(o *ledger.Options) { o.Rounds, o.Seed = 1, 4 })
	var m *wire.Manifest
	var a *plan.Announcement
	for _, e := range l.Logs["shuffler"] {
		if v, _, err := wire.Open[wire.Manifest](e.Signed, l.Bundle.ShufflerParty()); err == nil && v.Epoch == 1 {
			m = v
		}
	}
	for _, e := range l.Logs["analyzer"] {
		if v, _, err := wire.Open[plan.Announcement](e.Signed, l.Bundle.AnalyzerParty()); err == nil && v.Epoch == 1 {
			a = v
		}
	}
	if m == nil || a == nil || m.Enrolled == m.Reports {
		t.Fatalf("the fixture cannot tell enrolled from reports: %+v", m)
	}
	f := ask(t, l, "release 1.0").Facts
	x := f.Rounds[0]
	if x.Enrolled != m.Enrolled || x.Reports != m.Reports || x.Messages != m.Messages || x.Noise != m.NoiseMessages ||
		x.Each != a.ReportMessages() || len(x.Refused) != 2 || x.Refused[0].Reports != 3 {
		t.Errorf("%+v, the manifest says %+v", x, m)
	}
	if p := f.Plan; p.Size != a.Cohort.Size || p.Minimum != a.Cohort.Minimum || p.Dishonest != a.Cohort.MaxDishonest ||
		p.Messages != a.ReportMessages() {
		t.Errorf("%+v, announced is %+v", p, a.Cohort)
	}
	g, err := plan.GuaranteeWith(a, m.Reports)
	if err != nil || float64(x.Epsilon) != g.Epsilon(f.Delta) || !(x.Epsilon < f.Plan.Epsilon) {
		t.Errorf("epsilon %v (%v), the plan gives %v with these reports", x.Epsilon, err, g.Epsilon(f.Delta))
	}
}

// Every statement of an epoch is listed at its place in the log, in several rounds, too.
func TestStatementsStandWhereTheyAreSaidToStand(t *testing.T) {
	for _, x := range []struct {
		profile glm.Profile
		channel plan.Channel
		want    int // statements of epoch 1
	}{{glm.Practical, plan.Shares, 6}, {glm.Paper, plan.Shuffle, 8}} {
		l := deployment(t, x.profile, x.channel, func(o *ledger.Options) { o.Destroyed, o.Rounds = nil, 2 })
		a, n := ask(t, l, "epoch 1"), 0
		for _, r := range a.Facts.Rounds {
			for _, s := range r.Statements {
				n++
				if got := l.Logs[s.Role][s.Index].Kind; got != s.Kind {
					t.Errorf("%s is said to be %s, and there is %s", s.Name(), s.Kind, got)
				}
			}
		}
		if n != x.want || len(a.Facts.Rounds) != a.Facts.Plan.Rounds {
			t.Errorf("%s: %d statements of %d rounds, want %d", x.profile, n, len(a.Facts.Rounds), x.want)
		}
	}
}

// A breach is told where it is about what was asked, and counted where it is not.
func TestBreachesAreToldWithWhatTheyAreAbout(t *testing.T) {
	l := deployment(t, glm.Practical, plan.Shuffle, func(o *ledger.Options) {
		o.Tamper.Counts = func(c *wire.Counts) {
			if c.Epoch == 1 {
				c.Reports++
			}
		}
	})
	if a := ask(t, l, "release 1.0"); len(a.Breaches) == 0 ||
		!strings.Contains(text(t, a), "BREACH reports_differ in analyzer/") {
		t.Errorf("the breach is not told: %s", text(t, a))
	}
	if a := ask(t, l, "release 2.0"); len(a.Breaches) > 0 || !strings.Contains(text(t, a), "No breach about it, but") {
		t.Errorf("told of another release: %s", text(t, a))
	}
	if a := ask(t, l, "reports_differ"); len(a.Breaches) != 1 {
		t.Errorf("by its name: %+v", a.Breaches)
	}
}

// A statement that the trusted keys did not sign is not believed.
func TestForgedStatementsAreNotRead(t *testing.T) {
	l := deployment(t, glm.Practical, plan.Local, nil)
	other := deployment(t, glm.Practical, plan.Local, func(o *ledger.Options) { o.Seed = 7 })
	l.Logs["shuffler"][0] = other.Logs["shuffler"][0]
	x := ask(t, l, "release 1.0").Facts.Rounds[0]
	if x.Enrolled != 0 || len(x.Statements) != 3 {
		t.Errorf("a forged manifest is believed: %+v", x)
	}
}

// What is not there is refused, with what there is.
func TestUnknownNamesListWhatExists(t *testing.T) {
	for _, words := range [][]string{nil, {"everything"}, {"release"}, {"plan", "3.0"}, {"epoch", "-1"}, {""}} {
		if _, _, err := explain.Parse(words); err == nil {
			t.Errorf("%q is taken", words)
		} else if len(words) > 0 && words[0] == "everything" && !(strings.Contains(err.Error(), "split_view") &&
			strings.Contains(err.Error(), "epoch 3")) {
			t.Errorf("%q does not list what there is: %v", words, err)
		}
	}
	l := deployment(t, glm.Paper, plan.Shuffle, func(o *ledger.Options) { o.Rounds = 1 })
	for question, want := range map[string]string{
		"epoch 99": "the epochs 1 to", "release 1": "release 1.0 to 1.", "release 1.77": "the rounds 0 to 1",
		"release 0": "epochs",
	} {
		q, _, err := explain.Parse([]string{question})
		if err != nil {
			t.Fatal(err)
		}
		_, err = explain.Of(t.Context(), q, l, audit.Options{Trust: l.Bundle})
		if !errors.Is(err, explain.ErrNone) || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", question, err, want)
		}
	}
}

// Every kind of breach is explained by its name, without any logs.
func TestEveryBreachIsExplained(t *testing.T) {
	for _, e := range audit.Explanations() {
		q, _, err := explain.Parse([]string{string(e.What), "folder"})
		if err != nil || !strings.Contains(text(t, explain.OfBreach(q.What, nil)), e.Means) {
			t.Errorf("%s: %v", e.What, err)
		}
	}
}
