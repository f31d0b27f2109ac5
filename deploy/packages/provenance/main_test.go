package main

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"testing"
)

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
	if err := write(&out, map[string]string{"version": "v1.2.3"}, commit,
		map[string]string{"tar": "tar (GNU tar) 1.34", "go": "go1.26.8"}, clone, []string{release}); err != nil {
		t.Fatal(err)
	}
	want, err := os.ReadFile("testdata/statement.json")
	if err != nil {
		t.Fatal(err)
	}
	if out.String() != string(want) {
		t.Errorf("got\n%s\nwant\n%s", &out, want)
	}
}

func TestStatementRefuses(t *testing.T) {
	full := folder(t, map[string]string{"a": "", "go.sum": ""})
	for name, c := range map[string]struct {
		version, commit, tool, clone string
		folders                      []string
	}{
		"no version":   {"", commit, "go", full, []string{full}},
		"no commit":    {"v1.2.3", "main", "go", full, []string{full}},
		"a long hash":  {"v1.2.3", commit + "00", "go", full, []string{full}},
		"no folder":    {"v1.2.3", commit, "go", full, nil},
		"two folders":  {"v1.2.3", commit, "go", full, []string{full, full}},
		"empty folder": {"v1.2.3", commit, "go", full, []string{t.TempDir()}},
		"no compiler":  {"v1.2.3", commit, "tar", full, []string{full}},
		"no clone":     {"v1.2.3", commit, "go", t.TempDir(), []string{full}},
	} {
		var out bytes.Buffer
		if err := write(&out, map[string]string{"version": c.version}, c.commit,
			map[string]string{c.tool: "1"}, c.clone, c.folders); err == nil {
			t.Errorf("%s: %s", name, out.String())
		}
	}
}
