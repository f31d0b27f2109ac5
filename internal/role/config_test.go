package role_test

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	_ "github.com/riffle-dp/riffle/internal/testing/fixedseed"

	"github.com/riffle-dp/riffle/internal/role"
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
		faults = append(faults, role.Wrong("epsilon", c.Epsilon, "must not be negative"))
	}
	if c.Verify && c.Cohort.Minimum > 1000 {
		faults = append(faults, role.Conflict("verify", c.Verify, "does not go with", "cohort.minimum",
			c.Cohort.Minimum).Because("above 1000 reports it takes hours"))
	}
	return faults
}

func (c cohort) Validate() (faults []error) {
	if c.Minimum < 2 {
		faults = append(faults, role.Wrong("minimum", c.Minimum, "must be at least 2"))
	}
	if c.Minimum > int(c.Size) {
		faults = append(faults, role.Conflict("minimum", c.Minimum, "must be at most", "size", c.Size))
	}
	if c.Jitter > c.Window {
		faults = append(faults, role.Conflict("jitter", c.Jitter, "must be at most", "window", c.Window))
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
				return nil, role.Wrong("broker.url", c.Broker.URL, "names no host")
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

// write puts a configuration file into a directory that the test stands in, so that its name in messages is short.
func write(t *testing.T, content string) string {
	t.Helper()
	t.Chdir(t.TempDir())
	if err := os.WriteFile("riffle.yaml", []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	return "riffle.yaml"
}

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
// about a default that stands in for a faulty value.
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
				return []error{role.Wrong("broker.url", s.Broker.URL, "names no host"),
					role.Jointly("no cohort is large enough", "cohort", "epsilon")}
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

// A relation with a key that could not be read is not judged by the default that stands in for it.
func TestNoFaultFromAFault(t *testing.T) {
	r := run(t, defaults(), "--broker-url=x", "--cohort-minimum=ten", "--cohort-size=50")
	if want := "1 fault:"; r.code != role.ExitConfig || !strings.Contains(r.stderr, want) {
		t.Fatalf("exit %d, want %s\n%s", r.code, want, r.stderr)
	}
}

func TestHelpNamesEverySetting(t *testing.T) {
	golden(t, "help.txt", run(t, defaults(), "--help").stdout)
}

func TestPrintConfigDocumentsEveryKey(t *testing.T) {
	golden(t, "reference.yaml", run(t, defaults(), "--print-config").stdout)
	r := run(t, defaults(), "--print-config", "--config=testdata/faulty.yaml")
	if r.code != role.ExitConfig || r.stdout != "" {
		t.Errorf("a file with faults: exit %d, printed %q", r.code, r.stdout)
	}
}

// What --print-config prints, loaded again, is the configuration that was in force, whatever the values.
func TestPrintedConfigLoads(t *testing.T) {
	dir := t.TempDir()
	rapid.Check(t, func(rt *rapid.T) {
		text := rapid.OneOf(rapid.String(), rapid.SampledFrom([]string{"true", "null", "~", "1", "a\nb", " x ", "#",
			"a: b", "*a", "- x", "'", `"`, "1e3", "0x10", "\t"}))
		want := defaults()
		want.Broker.URL = text.Filter(func(s string) bool { return s != "" && s != "unreachable" }).Draw(rt, "url")
		want.Tags = append([]string{}, rapid.SliceOf(text).Draw(rt, "tags")...)
		want.Epsilon = rapid.Float64Range(0, 1e300).Draw(rt, "epsilon")
		want.Cohort.Size = rapid.Uint32Min(1000).Draw(rt, "size")
		want.Cohort.Window = time.Duration(rapid.Int64Min(int64(time.Hour)).Draw(rt, "window"))
		printed := run(t, want, "--print-config").stdout
		path := filepath.Join(dir, "printed.yaml")
		if err := os.WriteFile(path, []byte(printed), 0o600); err != nil {
			rt.Fatal(err)
		}
		r := run(t, defaults(), "--config", path)
		if r.code != role.ExitOK || !reflect.DeepEqual(*r.prepared, want) {
			rt.Fatalf("got %+v\nwant %+v\n%s\n%s", r.prepared, want, r.stderr, printed)
		}
	})
}

// --check-config goes the way of starting up to the end of Prepare, and touches nothing: not even the port.
func TestCheckConfigStartsNothing(t *testing.T) {
	for _, args := range [][]string{
		{"--broker-url=x"},
		{},
		{"--broker-url=unreachable"},
		{"--broker-url=x", "--cohort-minimum=1"},
	} {
		started := run(t, defaults(), args...)
		checked := run(t, defaults(), append(args, "--check-config")...)
		if checked.code != started.code || checked.served || started.served != (started.code == role.ExitOK) {
			t.Errorf("%v: started: exit %d, served %v; checked: exit %d, served %v", args, started.code,
				started.served, checked.code, checked.served)
		}
		if !reflect.DeepEqual(checked.prepared, started.prepared) {
			t.Errorf("%v: the check prepared %+v, the start %+v", args, checked.prepared, started.prepared)
		}
		if started.code != role.ExitOK && started.stderr != checked.stderr {
			t.Errorf("%v: the start said\n%sthe check\n%s", args, started.stderr, checked.stderr)
		}
	}
	if r := run(t, defaults(), "--broker-url=x", "--check-config",
		"--ops-listen="+takenPort(t)); r.code != role.ExitOK {
		t.Errorf("the check tried the port: %s", r.stderr)
	}
}

// A struct that is no schema is a mistake in the program, and the first test that makes the command finds it.
func TestSchemaMistakesPanic(t *testing.T) {
	for want, command := range map[string]func(){
		"has no doc tag": func() {
			refuse[struct {
				A int `key:"a"`
			}]()
		},
		"needs to be exported": func() {
			refuse[struct {
				A int `doc:"x"`
			}]()
		},
		"lower_case": func() {
			refuse[struct {
				A int `key:"A" doc:"x"`
			}]()
		},
		"no file or flag": func() {
			refuse[struct {
				A []int `key:"a" doc:"x"`
			}]()
		},
		"two fields have": func() {
			refuse[struct {
				A, B int `key:"a" doc:"x"`
			}]()
		},
		"have the key log": func() {
			refuse[struct {
				L struct{} `key:"log"`
			}]()
		},
		"same flag as --config": func() {
			refuse[struct {
				A int `key:"config" doc:"x"`
			}]()
		},
		"Docker or Kubernetes": func() {
			refuse[struct {
				A int `key:"port" doc:"x"`
			}]()
		},
		"Config needs to be": func() { refuse[int]() },
		"same flag as a_b": func() {
			refuse[struct {
				A int `key:"a_b" doc:"x"`
				S struct {
					B int `key:"b" doc:"x"`
				} `key:"a"`
			}]()
		},
	} {
		func() {
			defer func() {
				if got := fmt.Sprint(recover()); !strings.Contains(got, want) {
					t.Errorf("got %q, want %q in it", got, want)
				}
			}()
			command()
		}()
	}
}

func refuse[C any]() {
	role.Command(role.Role[C]{Name: "broken", Prepare: func(*role.Env, C) (role.Serve, error) { return nil, nil }})
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
