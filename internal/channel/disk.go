package channel

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/riffle-dp/riffle/internal/journal/wal"
)

// Disk keeps files that outlive the process. A file appears under its name only when it is whole.
type Disk interface {
	// Store writes a file and returns once it is durable. It replaces a file of the same name. After an error the file
	// may be there, but only whole.
	Store(name string, write func(io.Writer) error) error
	// Open opens a file to be read. Its error is fs.ErrNotExist where there is none.
	Open(name string) (io.ReadCloser, error)
	// Remove removes a file, and what a Store that was cut short left of it. It is no error if there is none.
	Remove(name string) error
}

// ReadFile returns a file's whole content; nil if there is none.
func ReadFile(d Disk, name string) ([]byte, error) {
	f, err := d.Open(name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	b, err := io.ReadAll(f)
	if err = cmp.Or(err, f.Close()); err != nil {
		return nil, fmt.Errorf("channel: %s: %w", name, err)
	}
	return b, nil
}

// StoreFile makes a file of this content durable.
func StoreFile(d Disk, name string, content []byte) error {
	return d.Store(name, func(w io.Writer) error {
		_, err := w.Write(content)
		return err
	})
}

// Folder is the Disk that keeps its files in the folder of this path. The folder belongs to one process.
type Folder string

// Store writes the file under another name, makes that durable, and renames it.
func (f Folder) Store(name string, write func(io.Writer) error) (err error) {
	path := f.path(name)
	file, err := os.OpenFile(part(path), os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return fmt.Errorf("channel: %w", err)
	}
	defer func() {
		if err != nil {
			err = errors.Join(fmt.Errorf("channel: writing %s: %w", path, err), file.Close(), os.Remove(part(path)))
		}
	}()
	if err := write(file); err != nil {
		return err
	}
	if err := file.Sync(); err != nil {
		return err
	}
	if err := file.Close(); err != nil {
		return err
	}
	if err := os.Rename(part(path), path); err != nil {
		return err
	}
	return wal.SyncFolder(string(f))
}

// Open opens the file.
func (f Folder) Open(name string) (io.ReadCloser, error) {
	file, err := os.Open(f.path(name))
	if err != nil {
		return nil, fmt.Errorf("channel: %w", err)
	}
	return file, nil
}

// Remove removes the file, whole or not.
func (f Folder) Remove(name string) error {
	for _, path := range []string{f.path(name), part(f.path(name))} {
		if err := os.Remove(path); err != nil && !errors.Is(err, os.ErrNotExist) {
			return fmt.Errorf("channel: %w", err)
		}
	}
	return nil
}

func (f Folder) path(name string) string { return filepath.Join(string(f), name) }

// part is where a file is written before it has its name.
func part(path string) string { return path + ".part" }
