package config_test

import (
	"bytes"
	"context"
	"flag"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/riffle-dp/riffle/internal/config"
	"github.com/riffle-dp/riffle/internal/role"
	_ "github.com/riffle-dp/riffle/internal/testing/fixedseed"
)

var update = flag.Bool("update", false, "write the golden files of testdata anew")

// sample has a field of every type, a section with a Validator of its own.
type sample struct {
	Broker  broker   `key:"broker" doc:"The message broker."`
	Cohort  cohort   `key:"cohort"`
	Epsilon float64  `key:"epsilon" doc:"Privacy limit. 0: nothing may be released."`
	Tags    []string `key:"tags" doc:"Labels of this instance. Empty: none."`
	Verify  bool     `key:"verify" doc:"Whether to check the work twice."`
}

type broker struct {
	URL string `key:"url" doc:"Address of the broker." required:"true"`
}

type cohort struct {
	Minimum int           `key:"minimum" doc:"Fewest reports that are released."`
	Size    uint32        `key:"size" doc:"Slots of a cohort."`
	Window  time.Duration `key:"window" doc:"From enrolment to report."`
	Jitter  time.Duration `key:"jitter" doc:"Spread of the reports. 0: none."`
}

func (c sample) Validate() (faults []error) {
	if c.Epsilon < 0 {
		faults = append(faults, config.Wrong("epsilon", c.Epsilon, "must not be negative"))
	}
	if c.Verify && c.Cohort.Minimum > 1000 {
		faults = append(faults, config.Conflict("verify", c.Verify, "does not go with", "cohort.minimum",
			c.Cohort.Minimum).Because("above 1000 reports it takes hours"))
	}
	return faults
}

func (c cohort) Validate() (faults []error) {
	if c.Minimum < 2 {
		faults = append(faults, config.Wrong("minimum", c.Minimum, "must be at least 2"))
	}
	if c.Minimum > int(c.Size) {
		faults = append(faults, config.Conflict("minimum", c.Minimum, "must be at most", "size", c.Size))
	}
	if c.Jitter > c.Window {
		faults = append(faults, config.Conflict("jitter", c.Jitter, "must be at most", "window", c.Window))
	}
	return faults
}

func defaults() sample {
	return sample{
		Cohort:  cohort{Minimum: 100, Size: 1000, Window: time.Hour, Jitter: time.Minute},
		Epsilon: 1, Tags: []string{"blue"},
	}
}

// result is what one run of the command did.
type result struct {
	code           int
	stdout, stderr string
	prepared       *sample // what Prepare got, nil if it was not called
	served         bool
}

// run runs the sample role in this process; serve returns at once.
func run(t testing.TB, start sample, args ...string) result {
	t.Helper()
	var r result
	var stdout, stderr bytes.Buffer
	cmd := role.Command(role.Role[sample]{
		Name: "sampler", Short: "a role for tests", Long: "Sampler is a role for tests.", Defaults: start,
		OpsListen: "127.0.0.1:0",
		Prepare: func(_ *role.Env, c sample) (role.Serve, error) {
			r.prepared = &c
			if c.Broker.URL == "unreachable" {
				return nil, config.Wrong("broker.url", c.Broker.URL, "names no host")
			}
			return func(context.Context) error { r.served = true; return nil }, nil
		},
	})
	cmd.SetArgs(append([]string{}, args...)) // not nil: cobra would take those of the test
	cmd.SetOut(&stdout)
	cmd.SetErr(&stderr)
	r.code = role.Main(cmd)
	r.stdout, r.stderr = stdout.String(), stderr.String()
	return r
}

// write puts a configuration file into a directory that the test runs in, so that its name in messages is short.
func write(t *testing.T, content string) string {
	t.Helper()
	t.Chdir(t.TempDir())
	if err := os.WriteFile("riffle.yaml", []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	return "riffle.yaml"
}

func golden(t *testing.T, name, got string) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *update {
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if got != string(want) {
		t.Errorf("%s differs (go test -update writes it anew); got:\n%s", path, got)
	}
}
