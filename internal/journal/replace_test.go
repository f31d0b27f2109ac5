package journal

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"
)

// copyOf is the journal's folder as a process that is killed now leaves it.
func copyOf(t *testing.T, path string) string {
	t.Helper()
	killed := t.TempDir()
	if err := os.CopyFS(killed, os.DirFS(filepath.Dir(path))); err != nil {
		t.Fatal(err)
	}
	return filepath.Join(killed, filepath.Base(path))
}

// tail is the newest log file of a journal.
func tail(t *testing.T, path string) (name string, size int64) {
	t.Helper()
	logs, err := filepath.Glob(path + ".log*")
	if err != nil || len(logs) != 1 {
		t.Fatal(logs, err)
	}
	info, err := os.Stat(logs[0])
	if err != nil {
		t.Fatal(err)
	}
	return filepath.Base(logs[0]), info.Size()
}

// Power that fails at any byte of a replacement, or at any step of what follows, leaves all of the old entries or all
// of the new ones; what was appended behind is there with the new ones only.
func TestAReplacementIsThereWholeOrNotAtAll(t *testing.T) {
	path := filepath.Join(t.TempDir(), "journal")
	j := open(t, path)
	old := []string{}
	for i := range 5 {
		old = append(old, fmt.Sprint("old ", i))
		if err := j.Append([]byte(old[i]))(); err != nil {
			t.Fatal(err)
		}
	}
	name, before := tail(t, path)
	if err := j.Replace([]byte("state"), []byte("opened"))(); err != nil {
		t.Fatal(err)
	}
	_, after := tail(t, path)
	replaced := []string{"state", "opened"}
	whole := copyOf(t, path)
	for length := before; length <= after; length++ {
		killed := copyOf(t, whole)
		if err := os.Truncate(filepath.Join(filepath.Dir(killed), name), length); err != nil {
			t.Fatal(err)
		}
		want := old
		if length == after {
			want = replaced
		}
		again := open(t, killed)
		if got := replay(t, again); !slices.Equal(got, want) {
			t.Fatalf("torn at byte %d of %d: %v", length-before, after-before, got)
		}
		if err := again.Append([]byte("later"))(); err != nil {
			t.Fatal(err)
		}
		if got := replay(t, again); !slices.Equal(got, append(slices.Clone(want), "later")) {
			t.Fatalf("torn at byte %d of %d, and gone on: %v", length-before, after-before, got)
		}
		_ = again.Close()
	}
	if err := j.Append([]byte("behind"))(); err != nil {
		t.Fatal(err)
	}
	replaced = append(replaced, "behind")
	for _, step := range []string{"in the log", "in the file", "closed"} {
		if got := replay(t, open(t, copyOf(t, path))); !slices.Equal(got, replaced) {
			t.Errorf("%s: %v", step, got)
		}
		if step == "in the log" { // Replay takes the log into the file
			replay(t, j)
		} else if err := j.Close(); err != nil {
			t.Fatal(err)
		}
	}
	// A crash between the file's change and the removal of the log: the log is there again.
	killed := copyOf(t, path)
	b, err := os.ReadFile(filepath.Join(filepath.Dir(whole), name))
	if err == nil {
		err = os.WriteFile(filepath.Join(filepath.Dir(killed), name), b, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	if got := replay(t, open(t, killed)); !slices.Equal(got, replaced) {
		t.Errorf("with its log again: %v", got)
	}
}

// A journal that is replaced again and again keeps its size: the file gives the room to later entries.
func TestAReplacedJournalDoesNotGrow(t *testing.T) {
	path := filepath.Join(t.TempDir(), "journal")
	j := open(t, path)
	size := func() int64 {
		replay(t, j)
		info, err := os.Stat(path)
		if err != nil {
			t.Fatal(err)
		}
		return info.Size()
	}
	var first int64
	for round := range 30 {
		var durable func() error
		for i := range 1000 {
			entry := fmt.Appendf(nil, "entry %d of round %d, as long as an enrolment is in the journal", i, round)
			durable = j.Append(entry)
		}
		if err := durable(); err != nil {
			t.Fatal(err)
		}
		if err := j.Replace([]byte("state"))(); err != nil {
			t.Fatal(err)
		}
		if round == 2 {
			first = size()
		}
	}
	if last := size(); last > 2*first {
		t.Errorf("%d bytes after 30 rounds, %d after 3", last, first)
	}
	if got := replay(t, j); !slices.Equal(got, []string{"state"}) {
		t.Errorf("%d entries", len(got))
	}
}
