package effect_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"math"
	"strings"
	"testing"

	"github.com/riffle-dp/riffle/internal/audit"
	"github.com/riffle-dp/riffle/internal/audit/effect"
	"github.com/riffle-dp/riffle/internal/testing/ledger"
	"github.com/riffle-dp/riffle/pkg/plan"
	"github.com/riffle-dp/riffle/pkg/privacy"
	"github.com/riffle-dp/riffle/pkg/wire"
)

// audited is the report of a small deployment of panels, whose second cohort is destroyed.
func audited(t *testing.T, c plan.Channel) *audit.Report {
	t.Helper()
	return checked(t, ledger.Options{Configuration: ledger.LivingOf(c, 3, 800), Seed: 5,
		Destroyed: func(epoch uint64, _ uint32) bool { return epoch == 2 }})
}

// checked is the report of a deployment, with its rows.
func checked(t *testing.T, o ledger.Options) *audit.Report {
	t.Helper()
	l, err := ledger.Make(o)
	if err != nil {
		t.Fatal(err)
	}
	var rows []audit.Row
	r, err := audit.Check(t.Context(), l,
		audit.Options{Trust: l.Bundle, Row: func(x audit.Row) { rows = append(rows, x) }})
	if err != nil {
		t.Fatal(err)
	}
	r.Rounds = rows
	return r
}

// The result has the numbers of the audit, and its JSON the keys that programs read.
func TestResultIsTheAudits(t *testing.T) {
	report := audited(t, plan.Central)
	r := effect.Of(report)
	if !r.OK || len(r.Epochs) != len(report.Rounds) || r.Cumulated == nil || *r.Cumulated != *report.Lift {
		t.Fatalf("%+v", r)
	}
	for i, e := range r.Epochs {
		row := report.Rounds[i]
		if e.Epoch != row.Epoch || e.Reports != row.Reports || e.Epsilon != row.Epsilon || e.SoFar != row.SoFar ||
			(e.Lift == nil) != (row.Outcome != "released") || e.Lift != nil && *e.Lift != *row.Lift {
			t.Errorf("%+v is not %+v", e, row)
		}
	}
	var b bytes.Buffer
	if err := r.WriteJSON(&b); err != nil {
		t.Fatal(err)
	}
	var read struct {
		Cumulated struct {
			Low *float64 `json:"lift_low"`
		}
		SoFar  *float64 `json:"epsilon_so_far"`
		Epochs []struct {
			Effect *struct {
				Lift *float64 `json:"lift"`
				Low  *float64 `json:"lift_low"`
				High *float64 `json:"lift_high"`
			} `json:"effect"`
		}
	}
	if err := json.Unmarshal(b.Bytes(), &read); err != nil {
		t.Fatal(err)
	}
	if read.Cumulated.Low == nil || read.SoFar == nil || len(read.Epochs) != len(r.Epochs) ||
		read.Epochs[1].Effect != nil || read.Epochs[0].Effect.Lift == nil || read.Epochs[0].Effect.Low == nil ||
		read.Epochs[0].Effect.High == nil {
		t.Errorf("%+v in %s", read, b.String())
	}
	b.Reset()
	if err := r.WriteTable(&b); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{r.Verdict, "destroyed", "lift so far", "over the deployment", "up to 2 epochs",
		"up to 3 decisions"} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("no %q in\n%s", want, b.String())
		}
	}
	c, err := r.Chart()
	if err != nil || len(c.Series[0].X) != len(r.Epochs)-1 {
		t.Fatalf("%v: %+v", err, c)
	}
	if _, err := c.SVG(); err != nil {
		t.Error(err)
	}
}

// released is a report of one epoch with a lift.
func released(low, lift, high float64) *audit.Report {
	l := &audit.Lift{Reports: 40, Decisions: 2, Treated: 0.5 + lift, Control: 0.5, Lift: lift, Low: low, High: high}
	return &audit.Report{OK: true, Deployment: "shop", Lift: l, Rounds: []audit.Row{{Epoch: 1, Outcome: "released",
		Reports: 40, Epsilon: 0.5, Lift: l, Total: l}}}
}

// The verdict says what the interval shows and no more.
func TestVerdictIsWhatTheIntervalShows(t *testing.T) {
	for want, r := range map[string]*audit.Report{
		"is better":                            released(0.01, 0.05, 0.09),
		"is WORSE":                             released(-0.09, -0.05, -0.01),
		"It is not known yet whether":          released(0, 0.05, 0.1),
		"Nothing is known yet":                 unknown(),
		"Nothing was released yet":             {OK: true},
		"this deployment has no control group": nil,
	} {
		if r == nil {
			r = released(0, 0, 0)
			r.Lift, r.Rounds[0].Lift, r.Rounds[0].Total = nil, nil, nil
			if _, err := effect.Of(r).Chart(); !errors.Is(err, effect.ErrNoControl) {
				t.Errorf("a picture without a control group: %v", err)
			}
		}
		if got := effect.Of(r).Verdict; !strings.Contains(got, want) {
			t.Errorf("%q, want %q", got, want)
		}
	}
	for want, r := range map[string]*audit.Report{
		"good": released(0.01, 0.05, 0.09), "bad": released(-0.09, -0.05, -0.01), "": released(-0.01, 0.05, 0.11),
	} {
		if got := effect.Of(r).Tone(); got != want {
			t.Errorf("tone %q, want %q", got, want)
		}
	}
	bad := released(0.01, 0.05, 0.09)
	bad.OK, bad.Breaches = false, []audit.Breach{{What: audit.LiftWrong}}
	if r := effect.Of(bad); r.OK || r.Tone() != "bad" || r.Breaches != 1 ||
		!strings.Contains(strings.Join(r.Notes, " "), "THE AUDIT FOUND 1") {
		t.Errorf("%+v", r)
	}
}

// A change of the world is told at the learner's own level, or at Level; actions and unbounded epsilons are told.
func TestRemarks(t *testing.T) {
	r := released(0.01, 0.05, 0.09)
	r.Rounds[0].Unchanged, r.Rounds[0].Action, r.EpsilonSoFar = 0.005, "rollback", privacy.Epsilon(math.Inf(1))
	for _, x := range []struct {
		alarm   float64
		changed bool
	}{{0, true}, {0.05, true}, {0.001, false}} {
		r.Alarm = x.alarm
		got := effect.Of(r)
		if got.Epochs[0].Changed != x.changed || strings.Contains(got.Epochs[0].Remark(), "changed") != x.changed ||
			!strings.Contains(got.Epochs[0].Remark(), "rollback") {
			t.Errorf("at level %v: %+v, %q", x.alarm, got.Epochs[0], got.Epochs[0].Remark())
		}
		var b bytes.Buffer
		if err := got.WriteTable(&b); err != nil || !strings.Contains(b.String(), "no bound") {
			t.Errorf("%v in %s", err, b.String())
		}
	}
}

// unknown is a report of one epoch in which too few rewards came.
func unknown() *audit.Report {
	r := released(-1, 0, 1)
	r.Lift.Treated, r.Lift.Control = 0.5, 0.5
	return r
}

// Where nothing is known, no number and no picture says otherwise.
func TestNothingIsSaidOfWhatIsUnknown(t *testing.T) {
	r := effect.Of(unknown())
	var b bytes.Buffer
	if err := r.WriteTable(&b); err != nil || strings.Contains(b.String(), "0.5 ") ||
		!strings.Contains(b.String(), "unknown") {
		t.Errorf("%v in\n%s", err, b.String())
	}
	if _, err := r.Chart(); !errors.Is(err, effect.ErrNoControl) {
		t.Errorf("a picture of nothing: %v", err)
	}
}

// What left a panel that the analyzer refused is in what was spent, and the report says that it was refused.
func TestRefusedPanelsAreSpent(t *testing.T) {
	made := func(change func(*wire.Counts)) *effect.Result {
		return effect.Of(checked(t, ledger.Options{Configuration: ledger.Living(plan.Central, 2), Seed: 5,
			Tamper: ledger.Tamper{Counts: change}}))
	}
	all, refused := made(nil), made(func(c *wire.Counts) {
		if c.Epoch == 2 {
			c.Destroyed, c.Releases = true, nil
		}
	})
	var b bytes.Buffer
	if err := refused.WriteTable(&b); err != nil {
		t.Fatal(err)
	}
	if refused.OK || refused.Refused != 1 || !(refused.SoFar > 0) || refused.SoFar != refused.Epochs[1].SoFar ||
		!strings.Contains(b.String(), "refused by the analyzer after it had left") ||
		!strings.Contains(b.String(), "who refuses what they saw can choose what counts") {
		t.Errorf("%+v\n%s", refused, b.String())
	}
	if all.Refused != 0 || all.SoFar < refused.Epochs[0].SoFar || refused.Epochs[1].SoFar <= refused.Epochs[0].SoFar {
		t.Errorf("so far %v where all is counted, %v of one and %v of two where one is refused", all.SoFar,
			refused.Epochs[0].SoFar, refused.Epochs[1].SoFar)
	}
}
