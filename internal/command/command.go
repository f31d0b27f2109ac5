// Package command has what the commands for people share: how they print results, how they are interrupted, and their
// exit codes.
package command

import (
	"context"
	"encoding/json"
	"io"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"
)

// ExitBreach is the exit code of a command that looked, and found a breach.
const ExitBreach = 4

// UntilStopped is a context that ends when the process is asked to end: by Ctrl-C or by SIGTERM.
func UntilStopped(cmd *cobra.Command) (context.Context, context.CancelFunc) {
	return signal.NotifyContext(cmd.Context(), os.Interrupt, syscall.SIGTERM)
}

// A Result is what a run ends with.
type Result interface {
	WriteJSON(io.Writer) error
	WriteTable(io.Writer) error
}

// Print prints a result as one JSON object, or as a table.
func Print(cmd *cobra.Command, r Result, asJSON bool) error {
	if asJSON {
		return r.WriteJSON(cmd.OutOrStdout())
	}
	return r.WriteTable(cmd.OutOrStdout())
}

// PrintJSON prints a value as one JSON object.
func PrintJSON(cmd *cobra.Command, v any) error { return WriteJSON(cmd.OutOrStdout(), v) }

// WriteJSON writes a value as one JSON object.
func WriteJSON(w io.Writer, v any) error {
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	return e.Encode(v)
}
