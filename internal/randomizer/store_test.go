package randomizer

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"go.etcd.io/bbolt"

	"github.com/riffle-dp/riffle/pkg/device"
)

// plainStore is the devices of a store's file as versions without a log file read it.
func plainStore(t *testing.T, path string, change func(b *bbolt.Bucket) error) map[string][]byte {
	t.Helper()
	db, err := bbolt.Open(path, 0o600, nil)
	if err != nil {
		t.Fatal(err)
	}
	got := map[string][]byte{}
	err = db.Update(func(tx *bbolt.Tx) error {
		b, err := tx.CreateBucketIfNotExists([]byte("devices"))
		if err == nil && change != nil {
			err = change(b)
		}
		if err != nil {
			return err
		}
		return b.ForEach(func(k, v []byte) error {
			got[string(k)] = append([]byte(nil), v...)
			return nil
		})
	})
	if err = errors.Join(err, db.Close()); err != nil {
		t.Fatal(err)
	}
	return got
}

// A store of an earlier version goes on, after Close the earlier version can go on with it, and it stops at one that was
// killed: it would not know what was spent last.
func TestAnEarlierVersionsStoreGoesOn(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "devices")
	plainStore(t, path, func(b *bbolt.Bucket) error {
		return b.Put([]byte("old"), []byte(`{"name":"old","number":7,"ledger":{"epsilon":1,"delta":1e-6}}`))
	})
	store, err := OpenStore(path)
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	if err := store.Put(Device{Name: "new", State: device.State{Number: 8}}); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"", string(markKey), "a\xff"} {
		if err := store.Put(Device{Name: name}); err == nil {
			t.Errorf("a device %q is kept", name)
		}
	}
	killed := filepath.Join(t.TempDir(), "killed")
	if err := os.CopyFS(killed, os.DirFS(filepath.Dir(path))); err != nil {
		t.Fatal(err)
	}
	loads := func(s Store) (numbers map[string]uint32) {
		numbers = map[string]uint32{}
		if err := s.Load(func(d Device) error { numbers[d.Name] = d.Number; return nil }); err != nil {
			t.Fatal(err)
		}
		return numbers
	}
	if got := loads(store); len(got) != 2 || got["old"] != 7 || got["new"] != 8 {
		t.Errorf("devices %v", got)
	}
	readable := func(path string) bool {
		for _, v := range plainStore(t, path, nil) {
			if json.Unmarshal(v, new(Device)) != nil {
				return false
			}
		}
		return true
	}
	if readable(filepath.Join(killed, "devices")) {
		t.Error("an earlier version opens a store whose log it does not read")
	}
	again, err := OpenStore(filepath.Join(killed, "devices"))
	if err != nil {
		t.Fatal(err)
	}
	defer again.Close()
	if got := loads(again); got["new"] != 8 {
		t.Errorf("after the process was killed: devices %v", got)
	}
	if err := store.Close(); err != nil {
		t.Fatal(err)
	}
	if !readable(path) || len(plainStore(t, path, nil)) != 2 {
		t.Error("an earlier version does not go on after this one has closed the store")
	}
}

// A copy of the state file alone goes on with the log that continues it, and has what was followed and noted since.
func TestTheLogHoldsWhatWasFollowed(t *testing.T) {
	path := filepath.Join(t.TempDir(), "devices")
	s, err := OpenStore(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	older, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	err = errors.Join(s.Follow(1, 2, [32]byte{3}), s.PutNote(noteRolledBack, []byte("so")), s.Put(Device{Name: "a"}))
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
	again, err := OpenStore(mixed)
	if err != nil {
		t.Fatal(err)
	}
	defer again.Close()
	if err := again.Follow(1, 2, [32]byte{4}); !errors.Is(err, device.ErrRewound) {
		t.Errorf("another announcement of a round that was followed: %v", err)
	}
	if text, err := again.Note(noteRolledBack); string(text) != "so" {
		t.Errorf("the note is %q: %v", text, err)
	}
}

// A version without logs reads the mark as a device, and what it then says tells what is the matter.
func TestTheMarkOfANewerStoreIsReadable(t *testing.T) {
	var d Device
	err := json.Unmarshal(markText, &d)
	if err == nil || !strings.Contains(err.Error(), "this version of Riffle is too old for") {
		t.Errorf("an older version says %v", err)
	}
}
