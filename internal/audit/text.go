package audit

import (
	"encoding/json"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"
	"text/tabwriter"
	"unicode"

	"github.com/riffle-dp/riffle/pkg/deployment"
	"github.com/riffle-dp/riffle/pkg/privacy"
)

// WriteJSON writes the report as one JSON object.
func (r *Report) WriteJSON(w io.Writer) error {
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	return e.Encode(r)
}

// Verdict is the result in one sentence.
func (r *Report) Verdict() string {
	if n := len(r.Breaches) + r.Unlisted; n > 0 {
		return fmt.Sprintf("BREACH: %d found in the logs of the deployment %s.", n, r.Deployment)
	}
	return fmt.Sprintf("No breach: everything in the logs of the deployment %s that was checked is as it must be.",
		r.Deployment)
}

// WriteTable writes the report for people: the verdict, what was checked, the rounds where there are any, the breaches,
// and what was not checked.
func (r *Report) WriteTable(w io.Writer) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	line := func(format string, v ...any) { // Flush tells of errors
		for i := range v {
			if text, ok := v[i].(string); ok {
				v[i] = printable(text)
			}
		}
		_, _ = fmt.Fprintf(t, format+"\n", v...)
	}
	line("%s", r.Verdict())
	line("")
	line("channel\t%s", r.Channel)
	line("entries\t%d of the analyzer, %d of the shuffler", r.Entries.Analyzer, r.Entries.Shuffler)
	line("rounds\t%s", r.outcomes())
	line("recomputed\t%d rounds: sums, iterate, policy and epsilon are those that the analyzer signed",
		r.PoliciesRecomputed)
	protected := "one person's record"
	if r.Panel != nil {
		protected = r.Panel.Unit()
	}
	line("epsilon\t%s of %s, at delta %g", spell(r.Epsilon), protected, r.Delta)
	line("alone\t%s if no other device is honest", spell(r.EpsilonAlone))
	if q := r.Panel; q != nil {
		line("so far\t%s, of who was in as many panels as can be", spell(r.EpsilonSoFar))
		line("panels\t%d drawn, each from at least %d registered devices", q.Drawn, q.Registered)
	}
	if l := r.Lift; l != nil && l.Known() {
		line("lift\t%+.3g of reward in a decision over the control group (95 %% interval %+.3g to %+.3g)", l.Lift,
			l.Low, l.High)
	}
	if r.WrongShare != "" {
		line("no lift\t%s", r.WrongShare)
	}
	if r.Opened > 0 {
		line("retained\t%d releases opened, %d counted again", r.Opened, r.Recounted)
	}
	for _, one := range r.Issuers {
		of := ""
		if one.Withdrawn {
			of = "; withdrawn"
		}
		line("issuer\t%s issued %d of at most %d, for epochs %d to %d%s", one.Log, one.Issued, one.Installations,
			one.First, one.Last, of)
	}
	if d := r.TookPart; d != nil {
		by := "of the registrar it is not known"
		if d.Registrar != nil {
			by = fmt.Sprintf("the registrar let in %d", *d.Registrar)
		}
		line("took part\tat least %d devices; issuers let in %d, %s", d.Devices, d.Issued, by)
	}
	for _, one := range r.Witnessed {
		line("witness\t%s saw %d entries of the %s on %s", one.Witness, one.Size, one.Role,
			one.At.Format("2006-01-02 15:04:05Z"))
	}
	if len(r.Rounds) > 0 {
		line("\nround\toutcome\tdevices\treports\tmessages\trefused\tone device\tepsilon")
	}
	for _, one := range r.Rounds {
		refused := uint64(0)
		for _, why := range one.Refused {
			refused += why.Reports
		}
		line("%s\t%s\t%d\t%d\t%d\t%d\t%s\t%s", place(one.Epoch, one.Round), one.Outcome, one.Enrolled, one.Reports,
			one.Messages, refused, spellDeviations(one.Moved), spell(one.Epsilon))
	}
	if slices.ContainsFunc(r.Rounds, func(one Row) bool { return one.Moved > 0 }) {
		line("\nOne device: the most by which a dishonest device can have moved a released number, in standard " +
			"deviations of its error.")
	}
	for _, one := range r.Rounds {
		if a := one.Answer; a != nil {
			line("\n%s %s, asked in epoch %d\testimate\tfrom (95 %%)\tto", string(a.Kind), a.Name, a.Epoch)
			for _, v := range append([]deployment.Estimated{a.Count}, a.Values...) {
				value, low, high := v.Spell()
				line("%s\t%s\t%s\t%s", v.Of, value, low, high)
			}
		}
	}
	if len(r.Breaches) > 0 {
		line("")
	}
	for _, b := range r.Breaches {
		at := b.Entry
		if b.Release != "" {
			at += ", round " + b.Release
		}
		line("%s in %s: %s.", b.What, at, b.Detail)
	}
	if r.Unlisted > 0 {
		line("%d further breaches are not listed.", r.Unlisted)
	}
	if len(r.Notes) > 0 {
		line("\nNot checked, or good to know:")
	}
	for _, note := range r.Notes {
		line("- %s", note)
	}
	return t.Flush()
}

// outcomes says how the rounds ended.
func (r *Report) outcomes() string {
	text := fmt.Sprintf("%d released and counted, %d destroyed by the shuffler", r.Releases, r.Destroyed-r.Refused)
	if r.Enough > 0 {
		text += fmt.Sprintf(" (%d of them with reports enough)", r.Enough)
	}
	if r.Refused > 0 {
		text += fmt.Sprintf(", %d REFUSED BY THE ANALYZER after they had left: spent all the same", r.Refused)
	}
	return text
}

// printable is text without what moves a terminal's cursor: the names of files in an export are whoever made it's.
func printable(text string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case unicode.IsPrint(r):
			return r
		case r == '\n':
			return ' '
		}
		return unicode.ReplacementChar
	}, text)
}

// spellDeviations is a number of standard deviations; a dash where nothing was moved.
func spellDeviations(deviations float64) string {
	if deviations == 0 {
		return "-"
	}
	return fmt.Sprintf("%.2f", deviations)
}

// spell is an epsilon for people.
func spell(e privacy.Epsilon) string {
	if v := float64(e); !math.IsInf(v, 0) && !math.IsNaN(v) {
		return "at most " + privacy.Spell(v)
	}
	return "nothing bounds what is revealed"
}
