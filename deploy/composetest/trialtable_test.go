package composetest

import (
	"fmt"
	"os"
	"strings"
	"text/tabwriter"
	"time"
)

// The table's place in docs/operations.md.
const (
	tableBegin = "<!-- trial: written by deploy/trial --docs -->"
	tableEnd   = "<!-- trial: end -->"
)

func (r *row) verdict() string {
	if len(r.faults) == 0 {
		return "kept"
	}
	return "FAILED"
}

// saidAtMost bounds the bytes of a reason in the table.
const saidAtMost = 120

// ready tells who said that they are not ready, after how long, and the first one's reason.
func (r *row) ready() string {
	if len(r.notReady) == 0 {
		return "-"
	}
	var who []string
	for _, s := range r.notReady {
		who = append(who, fmt.Sprintf("%s after %.0f s", s.who, s.after.Seconds()))
	}
	why, _, _ := strings.Cut(r.notReady[0].why, "\n")
	if len(why) > saidAtMost {
		why = why[:saidAtMost] + "..."
	}
	return strings.Join(who, ", ") + ": \"" + why + "\""
}

func (r *row) line() string {
	return fmt.Sprintf("%s: enrolled %d, reported %d, %s; next cohort %s; said not ready: %s; %.0f s: %s %s %s",
		r.name, r.enrolled, r.reported, r.outcome, r.next, r.ready(),
		r.took.Seconds(), r.verdict(), strings.Join(r.faults, "; "), strings.Join(r.notes, "; "))
}

// report prints the table, and writes it into a file where RIFFLE_TRIAL_DOCS names one.
func report(rows []*row, took time.Duration) error {
	w := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "\nCASE\tENROLLED\tREPORTED\tOUTCOME\tNEXT COHORT\tSECONDS\tVERDICT")
	failed := 0
	for _, r := range rows {
		fmt.Fprintf(w, "%s\t%d\t%d\t%s\t%s\t%.0f\t%s\n", r.name, r.enrolled, r.reported, r.outcome,
			r.next, r.took.Seconds(), r.verdict())
		if len(r.faults) > 0 {
			failed++
		}
	}
	if err := w.Flush(); err != nil {
		return err
	}
	for _, r := range rows {
		for _, f := range r.faults {
			fmt.Printf("%s: %s\n", r.name, f)
		}
		for _, n := range r.notes {
			fmt.Printf("%s (%s)\n", r.name, n)
		}
		for _, n := range r.notReady {
			fmt.Printf("%s: not ready after %.1f s: %s: %s\n", r.name, n.after.Seconds(), n.who, n.why)
		}
	}
	path := os.Getenv("RIFFLE_TRIAL_DOCS")
	if path == "" {
		return nil
	}
	if failed > 0 {
		return fmt.Errorf("%s is not written: %d cases failed", path, failed)
	}
	var b strings.Builder
	fmt.Fprintf(&b,
		"%s\n| what happened | what must come of it | enrolled | reports at the broker in time "+
			"| outcome | said not ready | next cohort |\n|---|---|---|---|---|---|---|\n", tableBegin)
	for _, r := range rows {
		fmt.Fprintf(&b, "| %s | %s | %d | %d | %s | %s | %s |\n", r.name, r.expects, r.enrolled,
			r.reported, r.outcome, strings.ReplaceAll(r.ready(), "|", "/"), r.next)
	}
	fmt.Fprintf(&b, "\n%d cases in %.0f minutes.\n%s", len(rows), took.Minutes(), tableEnd)
	text, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	head, rest, ok := strings.Cut(string(text), tableBegin)
	_, tail, closed := strings.Cut(rest, tableEnd)
	if !ok || !closed {
		return fmt.Errorf("%s has no place for the table: %s", path, tableBegin)
	}
	return os.WriteFile(path, []byte(head+b.String()+tail), 0o644)
}
