package main

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/riffle-dp/riffle/lab/experiment"
	"github.com/riffle-dp/riffle/lab/papers"
)

var repository = filepath.Join("..", "..")

// What pages and papers show of experiments was measured by this program: each experiment's canary is as it was then.
func TestNumbersAreOfThisProgram(t *testing.T) {
	all, err := sources(repository)
	if err != nil {
		t.Fatal(err)
	}
	names := sourceNames(all)
	if len(names) < 35 {
		t.Fatalf("pages show numbers of %d experiments only: %v", len(names), names)
	}
	then, err := readCanaries(canaryFile)
	if err != nil {
		t.Fatal(err)
	}
	if then.Architecture != runtime.GOARCH {
		t.Logf("canaries are of %s and say nothing on %s", then.Architecture, runtime.GOARCH)
		return
	}
	folder := t.TempDir()
	names = append(names, privacyName)
	all = append(all, source{command: "simulate " + privacyName, page: "docs/privacy.md",
		where: "sections 7, 9, 12 and 13"})
	for _, name := range names {
		t.Run(name, func(t *testing.T) {
			now, err := canary(t.Context(), name, folder)
			if err != nil {
				t.Fatal(err)
			}
			if now == then.Canaries[name] {
				return
			}
			var shown []string
			for _, s := range all {
				if s.name() == name {
					shown = append(shown, s.String())
				}
			}
			t.Errorf("other results than when its numbers were measured (%s, then %q): run\n"+
				"\tgo run ./lab/figures %s\nand mend what is said of them:\n\t%s", now, then.Canaries[name], name, strings.Join(shown, "\n\t"))
		})
	}
	for name := range then.Canaries {
		if !slices.Contains(names, name) {
			t.Errorf("%s has a canary of %s, of which no page has numbers", canaryFile, name)
		}
	}
}

// Every table of regrets in the README and the pages of docs stands below a comment that says which command makes it,
// or that it is not made anew, and every name in a comment or a sentence is one that riffle-lab simulate knows.
func TestEveryTableOfRegretsSaysWhatMakesIt(t *testing.T) {
	pages, err := pages(repository)
	if err != nil {
		t.Fatal(err)
	}
	tables := 0
	for _, path := range pages {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		lines := strings.Split(string(text), "\n")
		for i, line := range lines {
			if !strings.HasPrefix(line, "|") || i < 2 || strings.HasPrefix(lines[i-1], "|") ||
				!slices.Contains(cells(line), "regret") {
				continue
			}
			tables++
			if !marker.MatchString(lines[i-2]) {
				t.Errorf("%s, line %d: no comment says which command makes the table", path, i+1)
			}
		}
	}
	if tables < 15 {
		t.Errorf("%d tables of regrets only", tables)
	}
	all, err := sources(repository)
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range sourceNames(all) {
		if name != "life" && name != "poison" && !slices.Contains(experiment.Names(), name) {
			t.Errorf("no experiment is called %q", name)
		}
	}
}

// A printed table replaces the one below its comment and nothing else, in the columns of the page.
func TestTablesAreReplaced(t *testing.T) {
	const printed = `
| environment | algorithm | people | regret |
| --- | --- | ---:| ---:|
| ball | riffle | 10 | 1 ± 1 |
| ball | riffle | 20 | 2 ± 1 |
| fixed | riffle | 10 | 3 ± 1 |
| fixed | riffle | 20 | 4 ± 1 |
Picture: out/x.png
`
	page := func(comment, table string) []byte {
		return []byte("before\n\n<!-- numbers: " + comment + " -->\n\n" + table +
			"\nafter\n\n| regret |\n| --- |\n| 9 |\n")
	}
	for _, c := range []struct{ name, comment, old, want string }{
		{"columns of the page", "simulate mine --seeds 2", "| algorithm | regret |\n| --- | ---:|\n| riffle | 8 |\n",
			"| algorithm | regret |\n| --- | ---:|\n| riffle | 1 ± 1 |\n| riffle | 2 ± 1 |\n| riffle | 3 ± 1 |\n" +
				"| riffle | 4 ± 1 |\n"},
		{"columns of values, and one of the page's own", "simulate mine; regret by people",
			"| trust | environment | few | many |\n| --- | --- | ---:| ---:|\n| me | fixed | 8 | 8 |\n" +
				"| you | ball | 8 | 8 |\n",
			"| trust | environment | few | many |\n| --- | --- | ---:| ---:|\n| you | ball | 1 ± 1 | 2 ± 1 |\n" +
				"| me | fixed | 3 ± 1 | 4 ± 1 |\n"},
	} {
		text := page(c.comment, c.old)
		all := pageSources("page", string(text))
		if len(all) != 1 {
			t.Fatalf("%s: %+v", c.name, all)
		}
		got, err := all[0].replaceTable(text, []byte(printed))
		if err != nil || string(got) != string(page(c.comment, c.want)) {
			t.Errorf("%s: %v\n%s", c.name, err, got)
		}
	}
	for _, bad := range []string{"no table\n", "| other |\n| --- |\n| 1 |\n"} {
		text := page("simulate mine", bad)
		if _, err := pageSources("page", string(text))[0].replaceTable(text, []byte(printed)); err == nil {
			t.Errorf("%q: no error", bad)
		}
	}
}

// Every picture that is copied is of a command whose table a page shows, and a page shows the picture.
func TestPicturesAreOfCommandsOfPages(t *testing.T) {
	all, err := sources(repository)
	if err != nil {
		t.Fatal(err)
	}
	for name, shown := range pictured {
		command, _, _ := strings.Cut(name, "/")
		at := slices.IndexFunc(all, func(s source) bool { return s.table && s.command == command })
		if at < 0 {
			t.Errorf("no table is of %q", command)
			continue
		}
		text, err := os.ReadFile(filepath.Join(repository, all[at].page))
		if err != nil || !strings.Contains(string(text), "figures/"+shown+".png") {
			t.Errorf("%s does not show %s: %v", all[at].page, shown, err)
		}
	}
}

// A command is found in comments, in sentences and in the rows of papers.
func TestSourcesAreFound(t *testing.T) {
	const text = "By `riffle-lab simulate\ncounts --seeds 2`, or `riffle-lab simulate FILE`.\n\n" +
		"<!-- numbers: of an earlier program -->\n"
	all := pageSources("page", text)
	if fmt.Sprint(all) != "[page, line 1]" || all[0].command != "simulate counts --seeds 2" || !all[0].sentence {
		t.Errorf("%+v", all)
	}
	all, err := sources(repository)
	if err != nil {
		t.Fatal(err)
	}
	found, rows := 0, 0
	for _, s := range all {
		if strings.HasPrefix(filepath.ToSlash(s.page), papers.Folder+"/") {
			found++
		}
	}
	files, err := papers.Load(os.DirFS(repository))
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range files {
		for _, r := range p.Rows {
			if strings.HasPrefix(r.Command, "riffle-lab simulate ") {
				rows++
			}
		}
	}
	if found != rows || rows < 30 {
		t.Errorf("%d rows of papers are among the sources, want %d", found, rows)
	}
}
