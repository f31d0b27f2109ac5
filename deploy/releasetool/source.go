package main

import (
	"bytes"
	"context"
	"debug/buildinfo"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"time"
)

// A source is a clone of the repository at the commit that is released, and what is known of that commit.
type source struct {
	dir       string // of the clone
	commit    string // full hash
	time      time.Time
	version   string // what Go stamps: the tag, or a pseudo-version
	toolchain string // go1.26.8
}

// semantic is the form of a version that a release may have.
var semantic = regexp.MustCompile(`^v(0|[1-9]\d*)\.(0|[1-9]\d*)\.(0|[1-9]\d*)(-[0-9A-Za-z.-]+)?$`)

// checkout clones a commit of the repository at root into dir, an absolute path that does not exist. The clone gets the
// version, if one is given, as a tag, from which the Go tool stamps it. CHANGELOG.md must have a section for the
// version, and a tag of that name on another commit is an error.
func checkout(ctx context.Context, root, dir, commit, version string) (s source, err error) {
	if version != "" && !semantic.MatchString(version) {
		return s, fmt.Errorf("--version %s: a version has the form v1.2.3 or v1.2.3-rc.1", version)
	}
	s = source{dir: dir, commit: commit}
	run := func(name string, args ...string) (text string) {
		if err == nil {
			text, err = output(ctx, dir, nil, name, args...)
		}
		return text
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return s, err
	}
	// With line ends as they are committed, whatever the user's own settings say.
	run("git", "clone", "--quiet", "--no-checkout", "--config", "core.autocrlf=false", root, ".")
	run("git", "checkout", "--quiet", "--detach", commit)
	committed := run("git", "show", "--no-patch", "--format=%cI", commit)
	if version != "" && run("git", "tag", "--list", version) == "" {
		run("git", "tag", version)
	}
	s.toolchain = run("go", "env", "GOVERSION")
	// Go computes the version of a module only when it builds a program of the module, so a small one is built.
	program := dir + "-version"
	run("go", "build", "-buildvcs=true", "-o", program, "./deploy/releasetool")
	if err != nil {
		return s, err
	}
	if s.time, err = time.Parse(time.RFC3339, committed); err != nil {
		return s, err
	}
	s.time = s.time.UTC()
	info, err := buildinfo.ReadFile(program)
	if err != nil {
		return s, err
	}
	s.version = info.Main.Version
	if s.version == "" || s.version == "(devel)" {
		return s, errors.New("the Go tool stamps no version: is git installed?")
	}
	if version == "" {
		return s, nil
	}
	changes, err := os.ReadFile(filepath.Join(dir, "CHANGELOG.md"))
	if err != nil {
		return s, err
	}
	tagged := run("git", "rev-parse", "refs/tags/"+version+"^{commit}")
	switch {
	case err != nil:
	case !bytes.Contains(changes, []byte("\n## ["+version[1:]+"]")):
		err = fmt.Errorf("CHANGELOG.md has no section [%s]", version[1:])
	case tagged != commit:
		err = fmt.Errorf("the tag %s names commit %s and not %s", version, tagged, commit)
	case s.version != version:
		err = fmt.Errorf("the version that Go stamps is %s and not %s: has the commit another tag?", s.version, version)
	}
	return s, err
}
