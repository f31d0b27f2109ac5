package main

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/riffle-dp/riffle/internal/keyring/keyfile"
	"github.com/riffle-dp/riffle/pkg/privacy"
)

// checkConfidence refuses a level that no interval has. (0 is a default elsewhere, and would be printed.)
func checkConfidence(level float64) error {
	if !(level > 0 && level < 1) {
		return fmt.Errorf("--confidence is %v: give a number between 0 and 1, such as 0.95", level)
	}
	return nil
}

// warnDelta warns on standard error of a delta that is large for so many people.
func warnDelta(cmd *cobra.Command, delta float64, people int) {
	if warning := privacy.WarnDelta(delta, people); warning != "" {
		_, _ = fmt.Fprintf(cmd.ErrOrStderr(), "%s: warning: %s\n", cmd.CommandPath(), warning)
	}
}

// mostNamed bounds how many files a warning names.
const mostNamed = 3

// warnListed warns of private files at a path or below it that git has, or would take with its next "git add".
func warnListed(cmd *cobra.Command, path string) error {
	files, err := keyfile.ListInGit(path)
	if err != nil || len(files) == 0 {
		return err
	}
	_, err = fmt.Fprintf(cmd.ErrOrStderr(), "Warning: git does not leave out %s: %s.\nMove what it names out of the "+
		"work tree, or put it into .gitignore and run git rm --cached on it; replace keys that were ever pushed.\n",
		number(len(files), "private file"), strings.Join(files[:min(len(files), mostNamed)], ", "))
	return err
}

// number counts things.
func number(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}
