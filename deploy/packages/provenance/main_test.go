package main

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"regexp"
	"testing"
)

var goVersion = regexp.MustCompile(`"go": "go[^"]*"`)

// folder is a folder with files.
func folder(t *testing.T, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range files {
		path := filepath.Join(dir, name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte(text), 0o644)); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

const commit = "0a459b7d1b309393383a8a5dfee0f0043eb9500c"

func TestStatement(t *testing.T) {
	release := folder(t, map[string]string{"b.tar": "", "a.deb": "abc"})
	clone := folder(t, map[string]string{"go.sum": "", "deploy/packages/go.sum": "", "clients/web/go.sum": "abc"})
	var out bytes.Buffer
	if err := write(&out, map[string]string{"version": "v1.2.3"}, commit, clone, []string{release}); err != nil {
		t.Fatal(err)
	}
	got := goVersion.ReplaceAllString(out.String(), `"go": "GO"`)
	want, err := os.ReadFile("testdata/statement.json")
	if err != nil {
		t.Fatal(err)
	}
	if got != string(want) {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

func TestStatementRefuses(t *testing.T) {
	full := folder(t, map[string]string{"a": "", "go.sum": ""})
	for name, c := range map[string]struct {
		version, commit, clone string
		folders                []string
	}{
		"no version":   {"", commit, full, []string{full}},
		"no commit":    {"v1.2.3", "main", full, []string{full}},
		"a long hash":  {"v1.2.3", commit + "00", full, []string{full}},
		"no folder":    {"v1.2.3", commit, full, nil},
		"two folders":  {"v1.2.3", commit, full, []string{full, full}},
		"empty folder": {"v1.2.3", commit, full, []string{t.TempDir()}},
		"no clone":     {"v1.2.3", commit, t.TempDir(), []string{full}},
	} {
		var out bytes.Buffer
		if err := write(&out, map[string]string{"version": c.version}, c.commit, c.clone, c.folders); err == nil {
			t.Errorf("%s: %s", name, out.String())
		}
	}
}
