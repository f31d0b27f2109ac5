package main

import (
	"encoding/json"
	"io"

	"github.com/spf13/cobra"
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
