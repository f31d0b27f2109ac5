package house

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

var (
	linkIn     = regexp.MustCompile(`\]\(([^)\s]+)\)`)
	headingIn  = regexp.MustCompile(`(?m)^#+ (.*)$`)
	notInAName = regexp.MustCompile(`[^\pL\pN_ -]`)
)

// anchors are the names under which a page's headings are linked.
func anchors(page string) map[string]bool {
	all := map[string]bool{}
	for _, m := range headingIn.FindAllStringSubmatch(page, -1) {
		name := notInAName.ReplaceAllString(strings.ToLower(strings.TrimSpace(m[1])), "")
		all[strings.ReplaceAll(name, " ", "-")] = true
	}
	return all
}

// Every link of a page within the repository leads to a file that is there, and to a heading that it has.
func TestLinksLeadSomewhere(t *testing.T) {
	var pages []string
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err == nil && d.IsDir() && (d.Name() == ".git" || d.Name() == "out") {
			return filepath.SkipDir
		}
		if err == nil && strings.HasSuffix(path, ".md") {
			pages = append(pages, path)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	links := 0
	for _, page := range pages {
		text, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range linkIn.FindAllStringSubmatch(string(text), -1) {
			if strings.Contains(m[1], "://") {
				continue
			}
			links++
			name, anchor, _ := strings.Cut(m[1], "#")
			target := page
			if name != "" {
				target = filepath.Join(filepath.Dir(page), name)
			}
			if _, err := os.Stat(target); errors.Is(err, fs.ErrNotExist) {
				t.Errorf("%s: the link %s leads to nothing", page, m[1])
				continue
			}
			if anchor == "" || !strings.HasSuffix(target, ".md") {
				continue
			}
			there, err := os.ReadFile(target)
			if err != nil {
				t.Fatal(err)
			}
			if !anchors(string(there))[anchor] {
				t.Errorf("%s: the link %s leads to no heading", page, m[1])
			}
		}
	}
	if links < 100 {
		t.Errorf("%d links only", links)
	}
}
