package wal_test

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"go.etcd.io/bbolt"

	"github.com/riffle-dp/riffle/internal/journal/wal"
)

// After Scrub nothing that was replaced or forgotten is in any file of the folder, and all that holds is; also where
// others write and read meanwhile, and after the file is opened again.
func TestScrubLeavesNothingOfWhatWasForgotten(t *testing.T) {
	folder := t.TempDir()
	path := filepath.Join(folder, "file")
	bucket := []byte("b")
	open := func() *wal.DB {
		db, err := wal.Open(path, wal.Options{Buckets: [][]byte{bucket}, LogSize: 1 << 12})
		if err != nil {
			t.Fatal(err)
		}
		return db
	}
	db := open()
	src := rand.New(rand.NewPCG(1, 2))
	holds, gone := map[string]string{}, []string{}
	secret := func() string { return fmt.Sprintf("secret%016x", src.Uint64()) }
	commit := func(key string, value []byte) {
		if err := db.Commit([]wal.Change{{Bucket: bucket, Key: []byte(key), Value: value}}); err != nil {
			t.Fatal(err)
		}
	}
	check := func(when string) {
		t.Helper()
		entries, err := os.ReadDir(folder)
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range entries {
			text, err := os.ReadFile(filepath.Join(folder, e.Name()))
			if err != nil {
				t.Fatal(err)
			}
			for _, s := range gone {
				if bytes.Contains(text, []byte(s)) {
					t.Errorf("%s: %s has %s", when, e.Name(), s)
					break
				}
			}
		}
		n := 0
		err = db.View(func(tx *bbolt.Tx) error {
			for problem := range tx.Check() {
				t.Errorf("%s: %v", when, problem)
			}
			return tx.Bucket(bucket).ForEach(func(k, v []byte) error {
				if n++; !bytes.HasPrefix(v, []byte(holds[string(k)])) || holds[string(k)] == "" {
					t.Errorf("%s: %s is %.30s", when, k, v)
				}
				return nil
			})
		})
		if err != nil || n != len(holds) {
			t.Errorf("%s: %d keys of %d, %v", when, n, len(holds), err)
		}
	}
	for round := range 6 {
		for range 300 {
			key := fmt.Sprintf("key%03d", src.IntN(200))
			if old := holds[key]; old != "" {
				gone = append(gone, old)
			}
			if src.IntN(3) == 0 {
				delete(holds, key)
				commit(key, nil)
				continue
			}
			value := secret()
			holds[key] = value
			if src.IntN(20) == 0 { // over several pages
				value += string(bytes.Repeat([]byte("x"), 9000)) + value
			}
			commit(key, []byte(value))
		}
		if err := db.Scrub(); err != nil {
			t.Fatal(err)
		}
		check(fmt.Sprintf("round %d", round))
		if round == 3 {
			if err := db.Close(); err != nil {
				t.Fatal(err)
			}
			db = open()
			check("opened again")
		}
	}
	var others sync.WaitGroup
	for i := range 4 {
		others.Go(func() {
			for n := range 200 {
				change := wal.Change{Bucket: bucket, Key: fmt.Appendf(nil, "other%d", i), Value: fmt.Append(nil, n)}
				if err := db.Commit([]wal.Change{change}); err != nil {
					t.Error(err)
				}
				if v, err := db.Get(bucket, change.Key); err != nil || string(v) != fmt.Sprint(n) {
					t.Errorf("%s, %v", v, err)
				}
			}
		})
	}
	for range 20 {
		if err := db.Scrub(); err != nil {
			t.Error(err)
		}
	}
	others.Wait()
	for i := range 4 {
		holds[fmt.Sprintf("other%d", i)] = "199"
	}
	if err := db.Scrub(); err != nil { // no log is left to be taken in while the folder is read
		t.Fatal(err)
	}
	check("beside others")
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
}
