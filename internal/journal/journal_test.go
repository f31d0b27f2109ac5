package journal

import (
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
)

func open(t *testing.T, path string) *Journal {
	t.Helper()
	j, err := Open(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { j.Close() })
	return j
}

func replay(t *testing.T, j *Journal) []string {
	t.Helper()
	var got []string
	if err := j.Replay(func(e []byte) error { got = append(got, string(e)); return nil }); err != nil {
		t.Fatal(err)
	}
	return got
}

func TestEntriesSurviveReopeningInOrder(t *testing.T) {
	path := filepath.Join(t.TempDir(), "journal")
	j := open(t, path)
	var want []string
	var results []func() error
	for i := range 1000 {
		e := fmt.Sprint("entry ", i)
		want = append(want, e)
		results = append(results, j.Append([]byte(e)))
	}
	for _, r := range results {
		if err := r(); err != nil {
			t.Fatal(err)
		}
	}
	if err := j.Close(); err != nil {
		t.Fatal(err)
	}
	j = open(t, path)
	if got := replay(t, j); !slices.Equal(got, want) {
		t.Fatalf("replayed %d entries, want %d in order", len(got), len(want))
	}
	if err := j.Append([]byte("later"))(); err != nil {
		t.Fatal(err)
	}
	if got := replay(t, j); got[len(got)-1] != "later" {
		t.Fatalf("last entry is %q", got[len(got)-1])
	}
	for number, want := range map[uint64]string{0: "entry 0", 999: "entry 999", 1000: "later", 1001: ""} {
		got, err := j.Entry(number)
		if string(got) != want || (err != nil) != (want == "") {
			t.Errorf("entry %d is %q, %v", number, got, err)
		}
	}
}

// An entry acknowledged to its appender is on disk, whatever others do at the same time, and none is written twice.
func TestConcurrentAppends(t *testing.T) {
	path := filepath.Join(t.TempDir(), "journal")
	j := open(t, path)
	var wg sync.WaitGroup
	for g := range 16 {
		wg.Go(func() {
			for i := range 50 {
				if err := j.Append(fmt.Appendf(nil, "%d/%d", g, i))(); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	got := replay(t, j)
	next := map[string]int{}
	for _, e := range got {
		g, i, _ := strings.Cut(e, "/")
		if i != fmt.Sprint(next[g]) {
			t.Fatalf("appender %s: entry %s before entry %d", g, i, next[g])
		}
		next[g]++
	}
	if len(got) != 16*50 {
		t.Fatalf("%d entries, want %d", len(got), 16*50)
	}
}

func TestOneProcessAtATime(t *testing.T) {
	path := filepath.Join(t.TempDir(), "journal")
	open(t, path)
	if _, err := Open(path); err == nil || !strings.Contains(err.Error(), "another process") {
		t.Fatalf("second open: %v", err)
	}
}

func TestAppendAfterClose(t *testing.T) {
	j := open(t, filepath.Join(t.TempDir(), "journal"))
	if err := j.Close(); err != nil {
		t.Fatal(err)
	}
	if err := j.Append(nil)(); !errors.Is(err, ErrClosed) {
		t.Fatalf("append after close: %v", err)
	}
}

func TestReplayNamesTheEntryThatFails(t *testing.T) {
	j := open(t, filepath.Join(t.TempDir(), "journal"))
	for _, e := range []string{"a", "b"} {
		if err := j.Append([]byte(e))(); err != nil {
			t.Fatal(err)
		}
	}
	err := j.Replay(func(e []byte) error {
		if string(e) == "b" {
			return errors.New("unreadable")
		}
		return nil
	})
	if err == nil || !strings.Contains(err.Error(), "entry 2") {
		t.Fatalf("error %v does not name the entry", err)
	}
}

// After a write that failed nothing is added: an entry that lacks one before it would replay to another past.
func TestNothingFollowsAFailedWrite(t *testing.T) {
	j := open(t, filepath.Join(t.TempDir(), "journal"))
	if err := j.Append([]byte("a"))(); err != nil {
		t.Fatal(err)
	}
	if err := j.Append(make([]byte, 1<<31))(); err == nil { // more than bbolt takes
		t.Fatal("an entry beyond all bounds was written")
	}
	if err := j.Append([]byte("b"))(); err == nil {
		t.Error("written after a failed write")
	}
	if got := replay(t, j); len(got) != 1 {
		t.Errorf("replayed %d entries", len(got))
	}
}

// An entry without a byte is an entry: it keeps its place.
func TestAnEmptyEntryIsKept(t *testing.T) {
	j, err := Open(filepath.Join(t.TempDir(), "journal"))
	if err != nil {
		t.Fatal(err)
	}
	defer j.Close()
	_ = j.Append(nil)
	if err := j.Append([]byte("second"))(); err != nil {
		t.Fatal(err)
	}
	n := 0
	err = j.Replay(func([]byte) error { n++; return nil })
	if err != nil || n != 2 {
		t.Errorf("%d entries of 2: %v", n, err)
	}
}
