// Package listen is how a role is reached by programs that it must tell apart from others: TLS, Unix sockets, and
// bearer tokens. Certificates, keys and tokens are in files, which are read again when they change, without a restart.
package listen

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"runtime"
	"slices"
	"sync"
	"time"
)

const (
	maxFile = 1 << 20
	// settled is how old a file is whose next change certainly changes its time or size.
	settled = 2 * time.Second
)

// ErrOpenToOthers says that everybody on the machine can read a file that holds a secret.
var ErrOpenToOthers = errors.New("everybody on this machine can read it; take that right away (chmod o-rwx)")

// file is one that a value is made of. One that holds a secret may be read by its owner and its group only.
type file struct {
	path   string
	secret bool
}

// watched is a value that is made of files, and made anew once one of them has changed. Safe for concurrent use.
type watched[T any] struct {
	files []file
	parse func(contents [][]byte) (T, error)
	heard func(error) // is told of each change, and why the value cannot be made; nil where it can

	mu    sync.Mutex
	seen  []fs.FileInfo // nil: to be read
	value T
	err   error
}

// get is the value as the files are now, or why there is none.
func (w *watched[T]) get() (T, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	now, err := w.look()
	if err == nil && w.seen != nil && slices.EqualFunc(now, w.seen, isSame) {
		return w.value, w.err
	}
	var value T
	if err == nil {
		value, err = w.read()
	}
	first, before := w.seen == nil && w.err == nil, w.err
	if w.value, w.err, w.seen = value, err, now; !areSettled(now) {
		w.seen = nil
	}
	if w.heard != nil && (!first || err != nil) && fmt.Sprint(before) != fmt.Sprint(err) {
		w.heard(err)
	}
	return w.value, w.err
}

// look is what the folder says of the files.
func (w *watched[T]) look() (all []fs.FileInfo, err error) {
	for _, f := range w.files {
		info, err := os.Stat(f.path)
		if err != nil {
			return nil, err
		}
		if f.secret && runtime.GOOS != "windows" && info.Mode().Perm()&0o007 != 0 {
			return nil, fmt.Errorf("%s: %w", f.path, ErrOpenToOthers)
		}
		all = append(all, info)
	}
	return all, nil
}

func (w *watched[T]) read() (value T, err error) {
	var contents [][]byte
	for _, f := range w.files {
		text, err := readFile(f.path)
		if err != nil {
			return value, err
		}
		contents = append(contents, text)
	}
	return w.parse(contents)
}

func readFile(path string) (text []byte, err error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	if text, err = io.ReadAll(io.LimitReader(f, maxFile+1)); err == nil && len(text) > maxFile {
		err = fmt.Errorf("%s: more than %d bytes", path, maxFile)
	}
	return text, err
}

func isSame(a, b fs.FileInfo) bool {
	return os.SameFile(a, b) && a.ModTime().Equal(b.ModTime()) && a.Size() == b.Size() && a.Mode() == b.Mode()
}

// areSettled reports whether the files' next changes will show.
func areSettled(all []fs.FileInfo) bool {
	return !slices.ContainsFunc(all, func(i fs.FileInfo) bool { return time.Since(i.ModTime()) < settled })
}
