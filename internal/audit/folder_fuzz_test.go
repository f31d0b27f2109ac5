package audit

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/riffle-dp/riffle/internal/bus"
	"github.com/riffle-dp/riffle/internal/testing/allocated"
	"github.com/riffle-dp/riffle/pkg/transparency"
)

// What is read as a line is written as the same line, whatever it is.
func FuzzEntry(f *testing.F) {
	f.Add([]byte(`{"kind":"manifest","signed":"AAEC"}`))
	f.Add([]byte(`{"kind":"accepted-1-0","signed":"AA=="}`))
	f.Add([]byte(`{"signed":"AA==","kind":"x"}`))
	f.Fuzz(func(t *testing.T, line []byte) {
		var e Entry
		var err error
		allocated.ForInput(t, len(line), func() { e, err = parseEntry(line) })
		if err != nil {
			return
		}
		if again, err := appendEntry(nil, e); err != nil || !bytes.Equal(again, line) || len(line) > maxLine {
			t.Errorf("%q is read, and written as %q, %v", line, again, err)
		}
	})
}

// FuzzFolder reads any bytes as the log and the checkpoint of an export. A log that is read to its end is written as
// the same bytes, and one that is not says what is wrong with which line.
func FuzzFolder(f *testing.F) {
	good := []byte(`{"kind":"manifest","signed":"AAEC"}` + "\n")
	f.Add(good, []byte("note"))
	f.Add(append(good, good...), bytes.Repeat([]byte{1}, transparency.MaxCheckpoint+1))
	f.Add(good[:len(good)-1], []byte{})
	f.Add([]byte(`{"signed":"AA==","kind":"x"}`+"\n"), []byte{})
	path := f.TempDir()
	f.Fuzz(func(t *testing.T, log, checkpoint []byte) {
		for name, b := range map[string][]byte{
			logFile(bus.Analyzer): log, logFile(bus.Shuffler): {}, checkpointFile(bus.Analyzer): checkpoint,
		} {
			if err := os.WriteFile(filepath.Join(path, name), b, 0o600); err != nil {
				t.Fatal(err)
			}
		}
		folder, err := OpenFolder(path)
		if err != nil {
			t.Fatal(err)
		}
		var again []byte
		err = folder.Log(t.Context(), bus.Analyzer, func(e Entry) (err error) {
			again, err = appendEntry(again, e)
			again = append(again, '\n')
			return err
		})
		if !bytes.HasPrefix(log, again) || (err == nil) != (len(again) == len(log)) ||
			err != nil && !errors.Is(err, ErrFolder) {
			t.Fatalf("%q is written as %q, %v", log, again, err)
		}
		b, err := folder.Checkpoint(t.Context(), bus.Analyzer)
		if large := len(checkpoint) > transparency.MaxCheckpoint; large != errors.Is(err, ErrFolder) ||
			!large && !bytes.Equal(b, checkpoint) {
			t.Fatalf("a checkpoint of %d bytes, read %d, %v", len(checkpoint), len(b), err)
		}
	})
}
