package main

import (
	"bytes"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/spf13/cobra"

	"github.com/riffle-dp/riffle/internal/role"
)

// Nobody's terminal breaks the help of a command, or of a role.
func TestHelpFitsATerminal(t *testing.T) {
	trees := []*cobra.Command{root()}
	for _, name := range roleNames {
		trees = append(trees, roleCommand(name))
	}
	var examine func(cmd *cobra.Command)
	examine = func(cmd *cobra.Command) {
		var out bytes.Buffer
		cmd.SetOut(&out)
		if err := cmd.Help(); err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(out.String()) {
			line = strings.ReplaceAll(strings.TrimRight(line, "\n"), "\t", "        ")
			if n := utf8.RuneCountInString(line); n > role.HelpColumns {
				t.Errorf("%s --help has a line of %d columns: %s", cmd.CommandPath(), n, line)
			}
		}
		for _, c := range cmd.Commands() {
			examine(c)
		}
	}
	for _, tree := range trees {
		role.FitHelp(tree)
		examine(tree)
	}
}
