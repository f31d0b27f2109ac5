// Package page shows the result of an audit as one HTML file: for a data-protection officer first, with plots, and
// nothing that a browser would load from elsewhere. It has no scripts. All that comes from the logs is untrusted text,
// which html/template escapes.
package page

import (
	"embed"
	"fmt"
	"html/template"
	"io"
	"math"
	"strings"

	"github.com/riffle-dp/riffle/internal/audit"
	"github.com/riffle-dp/riffle/internal/audit/effect"
	"github.com/riffle-dp/riffle/internal/audit/explain"
	"github.com/riffle-dp/riffle/pkg/deployment"
	"github.com/riffle-dp/riffle/pkg/privacy"
	"github.com/riffle-dp/riffle/pkg/wire"
)

//go:embed *.html
var sources embed.FS

// pages are the templates: page.html of an audit, effect.html of what the control group shows, and parts of both.
var pages = template.Must(template.New("pages").Funcs(template.FuncMap{
	"eps": spell, "reason": reasonWords, "signed": effect.WithSign, "number": number,
}).ParseFS(sources, "*.html"))

const (
	// lastListed is how many of the last rounds the table lists.
	lastListed = 50
	// oddListed bounds the earlier rounds that it lists because there is something to say of them.
	oddListed = 200
	// panels bounds the coefficients that are drawn.
	panels = 12
)

// view is what the template shows.
type view struct {
	*audit.Report
	Verdict   string
	Alarm     bool
	Found     int // breaches, those that are not listed included
	Breached  []breach
	Promised  string
	RestsOn   string
	Views     []explain.View
	Condition string // what the table of Views assumes; empty: nothing
	Plots     []plot
	Refusals  []refusal
	Refused   uint64
	Effect    *effectView // nil without a control group
	Learned   []plot
	Left      int // coefficients that are not drawn
	Interval  string
	Answers   []answer
	Listed    []row
	Unshown   int // rounds that are not listed
	Last      int
	AllRounds int
}

// breach is a breach with what its kind means.
type breach struct {
	audit.Breach
	Means, By string
}

// refusal is the total of a reason over all rounds.
type refusal struct {
	Reason, Means string
	Reports       uint64
	Share         float64 // of the most frequent one, in percent
}

// answer is what a panel answered.
type answer struct {
	*deployment.Answer
	Numbers []told
}

// told is a number with its interval, or dashes.
type told struct{ Of, Value, Low, High string }

// row is a round of the table.
type row struct {
	audit.Row
	Refusals uint64
	Odd      string // what there is to say of it; empty: nothing
	Breached bool
}

// Write writes the page of a report; Rounds of it are the rounds that are shown. The error is the writer's.
func Write(w io.Writer, r *audit.Report) error {
	v := view{
		Report: r, Found: len(r.Breaches) + r.Unlisted, Alarm: !r.OK, AllRounds: len(r.Rounds), Last: lastListed,
		Views: explain.Views(r.Channel), Refusals: []refusal{},
	}
	v.Verdict = verdict(r, v.Found)
	if v.Views != nil {
		v.RestsOn, v.Condition = r.Channel.RestsOn(), explain.Condition(r.Channel)
		v.Promised = r.Channel.Promise(float64(r.Epsilon), float64(r.EpsilonAlone), r.Delta)
	}
	means := map[audit.What]audit.Explanation{}
	for _, e := range audit.Explanations() {
		means[e.What] = e
	}
	at := map[string]bool{}
	for _, b := range r.Breaches {
		v.Breached, at[b.Release] = append(v.Breached, breach{b, means[b.What].Means, means[b.What].By}), true
	}
	v.refusals()
	v.plots()
	v.list(at)
	if r.Lift != nil {
		v.Effect = effectOf(effect.Of(r))
	}
	return pages.ExecuteTemplate(w, "page.html", v)
}

// verdict is the result in words of people who do not run it.
func verdict(r *audit.Report, found int) string {
	switch {
	case found == 1:
		return "One thing is wrong. Do not rely on what this deployment says until it is explained."
	case found > 1:
		return fmt.Sprintf("%d things are wrong. Do not rely on what this deployment says until they are explained.",
			found)
	case !r.OK:
		return "Something is wrong. Do not rely on what this deployment says until it is explained."
	case r.Releases+r.Destroyed == 0:
		return "Nothing is wrong so far, and no round is over yet."
	}
	return "Nothing is wrong in what was checked."
}

// refusals adds up what was refused, by reason, in the order of the reasons' numbers; unknown ones come last.
func (v *view) refusals() {
	total, most := map[string]uint64{}, uint64(0)
	for _, one := range v.Rounds {
		for _, why := range one.Refused {
			total[why.Reason] += why.Reports
			v.Refused += why.Reports
		}
	}
	for _, n := range total {
		most = max(most, n)
	}
	for _, why := range append(wire.Refusals(), wire.NoRefusal) {
		if n := total[why.String()]; n > 0 {
			v.Refusals = append(v.Refusals, refusal{why.String(), why.Means(), n, 100 * float64(n) / float64(most)})
		}
	}
}

// list picks the rounds of the table, the last ones, and of the earlier ones those of which there is something to say;
// and what was answered in them.
func (v *view) list(breached map[string]bool) {
	odd := 0
	for i, one := range v.Rounds {
		x := row{Row: one}
		for _, why := range one.Refused {
			x.Refusals += why.Reports
		}
		switch {
		case breached[fmt.Sprintf("%d.%d", one.Epoch, one.Round)]:
			x.Odd, x.Breached = "breach", true
		case one.Outcome == wire.Destroyed.String():
			x.Odd = tellDestroyed(one)
		case one.Outcome != wire.Released.String():
			x.Odd = "not counted by the analyzer, and spent"
		case x.Refusals > 0:
			x.Odd = "reports refused"
		}
		last := i >= len(v.Rounds)-lastListed
		if !last && (x.Odd == "" || odd == oddListed && !x.Breached) {
			v.Unshown++
			continue
		}
		if !last {
			odd++
		}
		v.Listed = append(v.Listed, x)
		if a := one.Answer; a != nil {
			of := answer{Answer: a}
			for _, e := range append([]deployment.Estimated{a.Count}, a.Values...) {
				value, low, high := e.Spell()
				of.Numbers = append(of.Numbers, told{e.Of, value, low, high})
			}
			v.Answers = append(v.Answers, of)
		}
	}
}

// tellDestroyed is what there is to say of a cohort that the shuffler destroyed.
func tellDestroyed(one audit.Row) string {
	text := fmt.Sprintf("fewer than %d reports, says the shuffler", one.Minimum)
	if one.Reports >= one.Minimum {
		text = "destroyed although reports were enough"
	}
	if one.Left {
		text += "; a part may have left before"
	}
	return text
}

// spell is an epsilon for people.
func spell(e privacy.Epsilon) string {
	if v := float64(e); !math.IsInf(v, 0) && !math.IsNaN(v) {
		return privacy.Spell(v)
	}
	return "no bound"
}

// reasonWords is a reason as people read it.
func reasonWords(reason string) string { return strings.ReplaceAll(reason, "_", " ") }
