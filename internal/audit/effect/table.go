package effect

import (
	"fmt"
	"io"
	"strings"

	"github.com/jedib0t/go-pretty/v6/table"

	"github.com/riffle-dp/riffle/internal/audit"
	"github.com/riffle-dp/riffle/internal/chart"
	"github.com/riffle-dp/riffle/pkg/privacy"
)

// WriteTable writes the result for people: the verdict, the epochs, what people's privacy cost, and what the numbers
// mean.
func (r *Result) WriteTable(w io.Writer) error {
	var b strings.Builder
	fmt.Fprintf(&b, "%s\n\n", r.Verdict)
	if len(r.Epochs) > 0 {
		b.WriteString(r.table().Render() + "\n\n")
	}
	fmt.Fprintf(&b, "Epsilon of one person so far: %s; over %s: %s, at delta %g; promised is %g.\n", spell(r.SoFar),
		r.Span(),
		spell(r.Epsilon), r.Delta, r.Promise)
	b.WriteString("What was learnt, by the schema's names, is in riffle policy show.\n")
	if r.Running {
		b.WriteString("The deployment is still running, or its log ends early.\n")
	}
	b.WriteString("\n")
	for _, note := range r.Notes {
		b.WriteString("- " + note + "\n")
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// Span is what Epsilon is over.
func (r *Result) Span() string {
	if r.Panel != nil && r.Panel.Period > 0 {
		return fmt.Sprintf("a period of %d epochs", r.Panel.Period)
	}
	return "the deployment"
}

func (r *Result) table() table.Writer {
	header := []any{"Epoch", "outcome", "reports", "epsilon so far"}
	if r.Cumulated != nil {
		header = append(header, "decisions each", "reward, policy", "reward, control", "lift", "95 % interval",
			"lift so far",
			"95 % interval so far")
	}
	header = append(header, "remark")
	t := chart.Columns{}.Table(header...)
	for _, e := range r.Epochs {
		row := table.Row{e.Epoch, e.Outcome, e.Reports, spell(e.SoFar)}
		if r.Cumulated != nil {
			row = append(row, columns(e)...)
		}
		t.AppendRow(append(row, e.Remark()))
	}
	if l := r.Cumulated; l != nil {
		t.AppendRow(append(append(table.Row{"all", "", l.Reports, spell(r.SoFar)}, numbers(l)...), "", "", ""))
	}
	return t
}

// columns are the columns of a comparison with the control group.
func columns(e Epoch) table.Row {
	row := table.Row{"", "", "", "", ""}
	if e.Lift != nil {
		row = numbers(e.Lift)
	}
	if l := e.Cumulated; l != nil && l.Known() {
		return append(row, WithSign(l.Lift), fmt.Sprintf("%s to %s", WithSign(l.Low), WithSign(l.High)))
	}
	return append(row, "", "")
}

func numbers(l *Lift) table.Row {
	if !l.Known() {
		return table.Row{fmt.Sprintf("%.2f", l.Decisions), "", "", "unknown", ""}
	}
	treated, control, lift := l.Shown()
	return table.Row{fmt.Sprintf("%.2f", l.Decisions), treated, control, lift,
		fmt.Sprintf("%s to %s", WithSign(l.Low), WithSign(l.High))}
}

// Remark is what there is to say of an epoch.
func (e Epoch) Remark() string {
	var all []string
	if e.Changed {
		all = append(all, fmt.Sprintf("the world changed (p = %.2g)", *e.Unchanged))
	}
	if e.Outcome == audit.RefusedOutcome {
		all = append(all, "refused by the analyzer after it had left")
	}
	if e.Action != "" {
		all = append(all, "by the rules: "+e.Action)
	}
	return strings.Join(all, "; ")
}

// spell is an epsilon for people.
func spell(e privacy.Epsilon) string {
	if v := float64(e); finite(v) {
		return privacy.Spell(v)
	}
	return "no bound"
}
