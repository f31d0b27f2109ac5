package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/riffle-dp/riffle/internal/audit/explain"
	"github.com/riffle-dp/riffle/internal/command"
)

// auditExplainCommand is riffle audit explain.
func auditExplainCommand() *cobra.Command {
	f := &auditFlags{}
	cmd := &cobra.Command{
		Use:   "explain WHAT [FOLDER]",
		Short: "say in plain words what one release, epoch, plan or breach is",
		Long: `
Says in plain words what happened: who saw what, what was released and what it cost, what was refused and why, whose
noise protects each person, and where each signed statement is in the logs. WHAT is one of

  release 3.0     round 0 of epoch 3; also "release 3" or just "3" where the epoch has one round
  epoch 3         all rounds of epoch 3
  plan 3          what was announced for epoch 3 before anybody took part
  log_rewound     the name of a breach: what it means and who can have done it; no logs are needed

It reads an export in FOLDER, or without one a running deployment, and audits it first: what the audit found about WHAT
is told at the end. The exit code does not depend on that; use riffle audit to judge.`[1:],
		Example: `  riffle audit explain release 3.0 out/audit --trust bundle.json
  riffle audit explain plan 1 out/audit --json
  riffle audit explain split_view`,
		Args: cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			q, rest, err := explain.Parse(args)
			if err != nil {
				return err
			}
			if len(rest) > 1 {
				return fmt.Errorf("one folder can be read, and %q are given", rest)
			}
			answer, err := f.explain(cmd, q, rest)
			if err != nil {
				return err
			}
			if f.json {
				return command.PrintJSON(cmd, answer)
			}
			return answer.Write(cmd.OutOrStdout())
		},
	}
	flags := cmd.Flags()
	flags.SortFlags = false
	f.add(flags)
	flags.BoolVar(&f.json, "json", false, "print the facts and the sentences as one JSON object")
	return cmd
}

// explain answers a question from an export or a running deployment. A kind of breach needs neither.
func (f *auditFlags) explain(cmd *cobra.Command, q explain.Question, folder []string) (*explain.Answer, error) {
	if q.Subject == explain.Breach && len(folder) == 0 {
		return explain.OfBreach(q.What, nil), nil
	}
	ctx, stop := command.UntilStopped(cmd)
	defer stop()
	o, err := f.options()
	if err != nil {
		return nil, err
	}
	source, _, end, err := f.source(ctx, cmd, folder, &o)
	if err != nil {
		return nil, err
	}
	defer end()
	return explain.Of(ctx, q, source, o)
}
