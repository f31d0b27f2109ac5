package house

import (
	"os"
	"regexp"
	"strings"
	"testing"
)

// The pages that people read first are short: the numbers are those of wc -w.
func TestFirstPagesAreShort(t *testing.T) {
	for name, most := range map[string]int{
		"README.md": 1200, "CONTRIBUTING.md": 500, "CHANGELOG.md": 2500,
		"docs/data.md": 600, "docs/tutorial.md": 1500, "docs/architecture.md": 1600, "docs/development.md": 1400,
	} {
		text, err := os.ReadFile(root + "/" + name)
		if err != nil {
			t.Fatal(err)
		}
		if n := len(strings.Fields(string(text))); n > most {
			t.Errorf("%s has %d words, at most %d are allowed", name, n, most)
		}
	}
}

// An entry of the changelog has at most 20 words, upgrade notes come first, and no link leads to a tag.
func TestChangelogIsBrief(t *testing.T) {
	const most = 20
	page, err := os.ReadFile(root + "/CHANGELOG.md")
	if err != nil {
		t.Fatal(err)
	}
	text := string(page)
	entries := regexp.MustCompile(`(?m)^- .*(\n  .*)*`).FindAllString(text, -1)
	if len(entries) == 0 {
		t.Fatal("no entries")
	}
	for _, entry := range entries {
		if n := len(strings.Fields(entry)) - 1; n > most {
			t.Errorf("%d words, at most %d are allowed: %s", n, most, entry)
		}
	}
	_, unreleased, _ := strings.Cut(text, "\n## [Unreleased]\n")
	if !strings.HasPrefix(unreleased, "\n### Upgrade notes\n") {
		t.Error("[Unreleased] does not begin with upgrade notes")
	}
	if strings.Contains(text, "/compare/") || strings.Contains(text, "/releases/") {
		t.Error("a link leads to a tag: none exists")
	}
}
