package audit

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/riffle-dp/riffle/internal/audit/retained"
	"github.com/riffle-dp/riffle/internal/bus"
	"github.com/riffle-dp/riffle/internal/keyring"
	"github.com/riffle-dp/riffle/pkg/wire"
)

// ErrNotEmpty means that an export's destination is there and holds something.
var ErrNotEmpty = errors.New("there is something already: an export needs a new folder, or an empty one")

// Exported is what an export holds.
type Exported struct {
	Entries      map[bus.Role]uint64 `json:"entries"`      // of each log
	Retained     int                 `json:"retained"`     // chunks
	Certificates int                 `json:"certificates"` // one for each epoch that is over
	// Uncertified is why epochs that are over have no certificate. riffle audit says more.
	Uncertified map[uint64]string `json:"uncertified,omitempty"`
}

// CheckDestination reports whether a folder can be exported to: it is not there, or empty. Errors: ErrNotEmpty, the
// disk's.
func CheckDestination(dst string) error {
	found, err := os.ReadDir(dst)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err == nil && len(found) > 0:
		return fmt.Errorf("%s: %w", dst, ErrNotEmpty)
	}
	return err
}

// WriteFolder exports a deployment to a folder, which is there whole or not at all. It judges nothing: what the source
// shows is what an audit of the folder will see. It reads statement by statement, whatever the size of the logs.
//
// Errors: ErrNotEmpty, the source's, the disk's.
func WriteFolder(ctx context.Context, dst string, src Source, keys keyring.Bundle) (*Exported, error) {
	dst = filepath.Clean(dst)
	if err := CheckDestination(dst); err != nil {
		return nil, err
	}
	if err := os.MkdirAll(filepath.Dir(dst), 0o755); err != nil {
		return nil, err
	}
	w := &writer{src: src, keys: keys, out: Exported{Entries: map[bus.Role]uint64{}}}
	var err error
	if w.root, err = os.MkdirTemp(filepath.Dir(dst), ".riffle-export-"); err != nil {
		return nil, err
	}
	defer func() { _ = os.RemoveAll(w.root) }() // nothing is there if it was renamed
	if err := w.all(ctx); err != nil {
		return nil, err
	}
	if err := os.Remove(dst); err != nil && !errors.Is(err, fs.ErrNotExist) { // an empty folder, or no longer
		return nil, err
	}
	if err := os.Chmod(w.root, 0o755); err != nil { // what is retained is in a folder of its own
		return nil, err
	}
	if err := os.Rename(w.root, dst); err != nil {
		return nil, err
	}
	return &w.out, nil
}

// writer writes an export.
type writer struct {
	root string
	src  Source
	keys keyring.Bundle
	out  Exported
}

func (w *writer) all(ctx context.Context) error {
	bundle, err := w.keys.Encode()
	if err != nil {
		return err
	}
	if err := w.file(keyring.BundleFile, bundle); err != nil {
		return err
	}
	var released []*wire.Manifest
	for _, role := range logRoles() {
		checkpoint, err := w.src.Checkpoint(ctx, role)
		if err == nil && checkpoint != nil {
			err = w.file(checkpointFile(role), checkpoint)
		}
		if err != nil {
			return err
		}
		if err := w.log(ctx, role, func(e Entry) {
			if m, _, err := wire.Open[wire.Manifest](e.Signed, Party(w.keys, role)); err == nil && m.Chunks > 0 {
				released = append(released, &wire.Manifest{Epoch: m.Epoch, Round: m.Round})
			}
		}); err != nil {
			return err
		}
	}
	for _, m := range released {
		err := w.src.Retained(ctx, m.Epoch, m.Round, func(index uint32, sealed []byte) error {
			w.out.Retained++
			// No window ends this copy: whoever has it opens it once the keys are known.
			return w.fileFor(retained.Path(m.Epoch, m.Round, index), sealed, 0o700, 0o600)
		})
		if err != nil {
			return err
		}
	}
	return Certify(ctx, w.src, w.keys, func(epoch uint64, b []byte, why error) error {
		if why != nil {
			if w.out.Uncertified == nil {
				w.out.Uncertified = map[uint64]string{}
			}
			w.out.Uncertified[epoch] = why.Error()
			return nil
		}
		w.out.Certificates++
		return w.file(CertificateFile(epoch), b)
	})
}

// log writes a role's log, and shows each entry to also.
func (w *writer) log(ctx context.Context, role bus.Role, also func(Entry)) (err error) {
	file, err := os.OpenFile(filepath.Join(w.root, logFile(role)), os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	lines := bufio.NewWriterSize(file, 1<<16)
	var line []byte
	err = w.src.Log(ctx, role, func(e Entry) error {
		if err := checkEntry(e); err != nil {
			return fmt.Errorf("entry %d of the %s: %w", w.out.Entries[role], role, err)
		}
		if line, err = appendEntry(line[:0], e); err != nil {
			return err
		}
		also(e)
		w.out.Entries[role]++
		_, err := lines.Write(append(line, '\n'))
		return err
	})
	if err == nil {
		err = lines.Flush()
	}
	if err == nil {
		err = file.Sync()
	}
	return err
}

// file writes a file under its name with slashes, for everybody to read.
func (w *writer) file(name string, b []byte) error { return w.fileFor(name, b, 0o755, 0o644) }

// fileFor writes a file, and the folders that it needs, with these rights.
func (w *writer) fileFor(name string, b []byte, folder, file os.FileMode) error {
	path := filepath.Join(w.root, filepath.FromSlash(name))
	if err := os.MkdirAll(filepath.Dir(path), folder); err != nil {
		return err
	}
	return os.WriteFile(path, b, file)
}
