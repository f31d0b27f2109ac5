package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// privacyName stands for docs/privacy.md among the names of experiments.
const privacyName = "privacy"

// A source is a command of riffle-lab whose numbers a page shows.
type source struct {
	command  string // without the word riffle-lab
	page     string // path in the repository
	where    string // a line of the page, or a row of a paper
	sentence bool   // whether a page's text names the command
	table    bool   // whether the command's table stands in the page, below a comment that names the command
	comment  string // the line of that comment, with its end
	cell     string // of such a table: what it shows by the values of a column, see replaceTable
	by       string
}

func (s source) String() string { return s.page + ", " + s.where }

// name is that of the experiment, or life or poison: the word after simulate.
func (s source) name() string { return strings.Fields(s.command)[1] }

func sourceNames(all []source) (names []string) {
	for _, s := range all {
		names = append(names, s.name())
	}
	slices.Sort(names)
	return slices.Compact(names)
}

var (
	marker = regexp.MustCompile(`^<!-- numbers: ([^;]*)(?:; (.+) by (.+))? -->$`)
	// quoted is a command in running text whose numbers stand around it.
	quoted = regexp.MustCompile("`riffle-lab\\s+(simulate\\s+[a-z][^`]*)`")
)

// earlier marks a table that is not made anew: the text says what program it is of.
const earlier = "of an earlier program"

// sources are the commands whose numbers the README, the pages of docs and the papers' rows show.
func sources(root string) (all []source, err error) {
	pages, err := pages(root)
	if err != nil {
		return nil, err
	}
	for _, path := range pages {
		if filepath.Base(path) == "papers.md" { // its rows follow
			continue
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return nil, err
		}
		page, err := filepath.Rel(root, path)
		if err != nil {
			return nil, err
		}
		all = append(all, pageSources(page, string(text))...)
	}
	files, err := filepath.Glob(filepath.Join(root, "lab", "papers", "*.yaml"))
	if err != nil {
		return nil, err
	}
	for _, path := range files {
		text, err := os.ReadFile(path)
		if err != nil {
			return nil, err
		}
		page, err := filepath.Rel(root, path)
		if err != nil {
			return nil, err
		}
		for i, line := range strings.Split(string(text), "\n") {
			if _, command, is := strings.Cut(line, " command: riffle-lab simulate "); is {
				where := fmt.Sprintf("line %d", i+1)
				all = append(all, source{command: "simulate " + command, page: page, where: where})
			}
		}
	}
	return all, nil
}

// pages are the paths of the README and of all pages of docs.
func pages(root string) ([]string, error) {
	service, err := filepath.Glob(filepath.Join(root, "docs", "*.md"))
	if err != nil {
		return nil, err
	}
	laboratory, err := filepath.Glob(filepath.Join(root, "lab", "docs", "*.md"))
	return slices.Concat([]string{filepath.Join(root, "README.md")}, service, laboratory), err
}

func pageSources(page, text string) (all []source) {
	for i, line := range strings.Split(text, "\n") {
		if m := marker.FindStringSubmatch(line); m != nil && m[1] != earlier {
			where := fmt.Sprintf("line %d", i+1)
			all = append(all, source{command: m[1], page: page, where: where, comment: m[0] + "\n", table: true, cell: m[2], by: m[3]})
		}
	}
	for _, m := range quoted.FindAllStringSubmatchIndex(text, -1) {
		command := strings.Join(strings.Fields(text[m[2]:m[3]]), " ")
		line := 1 + strings.Count(text[:m[0]], "\n")
		all = append(all, source{command: command, page: page, where: fmt.Sprintf("line %d", line), sentence: true})
	}
	return all
}

// A maker runs commands of riffle-lab, each once. It builds the program when it needs it.
type maker struct {
	folder string // of the program
	made   map[string][]byte
}

func (m *maker) run(ctx context.Context, command string) ([]byte, error) {
	if printed, done := m.made[command]; done {
		return printed, nil
	}
	if err := m.build(ctx); err != nil {
		return nil, err
	}
	run := exec.CommandContext(ctx, filepath.Join(m.folder, "riffle-lab"), append(strings.Fields(command), "--markdown")...)
	run.Stderr = os.Stderr
	printed, err := run.Output()
	m.made[command] = printed
	return printed, err
}

func (m *maker) build(ctx context.Context) (err error) {
	if m.folder != "" {
		return nil
	}
	if m.folder, err = os.MkdirTemp("", "figures"); err != nil {
		return err
	}
	program := filepath.Join(m.folder, "riffle-lab")
	build := exec.CommandContext(ctx, "go", "build", "-trimpath", "-o", program, "./lab/cmd/riffle-lab")
	build.Dir, build.Stderr = root, os.Stderr
	return build.Run()
}

func (m *maker) close() {
	if m.folder != "" {
		_ = os.RemoveAll(m.folder)
	}
}

// renew makes what a source shows: a table of a page with its pictures, or else a file of out/numbers to compare with.
func (m *maker) renew(ctx context.Context, s source) error {
	fmt.Printf("%s: riffle-lab %s\n", s, s.command)
	printed, err := m.run(ctx, s.command)
	if err != nil {
		return err
	}
	if !s.table {
		path := filepath.Join(root, "out", "numbers", strings.ReplaceAll(s.command, " ", "_")+".md")
		fmt.Println("  compare the numbers there with", path)
		return errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, printed, 0o644))
	}
	path := filepath.Join(root, s.page)
	text, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	if text, err = s.replaceTable(text, printed); err != nil {
		return err
	}
	return errors.Join(os.WriteFile(path, text, 0o644), s.copyPictures(printed))
}

// pictured are the pictures that the pages show, by the command that makes them and the name that it gives them.
var pictured = map[string]string{
	"simulate headline/regret":                    "results-headline",
	"simulate scaling-people --seeds 8/horizon":   "results-people",
	"simulate scaling-epsilon --seeds 10/epsilon": "results-epsilon",
	"simulate adult-b7/epsilon":                   "results-adult-b7",
	"simulate arena/winners":                      "arena",
	"simulate regression-local/mad-1":             "results-regression-local",
	"simulate regression-joint/mad-1":             "results-regression-joint",
	"simulate poison --seeds 12/poison":           "results-poison",
	"simulate life --seeds 3 --first-seed 100 --change abrupt --half-life 4 --alarm 0.001/life": "results-life",
}

// copyPictures copies those of the command's pictures that pages show.
func (s source) copyPictures(printed []byte) error {
	made := map[string]string{}
	for _, m := range regexp.MustCompile(`(?m)^Picture: (.*)$`).FindAllSubmatch(printed, -1) {
		made[s.command+"/"+strings.TrimSuffix(filepath.Base(string(m[1])), ".png")] = string(m[1])
	}
	for name, shown := range pictured {
		if !strings.HasPrefix(name, s.command+"/") {
			continue
		}
		picture, err := os.ReadFile(made[name])
		if err != nil {
			return fmt.Errorf("the picture %s: %w", name, err)
		}
		if err := os.WriteFile(filepath.Join(root, "lab", "docs", "figures", shown+".png"), picture, 0o644); err != nil {
			return err
		}
	}
	return nil
}

// replaceTable puts the table that a command printed in place of the one below the comment of the source. Of its
// columns it keeps those that the page's table has, in their order. A comment that ends in "; CELL by COLUMN" asks for a table
// in which the values of COLUMN are the last columns, under the page's own headings. What such a table has in further
// columns stays as it is.
func (s source) replaceTable(page, printed []byte) ([]byte, error) {
	before, after, found := bytes.Cut(page, []byte(s.comment))
	if !found {
		return nil, fmt.Errorf("no comment %q", strings.TrimSpace(s.comment))
	}
	oldLines, rest := tableLines(strings.TrimLeft(string(after), "\n"))
	_, fromTable, _ := strings.Cut("\n"+string(printed), "\n| ")
	madeLines, _ := tableLines("| " + fromTable)
	if len(oldLines) < 2 || len(madeLines) < 3 {
		return nil, fmt.Errorf("a table is missing: %d lines in the page, %d printed", len(oldLines), len(madeLines))
	}
	out, err := s.layOut(parseTable(oldLines), parseTable(madeLines))
	if err != nil {
		return nil, err
	}
	text := string(before) + s.comment + "\n"
	for i, row := range append([][]string{out.header}, out.rows...) {
		text += "| " + strings.Join(row, " | ") + " |\n"
		if i == 0 {
			text += oldLines[1] + "\n"
		}
	}
	return []byte(text + rest), nil
}

// A grid is a table of a page, without the line below its header.
type grid struct {
	header []string
	rows   [][]string
}

func parseTable(lines []string) (g grid) {
	g.header = cells(lines[0])
	for _, line := range lines[2:] {
		g.rows = append(g.rows, cells(line))
	}
	return g
}

// values are those of one column, each once.
func (g grid) values(column int) (all []string) {
	for _, row := range g.rows {
		if !slices.Contains(all, row[column]) {
			all = append(all, row[column])
		}
	}
	return all
}

// layOut is the printed table as the page's is laid out.
func (s source) layOut(old, made grid) (out grid, err error) {
	out.header = old.header
	if s.cell == "" {
		for _, row := range made.rows {
			var kept []string
			for _, column := range old.header {
				at := slices.Index(made.header, column)
				if at < 0 {
					return out, fmt.Errorf("the command's table has no column %q", column)
				}
				kept = append(kept, row[at])
			}
			out.rows = append(out.rows, kept)
		}
		return out, nil
	}
	cell, by := slices.Index(made.header, s.cell), slices.Index(made.header, s.by)
	if cell < 0 || by < 0 {
		return out, fmt.Errorf("the command's table has no column %q or %q", s.cell, s.by)
	}
	values := made.values(by)
	keys := len(old.header) - len(values)
	if keys < 1 {
		return out, fmt.Errorf("the page's table has %d columns, too few for %d of %q", len(old.header), len(values),
			s.by)
	}
	at := map[string]int{} // the row of a key
	for _, row := range made.rows {
		line := make([]string, len(old.header))
		for i, column := range old.header[:keys] {
			if of := slices.Index(made.header, column); of >= 0 {
				line[i] = row[of]
			}
		}
		key := strings.Join(line[:keys], "|")
		n, seen := at[key]
		if !seen {
			n = len(out.rows)
			at[key], out.rows = n, append(out.rows, line)
		}
		out.rows[n][keys+slices.Index(values, row[by])] = row[cell]
	}
	for i, column := range old.header[:keys] { // further columns of the page
		if !slices.Contains(made.header, column) {
			carry(old, out, i, keys)
		}
	}
	return out, nil
}

// carry copies a column from the rows of the old table with the same other keys.
func carry(old, out grid, column, keys int) {
	key := func(row []string) string {
		k := slices.Clone(row[:keys])
		k[column] = ""
		return strings.Join(k, "|")
	}
	for _, row := range out.rows {
		for _, before := range old.rows {
			if key(before) == key(row) {
				row[column] = before[column]
			}
		}
	}
}

// tableLines are the lines of the table that a text begins with, and the rest of the text.
func tableLines(text string) (lines []string, rest string) {
	for strings.HasPrefix(text, "|") {
		line, after, _ := strings.Cut(text, "\n")
		lines, text = append(lines, line), after
	}
	return lines, text
}

func cells(line string) (of []string) {
	for _, c := range strings.Split(strings.Trim(line, "|"), "|") {
		of = append(of, strings.TrimSpace(c))
	}
	return of
}
