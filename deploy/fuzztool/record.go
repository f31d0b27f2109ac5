package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// entry is what the file of --json says of one target: of the last time that it was fuzzed to an end.
type entry struct {
	Package    string `json:"package"` // folder below the root of the repository, with slashes
	Target     string `json:"target"`
	Seconds    int    `json:"seconds"` // that it was fuzzed for, as the go command says, without what it took to build
	Executions int    `json:"executions"`
	NewInputs  int    `json:"new_inputs"`
	Result     string `json:"result"` // as in the table
	Commit     string `json:"commit"` // HEAD when the target began
	// Modified tells that what was fuzzed is not the commit: something was not committed, or HEAD moved meanwhile.
	Modified bool `json:"modified"`
}

// of tells whether the entry is of a target.
func (e entry) of(t target) bool { return e.Package == t.folder && e.Target == t.name }

// source is what lies in the work tree: a commit, and where it differs from it.
type source struct {
	commit  string
	differs string // a path that is not as the commit has it, or "" if there is none
}

// record is the file of --json.
type record struct {
	path    string
	entries []entry // at most one of each target, by package and name
}

// openRecord reads a file that an earlier run wrote, if there is one, and writes it, so that a file that cannot be
// written is an error before hours are spent. What is no such file is left as it is.
func openRecord(path string) (*record, error) {
	r := &record{path: path}
	text, err := os.ReadFile(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		r.entries = []entry{}
	case err != nil:
		return nil, err
	default:
		if err := json.Unmarshal(text, &r.entries); err != nil {
			return nil, fmt.Errorf("%s is no record of a run: %w", path, err)
		}
		for _, e := range r.entries {
			if e.Package == "" || e.Target == "" || e.Result == "" || e.Commit == "" {
				return nil, fmt.Errorf("%s is no record of a run: an object has no package, target, result or commit", path)
			}
		}
	}
	return r, r.write()
}

// put replaces what the file says of a target.
func (r *record) put(e entry) error {
	at := slices.IndexFunc(r.entries, func(o entry) bool { return o.Package == e.Package && o.Target == e.Target })
	if at < 0 {
		r.entries = append(r.entries, e)
	} else {
		r.entries[at] = e
	}
	slices.SortFunc(r.entries, func(a, b entry) int {
		return target{a.Package, a.Target, ""}.compare(target{b.Package, b.Target, ""})
	})
	return r.write()
}

// write puts a new file in the place of the old one: who reads it finds the one or the other, whole, also after a kill.
func (r *record) write() error {
	text, err := json.MarshalIndent(r.entries, "", "  ")
	if err != nil {
		return err
	}
	f, err := os.CreateTemp(filepath.Dir(r.path), "."+filepath.Base(r.path)+".*")
	if err != nil {
		return err
	}
	_, err = f.Write(append(text, '\n'))
	err = errors.Join(err, f.Chmod(0o644), f.Sync(), f.Close())
	if err == nil {
		err = os.Rename(f.Name(), r.path)
	}
	if err != nil {
		return errors.Join(err, os.Remove(f.Name()))
	}
	return nil
}

// done returns what the file says of a target that need not be fuzzed again, or why it must be: the reason is empty
// where the file says nothing of it.
func (r *record) done(t target, at source, atLeast time.Duration) (e entry, reason string, ok bool) {
	i := slices.IndexFunc(r.entries, func(e entry) bool { return e.of(t) })
	if i < 0 {
		return entry{}, "", false
	}
	e = r.entries[i]
	// The go command rounds to seconds, so the time wanted is rounded the same way.
	whole := int(atLeast.Round(time.Second) / time.Second)
	switch {
	case e.Result != passed:
		reason = "its result was " + e.Result
	case e.Commit != at.commit:
		reason = fmt.Sprintf("commit %s was fuzzed, and this is %s", short(e.Commit), short(at.commit))
	case e.Modified:
		reason = "not all that was fuzzed is in commit " + short(e.Commit)
	case at.differs != "":
		reason = at.differs + " is not as in commit " + short(at.commit)
	case e.Seconds < whole:
		reason = fmt.Sprintf("it was fuzzed for %d s, and %d s are wanted", e.Seconds, whole)
	}
	return e, reason, reason == ""
}

// short is as much of a commit as a reader needs.
func short(commit string) string { return commit[:min(len(commit), 12)] }

// sourceHere asks git what lies in the work tree. Inputs of targets are no difference: a run itself adds those that
// fail. Nor is the file of --json, wherever it lies.
func sourceHere(ctx context.Context, ours string) (s source, err error) {
	git := func(args ...string) string {
		if err != nil {
			return ""
		}
		var said bytes.Buffer
		c := exec.CommandContext(ctx, "git", args...)
		c.Stderr = &said
		var text []byte
		if text, err = c.Output(); err != nil {
			err = fmt.Errorf("--json notes the commit: git %s: %w: %s", args[0], err, bytes.TrimSpace(said.Bytes()))
		}
		return strings.TrimSuffix(string(text), "\n")
	}
	root := git("rev-parse", "--show-toplevel")
	s.commit = git("rev-parse", "HEAD")
	changes := git("status", "--porcelain", "-z", "--no-renames", "--untracked-files=all")
	own, _ := os.Stat(ours) // what is not there is no difference either
	for change := range strings.SplitSeq(changes, "\x00") {
		if len(change) < 4 { // two letters, a space, a path
			continue
		}
		path := change[3:]
		if info, err := os.Stat(filepath.Join(root, filepath.FromSlash(path))); err == nil && os.SameFile(info, own) {
			continue
		}
		if !strings.Contains("/"+path, "/testdata/fuzz/") {
			s.differs = path
			break
		}
	}
	return s, err
}
