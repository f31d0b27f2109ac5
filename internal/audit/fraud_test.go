package audit_test

import (
	"context"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/riffle-dp/riffle/internal/audit"
	"github.com/riffle-dp/riffle/internal/bus"
	"github.com/riffle-dp/riffle/internal/testing/ledger"
	"github.com/riffle-dp/riffle/pkg/glm"
	"github.com/riffle-dp/riffle/pkg/plan"
	"github.com/riffle-dp/riffle/pkg/seal"
	"github.com/riffle-dp/riffle/pkg/transparency"
	"github.com/riffle-dp/riffle/pkg/wire"
)

func check(t testing.TB, l *ledger.Ledger, o audit.Options) *audit.Report {
	t.Helper()
	o.Trust = l.Bundle
	r, err := audit.Check(context.Background(), l, o)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func made(t testing.TB, o ledger.Options) *ledger.Ledger {
	t.Helper()
	l, err := ledger.Make(o)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// planted are options with a fraud.
func planted(o ledger.Options, plant func(*ledger.Options)) ledger.Options {
	plant(&o)
	return o
}

// whats are the kinds of breaches of a report, each once, in order of their names.
func whats(r *audit.Report) (all []audit.What) {
	for _, b := range r.Breaches {
		all = append(all, b.What)
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// An honest deployment has no breach, whatever its channel and profile, while it runs and after its end, with destroyed
// cohorts, rotated keys and retained messages, which give the signed counts again.
func TestHonestDeploymentsPass(t *testing.T) {
	for _, x := range []struct {
		profile glm.Profile
		channel plan.Channel
		retain  bool
		rounds  int
	}{
		{glm.Practical, plan.Shuffle, false, 2}, {glm.Practical, plan.Shuffle, true, 0},
		{glm.Paper, plan.Shuffle, false, 0}, {glm.Practical, plan.Shares, false, 0},
		{glm.Practical, plan.Local, true, 0}, {glm.Practical, plan.Central, false, 0},
		{glm.Joint, plan.Central, false, 0}, {glm.LinUCB, plan.Shuffle, true, 0}, {glm.LinUCB, plan.Shares, false, 2},
	} {
		l := made(t, ledger.Options{
			Configuration: ledger.Small(x.profile, x.channel, 2+min(x.rounds, 1)), Retain: x.retain, Rotate: true,
			Rounds: x.rounds, Destroyed: func(epoch uint64, _ uint32) bool { return epoch == 2 },
		})
		var rows []audit.Row
		r := check(t, l, audit.Options{Auditor: []*seal.HPKEKey{l.Auditor}, AnalyzerKeys: l.HPKE,
			Row: func(r audit.Row) { rows = append(rows, r) }})
		if !r.OK || len(r.Breaches) > 0 || r.Running != (x.rounds > 0) || r.Destroyed == 0 || r.Releases == 0 ||
			r.PoliciesRecomputed != r.Releases+r.Destroyed || len(rows) != r.PoliciesRecomputed ||
			!(r.Epsilon > 0 && r.Epsilon <= 4) || !(r.EpsilonAlone >= r.Epsilon) {
			t.Errorf("%s, %s: %+v", x.profile, x.channel, r)
		}
		for _, row := range rows {
			if summed := row.Outcome == "released" && x.profile != glm.Joint; summed != (row.Moved > 0) ||
				summed != (len(row.Influence) > 0) {
				t.Errorf("%s, %s: a round that was %s says that a device moves numbers by %v deviations: %+v",
					x.profile, x.channel, row.Outcome, row.Moved, row.Influence)
			}
			for _, of := range row.Influence {
				worst := slices.Max(of.One)
				if worst/of.Deviation > row.Moved*(1+1e-12) || slices.Max(of.Honest) > worst ||
					len(of.All) != len(of.One) || len(of.Honest) != len(of.One) {
					t.Errorf("%s, %s: %+v, said to be at most %v deviations", x.profile, x.channel, of, row.Moved)
				}
			}
		}
	}
}

// Rounding of another processor architecture is told from fraud: it is a breach that says what to do, and none with the
// tolerance. What is larger is one with it, too, and so is a policy that is not the one that was said to be learned.
func TestToleranceIsForRoundingAlone(t *testing.T) {
	scaled := func(by float64) *ledger.Ledger {
		o := configuration(sums)
		o.Tamper.Learned = func(v *wire.Learned) {
			for _, s := range v.Sums {
				s.Values[0] *= 1 + by
			}
		}
		return made(t, o)
	}
	rounded := scaled(1e-13)
	r := check(t, rounded, audit.Options{})
	if !slices.Equal(whats(r), []audit.What{audit.SumsWrong}) || !strings.Contains(list(r), "--tolerance 1e-09") {
		t.Errorf("without a tolerance: %s", list(r))
	}
	r = check(t, rounded, audit.Options{Tolerance: audit.RoundingTolerance})
	if !r.OK || r.PoliciesRecomputed != r.Releases || !strings.Contains(strings.Join(r.Notes, " "), "1e-09") {
		t.Errorf("with a tolerance: %s %q", list(r), r.Notes)
	}
	r = check(t, scaled(1e-6), audit.Options{Tolerance: audit.RoundingTolerance})
	if !slices.Equal(whats(r), []audit.What{audit.SumsWrong}) || strings.Contains(list(r), "--tolerance") {
		t.Errorf("more than rounding: %s", list(r))
	}
	r = check(t, made(t, planted(configuration(sums), announcementAt(2, 0, func(a *plan.Announcement) {
		a.Policy.Theta[1] *= 1 + 1e-13
	}))), audit.Options{Tolerance: audit.RoundingTolerance})
	if !slices.Equal(whats(r), []audit.What{audit.PolicyWrong}) {
		t.Errorf("another policy than was said: %s", list(r))
	}
}

// A longer log of somebody else shows whether this one is its beginning.
func TestViewsThatAreLonger(t *testing.T) {
	whole := made(t, configuration(joint))
	short := *whole
	short.Logs = map[bus.Role][]audit.Entry{
		bus.Analyzer: whole.Logs[bus.Analyzer][:7], bus.Shuffler: whole.Logs[bus.Shuffler][:2]}
	short.Checkpoints = map[bus.Role][]byte{}
	if err := short.Seal(); err != nil {
		t.Fatal(err)
	}
	other := made(t,
		planted(configuration(joint), announcementAt(2, 0, func(a *plan.Announcement) { a.Cohort.Minimum++ })))
	for name, x := range map[string]struct {
		from *ledger.Ledger
		want []audit.What
	}{"its beginning": {whole, nil}, "another": {other, []audit.What{audit.SplitView}}} {
		r := check(t, &short, audit.Options{Views: []audit.View{{Name: name, Checkpoints: x.from.Checkpoints,
			Source: x.from}}})
		if !slices.Equal(whats(r), x.want) {
			t.Errorf("%s: %s", name, list(r))
		}
	}
}

// A copy of a log that was damaged accuses nobody of two logs, and what several checkpoints say of one size is told
// once.
func TestADamagedCopyProvesNoSplit(t *testing.T) {
	l := made(t, configuration(joint))
	views := []audit.View{{Name: "one", Checkpoints: l.Checkpoints}, {Name: "another", Checkpoints: l.Checkpoints}}
	damaged, cut := *l, *l
	log := slices.Clone(l.Logs[bus.Shuffler])
	log[0].Signed = slices.Clone(log[0].Signed)
	log[0].Signed[0] ^= 1
	damaged.Logs = map[bus.Role][]audit.Entry{bus.Analyzer: l.Logs[bus.Analyzer], bus.Shuffler: log}
	r := check(t, &damaged, audit.Options{Views: views})
	if all := whats(r); !slices.Contains(all, audit.LogAltered) || slices.Contains(all, audit.SplitView) ||
		!strings.Contains(strings.Join(r.Notes, " "), "does not fit its own checkpoint") {
		t.Errorf("damaged: %s, %q", list(r), r.Notes)
	}
	cut.Logs = map[bus.Role][]audit.Entry{bus.Analyzer: l.Logs[bus.Analyzer][:5], bus.Shuffler: l.Logs[bus.Shuffler]}
	times := 0
	for _, b := range check(t, &cut, audit.Options{Views: views}).Breaches {
		if b.What == audit.LogRewound {
			times++
		}
	}
	if times != 1 {
		t.Errorf("one log that is too short is told %d times", times)
	}
}

// Witnesses' cosignatures are found and told; a key that signed nothing is told, too.
func TestWitnessesAreFound(t *testing.T) {
	l := made(t, configuration(joint))
	by, err := ledger.Identity(1, "witness")
	if err != nil {
		t.Fatal(err)
	}
	at := time.Unix(1_700_000_000, 0).UTC()
	note, err := transparency.Cosign(l.Checkpoints[bus.Shuffler], "university", by, at)
	if err != nil {
		t.Fatal(err)
	}
	r := check(t, l, audit.Options{
		Views:     []audit.View{{Name: "a file", Checkpoints: map[bus.Role][]byte{bus.Shuffler: note}}},
		Witnesses: []audit.Witness{{Name: "university", Key: by.Public()}},
	})
	want := []audit.Witnessed{{Witness: "university", Role: bus.Shuffler, Size: 3, At: at}}
	if !r.OK || !slices.Equal(r.Witnessed, want) ||
		!strings.Contains(strings.Join(r.Notes, " "), "co-signed no checkpoint") {
		t.Errorf("%+v", r)
	}
}

// Without the auditor's key, or with nothing retained, the report says what was not checked.
func TestNotesSayWhatWasNotChecked(t *testing.T) {
	l := made(t, configuration(bits))
	for want, o := range map[string]audit.Options{
		"the auditor's key was not given": {},
		"the analyzer's key of their announcement": {Auditor: []*seal.HPKEKey{l.Auditor},
			AnalyzerKeys: []*seal.HPKEKey{l.Auditor}},
		"a role could show others another log": {Auditor: []*seal.HPKEKey{l.Auditor}},
	} {
		if r := check(t, l, o); !r.OK || !strings.Contains(strings.Join(r.Notes, " "), want) {
			t.Errorf("no %q in %q", want, r.Notes)
		}
	}
}

// Whatever entry is taken out or exchanged with another, the log does not pass, even where the role signs a
// checkpoint over what is left. Only the analyzer's newest entry can be missing: then the deployment is still running.
func TestNoEntryCanBeMoved(t *testing.T) {
	names := []string{joint, shares}
	if os.Getenv("RIFFLE_LONG") != "" {
		names = append(names, twice)
	}
	for _, name := range names {
		l := made(t, configuration(name))
		for role, log := range l.Logs {
			for i := range log {
				for j := range log {
					if name != joint && j != i && j != i+1 {
						continue // neighbours are enough where recomputing takes longer
					}
					edited := *l
					all := slices.Clone(log)
					switch {
					case i != j:
						all[i], all[j] = all[j], all[i]
					case role == bus.Analyzer && i == len(log)-1:
						continue
					default:
						all = slices.Delete(all, i, i+1)
					}
					edited.Logs = map[bus.Role][]audit.Entry{role: all}
					for other := range l.Logs {
						if other != role {
							edited.Logs[other] = l.Logs[other]
						}
					}
					edited.Checkpoints = map[bus.Role][]byte{}
					if err := edited.Seal(); err != nil {
						t.Fatal(err)
					}
					if r := check(t, &edited, audit.Options{}); r.OK {
						t.Errorf("%s: entries %d and %d of the %s's log can change places", name, i, j, role)
					}
				}
			}
		}
	}
}
