package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/riffle-dp/riffle/internal/audit"
	"github.com/riffle-dp/riffle/internal/keyring"
	"github.com/riffle-dp/riffle/internal/lab/experiment"
	"github.com/riffle-dp/riffle/internal/lab/population"
	"github.com/riffle-dp/riffle/internal/randomizer"
	"github.com/riffle-dp/riffle/internal/role"
	"github.com/riffle-dp/riffle/pkg/feature"
)

// maxUnchecked is how many fenced blocks of all pages may be marked unchecked: text diagrams and programs' output.
const maxUnchecked = 12

// A block is a fenced part of a page. The word after the opening fence is its language: sh, go, yaml or json. For yaml
// a second word, or else the heading above, says what reads it (a role, or experiment); for json the second word says
// what it is (see jsonKinds). The second word unchecked marks a block that cannot be checked.
type block struct {
	line                  int // in the page, of the block's first line
	language, about, text string
}

// A page is Markdown taken apart.
type page struct {
	blocks []block
	spans  []span
}

// A span is code in running text.
type span struct {
	line int
	text string
}

var codeSpan = regexp.MustCompile("`([^`]+)`")

func parsePage(text string) (p page) {
	var open *block
	heading, prose, proseLine := "", "", 1
	flush := func(next int) {
		for _, m := range codeSpan.FindAllStringSubmatchIndex(prose, -1) {
			code := strings.Join(strings.Fields(strings.ReplaceAll(prose[m[2]:m[3]], `\|`, "|")), " ")
			p.spans = append(p.spans, span{proseLine + strings.Count(prose[:m[0]], "\n"), code})
		}
		prose, proseLine = "", next
	}
	for i, line := range strings.Split(text, "\n") {
		fence := strings.HasPrefix(line, "```")
		switch {
		case fence && open != nil:
			p.blocks, open = append(p.blocks, *open), nil
			proseLine = i + 2
		case fence:
			flush(0)
			words := append(strings.Fields(strings.TrimPrefix(line, "```")), "", "")
			open = &block{line: i + 2, language: words[0], about: words[1]}
			if open.about == "" && open.language == "yaml" {
				open.about = heading
			}
		case open != nil:
			open.text += line + "\n"
		default:
			if h, is := strings.CutPrefix(strings.TrimLeft(line, "#"), " "); is && strings.HasPrefix(line, "#") {
				heading = h
			}
			if prose += line + "\n"; line == "" { // a span ends with its paragraph
				flush(i + 2)
			}
		}
	}
	flush(0)
	if open != nil {
		p.blocks = append(p.blocks, block{line: open.line, language: "a fence that is not closed"})
	}
	return p
}

// An examiner checks the examples of pages.
type examiner struct {
	root  string          // of the repository
	tmp   string          // a folder for its files, with keys in it
	flags map[string]bool // of all commands
	keys  map[string]bool // of all roles' configurations, sections included
}

// programs hold the options of the scripts that run them.
var programs = map[string]string{
	"deploy/release": "deploy/releasetool/main.go", "deploy/fuzz": "deploy/fuzztool/main.go",
}

func newExaminer(t *testing.T) *examiner {
	t.Helper()
	e := &examiner{root: filepath.Join("..", ".."), tmp: t.TempDir(), flags: map[string]bool{}, keys: map[string]bool{}}
	options := keyring.Options{Name: "examples", Hosts: []keyring.HostOptions{{Name: "main", Devices: 1000}}}
	if err := keyring.Generate(e.path("keys"), options); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"shuffler", "analyzer"} {
		if err := keyring.MakeWorker(e.path("keys"), name, e.path("keys-"+name+"-worker")); err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range roleNames {
		collectFlags(roleCommand(name), e.flags)
		if err := collectKeys(name, e.keys); err != nil {
			t.Fatal(err)
		}
	}
	collectFlags(root(), e.flags)
	declared := regexp.MustCompile(`flags\.(?:(?:String|Bool|Int|Duration)Var\(&[\w.]+, |Func\()"([a-z-]+)"`)
	for _, tool := range programs {
		text, err := os.ReadFile(filepath.Join(e.root, tool))
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range declared.FindAllStringSubmatch(string(text), -1) {
			e.flags[m[1]] = true
		}
	}
	return e
}

func (e *examiner) path(name string) string { return filepath.Join(e.tmp, name) }

// examine checks everything in a page; marked is the number of blocks that are marked unchecked.
func (e *examiner) examine(text string) (faults []error, marked int) {
	p := parsePage(text)
	for _, b := range p.blocks {
		if b.about == "unchecked" {
			marked++
			continue
		}
		if err := e.block(b); err != nil {
			faults = append(faults, fmt.Errorf("line %d: %w", b.line, err))
		}
	}
	for _, s := range p.spans {
		if err := e.span(s.text); err != nil {
			faults = append(faults, fmt.Errorf("line %d: `%s`: %w", s.line, s.text, err))
		}
	}
	return faults, marked
}

func (e *examiner) block(b block) error {
	switch b.language {
	case "sh":
		var faults []error
		for _, words := range shellCommands(b.text) {
			if err := e.command(words); err != nil {
				faults = append(faults, fmt.Errorf("%s: %w", strings.Join(words, " "), err))
			}
		}
		return errors.Join(faults...)
	case "json":
		return decodeJSON(b.about, b.text)
	case "yaml":
		return e.yaml(b)
	case "go":
		return e.compile(b.text)
	}
	return fmt.Errorf("%q is not sh, json, yaml or go: a block that cannot be checked is marked unchecked", b.language)
}

// yaml holds that the reader of a file of YAML takes it.
func (e *examiner) yaml(b block) error {
	path := e.path("block.yaml")
	if err := os.WriteFile(path, []byte(b.text), 0o600); err != nil {
		return err
	}
	if b.about == "experiment" {
		_, err := experiment.Load(path)
		return err
	}
	name, sub, _ := strings.Cut(b.about, " ") // "shuffler work" is a command of the shuffler's
	cmd := roleCommand(name)
	if cmd == nil {
		return fmt.Errorf("%q reads no YAML: name one of %v or experiment after the fence", b.about, roleNames)
	}
	keys := e.path("keys")
	if sub != "" {
		keys = e.path("keys-" + name + "-worker")
	}
	args := append(strings.Fields(sub), "--check-config", "--config", path, "--keys", keys)
	switch b.about { // what a file may leave out, but a role must be told
	case "randomizer":
		args = append(args, "--host", "main", "--state", e.path("state"))
	case "shuffler":
		args = append(args, "--state", e.path("state"))
	case "analyzer":
		args = append(args, "--state", e.path("state"), "--learner-dimension", "5", "--learner-horizon", "1000")
	}
	var said bytes.Buffer
	cmd.SetArgs(args)
	cmd.SetOut(io.Discard)
	cmd.SetErr(&said)
	if code := role.Main(cmd); code != role.ExitOK {
		return errors.New(said.String())
	}
	return nil
}

// compile holds that a block is a Go file that compiles against this module.
func (e *examiner) compile(text string) error {
	path, err := filepath.Abs(e.path("block.go"))
	if err != nil {
		return err
	}
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		return err
	}
	build := exec.Command("go", "vet", path)
	build.Dir = e.root
	if out, err := build.CombinedOutput(); err != nil {
		return fmt.Errorf("go vet: %w\n%s", err, out)
	}
	return nil
}

// jsonKinds are the types of the JSON that pages show. Population lines are read by the population's own reader.
var jsonKinds = map[string]func() any{
	"decision":         func() any { return &randomizer.Decision{} },
	"acceptance":       func() any { return &randomizer.Acceptance{} },
	"status":           func() any { return &randomizer.Status{} },
	"audit":            func() any { return &audit.Report{} },
	"vectors":          func() any { return &[][]float64{} },
	"schema":           func() any { return &exampleSchema{} },
	"decision-request": func() any { return &exampleRequest{} },
	"reward-request": func() any {
		return &struct {
			Token  string
			Reward float64
		}{}
	},
}

// exampleSchema is a schema of features.
type exampleSchema struct{}

func (*exampleSchema) UnmarshalJSON(text []byte) error {
	_, err := feature.Parse(text)
	return err
}

// exampleRequest is a request for a decision.
type exampleRequest struct {
	Context feature.Values
	Arms    []exampleArm
	Default any
	Exclude []any
}

// exampleArm is an arm in features, or a vector.
type exampleArm struct{}

func (*exampleArm) UnmarshalJSON(text []byte) error {
	if json.Unmarshal(text, new([]float64)) == nil {
		return nil
	}
	return new(feature.Arm).UnmarshalJSON(text)
}

// decodeJSON holds that a text is one JSON value or more of a kind, without keys that the kind does not have.
func decodeJSON(kind, text string) error {
	if kind == "person" {
		file, err := os.CreateTemp("", "people*.jsonl")
		if err != nil {
			return err
		}
		defer os.Remove(file.Name())
		_, err = file.WriteString(strings.TrimSpace(text) + "\n")
		if err = errors.Join(err, file.Close()); err != nil {
			return err
		}
		_, err = population.File(file.Name(), population.FileOptions{Family: "logistic", MaxReward: 1})
		return err
	}
	blank := jsonKinds[kind]
	if blank == nil {
		kinds := slices.Sorted(maps.Keys(jsonKinds))
		return fmt.Errorf("%q is no kind of JSON: name person or one of %v after the fence", kind, kinds)
	}
	decoder := json.NewDecoder(strings.NewReader(text))
	decoder.DisallowUnknownFields()
	for n := 0; ; n++ {
		switch err := decoder.Decode(blank()); {
		case errors.Is(err, io.EOF) && n > 0:
			return nil
		case err != nil:
			return err
		}
	}
}

// The examples of the README and of the pages in docs are right: commands exist and take the arguments that are shown,
// files and packages are there, configurations are accepted, JSON has the keys of its type, Go compiles.
func TestExamplesInDocumentsAreRight(t *testing.T) {
	if testing.Short() {
		t.Skip("nothing of it runs at the same time as anything else")
	}
	e := newExaminer(t)
	pages, err := filepath.Glob(filepath.Join(docs, "*.md"))
	if err != nil {
		t.Fatal(err)
	}
	unchecked := 0
	for _, path := range append(pages, filepath.Join(e.root, "README.md")) {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		faults, marked := e.examine(string(text))
		for _, err := range faults {
			t.Errorf("%s, %v", path, err)
		}
		unchecked += marked
	}
	if unchecked > maxUnchecked {
		t.Errorf("%d blocks are marked unchecked, %d may be", unchecked, maxUnchecked)
	}
}

// What is wrong in a page is found, and named with its line.
func TestWrongExamplesAreFound(t *testing.T) {
	if testing.Short() {
		t.Skip("nothing of it runs at the same time as anything else")
	}
	e := newExaminer(t)
	fenced := func(info, text string) string {
		if info == "prose" {
			return text + "\n"
		}
		return "# analyzer\n\n```" + info + "\n" + text + "\n```\n"
	}
	decision := `{"arm": 1, "token": "x", "epoch": 3, "propensity": 0.5, "sampled": true, "reason": "sampled"}`
	mine := "{name: x, environments: [{kind: ball, dimension: 2, arms: 3}], horizons: [9], epsilons: [1], seeds: 1, "
	reward := "curl -s localhost:8400/v1/rewards -d "
	for _, test := range []struct{ what, info, good, bad, want string }{
		{"a flag", "sh", "riffle plan --dim 5", "riffle plan \\\n  --dimension 5", "line 4: .*--dimension"},
		{"a flag's value", "sh", "riffle plan --dim 5", "riffle plan --dim five", "five"},
		{"a role's flag", "sh", "bin/shuffler --keys k &", "bin/shuffler --key k &", "--key"},
		{"a subcommand", "sh", "riffle keygen rotate shuffler", "riffle keygen turn shuffler", "turn"},
		{"a missing argument", "sh", "riffle evaluate log", "riffle evaluate", "evaluate"},
		{"a script", "sh", "deploy/up --cluster", "deploy/upp --cluster", "deploy/upp"},
		{"a script's flag", "sh", "deploy/up --cluster", "deploy/up --clusters", "--clusters"},
		{"a package", "sh", "go test ./pkg/...", "go test ./package/...", "./package"},
		{"a test", "sh", "go test ./pkg/privacy -run 'Brute|x'", "go test ./pkg/privacy -run Brutal", "Brutal"},
		{"a path of the API", "sh", "curl localhost:8400/v1/status", "curl localhost:8400/v1/state", "/v1/state"},
		{"a request's key", "sh", reward + `'{"token": "x", "reward": 1}'`, reward + `'{"token": "x", "r": 1}'`, `"r"`},
		{"an arm", "json decision-request", `{"arms": [{"id": "a"}, [1]]}`, `{"arms": [{"ID": "a"}]}`, `no "id"`},
		{"a schema", "json schema", `{"version": 1, "arms": [{"name": "x", "kind": "flag"}], "terms": [["x"]]}`,
			`{"version": 1, "arms": [{"name": "x", "kind": "flag"}], "terms": [["y"]]}`, "term 0"},
		{"a JSON key", "json decision", decision, strings.Replace(decision, "arm", "hand", 1), `line 4: .*"hand"`},
		{"a missing key", "json person", `{"arms": [[0.1]], "rewards": [1]}`, `{"arms": [[0.1]]}`, "rewards"},
		{"a YAML key", "yaml shuffler", "min_cohort: 80", "min_cohrt: 80", "line 4: .*min_cohrt"},
		{"a YAML value", "yaml", "log: {level: warn}", "log: {level: loud}", "loud"}, // read by the role of the heading
		{"an experiment", "yaml experiment", mine + "algorithms: [{name: uniform}]}", mine + "x: 1}", `"x"`},
		{"Go", "go", "package main\nfunc main() { print(1) }", "package main\nfunc main() { prin(1) }", "prin"},
		{"a flag in prose", "prose", "See `riffle plan --dim D`.", "See `riffle plan --dims D`.", "--dims"},
		{"a flag alone", "prose", "Set `--max-report-size`.", "Set `--max-reports-size`.", "--max-reports-size"},
		{"a configuration key", "prose", "Set `admission.host_share`.", "Set `admission.share`.", "admission.share"},
		{"a path", "prose", "See `pkg/privacy`.", "See\n`pkg/private`.", "line 2: .*pkg/private"},
		{"a name", "prose", "See `pkg/privacy.Certify`.", "See `pkg/privacy.Solved`.", "declares no Solved"},
		{"a wrapped command", "prose", "See `riffle plan\n--json`.", "See `riffle plan\n--jsn`.", "line 1: .*--jsn"},
	} {
		if faults, _ := e.examine(fenced(test.info, test.good)); len(faults) > 0 {
			t.Errorf("%s: what is right is refused: %v", test.what, faults)
		}
		faults, _ := e.examine(fenced(test.info, test.bad))
		if len(faults) != 1 || !regexp.MustCompile("(?s)"+test.want).MatchString(faults[0].Error()) {
			t.Errorf("%s: found %v, want one fault with %q", test.what, faults, test.want)
		}
	}
	faults, marked := e.examine(fenced("text unchecked", "x") + fenced("sh unchecked", "x") + fenced("", "x"))
	if marked != 2 || len(faults) != 1 {
		t.Errorf("%d blocks are marked, want 2; %v, want one fault for the block that is not marked", marked, faults)
	}
}
