package store

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// No name is in the files of a store, and its key tells each name from every other. The key stays the same when the
// store is opened again, or moved with it.
func TestNamesAreNotOnTheDisk(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	open := func(folder string) Store {
		s, err := Open(filepath.Join(folder, "devices"))
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	s := open(folder)
	const name = "erika.mustermann"
	key := s.Key(name)
	if key == s.Key(name+"x") || len(key) != 64 || strings.Contains(key, "erika") {
		t.Errorf("%q", key)
	}
	if err := s.Put(Device{Name: key}); err != nil {
		t.Fatal(err)
	}
	if err := s.OptOut(s.Key("max.mustermann"), true); err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	moved := t.TempDir()
	entries, err := os.ReadDir(folder)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		text, err := os.ReadFile(filepath.Join(folder, e.Name()))
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(string(text), "mustermann") {
			t.Errorf("%s has a name", e.Name())
		}
		if info, err := e.Info(); err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("%s: %v, %v", e.Name(), info, err)
		}
		if err := os.WriteFile(filepath.Join(moved, e.Name()), text, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	again := open(moved)
	var outs []string
	if err := again.OptedOut(func(key string) { outs = append(outs, key) }); err != nil {
		t.Fatal(err)
	}
	if again.Key(name) != key || len(outs) != 1 || outs[0] != again.Key("max.mustermann") {
		t.Errorf("moved: %q, %q", again.Key(name), outs)
	}
	if err := again.Close(); err != nil {
		t.Error(err)
	}
	if other := open(t.TempDir()); other.Key(name) == key {
		t.Error("two stores have one key")
	} else if err := other.Close(); err != nil {
		t.Error(err)
	}
}

// A store is not opened without its key, or with another one: its people would be taken for new ones, and could report
// once more. A key that was made before the store began is taken.
func TestAStoreIsNotOpenedWithoutItsKey(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "devices")
	reopen := func() error {
		s, err := Open(path)
		if err == nil {
			err = s.Close()
		}
		return err
	}
	key := func(text string) {
		t.Helper()
		if err := os.WriteFile(path+".key", []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	key(strings.Repeat("ab", 32))
	if err := reopen(); err != nil { // nothing is stored, but whose key it is
		t.Fatal(err)
	}
	refused := func(want string) {
		t.Helper()
		if err := reopen(); err == nil || !strings.Contains(err.Error(), want) ||
			!strings.Contains(err.Error(), "restore both") && want != "open to others" {
			t.Errorf("want %q: %v", want, err)
		}
	}
	for text, want := range map[string]string{
		strings.Repeat("cd", 32): "is not the key", "": "no key", "# only\n": "no key", "ab": "64 hexadecimal",
		strings.Repeat("ab", 32) + "\n" + strings.Repeat("cd", 32): "more than one", strings.Repeat("xy", 32): "64 hex",
	} {
		key(text)
		refused(want)
	}
	if err := os.Remove(path + ".key"); err != nil {
		t.Fatal(err)
	}
	refused("is missing")
	key("# a comment\n\n" + strings.Repeat("ab", 32))
	if err := os.Chmod(path+".key", 0o644); err != nil {
		t.Fatal(err)
	}
	refused("open to others")
	if err := os.Chmod(path+".key", 0o600); err != nil {
		t.Fatal(err)
	}
	if err := reopen(); err != nil {
		t.Error(err)
	}
}

// FuzzNames reads any bytes as the key of a store's names: it is one key, or an error.
func FuzzNames(f *testing.F) {
	f.Add([]byte("# x\n" + strings.Repeat("ab", 32) + "\n"))
	f.Add([]byte(strings.Repeat("ab", 31)))
	f.Fuzz(func(t *testing.T, text []byte) {
		if key, err := parseNames(text); (err == nil) != (len(key) == 32) {
			t.Fatalf("%x, %v", key, err)
		}
	})
}
