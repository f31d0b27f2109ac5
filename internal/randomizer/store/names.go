package store

import (
	"bytes"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"go.etcd.io/bbolt"

	"github.com/riffle-dp/riffle/internal/journal/wal"
	"github.com/riffle-dp/riffle/internal/keyring/keyfile"
)

// No name of a device is on the disk. A device is stored under a keyed hash of its name, and the key is in a file of
// its own beside the store's (devices.key). It is drawn once, and follows from nothing else: a host's identity is
// rotated, and people must not become others by it. A store without its key would take everybody for somebody new, who
// could report once more; so it keeps by what to tell its key, and is not opened without it, or with another one.

// names hashes the names of devices.
type names struct{ key []byte }

// of is what the store calls a device.
func (n names) of(name string) string { return n.hash("device", name) }

// mark tells this key from others.
func (n names) mark() []byte { return []byte(n.hash("key", "")) }

func (n names) hash(what, text string) string {
	h := hmac.New(sha256.New, n.key)
	h.Write([]byte("riffle " + what + "\x00" + text))
	return hex.EncodeToString(h.Sum(nil))
}

const keyComment = "# The names of devices in the file beside this one are hashed with this key. Keep both together: " +
	"without\n# the key the people of this host would be taken for others, and could be counted twice.\n"

// openNames reads the key of a store, and makes it with the store.
func openNames(db *wal.DB, path string) (n names, err error) {
	var mark []byte
	devices := 0
	err = db.View(func(tx *bbolt.Tx) error {
		mark = bytes.Clone(tx.Bucket(bucketMarks).Get(markNames))
		for _, b := range [][]byte{bucketDevices, bucketOut} {
			if k, _ := tx.Bucket(b).Cursor().First(); k != nil {
				devices++
			}
		}
		return nil
	})
	if err != nil {
		return n, err
	}
	const advice = "restore both from one copy: with another key every person would count as a new one"
	text, err := os.ReadFile(path)
	if err == nil {
		text, err = keyfile.LoadPrivate(path) // which refuses one that others can read
	}
	switch {
	case errors.Is(err, fs.ErrNotExist) && mark == nil && devices == 0:
		if n.key, err = makeKey(path); err != nil {
			return n, err
		}
	case errors.Is(err, fs.ErrNotExist):
		return n, fmt.Errorf("%s is missing, the key of the names in the state file; %s", path, advice)
	case err != nil:
		return n, err
	default:
		if n.key, err = parseNames(text); err != nil {
			return n, fmt.Errorf("%s: %w; %s", path, err, advice)
		}
	}
	switch {
	case mark == nil && devices == 0:
		return n, db.Commit([]wal.Change{{Bucket: bucketMarks, Key: markNames, Value: n.mark()}})
	case !bytes.Equal(mark, n.mark()):
		return n, fmt.Errorf("%s is not the key of the names in the state file; %s", path, advice)
	}
	return n, nil
}

// makeKey draws a key, and makes it durable before anything is stored under it.
func makeKey(path string) (key []byte, err error) {
	key = make([]byte, sha256.Size)
	_, _ = rand.Read(key) // it never fails
	err = keyfile.Create(path, []byte(keyComment+hex.EncodeToString(key)+"\n"), 0o600)
	return key, errors.Join(err, wal.SyncFolder(filepath.Dir(path)))
}

func parseNames(text []byte) (key []byte, err error) {
	for line := range strings.Lines(string(text)) {
		if line = strings.TrimSpace(line); line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		if key != nil {
			return nil, errors.New("more than one key")
		}
		if key, err = hex.DecodeString(line); err != nil || len(key) != sha256.Size {
			return nil, errors.New("not a key of 64 hexadecimal digits")
		}
	}
	if key == nil {
		return nil, errors.New("no key")
	}
	return key, nil
}
