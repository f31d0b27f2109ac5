package papers

import (
	"bytes"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path"
	"regexp"
	"slices"
	"strings"

	"github.com/riffle-dp/riffle/lab/experiment"
)

// Check lists what is wrong with the papers' rows in the repository at root, and what has no row.
func Check(root fs.FS, all []Paper) []string {
	c := checker{root: root, kinds: map[string]bool{}, files: map[string]bool{}}
	for _, p := range all {
		if p.Paper.Title == "" || len(p.Rows) == 0 {
			c.wrong("%s: needs a paper's title and rows", p.File)
		}
		seen := map[string]bool{}
		for i, r := range p.Rows {
			c.at = fmt.Sprintf("%s: row %d, %s", p.File, i+1, r.Item)
			if seen[r.Item+r.What] {
				c.wrong("is there twice")
			}
			seen[r.Item+r.What] = true
			c.row(r)
		}
	}
	c.at = ""
	c.experiments(all)
	c.learners()
	return c.faults
}

type checker struct {
	root   fs.FS
	at     string
	faults []string
	kinds  map[string]bool // of learners, which a row's command runs
	files  map[string]bool // that rows name
}

func (c *checker) wrong(format string, args ...any) {
	text := fmt.Sprintf(format, args...)
	if c.at != "" {
		text = c.at + ": " + text
	}
	c.faults = append(c.faults, text)
}

func (c *checker) row(r Row) {
	if r.Item == "" || r.What == "" {
		c.wrong("needs an item and what it is")
	}
	if r.WhyNot == "" && (r.File == "" || r.Command == "") {
		c.wrong("needs a file and a command, or why_not")
	}
	if r.WhyNot != "" && !strings.ContainsAny(r.WhyNot, "0123456789") {
		c.wrong("why_not has no number: %s", r.WhyNot)
	}
	if r.File != "" {
		c.files[r.File] = true
		if err := hasSymbol(c.root, r.File, r.Symbol); err != nil {
			c.wrong("%v", err)
		}
	}
	if r.Command != "" {
		if err := c.command(r.Command); err != nil {
			c.wrong("command %q: %v", r.Command, err)
		}
	}
}

// hasSymbol looks for a declaration at the top of a Go file: Name, or Type.Method.
func hasSymbol(root fs.FS, file, symbol string) error {
	tree, err := parse(root, file)
	if err != nil {
		return err
	}
	for _, d := range tree.Decls {
		switch d := d.(type) {
		case *ast.FuncDecl:
			name := d.Name.Name
			if d.Recv != nil {
				name = receiver(d.Recv.List[0].Type) + "." + name
			}
			if name == symbol {
				return nil
			}
		case *ast.GenDecl:
			for _, s := range d.Specs {
				switch s := s.(type) {
				case *ast.TypeSpec:
					if s.Name.Name == symbol {
						return nil
					}
				case *ast.ValueSpec:
					if slices.ContainsFunc(s.Names, func(n *ast.Ident) bool { return n.Name == symbol }) {
						return nil
					}
				}
			}
		}
	}
	return fmt.Errorf("%s declares no %q", file, symbol)
}

func parse(root fs.FS, file string) (*ast.File, error) {
	text, err := fs.ReadFile(root, file)
	if err != nil {
		return nil, err
	}
	return parser.ParseFile(token.NewFileSet(), file, text, parser.SkipObjectResolution)
}

func receiver(t ast.Expr) string {
	switch t := t.(type) {
	case *ast.StarExpr:
		return receiver(t.X)
	case *ast.IndexExpr:
		return receiver(t.X)
	case *ast.Ident:
		return t.Name
	}
	return ""
}

// experiments demands a file for each paper that an experiment names.
func (c *checker) experiments(all []Paper) {
	for _, name := range experiment.Names() {
		e, err := experiment.Load(name)
		if err != nil {
			c.wrong("experiment %s: %v", name, err)
			continue
		}
		known := func(p Paper) bool { return strings.EqualFold(p.Paper.Title, e.Paper) }
		if e.Paper != "" && !slices.ContainsFunc(all, known) {
			c.wrong("experiment %s is of %q, of which %s has no file", name, e.Paper, Folder)
		}
	}
}

// learners demands a row for each kind of learners and for each file that makes one.
func (c *checker) learners() {
	for _, kind := range experiment.Learners() {
		if !c.kinds[kind] {
			c.wrong("no row's command runs the learner %s", kind)
		}
	}
	for _, folder := range []string{"lab/learn/bandit", "pkg/learn/bandit", "pkg/learn/estimate", "pkg/learn/joint"} {
		names, err := fs.Glob(c.root, path.Join(folder, "*.go"))
		if err != nil {
			c.wrong("%v", err)
		}
		for _, name := range names {
			if strings.HasSuffix(name, "_test.go") || c.files[name] {
				continue
			}
			tree, err := parse(c.root, name)
			if err != nil {
				c.wrong("%v", err)
			} else if made := makes(tree); made != "" {
				c.wrong("%s makes a learner, %s, and has no row", name, made)
			}
		}
	}
}

// makes is the exported function of a file that makes a learner (it takes a Setting and returns a Learner) or estimates
// (it takes a Setting and an Asker), or nothing.
func makes(tree *ast.File) string {
	for _, d := range tree.Decls {
		f, ok := d.(*ast.FuncDecl)
		if !ok || f.Recv != nil || !f.Name.IsExported() {
			continue
		}
		if has(f.Type.Params, "Setting") && (has(f.Type.Params, "Asker") || has(f.Type.Results, "Learner")) {
			return f.Name.Name
		}
	}
	return ""
}

// has reports whether a list of parameters or results has a type of this name, of another package, or a pointer to it.
func has(list *ast.FieldList, name string) bool {
	return list != nil && slices.ContainsFunc(list.List, func(p *ast.Field) bool {
		of := p.Type
		if pointer, ok := of.(*ast.StarExpr); ok {
			of = pointer.X
		}
		s, ok := of.(*ast.SelectorExpr)
		return ok && s.Sel.Name == name
	})
}

// arena compares all learners, so that its commands say nothing about one.
const arena = "arena"

// command checks a command as far as it can be checked without running it: experiments, their algorithms, flags, tests.
func (c *checker) command(text string) error {
	words := strings.Fields(strings.NewReplacer("'", "", `"`, "").Replace(text))
	for len(words) > 0 && regexp.MustCompile(`^[A-Z_]+=\S+$`).MatchString(words[0]) {
		words = words[1:]
	}
	switch {
	case len(words) > 2 && words[0] == "go" && words[1] == "test":
		return goTest(c.root, words[2:])
	case len(words) > 1 && programs[words[0]] != "":
		return c.program(words[0], words[1], words[2:])
	}
	return fmt.Errorf("is neither riffle, riffle-lab nor go test")
}

var used = regexp.MustCompile(`(?m)^\s+Use:\s+"([a-z-]+)`)
var flagged = regexp.MustCompile(`\.(?:\w+Var|\w+VarP|Var)\(&?[\w.]+,\s*"([a-z0-9-]+)"`)

// programs are the folders of the programs that rows may name.
var programs = map[string]string{"riffle": "cmd/riffle", "riffle-lab": "lab/cmd/riffle-lab"}

// flagsOf are the flags of a command of a program, by the file that says how it is used.
func flagsOf(root fs.FS, program, command string) (map[string]bool, error) {
	names, err := fs.Glob(root, programs[program]+"/*.go")
	if err != nil {
		return nil, err
	}
	flags, found := map[string]bool{}, false
	shared := "cmd/riffle/population.go" // flags of several commands, which embed populationFlags
	for _, name := range names {
		text, err := fs.ReadFile(root, name)
		if err != nil {
			return nil, err
		}
		uses := used.FindAllSubmatch(text, -1)
		if !slices.ContainsFunc(uses, func(m [][]byte) bool { return string(m[1]) == command }) {
			continue
		}
		found = true
		if bytes.Contains(text, []byte("populationFlags")) {
			more, err := fs.ReadFile(root, shared)
			if err != nil {
				return nil, err
			}
			text = append(text, more...)
		}
		for _, m := range flagged.FindAllSubmatch(text, -1) {
			flags[string(m[1])] = true
		}
	}
	if !found {
		return nil, fmt.Errorf("%s has no command %q", program, command)
	}
	return flags, nil
}

func (c *checker) program(name, command string, words []string) error {
	flags, err := flagsOf(c.root, name, command)
	if err != nil {
		return err
	}
	values := map[string]string{}
	var args []string
	for i := 0; i < len(words); i++ {
		flag, isFlag := strings.CutPrefix(words[i], "--")
		if !isFlag {
			args = append(args, words[i])
			continue
		}
		flag, value, given := strings.Cut(flag, "=")
		if !flags[flag] {
			return fmt.Errorf("%s %s has no flag --%s", name, command, flag)
		}
		if !given && i+1 < len(words) && !strings.HasPrefix(words[i+1], "--") && flag != "json" && flag != "list" {
			i++
			value = words[i]
		}
		values[flag] = value
	}
	if command != "simulate" {
		return nil
	}
	if len(args) != 1 {
		return fmt.Errorf("names %d experiments", len(args))
	}
	e, err := experiment.Load(args[0])
	if err != nil {
		return err
	}
	if only := values["only"]; only != "" {
		if err := e.Change(experiment.Changes{Only: strings.Split(only, ",")}); err != nil {
			return err
		}
	}
	if e.Name != arena {
		for _, a := range e.Algorithms {
			c.kinds[a.Kind] = true
		}
	}
	return nil
}

// goTest looks for a package and for a test or a benchmark in it that -run or -bench matches.
func goTest(root fs.FS, words []string) error {
	var folder, pattern string
	for i, w := range words {
		switch {
		case strings.HasPrefix(w, "./"):
			folder = path.Clean(w)
		case (w == "-run" || w == "-bench") && i+1 < len(words):
			pattern = words[i+1]
		}
	}
	if folder == "" || pattern == "" || strings.Contains(folder, "...") {
		return fmt.Errorf("names no package and no test, as in go test ./package -run Test")
	}
	pattern, _, _ = strings.Cut(pattern, "/") // subtests are not checked
	match, err := regexp.Compile(pattern)
	if err != nil {
		return err
	}
	names, err := fs.Glob(root, path.Join(folder, "*_test.go"))
	if err != nil {
		return err
	}
	for _, name := range names {
		tree, err := parse(root, name)
		if err != nil {
			return err
		}
		for _, d := range tree.Decls {
			f, ok := d.(*ast.FuncDecl)
			if ok && f.Recv == nil && regexp.MustCompile("^(Test|Benchmark|Fuzz|Example)").MatchString(f.Name.Name) &&
				match.MatchString(f.Name.Name) {
				return nil
			}
		}
	}
	return fmt.Errorf("no test of %s matches %q", folder, pattern)
}
