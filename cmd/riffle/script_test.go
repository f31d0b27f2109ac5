package main

import (
	"flag"
	"fmt"
	"os"
	"runtime"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/riffle-dp/riffle/internal/analyzer"
	"github.com/riffle-dp/riffle/internal/container"
	"github.com/riffle-dp/riffle/internal/ingress"
	"github.com/riffle-dp/riffle/internal/issuer"
	"github.com/riffle-dp/riffle/internal/randomizer"
	"github.com/riffle-dp/riffle/internal/role"
	"github.com/riffle-dp/riffle/internal/shuffler"
	"github.com/riffle-dp/riffle/internal/shuffler/work"
	"github.com/riffle-dp/riffle/internal/testing/script"
)

// TestMain lets scripts call riffle and the roles: the test binary is each of them when it is called by its name.
// Tests here wait for processes more than they compute, so more of them run at the same time than there are processors,
// unless -parallel says otherwise.
func TestMain(m *testing.M) {
	if err := flag.Set("test.parallel", fmt.Sprint(max(4, runtime.GOMAXPROCS(0)))); err != nil {
		panic(err)
	}
	program := func(cmd *cobra.Command) func() { return func() { os.Exit(role.Main(cmd)) } }
	testscript.Main(m, map[string]func(){
		"riffle":     main,
		"randomizer": program(roleCommand("randomizer")),
		"shuffler":   program(roleCommand("shuffler")),
		"analyzer":   program(roleCommand("analyzer")),
		"ingress":    program(roleCommand("ingress")),
	})
}

// roleCommand is the command line of a role's own program; nil where no role has the name.
func roleCommand(name string) *cobra.Command {
	switch name {
	case "randomizer":
		return container.Equip(role.Command(randomizer.Role()), "http://127.0.0.1:9403/readyz")
	case "shuffler":
		return withWorkers(container.Equip(role.Command(shuffler.Role()), "http://127.0.0.1:9401/readyz"),
			container.Equip(role.Command(work.Role()), "http://127.0.0.1:9404/readyz"))
	case "analyzer":
		return withWorkers(container.Equip(role.Command(analyzer.Role()), "http://127.0.0.1:9402/readyz"),
			container.Equip(role.Command(analyzer.WorkerRole()), "http://127.0.0.1:9405/readyz"))
	case "ingress":
		return container.Equip(role.Command(ingress.Role()), "http://127.0.0.1:9406/readyz")
	case "issuer":
		return container.Equip(role.Command(issuer.Role()), "http://127.0.0.1:9407/readyz")
	}
	return nil
}

// The files in testdata/script say what the commands do, and are run.
func TestCommandsDoWhatTheirScriptsSay(t *testing.T) {
	t.Parallel()
	testscript.Run(t, testscript.Params{
		Dir:                "testdata/script",
		RequireUniqueNames: true,
		Cmds:               map[string]func(*testscript.TestScript, bool, []string){"json": script.JSON},
	})
}

// Every command and every flag says what it does.
func TestCommandsAndFlagsAreDocumented(t *testing.T) {
	var visit func(cmd *cobra.Command)
	visit = func(cmd *cobra.Command) {
		if len(strings.Fields(cmd.Short)) < 2 && cmd.HasParent() {
			t.Errorf("%s: %q", cmd.CommandPath(), cmd.Short)
		}
		cmd.Flags().VisitAll(func(f *pflag.Flag) {
			if len(strings.Fields(f.Usage)) < 2 {
				t.Errorf("%s --%s: %q", cmd.CommandPath(), f.Name, f.Usage)
			}
		})
		for _, c := range cmd.Commands() {
			visit(c)
		}
	}
	visit(root())
}
