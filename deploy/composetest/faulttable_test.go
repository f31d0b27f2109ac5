package composetest

import (
	"fmt"
	"os"
	"slices"
	"strings"
)

// The table's place in docs/operations.md.
const (
	faultsBegin = "<!-- faults: written by deploy/faults --update -->"
	faultsEnd   = "<!-- faults: end -->"
)

// writeFaults writes the table: a row for each fault, a column for each step, and what came of it before and after.
func writeFaults(path string, all []*faultCase, seed uint64) error {
	text, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	head, rest, ok := strings.Cut(string(text), faultsBegin)
	_, tail, closed := strings.Cut(rest, faultsEnd)
	if !ok || !closed {
		return fmt.Errorf("%s has no place for the table: %s", path, faultsBegin)
	}
	return os.WriteFile(path, []byte(head+faultsBegin+"\n"+faultTable(all, seed)+faultsEnd+tail), 0o644)
}

func faultTable(all []*faultCase, seed uint64) string {
	var b strings.Builder
	var outcomes, steps []string
	for _, p := range points {
		if !slices.Contains(steps, p.Step) {
			steps = append(steps, p.Step)
		}
	}
	letter := func(c *faultCase) string {
		if len(c.Violations) > 0 {
			c.Outcome = "VIOLATION: " + strings.Join(c.Violations, "; ")
		}
		if c.Outcome == "" {
			return "."
		}
		i := slices.Index(outcomes, c.Outcome)
		if i < 0 {
			i, outcomes = len(outcomes), append(outcomes, c.Outcome)
		}
		return string(rune('A' + i))
	}
	fmt.Fprintf(&b, "| fault | %s |\n|---|%s\n", strings.Join(steps, " | "), strings.Repeat("---|", len(steps)))
	for _, f := range faults {
		fmt.Fprintf(&b, "| %s |", f.name)
		for _, step := range steps {
			cells := []string{"-", "-"}
			for _, c := range all {
				if c.Second == "" && c.Fault == f.name && c.At.Step == step {
					at := 0
					if c.At.After {
						at = 1
					}
					cells[at] = letter(c)
				}
			}
			fmt.Fprintf(&b, " %s |", strings.Join(cells, " "))
		}
		b.WriteString("\n")
	}
	fmt.Fprintf(&b, "\nCombinations, drawn from seed %d:\n\n| faults, at the same time | when | outcome |\n|---|---|---|\n", seed)
	for _, c := range all {
		if c.Second != "" {
			fmt.Fprintf(&b, "| %s; %s | %s | %s |\n", c.Fault, c.Second, c.At, letter(c))
		}
	}
	b.WriteString("\nA dash stands where the fault does not apply: a link that is the role's own or, for the broker that loses all " +
		"writes, every point but \"after\" enrol, report, chunk, log and announce; for late reports, every point before the " +
		"commit and after the chunk; for the shuffler's refused writes, every step but report; and at a point that is one of " +
		"another step. A point stands where the run had no time left.\n")
	b.WriteString("\n| outcome | cells | |\n|---|---|---|\n")
	for i, o := range outcomes {
		n := 0
		for _, c := range all {
			if c.Outcome == o {
				n++
			}
		}
		fmt.Fprintf(&b, "| %c | %d | %s |\n", 'A'+i, n, o)
	}
	return b.String() + "\n"
}
