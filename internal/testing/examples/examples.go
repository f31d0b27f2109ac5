// Package examples holds what documents show against the code: commands exist and take the arguments that are shown,
// files and packages are there, configurations are accepted, JSON has the keys of its type, Go compiles.
package examples

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

	"github.com/spf13/cobra"

	"github.com/riffle-dp/riffle/internal/audit"
	"github.com/riffle-dp/riffle/internal/keyring"
	"github.com/riffle-dp/riffle/internal/population"
	"github.com/riffle-dp/riffle/internal/randomizer/api"
	"github.com/riffle-dp/riffle/internal/role"
	"github.com/riffle-dp/riffle/pkg/feature"
)

// A block is a fenced part of a page. The word after the opening fence is its language: sh, go, yaml or json. For yaml
// a second word, or else the heading above, says what reads it (a role, or experiment); for json the second word says
// what it is (see jsonKinds). A log is read as a log of decisions, with the page's last schema before it, unless it has
// vectors, and with the columns of the second word. The second word unchecked marks a block that cannot be checked.
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

// Options say what an Examiner knows.
type Options struct {
	Root     string                           // folder of the repository
	Commands map[string]func() *cobra.Command // programs by name, apart from the roles
	Roles    map[string]func() *cobra.Command // their programs by name: they have a configuration
	YAML     map[string]func(path string) error
	// Elsewhere are the programs, and the kinds of YAML, whose examples another test checks.
	Elsewhere []string
}

// An Examiner checks the examples of pages.
type Examiner struct {
	Options
	programs map[string]func() *cobra.Command
	tmp      string          // a folder for its files, with keys in it
	flags    map[string]bool // of all commands
	keys     map[string]bool // of all roles' configurations, sections included
	schema   *feature.Schema // that a page showed last
}

// tools are scripts with options of their own, which their usage lists.
var tools = []string{"deploy/release", "deploy/fuzz"}

// New makes an examiner.
func New(t testing.TB, o Options) *Examiner {
	t.Helper()
	e := &Examiner{Options: o, programs: map[string]func() *cobra.Command{}, tmp: t.TempDir(), flags: map[string]bool{},
		keys: map[string]bool{}}
	maps.Copy(e.programs, o.Commands)
	maps.Copy(e.programs, o.Roles)
	options := keyring.Options{Name: "examples", Hosts: []keyring.HostOptions{{Name: "main", Devices: 1000}}}
	if err := keyring.Generate(e.path("keys"), options); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"shuffler", "analyzer"} {
		if err := keyring.MakeWorker(e.path("keys"), name, e.path("keys-"+name+"-worker")); err != nil {
			t.Fatal(err)
		}
	}
	for _, tree := range e.programs {
		collectFlags(tree(), e.flags)
	}
	for _, tree := range o.Roles {
		if err := collectKeys(tree(), e.keys); err != nil {
			t.Fatal(err)
		}
	}
	declared := regexp.MustCompile(`(?m)^  --([a-z-]+) `)
	for _, tool := range tools {
		text, err := os.ReadFile(filepath.Join(e.Root, tool))
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range declared.FindAllStringSubmatch(string(text), -1) {
			e.flags[m[1]] = true
		}
	}
	return e
}

func (e *Examiner) path(name string) string { return filepath.Join(e.tmp, name) }

// Examine checks everything in a page; marked is the number of blocks that are marked unchecked.
func (e *Examiner) Examine(text string) (faults []error, marked int) {
	p := parsePage(text)
	e.schema = nil
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

// ExamineOwn checks the commands and the YAML of the examiner's own programs and kinds in a page, and leaves out the
// rest.
func (e *Examiner) ExamineOwn(text string) (faults []error) {
	p := parsePage(text)
	own := func(words []string) bool { return len(words) > 0 && e.program(words[0]) != nil }
	for _, b := range p.blocks {
		var err error
		switch {
		case b.language == "yaml" && e.YAML[b.about] != nil:
			err = e.yaml(b)
		case b.language == "sh" && b.about != "unchecked":
			for _, words := range shellCommands(b.text) {
				if len(words) > 2 && words[0] == "go" && words[1] == "run" {
					words = words[2:]
				}
				if own(words) {
					err = errors.Join(err, e.command(words))
				}
			}
		}
		if err != nil {
			faults = append(faults, fmt.Errorf("line %d: %w", b.line, err))
		}
	}
	for _, s := range p.spans {
		if !own(strings.Fields(s.text)) {
			continue
		}
		if err := e.span(s.text); err != nil {
			faults = append(faults, fmt.Errorf("line %d: `%s`: %w", s.line, s.text, err))
		}
	}
	return faults
}

func (e *Examiner) block(b block) error {
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
		if b.about == "schema" {
			e.schema, _ = feature.Parse([]byte(b.text))
		}
		return decodeJSON(b.about, b.text)
	case "log":
		return e.log(b)
	case "yaml":
		return e.yaml(b)
	case "go":
		return e.compile(b.text)
	}
	return fmt.Errorf("%q is not sh, json, yaml, go or log: a block that cannot be checked is marked unchecked",
		b.language)
}

// yaml holds that the reader of a file of YAML takes it.
func (e *Examiner) yaml(b block) error {
	path := e.path("block.yaml")
	if err := os.WriteFile(path, []byte(b.text), 0o600); err != nil {
		return err
	}
	if read := e.YAML[b.about]; read != nil {
		return read(path)
	}
	name, sub, _ := strings.Cut(b.about, " ") // "shuffler work" is a command of the shuffler's
	tree := e.Roles[name]
	if tree == nil {
		if e.elsewhere(name) {
			return nil
		}
		return fmt.Errorf("%q reads no YAML: name one of %v after the fence", b.about,
			slices.Sorted(maps.Keys(e.Roles)))
	}
	cmd := tree()
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
func (e *Examiner) compile(text string) error {
	path, err := filepath.Abs(e.path("block.go"))
	if err != nil {
		return err
	}
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		return err
	}
	build := exec.Command("go", "vet", path)
	build.Dir = e.Root
	if out, err := build.CombinedOutput(); err != nil {
		return fmt.Errorf("go vet: %w\n%s", err, out)
	}
	return nil
}

// jsonKinds are the types of the JSON that pages show. Population lines are read by the population's own reader.
var jsonKinds = map[string]func() any{
	"decision":         func() any { return &api.Decision{} },
	"acceptance":       func() any { return &api.Acceptance{} },
	"status":           func() any { return &api.Status{} },
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

// Pages are the paths of the documents of the repository.
func (e *Examiner) Pages(t testing.TB) []string {
	t.Helper()
	paths := []string{filepath.Join(e.Root, "README.md")}
	for _, folder := range []string{"docs", filepath.Join("lab", "docs")} {
		pages, err := filepath.Glob(filepath.Join(e.Root, folder, "*.md"))
		if err != nil {
			t.Fatal(err)
		}
		paths = append(paths, pages...)
	}
	return paths
}
