package main

import (
	"errors"

	"github.com/spf13/cobra"

	"github.com/riffle-dp/riffle/internal/audit/empirical"
)

func auditCommand() *cobra.Command {
	o := empirical.DefaultOptions()
	var epsilon, json bool
	var read func() error
	cmd := &cobra.Command{
		Use:     "audit",
		Short:   "check what was mixed, what was learnt and what it cost",
		Long:    auditEpsilonHelp[1:],
		Example: "  riffle audit --epsilon\n  riffle audit --epsilon --channel shares --json",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if !epsilon {
				return errors.New("say what to audit: --epsilon measures epsilon from below")
			}
			if err := read(); err != nil {
				return err
			}
			return auditEpsilon(cmd, o, json)
		},
	}
	flags := cmd.Flags()
	flags.SortFlags = false
	flags.BoolVar(&epsilon, "epsilon", false, "measure epsilon from below, in this process")
	flags.BoolVar(&json, "json", false, "print the result as one JSON object")
	read = addEpsilonFlags(flags, &o)
	return cmd
}
