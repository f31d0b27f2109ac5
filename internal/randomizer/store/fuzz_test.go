package store

import (
	"bytes"
	"encoding/json"
	"path/filepath"
	"testing"

	"github.com/riffle-dp/riffle/internal/journal/wal"
	"github.com/riffle-dp/riffle/pkg/device"
)

// FuzzStore puts any bytes into a host's store, as a device, a report that was not sent and the last
// announcement, and reads them again. What is read is put back as the same; a key that no version wrote
// is an error, and so is a device under another name.
func FuzzStore(f *testing.F) {
	good, err := json.Marshal(Device{Name: "a", State: device.State{Number: 1}})
	if err != nil {
		f.Fatal(err)
	}
	f.Add([]byte("a"), good)
	f.Add(Outgoing{Epoch: 1, Round: 2, Number: 3}.key(), []byte("envelope"))
	f.Add(make([]byte, 12), []byte(`{}`))
	f.Fuzz(func(t *testing.T, key, text []byte) {
		if len(key) == 0 || len(key) > 1<<10 || len(text) > 1<<16 {
			return
		}
		st, err := OpenUnsynced(filepath.Join(t.TempDir(), "devices"))
		if err != nil {
			t.Fatal(err)
		}
		defer st.Close()
		put := func(bucket []byte) {
			if err := st.(*file).db.Commit([]wal.Change{{Bucket: bucket, Key: key, Value: text}}); err != nil {
				t.Fatal(err)
			}
			if err := st.(*file).db.Flush(); err != nil {
				t.Fatal(err)
			}
		}
		put(bucketDevices)
		err = st.Load(func(d Device) error {
			if d.Name != string(key) {
				t.Fatalf("device %q is under %q", d.Name, key)
			}
			return st.Put(d)
		})
		if err == nil {
			if err := st.Load(func(Device) error { return nil }); err != nil {
				t.Fatal(err)
			}
		}
		put(bucketOutbox)
		unsent := 0
		err = st.Unsent(func(o Outgoing) {
			if unsent++; !bytes.Equal(o.key(), key) || !bytes.Equal(o.Envelope, text) {
				t.Fatalf("%x is %+v", key, o)
			}
		})
		if (err == nil) != (len(key) == 16) || unsent > 0 && err != nil {
			t.Fatalf("a key of %d bytes: %d reports, %v", len(key), unsent, err)
		}
		put(bucketChain)
		if last, err := st.Latest(); (err == nil) != (len(key) == 12) || err != nil && last != (Round{}) {
			t.Fatalf("a key of %d bytes: %+v, %v", len(key), last, err)
		}
	})
}
