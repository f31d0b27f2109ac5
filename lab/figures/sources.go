package main

import (
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

// privacyName is the name of docs/privacy.md among those of experiments.
const privacyName = "privacy"

// A source is a command of riffle-lab whose numbers a page, a table or a paper's row shows.
type source struct {
	command  string // without the word riffle-lab
	page     string // path in the repository, of a page, a table or a file of papers
	where    string // a line of it
	sentence bool   // whether a page's text names the command
	table    bool   // whether the command's table is there
	comment  string // of a table in a page: the line above it that names the command, with its end
	cell     string // of a table: what it shows by the values of a column, see layOut
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
	// madeBy is the first line of a table that a command makes anew.
	madeBy = regexp.MustCompile(`^Made by: riffle-lab ([^;\n]*)(?:; (.+) by (.+))?\n`)
	// quoted is a command in running text whose numbers are around it.
	quoted = regexp.MustCompile("`riffle-lab\\s+(simulate\\s+[a-z][^`]*)`")
)

// sources are the commands whose numbers the README, the pages, the tables and the papers' rows show.
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
	made, err := tableSources(root)
	if err != nil {
		return nil, err
	}
	all = append(all, made...)
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

// tableSources are the tables that commands make anew.
func tableSources(root string) (all []source, err error) {
	files, err := filepath.Glob(filepath.Join(root, tables, "*.txt"))
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
		if m := madeBy.FindStringSubmatch(string(text)); m != nil {
			all = append(all, source{command: m[1], page: page, where: "line 1", table: true, cell: m[2], by: m[3]})
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
		if m := marker.FindStringSubmatch(line); m != nil {
			where := fmt.Sprintf("line %d", i+1)
			all = append(all, source{command: m[1], page: page, where: where, comment: m[0] + "\n", table: true,
				cell: m[2], by: m[3]})
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
	run := exec.CommandContext(ctx, filepath.Join(m.folder, "riffle-lab"),
		append(strings.Fields(command), "--markdown")...)
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

// renew makes what a source shows: a table with its pictures, or else a file of out/numbers to compare with.
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
	if s.comment != "" {
		text, err = s.replaceTable(text, printed)
	} else {
		text, err = s.renewFile(text, printed)
	}
	if err != nil {
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
		if err := os.WriteFile(filepath.Join(root, "lab", "docs", "figures", shown+".png"), picture,
			0o644); err != nil {
			return err
		}
	}
	return nil
}
