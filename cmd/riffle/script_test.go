package main

import (
	"encoding/json"
	"fmt"
	"math"
	"os"
	"strconv"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/riffle-dp/riffle/internal/analyzer"
	"github.com/riffle-dp/riffle/internal/container"
	"github.com/riffle-dp/riffle/internal/randomizer"
	"github.com/riffle-dp/riffle/internal/role"
	"github.com/riffle-dp/riffle/internal/shuffler"
)

// TestMain lets scripts call riffle and the roles: the test binary is each of them when it is called by its name.
func TestMain(m *testing.M) {
	program := func(cmd *cobra.Command) func() { return func() { os.Exit(role.Main(cmd)) } }
	testscript.Main(m, map[string]func(){
		"riffle":     main,
		"randomizer": program(roleCommand("randomizer")),
		"shuffler":   program(roleCommand("shuffler")),
		"analyzer":   program(roleCommand("analyzer")),
	})
}

// roleCommand is the command line of a role's own program; nil where no role has the name.
func roleCommand(name string) *cobra.Command {
	switch name {
	case "randomizer":
		return container.Equip(role.Command(randomizer.Role()), "http://127.0.0.1:9403/readyz")
	case "shuffler":
		return withWorkers(container.Equip(role.Command(shuffler.Role()), "http://127.0.0.1:9401/readyz"),
			container.Equip(role.Command(shuffler.WorkerRole()), "http://127.0.0.1:9404/readyz"))
	case "analyzer":
		return withWorkers(container.Equip(role.Command(analyzer.Role()), "http://127.0.0.1:9402/readyz"),
			container.Equip(role.Command(analyzer.WorkerRole()), "http://127.0.0.1:9405/readyz"))
	}
	return nil
}

// The files in testdata/script say what the commands do, and are run.
func TestCommandsDoWhatTheirScriptsSay(t *testing.T) {
	testscript.Run(t, testscript.Params{
		Dir:                "testdata/script",
		RequireUniqueNames: true,
		Cmds:               map[string]func(*testscript.TestScript, bool, []string){"json": jsonCommand},
	})
}

// jsonCommand is the script command
//
//	[!] json FILE PATH [OPERATOR VALUE]
//
// It holds that the JSON in a file, or in stdout, has a value that is not null at a path such as cohorts.0.size, and
// that the value compares with another: = for text and for numbers (equal to 9 digits), < <= > >= for numbers.
func jsonCommand(ts *testscript.TestScript, neg bool, args []string) {
	if len(args) != 2 && len(args) != 4 {
		ts.Fatalf("usage: json FILE PATH [OPERATOR VALUE]")
	}
	var value any
	if err := json.Unmarshal([]byte(ts.ReadFile(args[0])), &value); err != nil {
		ts.Fatalf("%s: %v", args[0], err)
	}
	for _, key := range strings.Split(args[1], ".") {
		switch in := value.(type) {
		case map[string]any:
			value = in[key]
		case []any:
			i, err := strconv.Atoi(key)
			if value = nil; err == nil && i >= 0 && i < len(in) {
				value = in[i]
			}
		default:
			value = nil
		}
	}
	holds := value != nil
	if holds && len(args) == 4 {
		var err error
		if holds, err = compares(value, args[2], args[3]); err != nil {
			ts.Fatalf("%s: %v", args[1], err)
		}
	}
	if holds == neg {
		ts.Fatalf("%s of %s is %v", args[1], args[0], value)
	}
}

func compares(value any, operator, text string) (bool, error) {
	got, isNumber := value.(float64)
	if operator == "=" && !isNumber {
		return fmt.Sprint(value) == text, nil
	}
	want, err := strconv.ParseFloat(text, 64)
	if err != nil || !isNumber {
		return false, fmt.Errorf("%v %s %s compares no numbers", value, operator, text)
	}
	switch operator {
	case "=":
		return math.Abs(got-want) <= 1e-9*math.Abs(want), nil
	case "<":
		return got < want, nil
	case "<=":
		return got <= want, nil
	case ">":
		return got > want, nil
	case ">=":
		return got >= want, nil
	}
	return false, fmt.Errorf("unknown operator %q", operator)
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
