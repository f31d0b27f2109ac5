// Package papers holds the page lab/docs/papers.md to the code: every numbered algorithm, theorem's variant, table and
// figure of the papers that Riffle implements is there beside the file that implements it and the command that
// repeats it. The page is written from the files lab/papers/*.yaml, one for each paper:
//
//	go test ./lab/papers -update
package papers

import (
	"bytes"
	"fmt"
	"io/fs"
	"path"
	"strings"

	"go.yaml.in/yaml/v3"
)

// Folder is where the papers' files are, below the top of the repository.
const Folder = "lab/papers"

// Paper is one file of Folder.
type Paper struct {
	File string `yaml:"-"`
	// Paper is the paper's title, with its authors and year.
	Paper Title `yaml:"paper"`
	// About is an optional paragraph before the table.
	About string `yaml:"about"`
	Rows  []Row  `yaml:"rows"`
}

// Title names a paper: a string, or its parts.
type Title struct {
	Title   string `yaml:"title"`
	Authors string `yaml:"authors"`
	Year    int    `yaml:"year"`
}

// UnmarshalYAML takes a string as a title without authors.
func (t *Title) UnmarshalYAML(node *yaml.Node) error {
	if node.Kind == yaml.ScalarNode {
		t.Title = node.Value
		return nil
	}
	type parts Title
	return node.Decode((*parts)(t))
}

// Row is one thing of a paper: where it is and how it is repeated, or why it cannot be.
type Row struct {
	Item     string `yaml:"item"`     // "Algorithm 1", "Table 2", "Theorem 4.3, local"
	What     string `yaml:"what"`     // what it is
	File     string `yaml:"file"`     // that implements it, below the top of the repository
	Symbol   string `yaml:"symbol"`   // in the file: Name, or Type.Method
	Command  string `yaml:"command"`  // riffle .. or go test ..
	Measured string `yaml:"measured"` // published and measured numbers
	WhyNot   string `yaml:"why_not"`  // why it cannot be repeated, with numbers
}

// Load reads all papers of the repository at root, in the order of their files' names. Unknown keys are refused.
func Load(root fs.FS) ([]Paper, error) {
	names, err := fs.Glob(root, path.Join(Folder, "*.yaml"))
	if err != nil {
		return nil, err
	}
	var all []Paper
	for _, name := range names {
		text, err := fs.ReadFile(root, name)
		if err != nil {
			return nil, err
		}
		p := Paper{File: name}
		decoder := yaml.NewDecoder(bytes.NewReader(text))
		decoder.KnownFields(true)
		if err := decoder.Decode(&p); err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		all = append(all, p)
	}
	return all, nil
}

const head = `# Papers

<!-- Written by go test ./lab/papers -update, from lab/papers/*.yaml. -->

What Riffle implements of each paper: every numbered algorithm, variant of a theorem, table and figure, linked to
the file that implements it, with the command that repeats it. The paper's file says of each what it is, and has the
measured numbers beside the published ones. A test fails when a file, a symbol, an experiment, a flag or a test
named here does not exist, and when a learner is missing.
`

// Page is the content of lab/docs/papers.md.
func Page(all []Paper) []byte {
	var b bytes.Buffer
	b.WriteString(head)
	for _, p := range all {
		fmt.Fprintf(&b, "\n## %s\n\n", p.Paper.Title)
		if by := strings.TrimSpace(p.Paper.Authors); by != "" {
			fmt.Fprintf(&b, "%s, %d. ", by, p.Paper.Year)
		}
		name := path.Base(p.File)
		fmt.Fprintf(&b, "[%s](../papers/%s)\n\n", name, name)
		if about := strings.TrimSpace(p.About); about != "" {
			fmt.Fprintf(&b, "%s\n\n", about)
		}
		for _, r := range p.Rows {
			b.WriteString(r.line() + "\n")
		}
	}
	return b.Bytes()
}

// line is the row in the page.
func (r Row) line() string {
	item := oneLine(r.Item)
	if r.File != "" {
		item = fmt.Sprintf("[%s](../../%s)", item, r.File)
	}
	if r.Command == "" {
		return "- " + item + ": not repeated"
	}
	return "- " + item + ": `" + oneLine(r.Command) + "`"
}

func oneLine(text string) string { return strings.Join(strings.Fields(text), " ") }
