package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/riffle-dp/riffle/internal/chart"
)

// simulated is what a simulation found.
type simulated interface {
	Picture() chart.Chart
	WriteJSON(w io.Writer) error
	WriteTable(w io.Writer, markdown bool) error
}

// showSimulated saves a result as NAME.png and NAME.json in a folder, which is made, and prints it as JSON, or as a
// table with the picture's path.
func showSimulated(cmd *cobra.Command, result simulated, folder, name string, asJSON, markdown bool) error {
	if err := os.MkdirAll(folder, 0o755); err != nil {
		return err
	}
	picture := filepath.Join(folder, name+".png")
	if err := result.Picture().Save(picture); err != nil {
		return err
	}
	file, err := os.Create(filepath.Join(folder, name+".json"))
	if err != nil {
		return err
	}
	if err := errors.Join(result.WriteJSON(file), file.Close()); err != nil {
		return err
	}
	if asJSON {
		return result.WriteJSON(cmd.OutOrStdout())
	}
	if err := result.WriteTable(cmd.OutOrStdout(), markdown); err != nil {
		return err
	}
	_, err = fmt.Fprintln(cmd.OutOrStdout(), "Picture:", picture)
	return err
}
