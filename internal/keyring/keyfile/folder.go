package keyfile

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
)

const (
	ignoreFile = ".gitignore"
	ignoreAll  = "# Keys or state of a process: nothing here belongs into a repository.\n*\n"
)

// Folder makes a folder of keys or of state, and those above it: only its owner reads it, and git leaves out what is in
// it, wherever it lies, by a .gitignore that matches everything, itself too. What is there already keeps its rights and
// its .gitignore.
func Folder(path string) error {
	if err := os.MkdirAll(path, 0o700); err != nil {
		return err
	}
	f, err := os.OpenFile(filepath.Join(path, ignoreFile), os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if errors.Is(err, fs.ErrExist) {
		return nil
	}
	if err != nil {
		return err
	}
	_, err = f.WriteString(ignoreAll)
	return errors.Join(err, f.Close())
}

// hasIgnoreFile reports whether a folder has the .gitignore that Folder writes.
func hasIgnoreFile(folder string) bool {
	text, err := os.ReadFile(filepath.Join(folder, ignoreFile)) //nolint:gosec // it is compared
	return err == nil && string(text) == ignoreAll
}
