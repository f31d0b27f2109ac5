package wal

import (
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// refused tells of a folder that it must not be opened.
func refused(t *testing.T, what, path string) {
	t.Helper()
	d, err := Open(path, Options{Buckets: [][]byte{things}})
	if err == nil {
		t.Errorf("%s: opened with %v", what, holds(t, d))
		_ = d.Close()
	} else if !errors.Is(err, ErrDamaged) {
		t.Errorf("%s: %v", what, err)
	}
}

func copyFile(t *testing.T, from, to string) {
	t.Helper()
	b, err := os.ReadFile(from)
	if err == nil {
		err = os.WriteFile(to, b, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// A file without its log is not complete, and says so: its last commits are in the log.
func TestAFileWithoutItsLogIsRefused(t *testing.T) {
	path := filepath.Join(t.TempDir(), "file")
	d := open(t, path, 0)
	commit(t, d, put("a", "1"))
	for _, flushed := range []bool{false, true} {
		if flushed {
			if err := d.Flush(); err != nil {
				t.Fatal(err)
			}
			commit(t, d, put("a", "2"))
		}
		numbers, err := d.logs()
		if err != nil || len(numbers) != 1 {
			t.Fatal(numbers, err)
		}
		alone := crash(t, path)
		if err := os.Remove(alone + fmt.Sprint(".log", numbers[0])); err != nil {
			t.Fatal(err)
		}
		refused(t, fmt.Sprint("without its log, flushed: ", flushed), alone)
		if err := os.WriteFile(alone+fmt.Sprint(".log", numbers[0]), nil, 0o600); err != nil {
			t.Fatal(err)
		}
		refused(t, fmt.Sprint("with an empty log, flushed: ", flushed), alone)
	}
}

// A log is taken in by the copy of the file that it continues, and by no other: neither an older one that was closed
// in order, nor one of another session in which the log of that number held something else.
func TestALogContinuesOneCopy(t *testing.T) {
	path := filepath.Join(t.TempDir(), "file")
	d := open(t, path, 0)
	commit(t, d, put("a", "1"))
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
	older := crash(t, path)
	one := crash(t, path)
	other := crash(t, path)
	for i, p := range []string{one, other} {
		d := open(t, p, 0)
		commit(t, d, put("b", fmt.Sprint(i)))
	}
	copyFile(t, one+".log2", older+".log2")
	refused(t, "a copy of before with a log of after", older)
	mixed := crash(t, one)
	copyFile(t, other+".log2", mixed+".log2")
	refused(t, "the log of another session", mixed)
	same(t, "unmixed", holds(t, open(t, crash(t, one), 0)), map[string]string{"a": "1", "b": "0"})
}

// A log behind which another was begun was durable to its last byte: one that is shorter, or has a bit of its last
// commit flipped, is no crash.
func TestOnlyTheLastLogMayBeTorn(t *testing.T) {
	path := filepath.Join(t.TempDir(), "file")
	d := open(t, path, 150)
	d.applying.Lock() // so that full logs stay
	defer d.applying.Unlock()
	want := map[string]string{}
	for i := range 4 {
		commit(t, d, put(fmt.Sprint(i), strings.Repeat("x", 30)))
		want[fmt.Sprint(i)] = strings.Repeat("x", 30)
	}
	if len(d.full) != 1 {
		t.Fatalf("%d logs are full", len(d.full))
	}
	whole, err := os.ReadFile(path + ".log1")
	if err != nil {
		t.Fatal(err)
	}
	same(t, "whole", holds(t, open(t, crash(t, path), 0)), want)
	bad := crash(t, path)
	for at := range whole {
		flipped := append([]byte(nil), whole...)
		flipped[at] ^= 1
		for _, b := range [][]byte{flipped, whole[:at]} {
			if at >= fileHeader-4 && at < fileHeader && len(b) == len(whole) {
				continue // of a log that was taken in long ago
			}
			if err := os.WriteFile(bad+".log1", b, 0o600); err != nil {
				t.Fatal(err)
			}
			db := &DB{path: bad}
			if _, err := db.leftLogs(0, d.sessionBytes()); !errors.Is(err, ErrDamaged) {
				t.Fatalf("byte %d, %d bytes: %v", at, len(b), err)
			}
		}
	}
	refused(t, "shorter", bad)
}

// Killed at any step of opening, turning over and closing, the file opens again with all that was committed. The steps
// are told apart by what is in the folder.
func TestACrashAtAnyStepIsOpened(t *testing.T) {
	path := filepath.Join(t.TempDir(), "file")
	d := open(t, path, 0)
	commit(t, d, put("a", "1"))
	want := map[string]string{"a": "1"}
	check := func(what, path string) {
		t.Helper()
		again, err := Open(path, Options{Buckets: [][]byte{things}})
		if err != nil {
			t.Errorf("%s: %v", what, err)
			return
		}
		same(t, what, holds(t, again), want)
		commit(t, again, put("z", "9"))
		once := crash(t, path)
		if err := again.Close(); err != nil {
			t.Error(err)
		}
		also := maps.Clone(want)
		also["z"] = "9"
		for _, p := range []string{once, path} {
			same(t, what+", again", holds(t, open(t, p, 0)), also)
		}
	}
	header := binary.LittleEndian.AppendUint32(name{d.session, 2}.header(), d.active.frames)
	foreign := binary.LittleEndian.AppendUint32(name{d.session + 1, 2}.header(), 0)
	for length := range fileHeader + 1 {
		for what, begun := range map[string][]byte{"the next log": header, "the log of the next session": foreign} {
			if length%8 > 1 && length < fileHeader-1 {
				continue
			}
			p := crash(t, path)
			if err := os.WriteFile(p+".log2", begun[:length], 0o600); err != nil {
				t.Fatal(err)
			}
			check(fmt.Sprintf("%d bytes of %s", length, what), p)
		}
	}
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
	left, begun := crash(t, path), crash(t, path)
	if err := os.WriteFile(left+".log1", header, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(begun+".log2", foreign, 0o600); err != nil {
		t.Fatal(err)
	}
	check("closed, and the last log was not removed", left)
	check("closed, and the next session had begun its log", begun)
	check("closed", path)
}

// A disk that is full in the middle of a write, or where the next log cannot be begun, stops the file. What was
// acknowledged is there when there is room again, after a kill as after Close.
func TestAFullDiskLosesNothing(t *testing.T) {
	for _, killed := range []bool{true, false} {
		for _, where := range []string{"in a frame", "at the next log"} {
			what := fmt.Sprintf("%s, killed: %v", where, killed)
			path := filepath.Join(t.TempDir(), "file")
			d := open(t, path, 100)
			commit(t, d, put("a", "1"))
			want := map[string]string{"a": "1"}
			if where == "in a frame" {
				d.active.sync = func() error { // what did not fit any more is gone
					return errors.Join(os.Truncate(path+".log1", d.active.size+9), errors.New("no space left"))
				}
			} else if err := os.Mkdir(path+".log2", 0o700); err != nil { // the next log cannot be begun
				t.Fatal(err)
			}
			if err := d.Commit([]Change{put("b", strings.Repeat("y", 100))}); err == nil {
				t.Fatalf("%s: committed", what)
			}
			if err := d.Commit([]Change{put("c", "1")}); err == nil {
				t.Fatalf("%s: committed after a failure", what)
			}
			_ = os.Remove(path + ".log2")
			d.applying.Lock() // the copy is of one moment
			after := crash(t, path)
			d.applying.Unlock()
			if !killed {
				if err := d.Close(); err != nil {
					t.Errorf("%s: close: %v", what, err)
				}
				after = path
			}
			again := open(t, after, 0)
			got := holds(t, again)
			delete(got, "b") // it was not acknowledged: there or not
			same(t, what, got, want)
			commit(t, again, put("d", "1"))
		}
	}
}
