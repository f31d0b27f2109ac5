package store

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"go.etcd.io/bbolt"

	"github.com/riffle-dp/riffle/pkg/device"
)

// A device whose name the file cannot hold is refused, and alone.
func TestNamesThatAStoreRefuses(t *testing.T) {
	t.Parallel()
	all, err := Open(filepath.Join(t.TempDir(), "devices"))
	if err != nil {
		t.Fatal(err)
	}
	defer all.Close()
	for _, name := range []string{"", "a\xff", strings.Repeat("n", bbolt.MaxKeySize+1)} {
		if err := all.Put(Device{Name: name}); err == nil {
			t.Errorf("a device %q is kept", name)
		}
	}
	if err := all.Put(Device{Name: "a"}); err != nil {
		t.Error(err)
	}
}

// A copy of the state file alone goes on with the log that continues it, and has what was followed and noted since.
func TestTheLogHoldsWhatWasFollowed(t *testing.T) {
	path := filepath.Join(t.TempDir(), "devices")
	s, err := Open(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	older, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	err = errors.Join(s.Follow(1, 2, [32]byte{3}), s.PutNote(RolledBack, []byte("so")), s.Put(Device{Name: "a"}))
	if err != nil {
		t.Fatal(err)
	}
	mixed := filepath.Join(t.TempDir(), "devices")
	if err := os.CopyFS(filepath.Dir(mixed), os.DirFS(filepath.Dir(path))); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(mixed, older, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(mixed+".key", 0o600); err != nil { // which CopyFS does not keep
		t.Fatal(err)
	}
	again, err := Open(mixed)
	if err != nil {
		t.Fatal(err)
	}
	defer again.Close()
	if err := again.Follow(1, 2, [32]byte{4}); !errors.Is(err, device.ErrRewound) {
		t.Errorf("another announcement of a round that was followed: %v", err)
	}
	if text, err := again.Note(RolledBack); string(text) != "so" {
		t.Errorf("the note is %q: %v", text, err)
	}
}

// A state folder has one owner, and a second one is told so.
func TestOneProcessPerStateFolder(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	held, err := Open(filepath.Join(dir, "devices"))
	if err != nil {
		t.Fatal(err)
	}
	defer held.Close()
	if testing.Short() {
		t.Skip("waits for a time limit")
	}
	if _, err := Open(filepath.Join(dir, "devices")); err == nil ||
		!strings.Contains(err.Error(), "another process has it open") {
		t.Errorf("%v", err)
	}
}
