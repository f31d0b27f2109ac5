package chart

import (
	"strings"

	"github.com/jedib0t/go-pretty/v6/text"
)

// terminal is the width in characters that tables and the notes below them fit.
const terminal = 100

// Notes writes notes below a table for a terminal: each one behind a dash, its lines broken at terminal.
func Notes(notes []string) string {
	var b strings.Builder
	for _, note := range notes {
		lines := strings.Split(text.WrapSoft(note, terminal-len("- ")), "\n")
		for i, line := range lines {
			lead := "- "
			if i > 0 {
				lead = "  "
			}
			b.WriteString(lead + strings.TrimRight(line, " ") + "\n")
		}
	}
	return b.String()
}
