package config_test

import (
	"bytes"
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/riffle-dp/riffle/internal/config"
	"github.com/riffle-dp/riffle/internal/role"
)

func TestAllFaultsAtOnce(t *testing.T) {
	t.Setenv("RIFFLE_SAMPLER_COHORT_WINDOW", "5s")
	t.Setenv("RIFFLE_SAMPLER_COHORT_SIZES", "5")
	r := run(t, defaults(), "--config=testdata/faulty.yaml", "--cohort-size=50", "--log-level=loud", "--verify=maybe")
	if r.code != role.ExitConfig || r.prepared != nil {
		t.Fatalf("exit %d, prepared %v", r.code, r.prepared)
	}
	golden(t, "faults.txt", r.stderr)
}

// An unknown flag ends the reading of flags, not of the file and the environment.
func TestAllFaultsAtOnceWithAnUnknownFlag(t *testing.T) {
	t.Setenv("RIFFLE_SAMPLER_COHORT_SIZES", "5")
	r := run(t, defaults(), "--config", write(t, "cohort: {minimun: 5}\n"), "--verify=maybe", "--epsilom=3",
		"--broker-url=x")
	for _, want := range []string{"4 faults:", "unknown flag --epsilom (did you mean --epsilon?)",
		"unknown variable RIFFLE_SAMPLER_COHORT_SIZES", "unknown key cohort.minimun", `verify = "maybe"`} {
		if r.code != role.ExitConfig || !strings.Contains(r.stderr, want) {
			t.Errorf("exit %d, %q is not in\n%s", r.code, want, r.stderr)
		}
	}
}

// What only reading files or computing shows is told together with what is wrong by itself, and not where it may be
// about a default in place of a faulty value.
func TestFaultsOfARoleComeWithTheOthers(t *testing.T) {
	for _, c := range []struct {
		name string
		args []string
		want []string
		not  []string
	}{
		{"none", []string{"--broker-url=x"}, nil, nil},
		{"only those", []string{"--broker-url=unreachable"},
			[]string{"2 faults:", `broker.url = "unreachable" (--broker-url) names no host`,
				"no cohort is large enough"}, nil},
		{"with another value's", []string{"--broker-url=unreachable", "--log-level=loud"},
			[]string{"3 faults:", "names no host", "no cohort is large enough", "log.level"}, nil},
		{"with one that cannot be read", []string{"--broker-url=unreachable", "--epsilon=much"},
			[]string{"2 faults:", "names no host", "epsilon"}, []string{"no cohort"}},
		{"with one in a section", []string{"--broker-url=unreachable", "--cohort-minimum=1"},
			[]string{"2 faults:", "names no host", "cohort.minimum"}, []string{"no cohort"}},
		{"with a missing one", []string{"--log-level=loud"},
			[]string{"3 faults:", "broker.url is required", "log.level"}, []string{"names no host"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			faults := func(s sample) []error {
				if s.Broker.URL == "x" {
					return nil
				}
				return []error{config.Wrong("broker.url", s.Broker.URL, "names no host"),
					config.Jointly("no cohort is large enough", "cohort", "epsilon")}
			}
			var stderr bytes.Buffer
			served := false
			cmd := role.Command(role.Role[sample]{
				Name: "sampler", Short: "a role for tests", Defaults: defaults(), OpsListen: "127.0.0.1:0",
				Faults: faults,
				Prepare: func(_ *role.Env, s sample) (role.Serve, error) {
					return func(context.Context) error { served = true; return nil }, errors.Join(faults(s)...)
				},
			})
			cmd.SetArgs(c.args)
			cmd.SetErr(&stderr)
			code := role.Main(cmd)
			if good := c.want == nil; (code == role.ExitOK) != good || served != good {
				t.Errorf("exit %d, served %v\n%s", code, served, stderr.String())
			}
			for _, want := range c.want {
				if !strings.Contains(stderr.String(), want) {
					t.Errorf("%q is not in\n%s", want, stderr.String())
				}
			}
			for _, not := range c.not {
				if strings.Contains(stderr.String(), not) {
					t.Errorf("%q is in\n%s", not, stderr.String())
				}
			}
		})
	}
}

// A relation with a key that could not be read is not judged by the default in its place.
func TestNoFaultFromAFault(t *testing.T) {
	r := run(t, defaults(), "--broker-url=x", "--cohort-minimum=ten", "--cohort-size=50")
	if want := "1 fault:"; r.code != role.ExitConfig || !strings.Contains(r.stderr, want) {
		t.Fatalf("exit %d, want %s\n%s", r.code, want, r.stderr)
	}
}
