package role

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// HelpColumns is the width that every help text fits: that of a terminal beside an editor.
const HelpColumns = 100

// FitHelp makes the help of a command, and of all below it, fit HelpColumns: paragraphs and the texts of flags are
// broken there. Indented lines stay as they are.
func FitHelp(cmd *cobra.Command) {
	cmd.SetUsageTemplate(strings.ReplaceAll(cmd.UsageTemplate(), ".FlagUsages ",
		fmt.Sprintf(".FlagUsagesWrapped %d ", HelpColumns)))
	fitLong(cmd)
}

func fitLong(cmd *cobra.Command) {
	cmd.Long = paragraphs(cmd.Long)
	cmd.LocalFlags().VisitAll(func(f *pflag.Flag) { f.Usage = strings.ReplaceAll(f.Usage, "\n", " ") })
	for _, c := range cmd.Commands() {
		fitLong(c)
	}
}

// paragraphs fills the paragraphs of a text anew. A paragraph ends at an empty or an indented line.
func paragraphs(text string) string {
	var b strings.Builder
	column := 0
	end := func() {
		if column > 0 {
			b.WriteByte('\n')
		}
		column = 0
	}
	for line := range strings.Lines(text) {
		words := strings.Fields(line)
		if len(words) == 0 || strings.TrimLeft(line, " \t") != line {
			end()
			b.WriteString(line)
			continue
		}
		for _, word := range words {
			width := len([]rune(word))
			switch {
			case column == 0:
			case column+1+width > HelpColumns:
				end()
			default:
				b.WriteByte(' ')
				column++
			}
			b.WriteString(word)
			column += width
		}
	}
	end()
	return b.String()
}
