// Command riffle-lab is the command line for researchers: experiments, tests of the shuffler's orders, a lower bound on
// epsilon, and what a deployment costs.
package main

import (
	"os"

	"github.com/spf13/cobra"

	"github.com/riffle-dp/riffle/internal/drive/cluster"
	"github.com/riffle-dp/riffle/internal/role"
	"github.com/riffle-dp/riffle/internal/version"
)

func main() { os.Exit(role.Main(root())) }

func root() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "riffle-lab",
		Short: "experiments with Riffle's learners, channels and noise",
		Long: `
The laboratory of Riffle, for researchers. It repeats experiments with private learners, and measures what
the system costs and hides. It protects no one: simulations draw their noise from seeds. For a
deployment there is riffle.

  riffle-lab simulate --list        the committed experiments, each with its paper and its time
  riffle-lab simulate headline      what privacy costs in regret
  riffle-lab epsilon                attack releases, and bound epsilon from below

lab/docs/results.md says what came of it, lab/docs/papers.md which algorithm of which paper is where.
`[1:],
		SilenceErrors: true, SilenceUsage: true,
	}
	cmd.AddCommand(simulateCommand(), shufflecheckCommand(), epsilonCommand(), benchCommand())
	for _, c := range cluster.Commands() { // bench and shufflecheck start deployments of this program
		c.Hidden = true
		cmd.AddCommand(c)
	}
	return version.Flag(cmd)
}
