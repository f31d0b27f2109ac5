package main

import (
	"encoding/json"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/riffle-dp/riffle/internal/version"
)

func versionCommand() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "version",
		Short: "print which build this is: version, commit, Go version and platform",
		Long: `
Prints what the Go tool stamped into this binary: the version of the module, the commit and its time, whether there
were changes that were not committed, the version of Go, the operating system and the architecture. Each role prints
the same with --version.`[1:],
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			info := version.Read()
			if asJSON {
				return json.NewEncoder(cmd.OutOrStdout()).Encode(info)
			}
			_, err := fmt.Fprintf(cmd.OutOrStdout(), "riffle version %s\n", info)
			return err
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print one JSON object")
	return cmd
}
