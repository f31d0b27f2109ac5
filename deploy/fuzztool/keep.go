package main

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

// maxInput is how many bytes an input may have to be kept.
const maxInput = 4 << 10

// input is one input of a target.
type input struct {
	path string
	size int64
}

// keep copies, for every target, those of the inputs in the go command's cache that together reach all that the cache
// reaches and the seeds do not: smallest first, and no more than the target may have.
func (r *runner) keep(ctx context.Context, targets []target) error {
	cache, err := exec.CommandContext(ctx, "go", "env", "GOCACHE").Output()
	if err != nil {
		return fmt.Errorf("go env GOCACHE: %w", err)
	}
	module, err := exec.CommandContext(ctx, "go", "list", "-m").Output()
	if err != nil {
		return fmt.Errorf("go list -m: %w", err)
	}
	found := filepath.Join(string(bytes.TrimSpace(cache)), "fuzz", string(bytes.TrimSpace(module)))
	work, err := os.MkdirTemp("", "fuzz")
	if err != nil {
		return err
	}
	defer os.RemoveAll(work)
	built := "" // folder whose test binary stands in work
	for _, t := range targets {
		inputs, err := inputsOf(filepath.Join(found, filepath.FromSlash(t.folder), t.name))
		if err != nil {
			return err
		}
		if len(inputs) == 0 {
			continue
		}
		binary := filepath.Join(work, "target.test")
		if built != t.folder {
			build := exec.CommandContext(ctx, "go", "test", "-c", "-vet=off", "-cover", "-o", binary, t.pattern())
			if said, err := build.CombinedOutput(); err != nil {
				return fmt.Errorf("%s: %w: %s", t, err, said)
			}
			built = t.folder
		}
		kept, err := r.choose(ctx, work, binary, t, inputs)
		if err != nil {
			return fmt.Errorf("%s: %w", t, err)
		}
		fmt.Fprintf(r.out, "%s: %d of %d inputs kept\n", t, kept, len(inputs))
	}
	return nil
}

// inputsOf are the inputs in a folder that may be kept, the smallest first; none where there is no such folder.
func inputsOf(folder string) (all []input, err error) {
	entries, err := os.ReadDir(folder)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	for _, e := range entries {
		info, err := e.Info()
		if err != nil {
			return nil, err
		}
		if info.Size() <= maxInput {
			all = append(all, input{filepath.Join(folder, e.Name()), info.Size()})
		}
	}
	slices.SortFunc(all, func(a, b input) int { return cmp.Or(cmp.Compare(a.size, b.size), cmp.Compare(a.path, b.path)) })
	return all, err
}

// choose copies the inputs of one target that reach something new, and returns how many there are. Each is run by
// itself, in the package's test binary, which counts which of its code is reached.
func (r *runner) choose(ctx context.Context, work, binary string, t target, inputs []input) (kept int, err error) {
	corpus, err := filepath.Abs(filepath.FromSlash(t.corpus()))
	if err != nil {
		return 0, err
	}
	there, err := inputsOf(corpus)
	if err != nil {
		return 0, err
	}
	reached, err := reach(ctx, work, binary, t, "")
	if err != nil {
		return 0, err
	}
	if err := os.MkdirAll(corpus, 0o755); err != nil {
		return 0, err
	}
	for _, in := range inputs {
		if len(there)+kept >= r.most {
			break
		}
		name := filepath.Base(in.path)
		path := filepath.Join(corpus, name)
		if _, err := os.Stat(path); err == nil {
			continue
		}
		text, err := os.ReadFile(in.path)
		if err == nil {
			err = os.WriteFile(path, text, 0o644)
		}
		if err != nil {
			return kept, err
		}
		code, err := reach(ctx, work, binary, t, name)
		if err != nil {
			return kept, errors.Join(err, os.Remove(path))
		}
		if fresh(reached, code) {
			kept++
		} else if err := os.Remove(path); err != nil {
			return kept, err
		}
	}
	_ = os.Remove(corpus) // it fails where something is in it
	return kept, nil
}

// fresh adds code to what is reached, and tells whether any of it is new.
func fresh(reached, code map[string]bool) (some bool) {
	for block := range code {
		some = some || !reached[block]
		reached[block] = true
	}
	return some
}

// reach runs one input of a target, or all that it has with the name "", and returns the blocks of code that it reaches.
func reach(ctx context.Context, work, binary string, t target, name string) (map[string]bool, error) {
	profile := filepath.Join(work, "profile")
	run := "^" + t.name + "$"
	if name != "" {
		run += "/^" + name + "$"
	}
	c := exec.CommandContext(ctx, binary, "-test.run="+run, "-test.coverprofile="+profile)
	c.Dir = filepath.FromSlash(t.folder)
	if said, err := c.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("input %q: %w: %s", name, err, said)
	}
	file, err := os.Open(profile)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	reached := map[string]bool{}
	for lines := bufio.NewScanner(file); lines.Scan(); {
		// file.go:line.column,line.column statements count
		if block, count, ok := cutLast(lines.Text()); ok && count != "0" {
			reached[block] = true
		}
	}
	return reached, nil
}

func cutLast(line string) (before, after string, ok bool) {
	at := strings.LastIndexByte(line, ' ')
	if at < 0 {
		return "", "", false
	}
	return line[:at], line[at+1:], true
}
