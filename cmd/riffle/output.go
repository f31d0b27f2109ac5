package main

import (
	"fmt"

	"github.com/spf13/cobra"

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
