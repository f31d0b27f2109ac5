package keyfile

import (
	"bytes"
	"context"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// gitTime bounds how long git may take to say what it lists.
const gitTime = 10 * time.Second

// ListInGit are the private files, at a path or below it, in terms of that path, that git has in its index or would
// take with its next "git add": none where no git work tree is around them. Where git cannot be asked they are those in
// folders that Folder did not make.
func ListInGit(path string) (files []string, err error) {
	root, err := filepath.Abs(path)
	if err != nil {
		return nil, err
	}
	tree := workTree(root)
	if tree == "" {
		return nil, nil
	}
	private := map[string]bool{}
	err = filepath.WalkDir(root, func(at string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		if info, err := d.Info(); err == nil && info.Mode().Perm()&0o077 == 0 && d.Name() != ignoreFile {
			private[at] = true
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	listed, asked := git(root)
	if !asked {
		listed = nil
		for at := range private {
			if !isLeftOut(at, tree) {
				listed = append(listed, at)
			}
		}
	}
	for _, at := range listed {
		if within, err := filepath.Rel(root, at); err == nil && private[at] {
			files = append(files, filepath.Join(path, within))
		}
	}
	slices.Sort(files)
	return slices.Compact(files), nil
}

// workTree is the git work tree that a path is in; "" where it is in none.
func workTree(path string) string {
	for at := filepath.Dir(path); ; at = filepath.Dir(at) {
		if _, err := os.Lstat(filepath.Join(at, ".git")); err == nil {
			return at
		}
		if at == filepath.Dir(at) {
			return ""
		}
	}
}

// isLeftOut reports whether git leaves a file out because of a folder between it and the work tree.
func isLeftOut(path, tree string) bool {
	for at := filepath.Dir(path); len(at) >= len(tree) && strings.HasPrefix(at, tree); at = filepath.Dir(at) {
		if hasIgnoreFile(at) {
			return true
		}
		if at == tree {
			break
		}
	}
	return false
}

// git lists what it has, or would take, at a path or below it.
func git(root string) (files []string, asked bool) {
	program, err := exec.LookPath("git")
	if err != nil {
		return nil, false
	}
	ctx, cancel := context.WithTimeout(context.Background(), gitTime)
	defer cancel()
	folder := filepath.Dir(root)
	out, err := exec.CommandContext(ctx, program, "--literal-pathspecs", "-C", folder, "-c", "core.fsmonitor=false",
		"ls-files", "--cached",
		// nolint:gosec // a path of the caller's
		"--others", "--exclude-standard", "-z", "--", filepath.Base(root)).Output()
	if err != nil {
		return nil, false
	}
	for name := range bytes.SplitSeq(out, []byte{0}) {
		if len(name) > 0 {
			files = append(files, filepath.Join(folder, string(name)))
		}
	}
	return files, true
}
