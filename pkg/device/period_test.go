package device

import (
	"encoding/json"
	"errors"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	_ "github.com/riffle-dp/riffle/internal/testing/fixedseed"
	"github.com/riffle-dp/riffle/pkg/plan"
	"github.com/riffle-dp/riffle/pkg/privacy"
	"github.com/riffle-dp/riffle/pkg/wire"
)

// timed is a plan of panels with a period whose epochs are at least so long.
func timed(t *testing.T, records, period int, every time.Duration) *plan.Announcement {
	t.Helper()
	a := panelPlan(t, records, period)
	a.Timing = plan.Timing{RewardWindow: time.Hour, Jitter: time.Minute, Grace: 5 * time.Minute, Every: every}
	return a
}

// A number of epochs is a time only by their least length: a plan whose announced times let a budget begin anew sooner
// than these people agreed to is refused, by default below a day for each epoch.
func TestAPeriodOfShortEpochsIsRefused(t *testing.T) {
	a := timed(t, 2, 28, 0)
	for _, c := range []struct {
		every    time.Duration
		period   uint32
		minEpoch time.Duration
		says     string
	}{
		{0, 28, 0, "may follow each other after 0s"},
		{time.Millisecond, 28, 0, "this device counts on 24h0m0s for each"},
		{24*time.Hour - time.Millisecond, 28, 24 * time.Hour, "may follow each other after 23h59m59.999s"},
		{24 * time.Hour, 28, 24 * time.Hour, "reports leave up to 1h6m0s after an epoch begins"},
		{24 * time.Hour, 29, 24 * time.Hour, ""},
		{24*time.Hour + 66*time.Minute, 28, 0, ""},
		{7 * 24 * time.Hour, 28, 7 * 24 * time.Hour, "no sooner than so long after"},
		{7 * 24 * time.Hour, 28, 0, ""},
		{time.Millisecond, 28, time.Nanosecond, "less than 28ns may lie between"},
		{time.Hour, 28, time.Minute, ""},
	} {
		l := DefaultLimits()
		l.Period, l.MinEpoch = 28, Duration(c.minEpoch)
		a.Timing.Every, a.Plan.Period = c.every, c.period
		_, _, err := l.check(a)
		var weak *WeakPlan
		if c.says == "" && err != nil ||
			c.says != "" && (!errors.As(err, &weak) || weak.Limit != "min_epoch" ||
				!strings.Contains(weak.Reason, c.says)) {
			t.Errorf("epochs of %v in periods of %d, least length %v: %v", c.every, c.period, c.minEpoch, err)
		}
	}
	a.Timing.Every, a.Plan.Period = 0, 0
	if _, _, err := DefaultLimits().check(a); err != nil {
		t.Errorf("a budget for the whole deployment needs no length of epochs: %v", err)
	}
}

// Limits as JSON name the length as text, and a number, which could be of any unit, is refused; so is what no epoch can
// be.
func TestTheLeastLengthOfAnEpochIsReadAsTime(t *testing.T) {
	l := DefaultLimits()
	if err := json.Unmarshal([]byte(`{"period": 52, "min_epoch": "168h"}`), &l); err != nil ||
		l.span() != 364*24*time.Hour {
		t.Errorf("%v, %v", l.span(), err)
	}
	if b := string(must(json.Marshal(l))); !strings.Contains(b, `"min_epoch":"168h0m0s"`) {
		t.Error(b)
	}
	for _, text := range []string{`{"min_epoch": 86400}`, `{"min_epoch": "a day"}`} {
		if err := json.Unmarshal([]byte(text), new(Limits)); err == nil {
			t.Errorf("%s is read", text)
		}
	}
	for _, of := range []struct {
		limits Limits
		fault  string
	}{
		{Limits{MinEpoch: -1}, "min_epoch"}, {Limits{MinEpoch: Duration(25 * 24 * time.Hour)}, "min_epoch"},
		{Limits{MinEpoch: Duration(24 * 24 * time.Hour)}, ""}, {Limits{Period: 1 << 16}, "period"},
	} {
		named := ""
		for _, f := range of.limits.Faults() {
			if f.Limit == "min_epoch" || f.Limit == "period" {
				named += f.Limit
			}
		}
		if named != of.fault {
			t.Errorf("%+v: faults of %q, want %q", of.limits, named, of.fault)
		}
	}
	if got := (Limits{Period: 52}).span(); got != 52*24*time.Hour {
		t.Errorf("52 epochs of no length are %v", got)
	}
	for _, period := range []int{5000, 1<<16 - 1} { // more than 292 years, which a time.Duration cannot hold
		if got := (Limits{Period: period, MinEpoch: Duration(24 * 24 * time.Hour)}).span(); got != math.MaxInt64 {
			t.Errorf("%d epochs of 24 days are %v", period, got)
		}
	}
}

// A malicious analyzer announces what the limits allow and publishes epochs when it likes; with the shuffler it chooses
// when reports are due. Whatever a person did, or reported, in any span of real time keeps to the limits, over restarts
// and with a clock that is set back; and one that keeps to its word is served in every period.
func TestNoTimetableSpendsABudgetTwice(t *testing.T) {
	const records, period = 2, 5
	a := timed(t, records, period, 25*time.Hour+time.Hour)
	l := DefaultLimits()
	l.Period = period
	core := must(New(Config{Limits: l}))
	span := l.span()
	g, alone, err := l.check(a)
	if err != nil {
		t.Fatal(err)
	}
	type use struct{ asked, due time.Time }
	lives := func(epoch uint64, gap func() time.Duration, due func() time.Duration, epochs int) (uses []use, s State) {
		s = core.NewState(3).Register().Confirm([]byte("yes"))
		now := start
		for range epochs {
			one := a.Clone()
			one.Epoch = epoch
			epoch++
			announced := &Announced{Announcement: one, Releases: 2, judged: judgedAs(g, alone), Span: span}
			after := due()
			if next, err := s.Ask(announced, now); err == nil {
				next = must(next.Promise(announced, &wire.EnrolReply{Enrolled: true, ReportAfter: after}, now))
				s = must(next.reported(one.Epoch))
				uses = append(uses, use{now, now.Add(after)})
			} else if !errors.Is(err, privacy.ErrRecordUsed) {
				t.Fatal(err)
			}
			var kept State
			if err := json.Unmarshal(must(json.Marshal(s)), &kept); err != nil {
				t.Fatal(err)
			}
			s = core.Restored(kept)
			now = now.Add(max(gap(), after)) // a panel's report leaves before the next epoch, or never
		}
		return uses, s
	}
	later, refused := 0, 0
	rapid.Check(t, func(rt *rapid.T) {
		long := rapid.SampledFrom([]time.Duration{time.Millisecond, span / 8, span / 3, span}).Draw(rt, "gap")
		epochs := rapid.IntRange(20, 40).Draw(rt, "epochs")
		uses, _ := lives(1, func() time.Duration {
			return time.Duration(rapid.Int64Range(0, int64(long)).Draw(rt, "next"))
		}, func() time.Duration {
			return time.Duration(rapid.Int64Range(0, int64(long)).Draw(rt, "due")).Truncate(time.Millisecond)
		}, epochs)
		refused += epochs - len(uses)
		for _, u := range uses { // what lies in, or touches, the span that begins when this one ends
			n := 0
			for _, v := range uses {
				if !v.due.Before(u.due) && v.asked.Before(u.due.Add(span)) {
					n++
				}
			}
			if eps := privacy.Repeat(g, n).Epsilon(l.Delta); n > records || eps > l.Epsilon {
				rt.Fatalf("%d records of epsilon %v within %v: %v", n, eps, span, uses)
			}
			if u.asked.Sub(start) >= span {
				later++
			}
		}
	})
	if !testing.Short() && (later < 50 || refused < 50) { // a short run has a fifth of the timetables
		t.Errorf("%d were served after the first span and %d refused: too few to show anything", later, refused)
	}
	honest := func() time.Duration { return a.Timing.Every }
	uses, s := lives(1, honest, func() time.Duration { return time.Hour + time.Minute }, 16)
	var served []time.Duration
	for _, u := range uses {
		served = append(served, u.asked.Sub(start)/a.Timing.Every)
	}
	if want := []time.Duration{0, 1, 5, 6, 10, 11, 15}; !slices.Equal(served, want) {
		t.Errorf("with an analyzer that keeps its word the device is served in epochs %v, want %v", served, want)
	}
	if text := s.Ledger.Explain(); !strings.Contains(text,
		"in any 5 epochs in a row, and in any 5 days by this device's clock") {
		t.Error(text)
	}
	back := &Announced{Announcement: a.Clone(), Releases: 2, judged: judgedAs(g, alone), Span: span}
	back.Epoch = 1000
	if _, err := s.Ask(back, start.Add(-span)); !errors.Is(err, privacy.ErrRecordUsed) ||
		!strings.Contains(err.Error(), "in any 5 days") {
		t.Errorf("a clock that was set back: %v", err)
	}
}
