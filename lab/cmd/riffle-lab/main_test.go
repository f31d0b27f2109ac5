package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/rogpeppe/go-internal/testscript"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/riffle-dp/riffle/internal/role"
	"github.com/riffle-dp/riffle/internal/testing/examples"
	"github.com/riffle-dp/riffle/internal/testing/script"
	"github.com/riffle-dp/riffle/lab/experiment"
)

// TestMain lets scripts call riffle-lab: the test binary is it when it is called by its name.
func TestMain(m *testing.M) { testscript.Main(m, map[string]func(){"riffle-lab": main}) }

// The files in testdata/script say what the commands do, and are run.
func TestCommandsDoWhatTheirScriptsSay(t *testing.T) {
	testscript.Run(t, testscript.Params{
		Dir:                "testdata/script",
		RequireUniqueNames: true,
		Cmds:               map[string]func(*testscript.TestScript, bool, []string){"json": script.JSON},
	})
}

// The examples of all documents that are the laboratory's are right. Those of riffle and the roles are checked in
// cmd/riffle.
func TestExamplesInDocumentsAreRight(t *testing.T) {
	if testing.Short() {
		t.Skip("nothing of it runs at the same time as anything else")
	}
	e := examples.New(t, examples.Options{
		Root:     filepath.Join("..", "..", ".."),
		Commands: map[string]func() *cobra.Command{"riffle-lab": root},
		YAML: map[string]func(path string) error{
			"experiment": func(path string) error {
				_, err := experiment.Load(path)
				return err
			},
		},
	})
	mine := "{name: x, environments: [{kind: ball, dimension: 2, arms: 3}], horizons: [9], epsilons: [1], seeds: 1, "
	for text, right := range map[string]bool{
		"riffle-lab simulate headline --seeds 2":      true,
		"riffle-lab simulate headline --seed 2":       false,
		mine + "algorithms: [{name: uniform}]}":       true,
		mine + "algorithms: [{name: uniform}], x: 1}": false,
	} {
		kind := "sh"
		if strings.HasPrefix(text, "{") {
			kind = "yaml experiment"
		}
		if faults, _ := e.Examine("```" + kind + "\n" + text + "\n```\n"); (len(faults) == 0) != right {
			t.Errorf("%s: %v", text, faults)
		}
	}
	for _, path := range e.Pages(t) {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		faults := e.ExamineOwn(string(text))
		for _, err := range faults {
			t.Errorf("%s, %v", path, err)
		}
	}
}

// Every command and every flag says what it does, and nobody's terminal breaks the help.
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
		var out bytes.Buffer
		cmd.SetOut(&out)
		if err := cmd.Help(); err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(out.String()) {
			line = strings.ReplaceAll(strings.TrimRight(line, "\n"), "\t", "        ")
			if n := utf8.RuneCountInString(line); n > role.HelpColumns {
				t.Errorf("%s --help has a line of %d columns: %s", cmd.CommandPath(), n, line)
			}
		}
		for _, c := range cmd.Commands() {
			if !c.Hidden {
				visit(c)
			}
		}
	}
	tree := root()
	role.FitHelp(tree)
	visit(tree)
}
