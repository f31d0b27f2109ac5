package config_test

import (
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/riffle-dp/riffle/internal/role"
)

func TestLaterSourceWins(t *testing.T) {
	const file = "broker: {url: from-file}\ncohort: {minimum: 11, size: 12, window: 13s, " +
		"jitter: 1s}\nepsilon: 0.5\ntags: [f, 'g,h']\nverify: true\n"
	vars := map[string]string{"BROKER_URL": "from-env", "COHORT_MINIMUM": "21",
		"COHORT_SIZE": "2_200", "COHORT_WINDOW": "23s", "COHORT_JITTER": "2s", "EPSILON": "1e-2", "TAGS": "e, f,",
		"VERIFY": "false"}
	flags := []string{"--broker-url=from-flag", "--cohort-minimum=31", "--cohort-size=32", "--cohort-window=33s",
		"--cohort-jitter=3s", "--epsilon=3", "--tags=x,y", "--tags=z", "--verify"}
	plain := defaults()
	plain.Broker.URL = "preset"
	want := []sample{
		plain,
		{broker{"from-file"}, cohort{11, 12, 13 * time.Second, time.Second}, 0.5, []string{"f", "g,h"},
			true},
		{broker{"from-env"}, cohort{21, 2200, 23 * time.Second, 2 * time.Second}, 0.01,
			[]string{"e", "f"}, false},
		{broker{"from-flag"}, cohort{31, 32, 33 * time.Second, 3 * time.Second}, 3,
			[]string{"x", "y", "z"}, true},
	}
	path := write(t, file)
	for layers := range want {
		t.Run(fmt.Sprint(layers), func(t *testing.T) {
			var args []string
			if layers >= 1 {
				args = append(args, "--config", path)
			}
			if layers >= 2 {
				for name, text := range vars {
					t.Setenv("RIFFLE_SAMPLER_"+name, text)
				}
			}
			if layers >= 3 {
				args = append(args, flags...)
			}
			r := run(t, plain, args...)
			if r.code != role.ExitOK || !reflect.DeepEqual(*r.prepared, want[layers]) {
				t.Fatalf("exit %d, got %#v\nwant %#v\n%s", r.code, r.prepared, want[layers], r.stderr)
			}
		})
	}
	t.Run("one layer does not undo another key", func(t *testing.T) {
		if r := run(t, plain, "--config", path, "--epsilon=7"); r.prepared.Epsilon != 7 ||
			r.prepared.Cohort.Minimum != 11 {
			t.Fatalf("%+v", r.prepared)
		}
	})
	t.Run("file named by the environment", func(t *testing.T) {
		t.Setenv("RIFFLE_SAMPLER_CONFIG", path)
		if r := run(t, plain); r.prepared.Cohort.Minimum != 11 {
			t.Fatalf("%+v", r.prepared)
		}
	})
}

// Each of these must be refused, with exit code 1, the place, and nothing started.
func TestUnknownAndMalformedSettingsAreFaults(t *testing.T) {
	for _, c := range []struct {
		name, file, env string
		args            []string
		want            string
	}{
		{name: "unknown key", file: "cohort:\n  minimun: 5\n",
			want: "riffle.yaml:2: unknown key cohort.minimun (did you mean cohort.minimum?)"},
		{name: "key in the wrong section", file: "minimum: 5\n",
			want: "riffle.yaml:1: unknown key minimum (did you mean cohort.minimum?)"},
		{name: "unknown section", file: "brokre:\n  url: x\n",
			want: "riffle.yaml:1: unknown key brokre (did you mean broker?)"},
		{name: "neighbours swapped", file: "epislon: 1\n", want: "(did you mean epsilon?)"},
		{name: "nothing like it", file: "quux: 1\n", want: "riffle.yaml:1: unknown key quux\n"},
		{name: "set twice", file: "epsilon: 1\n\nepsilon: 2\n",
			want: "riffle.yaml:3: epsilon is already set on line 1"},
		{name: "merge key", file: "a: &a {b: 1}\n<<: *a\n", want: "riffle.yaml:2: unknown key <<"},
		{name: "no value", file: "epsilon:\n", want: "riffle.yaml:1: epsilon has no value"},
		{name: "list for a number", file: "epsilon: [1]\n", want: "riffle.yaml:1: epsilon must be one float"},
		{name: "list of lists", file: "tags: [[a]]\n", want: "riffle.yaml:1: the items of tags must be plain values"},
		{name: "value for a section", file: "cohort: 7\n", want: "riffle.yaml:1: cohort must hold keys"},
		{name: "list for a file", file: "- 1\n", want: "riffle.yaml:1: the file must hold keys"},
		{name: "two documents", file: "epsilon: 1\n---\nepsilon: 2\n", want: "one file is one configuration"},
		{name: "no YAML", file: "epsilon: [\n", want: "riffle.yaml: line 1: did not find"},
		{name: "text for a number", file: "cohort: {minimum: ten}\n",
			want: `riffle.yaml:1: cohort.minimum = "ten" must be a whole number`},
		{name: "fraction for an int", file: "cohort: {minimum: 10.5}\n",
			want: `cohort.minimum = "10.5" must be a whole number`},
		{name: "negative", file: "cohort: {size: -1}\n",
			want: `cohort.size = "-1" must be a whole number from 0 to 2^32-1`},
		{name: "too large", file: "cohort: {size: 4294967296}\n", want: `must be a whole number from 0 to 2^32-1`},
		{name: "NaN", file: "epsilon: .nan\n", want: `epsilon = ".nan" must be a finite number`},
		{name: "NaN in words", args: []string{"--epsilon=NaN"},
			want: `--epsilon: epsilon = "NaN" must be a finite number`},
		{name: "overflow", args: []string{"--epsilon=1e999"}, want: `must be a finite number`},
		{name: "yes for true", file: "verify: yes\n", want: `verify = "yes" must be true or false`},
		{name: "duration without unit", file: "cohort: {window: 30}\n",
			want: `cohort.window = "30" must be a duration with its unit`},
		{name: "missing file", args: []string{"--config=none.yaml"}, want: "the configuration file: open none.yaml"},
		{name: "unknown variable", env: "RIFFLE_SAMPLER_COHORT_MINIMUN=5",
			want: "unknown variable RIFFLE_SAMPLER_COHORT_MINIMUN (did you mean RIFFLE_SAMPLER_COHORT_MINIMUM?)"},
		{name: "empty variable", env: "RIFFLE_SAMPLER_EPSILON=",
			want: `RIFFLE_SAMPLER_EPSILON: epsilon = "" must be a finite number`},
		{name: "unknown flag", args: []string{"--cohort-minimun=5"},
			want: "unknown flag --cohort-minimun (did you mean --cohort-minimum?)"},
		{name: "argument", args: []string{"now"}, want: `unknown command "now"`},
		{name: "log level", args: []string{"--log-level=loud"},
			want: `log.level = "loud" (--log-level) must be debug, info, warn or error`},
		{name: "profiler open to others", args: []string{"--ops-pprof=0.0.0.0:6060"},
			want: `ops.pprof = "0.0.0.0:6060" (--ops-pprof) must be on loopback`},
		{name: "two listeners on one address", args: []string{"--ops-listen=127.0.0.1:9402",
			"--ops-pprof=127.0.0.1:9402"},
			want: `ops.listen = "127.0.0.1:9402" (--ops-listen) must differ from ` +
				`ops.pprof = "127.0.0.1:9402" (--ops-pprof)`},
		{name: "listener without port", args: []string{"--ops-listen=localhost"},
			want: `ops.listen = "localhost" (--ops-listen) must be host:port`},
		{name: "prepare", args: []string{"--broker-url=unreachable"},
			want: `broker.url = "unreachable" (--broker-url) names no host`},
	} {
		t.Run(c.name, func(t *testing.T) {
			args := c.args
			if c.file != "" {
				args = append(args, "--config", write(t, c.file))
			}
			if name, text, set := strings.Cut(c.env, "="); set {
				t.Setenv(name, text)
			}
			start := defaults()
			start.Broker.URL = "preset"
			r := run(t, start, args...)
			if r.code != role.ExitConfig || r.served || !strings.Contains(r.stderr, c.want) {
				t.Fatalf("exit %d, served %v, stderr:\n%swant in it: %s", r.code, r.served, r.stderr, c.want)
			}
		})
	}
}

// What Docker and Kubernetes put into the environment of a container is no setting and no fault.
func TestVariablesOfContainersArePassedOver(t *testing.T) {
	for _, name := range []string{"PORT", "SERVICE_HOST", "SERVICE_PORT", "SERVICE_PORT_OPS", "PORT_9402_TCP",
		"PORT_9402_TCP_ADDR", "OPS_PORT_9402_TCP_PROTO"} {
		t.Setenv("RIFFLE_SAMPLER_"+name, "tcp://10.0.0.1:9402")
	}
	if r := run(t, defaults(), "--broker-url=x"); r.code != role.ExitOK {
		t.Fatal(r.stderr)
	}
}

// No file makes the loader panic; a file is either loaded or refused with a fault that names it.
func FuzzConfigFile(f *testing.F) {
	f.Add("broker: {url: x}\ncohort:\n  minimum: 5\ntags: [a, b]\n")
	f.Add("tags: &a [x, *a]\n")
	f.Add("broker: &b\n  url: x\ncohort: *b\n")
	f.Add("? [a]\n: b\n")
	f.Add("# nothing\n")
	f.Add("--- !!binary x\n")
	path := filepath.Join(f.TempDir(), "fuzz.yaml")
	f.Fuzz(func(t *testing.T, content string) {
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		r := run(t, defaults(), "--config", path, "--check-config", "--broker-url=x")
		if r.code == role.ExitConfig && (r.stderr == "" || r.prepared != nil) || r.code > role.ExitConfig {
			t.Fatalf("exit %d, prepared %v, said %q", r.code, r.prepared, r.stderr)
		}
	})
}
