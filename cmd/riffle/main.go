// Command riffle is the command line for people: a demo on one machine, plans and simulations, keys, a broker, a load
// test, and every role under one name.
package main

import (
	"encoding/json"
	"fmt"
	"os"

	"github.com/spf13/cobra"

	"github.com/riffle-dp/riffle/internal/analyzer"
	"github.com/riffle-dp/riffle/internal/ingress"
	"github.com/riffle-dp/riffle/internal/issuer"
	"github.com/riffle-dp/riffle/internal/randomizer"
	"github.com/riffle-dp/riffle/internal/role"
	"github.com/riffle-dp/riffle/internal/shuffler"
	"github.com/riffle-dp/riffle/internal/shuffler/work"
	"github.com/riffle-dp/riffle/internal/version"
)

func main() { os.Exit(role.Main(root())) }

func root() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "riffle",
		Short: "learn which decision works for whom, without collecting any person's data",
		Long: `
Riffle learns which decision works for whom (a reminder, an offer, an exercise) without collecting any
person's data. Devices decide by themselves, with a public policy, and answer only with noisy, sealed
messages about sums over many people. Every device computes its own guarantee of differential privacy.

  riffle demo              watch three processes learn from 5000 people; some minutes
  riffle plan --users N    see what privacy costs N people before anything runs

It needs some thousands of people, a choice among a few options described by up to about 20 numbers,
and a reward within a fixed time. README.md says when not to use it, docs/tutorial.md how to begin.
`[1:],
		SilenceErrors: true, SilenceUsage: true,
	}
	for _, group := range []struct {
		id, title string
		commands  []*cobra.Command
	}{
		{"try", "Try it:", []*cobra.Command{
			demoCommand(), planCommand(), evaluateCommand(), replayCommand(), fitCommand(), trialCommand(),
		}},
		{"check", "Check it:", []*cobra.Command{auditCommand(), verifyCommand(), reportCommand(), policyCommand(),
			witnessCommand()}},
		{"run", "Run it:", []*cobra.Command{
			keygenCommand(), brokerCommand(), role.Command(randomizer.Role()),
			withWorkers(role.Command(shuffler.Role()), role.Command(work.Role())),
			withWorkers(role.Command(analyzer.Role()), role.Command(analyzer.WorkerRole())),
			role.Command(ingress.Role()), role.Command(issuer.Role()), askCommand(), loadCommand(),
		}},
	} {
		cmd.AddGroup(&cobra.Group{ID: group.id, Title: group.title})
		for _, c := range group.commands {
			c.GroupID = group.id
			cmd.AddCommand(c)
		}
	}
	cmd.AddCommand(versionCommand())
	return version.Flag(cmd)
}

// withWorkers is a role's command with that of its workers below it.
func withWorkers(lead, worker *cobra.Command) *cobra.Command {
	lead.AddCommand(worker)
	return lead
}

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
