package audit_test

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/riffle-dp/riffle/internal/audit"
	"github.com/riffle-dp/riffle/internal/bus"
	"github.com/riffle-dp/riffle/internal/testing/ledger"
	"github.com/riffle-dp/riffle/pkg/glm"
	"github.com/riffle-dp/riffle/pkg/plan"
)

// retaining is a small deployment whose messages were retained. Nobody changes it.
var retaining = ledger.Once(ledger.Options{
	Configuration: ledger.Small(glm.Practical, plan.Local, 2), Seed: 3, Retain: true,
})

// export holds the files of retaining's export once it was written.
var export = fstest.MapFS{}

// exported is retaining, and an export of it that the test may change.
func exported(t *testing.T) (*ledger.Ledger, string) {
	t.Helper()
	l, err := retaining()
	if err != nil {
		t.Fatal(err)
	}
	folder := filepath.Join(t.TempDir(), "some", "export")
	if len(export) > 0 {
		if err := os.CopyFS(folder, export); err != nil {
			t.Fatal(err)
		}
		return l, folder
	}
	done, err := audit.WriteFolder(context.Background(), folder, l, l.Bundle)
	if err != nil {
		t.Fatal(err)
	}
	if done.Retained == 0 || done.Certificates != 2 || len(done.Uncertified) != 0 {
		t.Fatalf("%+v", done)
	}
	from := os.DirFS(folder)
	err = fs.WalkDir(from, ".", func(path string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		data, err := fs.ReadFile(from, path)
		export[path] = &fstest.MapFile{Data: data, Mode: 0o644}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return l, folder
}

// logs is all that a source shows of a role.
func logs(t *testing.T, s audit.Source, role bus.Role) (all []audit.Entry, checkpoint []byte) {
	t.Helper()
	err := s.Log(context.Background(), role, func(e audit.Entry) error { all = append(all, e); return nil })
	if err != nil {
		t.Fatal(err)
	}
	if checkpoint, err = s.Checkpoint(context.Background(), role); err != nil {
		t.Fatal(err)
	}
	return all, checkpoint
}

// A folder shows what was exported to it, byte for byte, and nothing in it is without a signature or a digest.
func TestAFolderShowsWhatWasExported(t *testing.T) {
	l, path := exported(t)
	folder, err := audit.OpenFolder(path)
	if err != nil {
		t.Fatal(err)
	}
	for _, role := range []bus.Role{bus.Analyzer, bus.Shuffler} {
		all, checkpoint := logs(t, folder, role)
		if !reflect.DeepEqual(all, l.Logs[role]) || !slices.Equal(checkpoint, l.Checkpoints[role]) {
			t.Errorf("the %s's log is another one", role)
		}
	}
	if b, err := folder.Bundle(); err != nil || !reflect.DeepEqual(b, l.Bundle) {
		t.Errorf("%+v, %v", b, err)
	}
	for at, chunks := range l.Chunks {
		var found [][]byte
		err := folder.Retained(context.Background(), at.Epoch, at.Round, func(index uint32, sealed []byte) error {
			if int(index) != len(found) {
				t.Errorf("chunk %d comes as number %d", index, len(found))
			}
			found = append(found, sealed)
			return nil
		})
		if err != nil || !reflect.DeepEqual(found, chunks) {
			t.Errorf("%+v: %d chunks, retained were %d, %v", at, len(found), len(chunks), err)
		}
	}
	if stray, err := folder.Stray(); err != nil || len(stray) > 0 {
		t.Errorf("%v, %v", stray, err)
	}
	report, err := audit.Check(context.Background(), folder, audit.Options{Trust: l.Bundle})
	if err != nil || !report.OK {
		t.Errorf("%+v, %v", report, err)
	}
	again := filepath.Join(t.TempDir(), "again")
	if _, err := audit.WriteFolder(context.Background(), again, folder, l.Bundle); err != nil {
		t.Fatal(err)
	}
	same(t, path, again)
}

// Everybody may read what is signed, and the auditor alone what was retained: the broker's window does not end this
// copy.
func TestRetainedChunksAreTheAuditorsAlone(t *testing.T) {
	l, err := retaining()
	path := filepath.Join(t.TempDir(), "export")
	if err == nil {
		_, err = audit.WriteFolder(context.Background(), path, l, l.Bundle)
	}
	if err != nil {
		t.Fatal(err)
	}
	kept := 0
	err = filepath.WalkDir(path, func(at string, e os.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := e.Info()
		if err != nil {
			return err
		}
		name, _ := filepath.Rel(path, at)
		private := name == "retained" || strings.HasPrefix(name, "retained"+string(filepath.Separator))
		if private {
			kept++
		}
		if others := info.Mode().Perm() & 0o077; private != (others == 0) {
			t.Errorf("%s: %v", name, info.Mode())
		}
		return nil
	})
	if err != nil || kept < 3 {
		t.Errorf("%d files and folders of what was retained, %v", kept, err)
	}
}

// same compares two folders.
func same(t *testing.T, a, b string) {
	t.Helper()
	count := 0
	err := filepath.WalkDir(a, func(path string, e os.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		count++
		name, _ := filepath.Rel(a, path)
		first, err := os.ReadFile(path)
		second, other := os.ReadFile(filepath.Join(b, name))
		if err != nil || other != nil || string(first) != string(second) {
			t.Errorf("%s differs: %v, %v", name, err, other)
		}
		return nil
	})
	if err != nil || count < 8 {
		t.Errorf("%d files, %v", count, err)
	}
}

// What no signature covers is found whatever it is called, links among it.
func TestStrayFilesAreNamed(t *testing.T) {
	_, path := exported(t)
	write := func(name string) {
		t.Helper()
		if err := errors.Join(os.MkdirAll(filepath.Dir(filepath.Join(path, name)), 0o755),
			os.WriteFile(filepath.Join(path, name), []byte("x"), 0o644)); err != nil {
			t.Fatal(err)
		}
	}
	want := []string{"README", "certificates/epoch-01.json", "certificates/link", "notes/x", "retained/1/0/01",
		"retained/1/0/x", "retained/1/00/1", "retained/5", "witness.log"}
	for _, name := range want {
		if name != "certificates/link" {
			write(name)
		}
	}
	if err := os.Symlink("epoch-1.json", filepath.Join(path, "certificates/link")); err != nil {
		t.Skip(err)
	}
	folder, err := audit.OpenFolder(path)
	if err != nil {
		t.Fatal(err)
	}
	if stray, err := folder.Stray(); err != nil || !slices.Equal(stray, want) {
		t.Errorf("%q, %v", stray, err)
	}
}

// An export takes a new folder or an empty one, and leaves nothing behind when it fails.
func TestAnExportIsWholeOrNotThere(t *testing.T) {
	l, path := exported(t)
	if _, err := audit.WriteFolder(context.Background(), path, l, l.Bundle); !errors.Is(err, audit.ErrNotEmpty) {
		t.Errorf("a folder that holds something: %v", err)
	}
	root := t.TempDir()
	broken := &failing{Source: l}
	for after := range 6 {
		broken.after = after
		_, err := audit.WriteFolder(context.Background(), filepath.Join(root, "x"), broken, l.Bundle)
		if !errors.Is(err, errFailing) {
			t.Errorf("after %d calls: %v", after, err)
		}
		if left, err := os.ReadDir(root); err != nil || len(left) > 0 {
			t.Fatalf("after %d calls %v is left, %v", after, left, err)
		}
	}
	if err := os.Mkdir(filepath.Join(root, "empty"), 0o700); err != nil {
		t.Fatal(err)
	}
	if _, err := audit.WriteFolder(context.Background(), filepath.Join(root, "empty"), l, l.Bundle); err != nil {
		t.Errorf("an empty folder: %v", err)
	}
}

var errFailing = errors.New("the source fails")

// failing fails after some calls.
type failing struct {
	audit.Source
	after int
}

func (f *failing) fails() error {
	if f.after--; f.after < 0 {
		return errFailing
	}
	return nil
}

func (f *failing) Log(ctx context.Context, r bus.Role, use func(audit.Entry) error) error {
	if err := f.fails(); err != nil {
		return err
	}
	return f.Source.Log(ctx, r, use)
}

func (f *failing) Checkpoint(ctx context.Context, r bus.Role) ([]byte, error) {
	if err := f.fails(); err != nil {
		return nil, err
	}
	return f.Source.Checkpoint(ctx, r)
}

// A log that is not written as an export writes it is refused, with the file, the line and the reason.
func TestOddLinesAreRefused(t *testing.T) {
	_, path := exported(t)
	file := filepath.Join(path, "shuffler.log")
	good, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	first, rest, _ := strings.Cut(string(good), "\n")
	for reason, line := range map[string]string{
		"unknown field":            strings.Replace(first, "{", `{"more":1,`, 1),
		"not written as an export": strings.Replace(first, ":", ": ", 1),
		"1 to 64 letters":          strings.Replace(first, `"kind":"manifest"`, `"kind":"mani.fest"`, 1),
		"looking for beginning":    first[7:],
		"1 to 8384512 bytes":       `{"kind":"manifest","signed":""}`,
		"not written as":           first + "x",
		"EOF":                      "",
		"more than":                first[:len(first)-2] + strings.Repeat("A", 12<<20) + `"}`,
	} {
		if err := os.WriteFile(file, []byte(line+"\n"+rest), 0o644); err != nil {
			t.Fatal(err)
		}
		refused(t, path, reason, "line 1")
	}
	if err := os.WriteFile(file, []byte(strings.TrimSuffix(string(good), "\n")), 0o644); err != nil {
		t.Fatal(err)
	}
	refused(t, path, "cut off", "line 2")
	if err := os.Remove(file); err != nil {
		t.Fatal(err)
	}
	if _, err := audit.OpenFolder(path); !errors.Is(err, audit.ErrFolder) ||
		!strings.Contains(err.Error(), "shuffler.log") {
		t.Errorf("without a log: %v", err)
	}
}

func refused(t *testing.T, path string, reasons ...string) {
	t.Helper()
	folder, err := audit.OpenFolder(path)
	if err != nil {
		t.Fatal(err)
	}
	err = folder.Log(context.Background(), bus.Shuffler, func(audit.Entry) error { return nil })
	if !errors.Is(err, audit.ErrFolder) {
		t.Errorf("%s: %v", reasons[0], err)
		return
	}
	for _, reason := range append(reasons, "shuffler.log") {
		if !strings.Contains(err.Error(), reason) {
			t.Errorf("%q does not say %q", err, reason)
		}
	}
}
