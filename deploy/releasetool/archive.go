package main

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// A file is one file of an archive.
type file struct {
	name    string // with slashes, from the top folder of the archive
	mode    fs.FileMode
	content []byte
}

// sorted gives the files in the order of their names, in which archives hold them.
func sorted(files []file) []file {
	return slices.SortedFunc(slices.Values(files), func(a, b file) int { return strings.Compare(a.name, b.name) })
}

// writeTarGzip writes files that all belong to user 0 and have the time at, in whole seconds. The same files and the
// same time give the same bytes.
func writeTarGzip(w io.Writer, files []file, at time.Time) error {
	z, err := gzip.NewWriterLevel(w, gzip.BestCompression)
	if err != nil {
		return err
	}
	t := tar.NewWriter(z)
	for _, f := range sorted(files) {
		header := &tar.Header{
			Format: tar.FormatPAX, Typeflag: tar.TypeReg, Name: f.name, Mode: int64(f.mode),
			Size: int64(len(f.content)), ModTime: at.UTC().Truncate(time.Second),
		}
		if err := t.WriteHeader(header); err != nil {
			return err
		}
		if _, err := t.Write(f.content); err != nil {
			return err
		}
	}
	return errors.Join(t.Close(), z.Close())
}

// writeZip is writeTarGzip for Windows.
func writeZip(w io.Writer, files []file, at time.Time) error {
	z := zip.NewWriter(w)
	for _, f := range sorted(files) {
		header := &zip.FileHeader{Name: f.name, Method: zip.Deflate, Modified: at.UTC().Truncate(time.Second)}
		header.SetMode(f.mode)
		entry, err := z.CreateHeader(header)
		if err != nil {
			return err
		}
		if _, err := entry.Write(f.content); err != nil {
			return err
		}
	}
	return z.Close()
}

// create writes a file and gives its size in bytes.
func create(path string, write func(io.Writer) error) (int64, error) {
	f, err := os.Create(path)
	if err != nil {
		return 0, err
	}
	err = write(f)
	info, statErr := f.Stat()
	if err := errors.Join(err, statErr, f.Close()); err != nil {
		return 0, err
	}
	return info.Size(), nil
}

// sumsFile lists the SHA-256 of every other file of a release, in the form that sha256sum -c reads.
const sumsFile = "SHA256SUMS"

func writeSums(dir string) error {
	entries, err := os.ReadDir(dir) // sorted by name
	if err != nil {
		return err
	}
	var sums bytes.Buffer
	for _, e := range entries {
		content, err := os.ReadFile(filepath.Join(dir, e.Name()))
		if err != nil {
			return err
		}
		fmt.Fprintf(&sums, "%x  %s\n", sha256.Sum256(content), e.Name())
	}
	return os.WriteFile(filepath.Join(dir, sumsFile), sums.Bytes(), 0o644)
}

// compare says how many files two folders hold. It is an error if they do not hold the same files, byte for byte.
func compare(first, second string) (files int, err error) {
	names := map[string]bool{}
	for _, dir := range []string{first, second} {
		entries, err := os.ReadDir(dir)
		if err != nil {
			return 0, err
		}
		for _, e := range entries {
			names[e.Name()] = true
		}
	}
	var differ []string
	for name := range names {
		a, errA := os.ReadFile(filepath.Join(first, name))
		b, errB := os.ReadFile(filepath.Join(second, name))
		if errA != nil || errB != nil || !bytes.Equal(a, b) {
			differ = append(differ, name)
		}
	}
	if len(differ) > 0 {
		slices.Sort(differ)
		return 0, fmt.Errorf("the two builds differ in %s", strings.Join(differ, ", "))
	}
	return len(names), nil
}
