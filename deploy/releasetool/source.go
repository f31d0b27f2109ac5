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

// checkout clones a commit of the repository at root into dir, a folder that does not exist. A version is put on the
// clone as a tag, from which the Go tool stamps it, unless the repository has that tag already; a tag of that name on
// another commit is an error.
func checkout(ctx context.Context, root, dir, commit, version string) (source, error) {
	s := source{commit: commit}
	if version != "" && !semantic.MatchString(version) {
		return s, fmt.Errorf("--version %s: a version has the form v1.2.3 or v1.2.3-rc.1", version)
	}
	var err error
	git := func(args ...string) string {
		if err != nil {
			return ""
		}
		var text string
		text, err = output(ctx, s.dir, nil, "git", args...)
		return text
	}
	s.dir = root
	// With line ends as they are committed, whatever the user's own settings say.
	git("clone", "--quiet", "--no-checkout", "--config", "core.autocrlf=false", root, dir)
	s.dir = dir
	git("-c", "advice.detachedHead=false", "checkout", "--quiet", "--detach", s.commit)
	seconds := git("show", "--no-patch", "--format=%cI", s.commit)
	if err != nil {
		return s, err
	}
	if s.time, err = time.Parse(time.RFC3339, seconds); err != nil {
		return s, err
	}
	s.time = s.time.UTC()
	if version != "" {
		if err := changelogHas(dir, version); err != nil {
			return s, err
		}
		tag := "refs/tags/" + version + "^{commit}"
		tagged, missing := output(ctx, dir, nil, "git", "rev-parse", "--verify", "--quiet", tag)
		switch {
		case missing != nil:
			git("tag", version)
		case tagged != s.commit:
			err = fmt.Errorf("the tag %s names commit %s and not %s", version, tagged, s.commit)
		}
	}
	if err != nil {
		return s, err
	}
	s.toolchain, err = output(ctx, dir, nil, "go", "env", "GOVERSION")
	if err != nil {
		return s, err
	}
	s.version, err = stampedVersion(ctx, dir)
	if err == nil && version != "" && s.version != version {
		err = fmt.Errorf("the version that Go stamps is %s and not %s: has the commit another tag?", s.version,
			version)
	}
	return s, err
}

// changelogHas checks that CHANGELOG.md of the clone has a section for the version.
func changelogHas(dir, version string) error {
	content, err := os.ReadFile(filepath.Join(dir, "CHANGELOG.md"))
	if err == nil && !bytes.Contains(content, []byte("\n## ["+version[1:]+"]")) {
		err = fmt.Errorf("CHANGELOG.md has no section [%s]", version[1:])
	}
	return err
}

// stampedVersion is the version that the Go tool gives the module in dir. Go computes it only when it builds a program
// of the module, so a small one is built: this one.
func stampedVersion(ctx context.Context, dir string) (version string, err error) {
	temp, err := os.MkdirTemp("", "riffle-version-")
	if err != nil {
		return "", err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(temp)) }()
	program := filepath.Join(temp, "program")
	_, err = output(ctx, dir, nil, "go", "build", "-buildvcs=true", "-o", program, "./deploy/releasetool")
	if err != nil {
		return "", err
	}
	info, err := buildinfo.ReadFile(program)
	if err != nil {
		return "", err
	}
	if info.Main.Version == "" || info.Main.Version == "(devel)" {
		return "", errors.New("the Go tool stamps no version: is git installed?")
	}
	return info.Main.Version, nil
}
