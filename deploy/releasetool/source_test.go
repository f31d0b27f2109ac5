package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// repository makes a git repository with a Go module that has a program where Riffle has this one, and one commit.
func repository(t *testing.T) (dir string, git func(args ...string) string) {
	t.Helper()
	for name, value := range map[string]string{
		"GIT_CONFIG_GLOBAL": os.DevNull, "GIT_CONFIG_SYSTEM": os.DevNull, "GIT_AUTHOR_NAME": "a",
		"GIT_AUTHOR_EMAIL": "a@example.org", "GIT_COMMITTER_NAME": "a", "GIT_COMMITTER_EMAIL": "a@example.org",
		"GIT_COMMITTER_DATE": "2026-11-22T03:10:07+03:00",
	} {
		t.Setenv(name, value)
	}
	dir = folder(t, map[string]string{
		"go.mod":                     "module example.org/m\n\ngo 1.26.0\n",
		"deploy/releasetool/main.go": "package main\n\nfunc main() {}\n",
		"CHANGELOG.md":               "# Changelog\n\n## [Unreleased]\n\n## [0.1.0] - 2026-11-22\n",
	})
	git = func(args ...string) string {
		t.Helper()
		text, err := output(t.Context(), dir, nil, "git", args...)
		if err != nil {
			t.Fatal(err)
		}
		return text
	}
	git("init", "--quiet")
	git("add", "-A")
	git("commit", "--quiet", "-m", "first")
	return dir, git
}

func TestSourceIsTheCommitAndNothingElse(t *testing.T) {
	dir, git := repository(t)
	commit := git("rev-parse", "HEAD")
	git("commit", "--quiet", "--allow-empty", "-m", "a later commit")
	for name, content := range map[string]string{"new.txt": "not committed", "CHANGELOG.md": "changed"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	src, err := checkout(t.Context(), dir, filepath.Join(t.TempDir(), "clone"), commit, "v0.1.0")
	if err != nil {
		t.Fatal(err)
	}
	if head, err := output(t.Context(), src.dir, nil, "git", "rev-parse", "HEAD"); err != nil || head != commit {
		t.Errorf("the clone is at %s (%v), not at %s", head, err, commit)
	}
	if src.version != "v0.1.0" || !src.time.Equal(commitTime) || src.commit != commit ||
		!strings.HasPrefix(src.toolchain, "go1.") {
		t.Errorf("the source is %+v", src)
	}
	if text, err := output(t.Context(), src.dir, nil, "git", "status", "--porcelain"); err != nil || text != "" {
		t.Errorf("the clone differs from the commit: %s (%v)", text, err)
	}
	if _, err := os.Stat(filepath.Join(src.dir, "new.txt")); err == nil {
		t.Error("a file that is not committed is in the clone")
	}
	if tags, err := output(t.Context(), dir, nil, "git", "tag"); err != nil || tags != "" {
		t.Errorf("the repository itself got the tags %q (%v)", tags, err)
	}
}

func TestSourceWithoutAVersionHasTheOneThatGoStamps(t *testing.T) {
	dir, git := repository(t)
	src, err := checkout(t.Context(), dir, filepath.Join(t.TempDir(), "clone"), git("rev-parse", "HEAD"), "")
	if want := "v0.0.0-20261122001007-" + src.commit[:12]; err != nil || src.version != want {
		t.Errorf("without a tag: %s (%v), want %s", src.version, err, want)
	}
	git("tag", "v0.3.0")
	src, err = checkout(t.Context(), dir, filepath.Join(t.TempDir(), "clone"), git("rev-parse", "HEAD"), "")
	if err != nil || src.version != "v0.3.0" {
		t.Errorf("with a tag: %s (%v)", src.version, err)
	}
}

func TestVersionThatIsNotThisCommitsIsRefused(t *testing.T) {
	dir, git := repository(t)
	refuse := func(version, want string) {
		t.Helper()
		_, err := checkout(t.Context(), dir, filepath.Join(t.TempDir(), "clone"), git("rev-parse", "HEAD"), version)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %s", version, err, want)
		}
	}
	refuse("0.1.0", "has the form v1.2.3")
	refuse("v0.1", "has the form v1.2.3")
	refuse("v0.2.0", "CHANGELOG.md has no section [0.2.0]")
	git("tag", "v0.9.0")
	refuse("v0.1.0", "the version that Go stamps is v0.9.0 and not v0.1.0")
	git("tag", "-d", "v0.9.0")
	git("tag", "v0.1.0")
	git("commit", "--quiet", "--allow-empty", "-m", "second")
	refuse("v0.1.0", "the tag v0.1.0 names commit")
}
