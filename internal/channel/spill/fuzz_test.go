package spill_test

import (
	"bytes"
	"os"
	"testing"

	"github.com/riffle-dp/riffle/internal/channel/spill"
)

// FuzzSpilledFile changes the file of a store at any place, and reads the pile that is in it. What is read is what
// was appended, or nothing of a block that was changed: then the error says so.
func FuzzSpilledFile(f *testing.F) {
	const memory = 256 << 10
	f.Add(int64(0), []byte{1})
	f.Add(int64(1<<16), bytes.Repeat([]byte{7}, 100))
	f.Add(int64(1<<40), []byte{1})
	f.Fuzz(func(t *testing.T, at int64, change []byte) {
		folder := t.TempDir()
		store, err := spill.New(folder, memory)
		must(t, err)
		defer store.Close()
		pile, appended := store.Pile(), random(1, 2*memory)
		must(t, pile.Append(appended))
		for _, name := range files(t, folder) {
			file, err := os.OpenFile(name, os.O_RDWR, 0)
			must(t, err)
			if info, err := file.Stat(); err == nil && at >= 0 && at < info.Size() {
				_, err = file.WriteAt(change[:min(int64(len(change)), info.Size()-at)], at)
				must(t, err)
			}
			must(t, file.Close())
		}
		var read []byte
		err = pile.Read(1, func(b []byte) error { read = append(read, b...); return nil })
		if !bytes.HasPrefix(appended, read) || (err == nil) != (len(read) == len(appended)) {
			t.Fatalf("%d of %d bytes are read, %v", len(read), len(appended), err)
		}
	})
}
