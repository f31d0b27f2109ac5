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
		err := t.WriteHeader(&tar.Header{
			Format: tar.FormatPAX, Typeflag: tar.TypeReg, Name: f.name, Mode: int64(f.mode),
			Size: int64(len(f.content)), ModTime: at.UTC().Truncate(time.Second),
		})
		if err == nil {
			_, err = t.Write(f.content)
		}
		if err != nil {
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
		if err == nil {
			_, err = entry.Write(f.content)
		}
		if err != nil {
			return err
		}
	}
	return z.Close()
}

// sameBinaries checks that a folder holds every program of a tar.gz archive, byte for byte.
func sameBinaries(archive io.Reader, folder string) error {
	z, err := gzip.NewReader(archive)
	if err != nil {
		return err
	}
	for t := tar.NewReader(z); ; {
		header, err := t.Next()
		if errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return err
		}
		if header.Mode&0o111 == 0 {
			continue
		}
		released, err := io.ReadAll(t)
		if err != nil {
			return err
		}
		built, err := os.ReadFile(filepath.Join(folder, filepath.Base(header.Name)))
		if err != nil {
			return err
		}
		if !bytes.Equal(built, released) {
			return fmt.Errorf("the images hold another program than %s", header.Name)
		}
	}
}

// sumsFile lists the SHA-256 of every other file of a release, in the form that sha256sum -c reads.
const sumsFile = "SHA256SUMS"

func writeSums(dir string) error {
	lines, err := sums(dir)
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, sumsFile), []byte(strings.Join(lines, "")), 0o644)
}

// sums gives the line of every file in a folder, sorted by name.
func sums(dir string) (lines []string, err error) {
	entries, err := os.ReadDir(dir)
	for _, e := range entries {
		content, err := os.ReadFile(filepath.Join(dir, e.Name()))
		if err != nil {
			return nil, err
		}
		lines = append(lines, fmt.Sprintf("%x  %s\n", sha256.Sum256(content), e.Name()))
	}
	return lines, err
}

// compare says how many files two folders hold. It is an error if they do not hold the same files, byte for byte.
func compare(first, second string) (files int, err error) {
	a, errA := sums(first)
	b, errB := sums(second)
	if err := errors.Join(errA, errB); err != nil {
		return 0, err
	}
	var differ []string
	for _, line := range slices.Concat(a, b) {
		if !slices.Contains(a, line) || !slices.Contains(b, line) {
			differ = append(differ, strings.Fields(line)[1])
		}
	}
	if len(differ) > 0 {
		slices.Sort(differ)
		return 0, fmt.Errorf("the two builds differ in %s", strings.Join(slices.Compact(differ), ", "))
	}
	return len(a), nil
}
