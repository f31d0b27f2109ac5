package explain_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/riffle-dp/riffle/internal/bus"
	"github.com/riffle-dp/riffle/internal/testing/ledger"
	"github.com/riffle-dp/riffle/pkg/glm"
	"github.com/riffle-dp/riffle/pkg/plan"
	"github.com/riffle-dp/riffle/pkg/wire"
)

// world is a deployment in which something is true, and what is asked of it.
type world struct {
	channel   plan.Channel
	profile   glm.Profile // Practical if empty
	change    func(*ledger.Options)
	after     func(*testing.T, *ledger.Ledger)
	questions []string
}

// second are the questions about the second cohort. Each is an audit: most worlds differ in the first one alone.
var second, ended = []string{"release 2.0", "plan 2"}, []string{"release 2.0"}

func manifest(f func(*wire.Manifest)) func(*ledger.Options) {
	return func(o *ledger.Options) {
		o.Tamper.Manifest = func(m *wire.Manifest) {
			if m.Epoch == 2 {
				f(m)
			}
		}
	}
}

// enough has the shuffler destroy the second cohort with all reports there, after so many messages of each may have
// left.
func enough(left uint64) func(*ledger.Options) {
	return func(o *ledger.Options) {
		manifest(func(m *wire.Manifest) { m.Reports, m.Messages = m.Enrolled, left*uint64(m.Enrolled) })(o)
		o.Tamper.Counts = func(c *wire.Counts) {
			if c.Epoch == 2 {
				c.Reports = 12
			}
		}
	}
}

func all(of ...func(*ledger.Options)) func(*ledger.Options) {
	return func(o *ledger.Options) {
		for _, f := range of {
			f(o)
		}
	}
}

func counted(o *ledger.Options) { o.Destroyed = nil }

func refused(o *ledger.Options) {
	o.Destroyed = nil
	o.Tamper.Counts = func(c *wire.Counts) {
		if c.Epoch == 2 {
			c.Destroyed, c.Releases = true, nil
		}
	}
}

// cut takes away the entries of a role's log from one of the second cohort on.
func cut(role bus.Role, kind string) func(*testing.T, *ledger.Ledger) {
	return func(_ *testing.T, l *ledger.Ledger) {
		if at := l.Find(role, kind, l.Find(role, kind, 0)+1); at >= 0 {
			l.Logs[role] = l.Logs[role][:at]
		}
	}
}

// exchanged has the analyzer accept so many reports of the second cohort, and the shuffler sign for a share of their
// sums; 0: it does not.
func exchanged(accepted, share uint32) func(*testing.T, *ledger.Ledger) {
	return func(t *testing.T, l *ledger.Ledger) {
		t.Helper()
		at := l.Find(bus.Analyzer, wire.KindAnnouncement, l.Find(bus.Analyzer, wire.KindAnnouncement, 0)+1)
		_, digest, err := wire.Open[plan.Announcement](l.Logs[bus.Analyzer][at].Signed, l.Bundle.AnalyzerParty())
		if err != nil {
			t.Fatal(err)
		}
		set := slices.Repeat([]byte{1}, 32)
		err = ledger.Append(l, bus.Analyzer, at+1, wire.AcceptedKind(2, 0), &wire.Accepted{
			Deployment: l.Bundle.Deployment, Epoch: 2, Announcement: digest[:], Reports: accepted, Set: set,
		})
		if err == nil && share > 0 {
			last := l.Find(bus.Shuffler, wire.KindManifest, l.Find(bus.Shuffler, wire.KindManifest, 0)+1)
			err = ledger.Append(l, bus.Shuffler, last, wire.SummedKind(2, 0), &wire.Summed{
				Deployment: l.Bundle.Deployment, Epoch: 2, Announcement: digest[:], Reports: share, Set: set,
				Share: set,
			})
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}

// releasedAfter has the shuffler sign that it released the second cohort, too, after it signed that it destroyed it.
func releasedAfter(t *testing.T, l *ledger.Ledger) {
	t.Helper()
	first := l.Find(bus.Shuffler, wire.KindManifest, 0)
	at := l.Find(bus.Shuffler, wire.KindManifest, first+1)
	released, _, err := wire.Open[wire.Manifest](l.Logs[bus.Shuffler][first].Signed, l.Bundle.ShufflerParty())
	if err != nil {
		t.Fatal(err)
	}
	destroyed, _, err := wire.Open[wire.Manifest](l.Logs[bus.Shuffler][at].Signed, l.Bundle.ShufflerParty())
	if err != nil {
		t.Fatal(err)
	}
	released.Epoch, released.Announcement = destroyed.Epoch, destroyed.Announcement
	if err := ledger.Append(l, bus.Shuffler, at+1, wire.KindManifest, released); err != nil {
		t.Fatal(err)
	}
}

func living(period int) func(*ledger.Options) {
	return func(o *ledger.Options) {
		o.Configuration = ledger.Living(plan.Shares, 3)
		o.Configuration.Terms.Dishonest, o.Configuration.Terms.Period = 0.01, period
	}
}

// worlds are deployments of which explanations say different things, by name.
var worlds = map[string]world{
	"counted": {channel: plan.Shuffle, change: counted, questions: second},
	"central": {channel: plan.Central, change: counted, questions: second},
	"shares":  {channel: plan.Shares, change: counted, questions: second},
	"local":   {channel: plan.Local, change: counted, questions: second},
	"pairs": {channel: plan.Local, profile: glm.OnlineLinUCB, change: func(o *ledger.Options) {
		o.Configuration.Learner.MinCohort = 12
	}, questions: []string{"release 1.0"}},
	"curator": {
		channel:   plan.Central,
		profile:   glm.Joint,
		change:    counted,
		questions: []string{"release 1.0", "plan 1"},
	},
	"rounds": {channel: plan.Central, profile: glm.Paper, change: all(counted, func(o *ledger.Options) {
		o.Configuration.Learner.Paper.Rounds, o.Rounds = 12, 2
	}), questions: []string{"epoch 1", "plan 1"}},
	"too few":         {channel: plan.Shuffle, questions: ended},
	"too few shares":  {channel: plan.Shares, questions: ended},
	"enough":          {channel: plan.Shuffle, change: enough(0), questions: ended},
	"a part left":     {channel: plan.Shuffle, change: enough(1), questions: ended},
	"accepts too few": {channel: plan.Shares, change: enough(0), after: exchanged(3, 0), questions: ended},
	"a share left":    {channel: plan.Shares, after: exchanged(11, 11), questions: ended},
	"refused":         {channel: plan.Shuffle, change: refused, questions: ended},
	"refused, no manifest": {channel: plan.Shuffle, change: refused, after: cut(bus.Shuffler, wire.KindManifest),
		questions: ended},
	"destroyed, then released": {channel: plan.Shuffle, after: releasedAfter, questions: ended},
	"silent": {
		channel:   plan.Shuffle,
		change:    counted,
		after:     cut(bus.Analyzer, wire.KindCounts),
		questions: ended,
	},
	"open": {channel: plan.Shuffle, change: counted, after: func(t *testing.T, l *ledger.Ledger) {
		cut(bus.Analyzer, wire.KindCounts)(t, l)
		cut(bus.Shuffler, wire.KindManifest)(t, l)
	}, questions: ended},
	"no manifest": {
		channel:   plan.Shuffle,
		change:    counted,
		after:     cut(bus.Shuffler, wire.KindManifest),
		questions: ended,
	},
	"released below the minimum": {channel: plan.Shuffle, change: all(counted, manifest(func(m *wire.Manifest) {
		m.Messages /= uint64(m.Reports)
		m.Reports = 5
		m.Messages *= 5
	})), questions: ended},
	"copies left": {channel: plan.Central, change: all(counted, manifest(func(m *wire.Manifest) {
		m.Messages += uint64(m.Reports)
	})), questions: ended},
	"false sums": {channel: plan.Shuffle, change: all(counted, func(o *ledger.Options) {
		o.Tamper.Learned = func(l *wire.Learned) {
			if l.Epoch == 2 && len(l.Sums) > 0 {
				l.Sums[0].Values[0]++
			}
		}
	}), questions: ended},
	"no terms": {channel: plan.Central, change: counted, after: func(_ *testing.T, l *ledger.Ledger) {
		l.Logs[bus.Analyzer] = l.Logs[bus.Analyzer][1:]
	}, questions: second},
	"a weak plan": {channel: plan.Central, change: all(counted, func(o *ledger.Options) {
		o.Tamper.Announcement = func(a *plan.Announcement) {
			for _, r := range a.Plan.Rounds {
				for i := range r.Releases {
					r.Releases[i].AnalyzerNoise /= 2
				}
			}
		}
	}), questions: second},
	"server noise": {channel: plan.Shares, change: all(counted, func(o *ledger.Options) {
		o.Configuration.Terms.ServerNoise = 1
	}), questions: second},
	"shuffler's noise": {channel: plan.Shuffle, profile: glm.Paper, change: all(counted, func(o *ledger.Options) {
		o.Configuration.Terms.ServerNoise, o.Rounds = 0.5, 1
	}), questions: []string{"plan 1"}},
	"servers alone": {channel: plan.Shares, change: all(counted, func(o *ledger.Options) {
		o.Configuration.Terms.ServerNoise, o.Configuration.Terms.NoDeviceNoise = 1, true
	}), questions: second},
	"panels":          {channel: plan.Shares, change: all(counted, living(0)), questions: second},
	"panels, periods": {channel: plan.Shares, change: all(counted, living(3)), questions: second},
	"rules": {channel: plan.Shares, change: all(counted, living(3), func(o *ledger.Options) {
		o.Tamper.Learned = func(l *wire.Learned) {
			l.Unchanged, l.Action = 0.5, map[uint64]string{1: wire.ActionStop, 2: wire.ActionRollback}[l.Epoch]
			l.Lift = &wire.Lift{Reports: 10, Decisions: 1, Treated: 0.5, Control: 0.25, Lift: 0.25, Low: -0.5, High: 1}
		}
	}), questions: []string{"release 1.0", "release 2.0"}},
	"refusals": {channel: plan.Shuffle, change: all(counted, manifest(func(m *wire.Manifest) {
		m.Enrolled, m.Refused = m.Reports, []wire.Refused{{Reason: wire.RefusalBadSignature, Reports: 3}}
	})), questions: ended},
	"taken out": {channel: plan.Shuffle, change: manifest(func(m *wire.Manifest) {
		m.Reports, m.Refused = 9, []wire.Refused{
			{Reason: wire.RefusalBadSignature, Reports: 3, TakenOut: 1},
			{Reason: wire.RefusalRepeatedMessage, Reports: 1, TakenOut: 1},
		}
	}), questions: ended},
}

// told is what is said of a world.
func told(t *testing.T, w world) string {
	t.Helper()
	profile := w.profile
	if profile == "" {
		profile = glm.Practical
	}
	l := deployment(t, profile, w.channel, func(o *ledger.Options) {
		o.Tamper = ledger.Tamper{}
		if w.change != nil {
			w.change(o)
		}
	})
	if w.after != nil {
		w.after(t, l)
		if err := l.Seal(); err != nil {
			t.Fatal(err)
		}
	}
	var b strings.Builder
	for _, q := range w.questions {
		b.WriteString(text(t, ask(t, l, q)))
	}
	return b.String()
}

// sentence is a format of a sentence in this package's source.
type sentence struct {
	format string
	where  string
}

// sentences are the formats that sections are made of.
func sentences(t *testing.T) (found []sentence) {
	t.Helper()
	set := token.NewFileSet()
	entries, err := os.ReadDir(".")
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if !strings.HasSuffix(e.Name(), ".go") || strings.HasSuffix(e.Name(), "_test.go") {
			continue
		}
		file, err := parser.ParseFile(set, e.Name(), nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(file, func(n ast.Node) bool {
			call, ok := n.(*ast.CallExpr)
			if !ok || len(call.Args) == 0 {
				return true
			}
			if f, ok := call.Fun.(*ast.SelectorExpr); !ok || f.Sel.Name != "add" {
				return true
			}
			if format := literal(call.Args[0]); strings.Trim(verbs.ReplaceAllString(format, ""), " .:") != "" {
				found = append(found, sentence{format, set.Position(call.Pos()).String()})
			}
			return true
		})
	}
	return found
}

var verbs = regexp.MustCompile(`%[.0-9]*[a-z]`)

// literal is a string that is put together from constants.
func literal(e ast.Expr) string {
	switch v := e.(type) {
	case *ast.BasicLit:
		if text, err := strconv.Unquote(v.Value); err == nil {
			return text
		}
	case *ast.BinaryExpr:
		return literal(v.X) + literal(v.Y)
	}
	return ""
}

// said reports whether a text has a sentence of the format.
func (s sentence) said(in string) bool {
	var b strings.Builder
	rest := strings.ReplaceAll(s.format, "%%", "\x00")
	for i, part := range verbs.Split(rest, -1) {
		if i > 0 {
			b.WriteString(".*")
		}
		b.WriteString(regexp.QuoteMeta(strings.ReplaceAll(part, "\x00", "%")))
	}
	return regexp.MustCompile("- " + b.String() + "(\n|$)").MatchString(in)
}
