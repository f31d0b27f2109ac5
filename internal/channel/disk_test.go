package channel

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"testing"
)

// A file appears whole or not at all, replaces an earlier one, and leaves nothing behind when it is removed.
func TestFolderKeepsWholeFiles(t *testing.T) {
	t.Parallel()
	f := Folder(t.TempDir())
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	read := func() string {
		t.Helper()
		r, err := f.Open("a")
		must(err)
		defer r.Close()
		b, err := io.ReadAll(r)
		must(err)
		return string(b)
	}
	full := errors.New("the disk is full")
	write := func(text string, err error) func(io.Writer) error {
		return func(w io.Writer) error {
			_, e := io.WriteString(w, text)
			return errors.Join(e, err)
		}
	}
	if _, err := f.Open("a"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("before it is stored: %v", err)
	}
	if err := f.Store("a", write("ha", full)); !errors.Is(err, full) {
		t.Errorf("cut short: %v", err)
	}
	if _, err := f.Open("a"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("after a write that was cut short: %v", err)
	}
	must(f.Store("a", write("whole", nil)))
	if err := f.Store("a", write("ha", full)); !errors.Is(err, full) || read() != "whole" {
		t.Errorf("replaced by half of a file: %v", err)
	}
	must(f.Store("a", write("newer", nil)))
	if got := read(); got != "newer" {
		t.Errorf("read %q", got)
	}
	must(os.WriteFile(part(f.path("a")), []byte("of a process that was killed"), 0o600))
	must(f.Remove("a"))
	must(f.Remove("a"))
	if files, err := os.ReadDir(string(f)); err != nil || len(files) != 0 {
		t.Errorf("%d files are left (%v)", len(files), err)
	}
}
