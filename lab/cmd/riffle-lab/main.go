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
The laboratory of Riffle. It runs learners against synthetic and recorded people in one process, with the policies,
plans, encodings and noise that a deployment has; tests whether orders are uniformly random; bounds epsilon from below
by attacks; and measures what a deployment costs on this machine. It protects no one: simulations draw their noise from
seeds. For a deployment there is riffle.

Begin with: riffle-lab simulate --list`[1:],
		SilenceErrors: true, SilenceUsage: true,
	}
	cmd.AddCommand(simulateCommand(), shufflecheckCommand(), epsilonCommand(), benchCommand())
	for _, c := range cluster.Commands() { // bench and shufflecheck start deployments of this program
		c.Hidden = true
		cmd.AddCommand(c)
	}
	return version.Flag(cmd)
}
