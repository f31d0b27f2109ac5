package main

import (
	"encoding/json"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/riffle-dp/riffle/pkg/privacy"
)

// A result is what a run ends with.
type result interface {
	WriteJSON(io.Writer) error
	WriteTable(io.Writer) error
}

// printResult prints a result as one JSON object, or as a table.
func printResult(cmd *cobra.Command, r result, asJSON bool) error {
	if asJSON {
		return r.WriteJSON(cmd.OutOrStdout())
	}
	return r.WriteTable(cmd.OutOrStdout())
}

// printJSON prints a value as one JSON object.
func printJSON(cmd *cobra.Command, v any) error { return writeJSON(cmd.OutOrStdout(), v) }

func writeJSON(w io.Writer, v any) error {
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	return e.Encode(v)
}

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
