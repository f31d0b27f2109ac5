package audit_test

import (
	"cmp"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/riffle-dp/riffle/internal/audit"
	"github.com/riffle-dp/riffle/internal/bus"
	"github.com/riffle-dp/riffle/internal/testing/ledger"
	"github.com/riffle-dp/riffle/pkg/glm"
	"github.com/riffle-dp/riffle/pkg/plan"
	"github.com/riffle-dp/riffle/pkg/wire"
)

// small are options of two cohorts in a channel. Each has two rounds, which are planned far quicker than one round of
// two releases.
func small(channel plan.Channel) ledger.Options {
	return ledger.Options{Configuration: ledger.Small(glm.Paper, channel, 2), Seed: 5}
}

// second finds the row of the second cohort's first round.
func second(rows []audit.Row) (audit.Row, bool) {
	i := slices.IndexFunc(rows, func(row audit.Row) bool { return row.Epoch == 2 && row.Round == 0 })
	if i < 0 {
		return audit.Row{}, false
	}
	return rows[i], true
}

// secondDestroyed has the second cohort destroyed in its first round.
func secondDestroyed(o *ledger.Options) {
	o.Destroyed = func(epoch uint64, _ uint32) bool { return epoch == 2 }
}

// partly has the shuffler destroy the second cohort after so many of its messages may have left.
func partly(o *ledger.Options) {
	secondDestroyed(o)
	o.Tamper.Manifest = func(m *wire.Manifest) {
		if m.Epoch == 2 {
			m.Reports = m.Enrolled
			m.Messages = uint64(m.Reports)
		}
	}
	o.Tamper.Counts = func(c *wire.Counts) {
		if c.Epoch == 2 {
			c.Reports = 12
		}
	}
}

// silently drops what the analyzer signed of the second cohort from its first counts on, and its second round.
func silently(l *ledger.Ledger) {
	at := ofSecond(l, bus.Analyzer, wire.KindCounts)
	drop(l, bus.Analyzer, at, end(l, bus.Analyzer)-at)
	at = ofSecond(l, bus.Shuffler, wire.KindManifest) + 1
	drop(l, bus.Shuffler, at, end(l, bus.Shuffler)-at)
}

// ofSecond is where a role's log has the first statement of a kind about the second cohort: the first has two rounds.
func ofSecond(l *ledger.Ledger, role bus.Role, kind string) int {
	at := -1
	for range 3 {
		at = l.Find(role, kind, at+1)
	}
	return at
}

// What left the shuffler is spent, whatever the analyzer signs of it afterwards: that it refuses it, nothing at all, or
// the next announcement. So is what may have left of a cohort that was destroyed. Only of a cohort of which nothing
// left nothing is spent.
func TestWhatLeftIsSpent(t *testing.T) {
	for _, channel := range []plan.Channel{plan.Shuffle, plan.Shares, plan.Local, plan.Central} {
		honest := made(t, small(channel))
		for _, x := range []struct {
			name  string
			plant func(*ledger.Options)
			after func(*ledger.Ledger)
			want  string // outcome of the second cohort
			left  bool
			rows  int // rounds
		}{
			{"counted", nil, nil, "released", true, 4},
			{"refused", countsAt(2, 0, refuse), nil, "refused", true, 3},
			{"silent", nil, silently, "uncounted", true, 3},
			{"passed over", nil, func(l *ledger.Ledger) {
				drop(l, bus.Analyzer, ofSecond(l, bus.Analyzer, wire.KindCounts), 2)
			}, "uncounted", true, 4},
			{"destroyed after a part left", partly, nil, "destroyed", true, 3},
			{"destroyed", secondDestroyed, nil, "destroyed", false, 3},
		} {
			t.Run(string(channel)+" "+x.name, func(t *testing.T) {
				l := copied(honest)
				if x.plant != nil {
					l = made(t, planted(small(channel), x.plant))
				}
				if x.after != nil {
					x.after(l)
					if err := l.Seal(); err != nil {
						t.Fatal(err)
					}
				}
				var rows []audit.Row
				r := check(t, l, audit.Options{Row: func(row audit.Row) { rows = append(rows, row) }})
				row, ok := second(rows)
				if !ok || row.Outcome != x.want || row.Left != x.left || len(rows) != x.rows {
					t.Fatalf("rows %+v, want the second cohort's %s, left: %t%s", rows, x.want, x.left, list(r))
				}
				want := 0.0
				if x.left {
					g, err := plan.GuaranteeWith(announced(t, l, 2), row.Reports)
					if err != nil {
						t.Fatal(err)
					}
					want = g.Epsilon(r.Delta)
				}
				if got := float64(row.Epsilon); got != want {
					t.Errorf("epsilon %v of %d reports, what left reveals %v", got, row.Reports, want)
				}
				most := slices.MaxFunc(rows, func(a, b audit.Row) int { return cmp.Compare(a.Epsilon, b.Epsilon) })
				if !(most.Epsilon > 0) || r.EpsilonSoFar != most.Epsilon {
					t.Errorf("so far %v, the most of a round is %v", r.EpsilonSoFar, most.Epsilon)
				}
				if slices.Contains(whats(r), audit.ReleaseRefused) != (x.name == "refused") ||
					r.OK && x.name == "refused" {
					t.Errorf("refused: %t, found %v", x.name == "refused", whats(r))
				}
			})
		}
	}
}

// announced is the announcement of an epoch.
func announced(t *testing.T, l *ledger.Ledger, epoch uint64) *plan.Announcement {
	t.Helper()
	for _, e := range l.Logs[bus.Analyzer] {
		if a, _, err := wire.Open[plan.Announcement](e.Signed, l.Bundle.AnalyzerParty()); err == nil &&
			a.Epoch == epoch {
			return a
		}
	}
	t.Fatalf("epoch %d is not announced", epoch)
	return nil
}

// A person in several panels spends what left of each, also of those that the analyzer refused, and an audit that
// cannot recompute what was learned still says what was spent.
func TestPanelsThatTheAnalyzerRefusesAreSpent(t *testing.T) {
	honest := made(t, configuration(twice))
	want := check(t, honest, audit.Options{}).EpsilonSoFar
	for name, plant := range map[string]func(*ledger.Options){
		"refused": countsAt(2, 0, refuse),
		"the configuration is lost": func(o *ledger.Options) {
			o.Tamper.Configuration = func(c *wire.Configuration) { c.Learner.Horizon = 1 }
		},
	} {
		r := check(t, made(t, planted(configuration(twice), plant)), audit.Options{})
		if r.OK || !(want > 0) || r.EpsilonSoFar != want {
			t.Errorf("%s: so far %v, and %v where all is counted%s", name, r.EpsilonSoFar, want, list(r))
		}
	}
}

// The shuffler's share of the sums may have left once it is signed for, though the manifest says that the cohort was
// destroyed, and though there is no manifest.
func TestAShareThatWasSignedForIsSpent(t *testing.T) {
	for _, manifest := range []bool{true, false} {
		l := made(t, planted(configuration(shares), firstDestroyed))
		if err := exchanged(l, 11, 11, 1); err != nil {
			t.Fatal(err)
		}
		if !manifest { // nor anything after it
			drop(l, bus.Shuffler, 1, end(l, bus.Shuffler)-1)
			drop(l, bus.Analyzer, 3, end(l, bus.Analyzer)-3)
		}
		if err := l.Seal(); err != nil {
			t.Fatal(err)
		}
		var rows []audit.Row
		r := check(t, l, audit.Options{Row: func(row audit.Row) { rows = append(rows, row) }})
		g, err := plan.GuaranteeWith(announced(t, l, 1), 11)
		if err != nil {
			t.Fatal(err)
		}
		if want := g.Epsilon(1e-3); len(rows) == 0 || !rows[0].Left || float64(rows[0].Epsilon) != want ||
			r.EpsilonSoFar == 0 {
			t.Errorf("a manifest: %t: %+v, so far %v, want %v%s", manifest, rows, r.EpsilonSoFar, want, list(r))
		}
	}
}

// Nothing that is announced bounds what leaves a second time, or of a round that nobody announced.
func TestWhatNoPlanBoundsIsUnbounded(t *testing.T) {
	for name, f := range map[string]func(*wire.Manifest){
		"a second time":   func(m *wire.Manifest) { m.ReportsDigest = flip(m.ReportsDigest) },
		"never announced": func(m *wire.Manifest) { m.Epoch = 9 },
	} {
		l := made(t, configuration(joint))
		if err := again(l, bus.Shuffler, 2, f); err != nil {
			t.Fatal(err)
		}
		if err := l.Seal(); err != nil {
			t.Fatal(err)
		}
		if r := check(t, l, audit.Options{}); !math.IsInf(float64(r.EpsilonSoFar), 1) {
			t.Errorf("%s: so far %v%s", name, r.EpsilonSoFar, list(r))
		}
	}
}

// A reader of the table cannot overlook that the analyzer refused what it had, nor that the shuffler destroyed a cohort
// that had reports enough. The second is no breach: an honest shuffler may ask for more reports than was announced.
func TestRefusedAndDestroyedCohortsStandOut(t *testing.T) {
	table := func(r *audit.Report) string {
		var b strings.Builder
		if err := r.WriteTable(&b); err != nil {
			t.Fatal(err)
		}
		return b.String()
	}
	r := check(t, made(t, planted(small(plan.Central), countsAt(2, 0, refuse))), audit.Options{})
	if text := table(r); !strings.HasPrefix(text, "BREACH: 1 found") ||
		!strings.Contains(text, "1 REFUSED BY THE ANALYZER") ||
		r.Refused != 1 ||
		strings.Contains(text, "destroyed or refused") {
		t.Errorf("refused: %s", text)
	}
	enough := func(o *ledger.Options) {
		partly(o)
		change := o.Tamper.Manifest
		o.Tamper.Manifest = func(m *wire.Manifest) {
			if change(m); m.Epoch == 2 {
				m.Messages = 0
			}
		}
	}
	r = check(t, made(t, planted(small(plan.Central), enough)), audit.Options{})
	if text := table(r); !r.OK || r.Enough != 1 || !strings.Contains(text, "1 of them with reports enough") ||
		!strings.Contains(strings.Join(r.Notes, " "), "chooses whose reports count") {
		t.Errorf("destroyed above the minimum: %s", text)
	}
	r = check(t, made(t, planted(small(plan.Central), firstDestroyed)), audit.Options{})
	if r.Enough != 0 || strings.Contains(table(r), "enough") || r.Refused != 0 {
		t.Errorf("destroyed below it: %s", table(r))
	}
}

// No plan bounds what leaves by a second manifest of a round, also where by the first one nothing left: the row of the
// round says so, and not only the breach.
func TestNothingBoundsARoundThatLeftTwice(t *testing.T) {
	for _, destroyed := range []bool{false, true} {
		o := small(plan.Central)
		if destroyed {
			secondDestroyed(&o)
		}
		l := made(t, o)
		err := again(l, bus.Shuffler, ofSecond(l, bus.Shuffler, wire.KindManifest), func(m *wire.Manifest) {
			if destroyed {
				m.Messages = uint64(m.Reports) // a part may have left
				return
			}
			m.ReportsDigest = flip(m.ReportsDigest)
		})
		if err != nil {
			t.Fatal(err)
		}
		if err := l.Seal(); err != nil {
			t.Fatal(err)
		}
		var rows []audit.Row
		r := check(t, l, audit.Options{Row: func(row audit.Row) { rows = append(rows, row) }})
		row, ok := second(rows)
		if !ok || !row.Again || !row.Left || !math.IsInf(float64(row.Epsilon), 1) {
			t.Errorf("destroyed first: %t: rows %+v", destroyed, rows)
		}
		for _, other := range rows {
			if other.Again && (other.Epoch != row.Epoch || other.Round != row.Round) {
				t.Errorf("destroyed first: %t: another round left twice: %+v", destroyed, other)
			}
		}
		if !slices.Equal(whats(r), []audit.What{audit.DoubledRelease}) || !math.IsInf(float64(r.EpsilonSoFar), 1) {
			t.Errorf("destroyed first: %t: found %v, epsilon so far %v", destroyed, whats(r), r.EpsilonSoFar)
		}
	}
}
