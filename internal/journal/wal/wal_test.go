package wal

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"go.etcd.io/bbolt"
)

var things = []byte("things")

func open(t *testing.T, path string, size int64) *DB {
	t.Helper()
	d, err := Open(path, Options{Buckets: [][]byte{things}, LogSize: size})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = d.Close() })
	return d
}

func put(key, value string) Change {
	return Change{Bucket: things, Key: []byte(key), Value: []byte(value)}
}

func commit(t *testing.T, d *DB, changes ...Change) {
	t.Helper()
	if err := d.Commit(changes); err != nil {
		t.Fatal(err)
	}
}

// holds is what an open file holds.
func holds(t *testing.T, d *DB) map[string]string {
	t.Helper()
	got := map[string]string{}
	err := d.View(func(tx *bbolt.Tx) error {
		return tx.Bucket(things).ForEach(func(k, v []byte) error {
			got[string(k)] = string(v)
			return nil
		})
	})
	if err != nil {
		t.Fatal(err)
	}
	return got
}

func same(t *testing.T, what string, got, want map[string]string) {
	t.Helper()
	if !maps.Equal(got, want) {
		t.Errorf("%s: %v, want %v", what, got, want)
	}
}

// crash copies the files as a process that is killed leaves them.
func crash(t *testing.T, path string) (copied string) {
	t.Helper()
	folder := t.TempDir()
	if err := os.CopyFS(folder, os.DirFS(filepath.Dir(path))); err != nil {
		t.Fatal(err)
	}
	return filepath.Join(folder, filepath.Base(path))
}

// A process that is killed at any moment leaves what was committed; a write that it was in the middle of is there whole
// or not at all, wherever it was torn.
func TestWhatWasCommittedSurvivesACrash(t *testing.T) {
	path := filepath.Join(t.TempDir(), "file")
	d := open(t, path, 0)
	states := []map[string]string{{}}
	ends := []int64{int64(fileHeader)}
	for i, changes := range [][]Change{
		{put("a", "1"), put("b", "1")},
		{put("a", "2"), {Bucket: things, Key: []byte("b")}, put("c", "")},
		{put("d", "4")},
	} {
		commit(t, d, changes...)
		next := maps.Clone(states[i])
		for _, c := range changes {
			if next[string(c.Key)] = string(c.Value); c.Value == nil {
				delete(next, string(c.Key))
			}
		}
		states, ends = append(states, next), append(ends, d.active.size)
	}
	killed := crash(t, path)
	whole, err := os.ReadFile(killed + ".log1")
	if err != nil {
		t.Fatal(err)
	}
	for length := range len(whole) + 1 {
		for _, zeros := range []int{0, len(whole) - length} { // a file system may have made room before it wrote
			torn := append(append([]byte(nil), whole[:length]...), make([]byte, zeros)...)
			if length < fileHeader {
				continue // nothing is written before the header is durable
			}
			if err := os.WriteFile(killed+".log1", torn, 0o600); err != nil {
				t.Fatal(err)
			}
			read, err := read(killed+".log1", d.active.name)
			if err != nil {
				t.Fatalf("torn at %d, %d zeros: %v", length, zeros, err)
			}
			commits, n := 0, 0
			for commits < 3 && ends[commits+1] <= int64(length) {
				n += []int{2, 3, 1}[commits]
				commits++
			}
			// The last byte of a frame may be a zero that was written.
			if len(read.changes) != n && !(zeros > 0 && len(read.changes) > n) {
				t.Errorf("torn at %d: %d changes, want %d", length, len(read.changes), n)
			}
		}
	}
	for i, end := range ends {
		if err := os.WriteFile(killed+".log1", whole[:min(int(end)+5, len(whole))], 0o600); err != nil {
			t.Fatal(err)
		}
		again := open(t, crash(t, killed), 0)
		same(t, fmt.Sprint("after commit ", i), holds(t, again), states[i])
		commit(t, again, put("e", "5"))
		if got := holds(t, again); got["e"] != "5" {
			t.Errorf("nothing is written after a crash: %v", got)
		}
	}
}

// Damage that no crash explains is an error: what was acknowledged must not vanish.
func TestDamageIsNoCrash(t *testing.T) {
	path := filepath.Join(t.TempDir(), "file")
	d := open(t, path, 0)
	for i := range 3 {
		commit(t, d, put(fmt.Sprint(i), strings.Repeat("x", 40)))
	}
	whole, err := os.ReadFile(path + ".log1")
	if err != nil {
		t.Fatal(err)
	}
	first := fileHeader + (len(whole)-fileHeader)/3
	for at := range first {
		if at >= fileHeader-4 && at < fileHeader {
			continue // how many commits the log before it had, which is taken in
		}
		b := append([]byte(nil), whole...)
		b[at] ^= 0x40
		bad := crash(t, path)
		if err := os.WriteFile(bad+".log1", b, 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := read(bad+".log1", d.active.name); !errors.Is(err, ErrDamaged) {
			t.Fatalf("a bit at byte %d of an acknowledged commit is flipped: %v", at, err)
		}
		if at > 0 { // the rest of this is slow
			continue
		}
		if _, err := Open(bad, Options{Buckets: [][]byte{things}}); !errors.Is(err, ErrDamaged) {
			t.Errorf("opened: %v", err)
		}
	}
}

// An older copy of the file does not go on with a log of a newer one: it would hold some of what was done since.
func TestAnOlderCopyTakesNoNewerLog(t *testing.T) {
	path := filepath.Join(t.TempDir(), "file")
	d := open(t, path, 0)
	old := crash(t, path)
	commit(t, d, put("a", "1"))
	if err := d.Flush(); err != nil {
		t.Fatal(err)
	}
	commit(t, d, put("b", "1"))
	b, err := os.ReadFile(path + ".log2")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(old+".log2", b, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(old, Options{Buckets: [][]byte{things}}); !errors.Is(err, ErrDamaged) {
		t.Errorf("a mixture of copies was opened: %v", err)
	}
}

// A crash between taking a log in and removing it changes nothing, and a newer value is not set back by it.
func TestALogIsTakenInOnce(t *testing.T) {
	path := filepath.Join(t.TempDir(), "file")
	d := open(t, path, 0)
	commit(t, d, put("a", "1"))
	log, err := os.ReadFile(path + ".log1")
	if err != nil {
		t.Fatal(err)
	}
	commit(t, d, put("a", "2"))
	if err := d.Flush(); err != nil {
		t.Fatal(err)
	}
	left := crash(t, path)
	if err := os.WriteFile(left+".log1", log, 0o600); err != nil {
		t.Fatal(err)
	}
	same(t, "taken in twice", holds(t, open(t, left, 0)), map[string]string{"a": "2"})
}

// Logs that are full are taken in while others are written, and after Close none is left.
func TestFullLogsAreTakenIn(t *testing.T) {
	path := filepath.Join(t.TempDir(), "file")
	d, want := open(t, path, 2000), map[string]string{}
	for i := range 500 {
		key, value := fmt.Sprint(i%70), fmt.Sprint("value ", i)
		commit(t, d, put(key, value))
		want[key] = value
		for _, of := range []string{key, fmt.Sprint(i % 11)} {
			if got, err := d.Get(things, []byte(of)); err != nil || string(got) != want[of] {
				t.Fatalf("after commit %d %s is %q, want %q: %v", i, of, got, want[of], err)
			}
		}
		if i == 400 {
			d.applying.Lock() // no log is taken in while the files are copied
			killed := crash(t, path)
			d.applying.Unlock()
			same(t, "after a crash", holds(t, open(t, killed, 0)), want)
		}
	}
	same(t, "open", holds(t, d), want)
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
	if err := d.Commit([]Change{put("late", "")}); !errors.Is(err, os.ErrClosed) {
		t.Errorf("commit after close: %v", err)
	}
	if left, err := d.logs(); err != nil || len(left) > 0 {
		t.Errorf("logs %v are left: %v", left, err)
	}
	same(t, "opened again", holds(t, open(t, path, 0)), want)
}

// A commit is synced before it is acknowledged, and nothing follows one that is not.
func TestACommitIsSynced(t *testing.T) {
	d := open(t, filepath.Join(t.TempDir(), "file"), 0)
	commit(t, d, put("a", "1"))
	broken := errors.New("the disk is gone")
	d.active.sync = func() error { return broken }
	if err := d.Commit([]Change{put("b", "1")}); !errors.Is(err, broken) {
		t.Fatalf("a commit that is not synced: %v", err)
	}
	if err := d.Commit([]Change{put("c", "1")}); !errors.Is(err, broken) {
		t.Fatalf("a commit after one that failed: %v", err)
	}
	same(t, "acknowledged", holds(t, d), map[string]string{"a": "1"})
}
