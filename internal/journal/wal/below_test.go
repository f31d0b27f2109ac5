package wal

import (
	"fmt"
	"maps"
	"path/filepath"
	"testing"

	"pgregory.net/rapid"

	_ "github.com/riffle-dp/riffle/internal/testing/fixedseed"
)

// Whatever is committed, and wherever the logs end, are taken in, or the process is killed: a file holds what a map
// would, also where a change forgets every smaller key.
func TestForgettingAllSmallerKeysIsOneChange(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		path := filepath.Join(t.TempDir(), "file")
		d, err := Open(path, Options{Buckets: [][]byte{things}, NoSync: true, LogSize: 120})
		if err != nil {
			rt.Fatal(err)
		}
		defer func() { _ = d.Close() }()
		want := map[string]string{}
		keys := rapid.SampledFrom([]string{"a", "b", "c", "d", "e", "f"})
		for step := range rapid.IntRange(1, 25).Draw(rt, "steps") {
			switch rapid.IntRange(0, 9).Draw(rt, "step") {
			case 0:
				if err := d.Flush(); err != nil {
					rt.Fatal(err)
				}
			case 1:
				d.applying.Lock() // nothing is taken in while the folder is copied
				killed := crash(t, path)
				d.applying.Unlock()
				again, err := Open(killed, Options{Buckets: [][]byte{things}, NoSync: true})
				if err != nil {
					rt.Fatal(err)
				}
				if got := holds(t, again); !maps.Equal(got, want) {
					rt.Fatalf("killed: %v, want %v", got, want)
				}
				_ = again.Close()
			default:
				var changes []Change
				for range rapid.IntRange(1, 3).Draw(rt, "changes") {
					k := keys.Draw(rt, "key")
					switch rapid.IntRange(0, 3).Draw(rt, "kind") {
					case 0:
						changes = append(changes, Change{Bucket: things, Key: []byte(k)})
						delete(want, k)
					case 1:
						changes = append(changes, Change{Bucket: things, Key: []byte(k), Below: true})
						maps.DeleteFunc(want, func(other, _ string) bool { return other < k })
					default:
						changes = append(changes, put(k, fmt.Sprint(step)))
						want[k] = fmt.Sprint(step)
					}
				}
				if err := d.Commit(changes); err != nil {
					rt.Fatal(err)
				}
			}
			for _, k := range []string{"a", "b", "c", "d", "e", "f"} {
				v, err := d.Get(things, []byte(k))
				if held, ok := want[k]; err != nil || string(v) != held || (v != nil) != ok {
					rt.Fatalf("%s is %q, want %q (%v): %v", k, v, held, ok, err)
				}
			}
		}
		if got := holds(t, d); !maps.Equal(got, want) {
			rt.Fatalf("%v, want %v", got, want)
		}
	})
}
