// Command riffle is the way in for people: a demo on one machine, keys, a broker, and every role under one name.
package main

import (
	"os"

	"github.com/spf13/cobra"

	"github.com/riffle-dp/riffle/internal/analyzer"
	"github.com/riffle-dp/riffle/internal/randomizer"
	"github.com/riffle-dp/riffle/internal/role"
	"github.com/riffle-dp/riffle/internal/shuffler"
	"github.com/riffle-dp/riffle/internal/version"
)

func main() { os.Exit(role.Main(root())) }

func root() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "riffle",
		Short: "learn which decision works for whom, while nobody ever holds a person's data",
		Long: `Riffle learns which decision works for whom without anyone ever holding a person's context or reward. Devices decide locally with a
public policy and answer only with noisy, encrypted, single-bit messages; a shuffler mixes a whole cohort's bits; an analyzer counts
ones and publishes the next policy. The guarantee is (epsilon, delta) shuffle differential privacy.

Begin with: riffle demo`,
		SilenceErrors: true, SilenceUsage: true,
	}
	cmd.AddGroup(&cobra.Group{ID: "try", Title: "Try it:"}, &cobra.Group{ID: "run", Title: "Run it:"})
	add := func(group string, c *cobra.Command) {
		c.GroupID = group
		cmd.AddCommand(c)
	}
	add("try", demoCommand())
	add("try", planCommand())
	add("try", simulateCommand())
	add("try", evaluateCommand())
	add("run", keygenCommand())
	add("run", brokerCommand())
	add("run", role.Command(randomizer.Role()))
	add("run", role.Command(shuffler.Role()))
	add("run", role.Command(analyzer.Role()))
	add("run", loadCommand())
	cmd.AddCommand(versionCommand())
	return version.Flag(cmd)
}
