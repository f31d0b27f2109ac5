package role_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"reflect"
	"testing"

	"github.com/spf13/cobra"

	"github.com/riffle-dp/riffle/internal/config"
	"github.com/riffle-dp/riffle/internal/role"
)

// sample is a configuration that can be incomplete, wrong by itself, and wrong for Prepare.
type sample struct {
	URL     string `key:"url" doc:"Address of the broker." required:"true"`
	Minimum int    `key:"minimum" doc:"Fewest reports that are released."`
}

func (s sample) Validate() (faults []error) {
	if s.Minimum < 2 {
		faults = append(faults, config.Wrong("minimum", s.Minimum, "must be at least 2"))
	}
	return faults
}

// result is what one run of the command did.
type result struct {
	code     int
	stderr   string
	prepared *sample // what Prepare got, nil if it was not called
	served   bool
}

// run runs a role with that configuration in this process; serve returns at once.
func run(t *testing.T, args ...string) result {
	t.Helper()
	var r result
	var stdout, stderr bytes.Buffer
	cmd := role.Command(role.Role[sample]{
		Name: "sampler", Short: "a role for tests", Defaults: sample{Minimum: 100}, OpsListen: "127.0.0.1:0",
		Prepare: func(_ *role.Env, s sample) (role.Serve, error) {
			r.prepared = &s
			if s.URL == "unreachable" {
				return nil, config.Wrong("url", s.URL, "names no host")
			}
			return func(context.Context) error { r.served = true; return nil }, nil
		},
	})
	cmd.SetArgs(append([]string{}, args...)) // not nil: cobra would take those of the test
	cmd.SetOut(&stdout)
	cmd.SetErr(&stderr)
	r.code = role.Main(cmd)
	r.stderr = stderr.String()
	return r
}

// --check-config goes the way of starting up to the end of Prepare, and touches nothing: not even the port.
func TestCheckConfigStartsNothing(t *testing.T) {
	for _, c := range []struct {
		args []string
		code int
	}{
		{[]string{"--url=x"}, role.ExitOK},
		{nil, role.ExitConfig},
		{[]string{"--url=unreachable"}, role.ExitConfig},
		{[]string{"--url=x", "--minimum=1"}, role.ExitConfig},
	} {
		started, checked := run(t, c.args...), run(t, append(c.args, "--check-config")...)
		if started.code != c.code || checked.code != c.code {
			t.Errorf("%v: exit %d, of the check %d, want %d", c.args, started.code, checked.code, c.code)
		}
		if checked.served || started.served != (c.code == role.ExitOK) {
			t.Errorf("%v: the check served %v, the start %v", c.args, checked.served, started.served)
		}
		if !reflect.DeepEqual(checked.prepared, started.prepared) {
			t.Errorf("%v: the check prepared %+v, the start %+v", c.args, checked.prepared, started.prepared)
		}
		if c.code != role.ExitOK && started.stderr != checked.stderr {
			t.Errorf("%v: the start said\n%sthe check\n%s", c.args, started.stderr, checked.stderr)
		}
	}
	if r := run(t, "--url=x", "--check-config", "--ops-listen="+takenPort(t)); r.code != role.ExitOK {
		t.Errorf("the check tried the port: %s", r.stderr)
	}
}

// A command that prints JSON tells its error as one line of JSON, so that a program that ran it can tell it from
// progress and warnings, and the remedy apart where the error knows it.
func TestErrorsOfJSONAreJSON(t *testing.T) {
	for _, c := range []struct {
		args []string
		err  error
		want string
	}{
		{nil, errors.New("2 faults:\n<a>; b"), "count: 2 faults:\n<a>; b\n"},
		{[]string{"--json"}, errors.New("2 faults:\n<a>; b"),
			`{"error":{"command":"count","what":"2 faults:\n<a>; b"}}` + "\n"},
		{[]string{"--json"}, fmt.Errorf("wrapped: %w", tooFew{}),
			`{"error":{"command":"count","what":"too few: 3; or less","remedy":"give more"}}` + "\n"},
		{nil, tooFew{}, "count: too few: 3; or less; give more\n"},
		{[]string{"--json", "--nothing"}, nil,
			`{"error":{"command":"count","what":"unknown flag: --nothing"}}` + "\n"},
	} {
		var stdout, stderr bytes.Buffer
		cmd := &cobra.Command{Use: "count", SilenceErrors: true, SilenceUsage: true,
			RunE: func(*cobra.Command, []string) error { return c.err }}
		cmd.Flags().Bool("json", false, "")
		cmd.SetArgs(append([]string{}, c.args...))
		cmd.SetOut(&stdout)
		cmd.SetErr(&stderr)
		if code := role.Main(cmd); code != role.ExitConfig || stdout.Len() > 0 || stderr.String() != c.want {
			t.Errorf("%v: exit %d, %q and %q, want %q", c.args, code, &stdout, &stderr, c.want)
		}
	}
}

// tooFew is an error that knows its remedy.
type tooFew struct{}

func (tooFew) Error() string              { return "too few: 3; or less; give more" }
func (tooFew) Remedied() (string, string) { return "too few: 3; or less", "give more" }
