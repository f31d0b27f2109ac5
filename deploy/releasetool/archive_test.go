package main

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

var commitTime = time.Date(2026, 11, 22, 0, 10, 7, 0, time.UTC)

func someFiles() []file {
	return []file{
		{"riffle_v0.1.0/riffle", 0o755, bytes.Repeat([]byte("program"), 1000)},
		{"riffle_v0.1.0/LICENSE", 0o644, []byte("licence")},
		{"riffle_v0.1.0/analyzer", 0o755, []byte("another program")},
	}
}

func TestArchivesDependOnFilesAndCommitTimeOnly(t *testing.T) {
	type writer func(io.Writer, []file, time.Time) error
	for name, write := range map[string]writer{"tar.gz": writeTarGzip, "zip": writeZip} {
		t.Run(name, func(t *testing.T) {
			var first, second, later bytes.Buffer
			backwards := someFiles()
			slices.Reverse(backwards)
			elsewhere := commitTime.In(time.FixedZone("elsewhere", 5*3600)).Add(300 * time.Millisecond)
			for _, err := range []error{
				write(&first, someFiles(), commitTime), write(&second, backwards, elsewhere),
				write(&later, someFiles(), commitTime.Add(time.Hour)),
			} {
				if err != nil {
					t.Fatal(err)
				}
			}
			if !bytes.Equal(first.Bytes(), second.Bytes()) {
				t.Error("the order of the files or the time zone changes the archive")
			}
			if bytes.Equal(first.Bytes(), later.Bytes()) {
				t.Error("the archive does not hold the time of the commit")
			}
		})
	}
}

func TestTarHoldsFilesOfUserZeroAtTheCommitTime(t *testing.T) {
	var archive bytes.Buffer
	if err := writeTarGzip(&archive, someFiles(), commitTime); err != nil {
		t.Fatal(err)
	}
	z, err := gzip.NewReader(&archive)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for r := tar.NewReader(z); ; {
		h, err := r.Next()
		if err == io.EOF {
			break
		} else if err != nil {
			t.Fatal(err)
		}
		content, err := io.ReadAll(r)
		if err != nil {
			t.Fatal(err)
		}
		names = append(names, fmt.Sprintf("%s %o %x", h.Name, h.Mode, sha256.Sum256(content)))
		if h.Uid != 0 || h.Gid != 0 || h.Uname != "" || h.Gname != "" || !h.ModTime.Equal(commitTime) {
			t.Errorf("%s belongs to %d:%d (%s:%s) and is of %s", h.Name, h.Uid, h.Gid, h.Uname, h.Gname, h.ModTime)
		}
	}
	if want := listing(sorted(someFiles())); !slices.Equal(names, want) {
		t.Errorf("the archive holds %q, want %q", names, want)
	}
}

func TestZipHoldsTheFiles(t *testing.T) {
	var archive bytes.Buffer
	if err := writeZip(&archive, someFiles(), commitTime); err != nil {
		t.Fatal(err)
	}
	z, err := zip.NewReader(bytes.NewReader(archive.Bytes()), int64(archive.Len()))
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, f := range z.File {
		r, err := f.Open()
		if err != nil {
			t.Fatal(err)
		}
		content, err := io.ReadAll(r)
		if err != nil {
			t.Fatal(err)
		}
		names = append(names, fmt.Sprintf("%s %o %x", f.Name, f.Mode(), sha256.Sum256(content)))
		if !f.Modified.Equal(commitTime) {
			t.Errorf("%s is of %s", f.Name, f.Modified)
		}
	}
	if want := listing(sorted(someFiles())); !slices.Equal(names, want) {
		t.Errorf("the archive holds %q, want %q", names, want)
	}
}

// listing gives name, mode and hash of each file.
func listing(files []file) []string {
	var out []string
	for _, f := range files {
		out = append(out, fmt.Sprintf("%s %o %x", f.name, f.mode, sha256.Sum256(f.content)))
	}
	return out
}

// folder makes a folder that holds these files.
func folder(t *testing.T, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, content := range files {
		path := filepath.Join(dir, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func TestSumsListEveryFileInTheFormOfSha256sum(t *testing.T) {
	dir := folder(t, map[string]string{"b.zip": "", "a.tar.gz": "abc"})
	if err := writeSums(dir); err != nil {
		t.Fatal(err)
	}
	got, err := os.ReadFile(filepath.Join(dir, sumsFile))
	want := "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad  a.tar.gz\n" +
		"e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855  b.zip\n"
	if err != nil || string(got) != want {
		t.Errorf("%v: got\n%swant\n%s", err, got, want)
	}
}

func TestCompareNamesTheFilesThatDiffer(t *testing.T) {
	first := folder(t, map[string]string{"same": "1", "other": "2", "missing": "3"})
	if n, err := compare(first, first); n != 3 || err != nil {
		t.Errorf("a folder and itself: %d files, %v", n, err)
	}
	_, err := compare(first, folder(t, map[string]string{"same": "1", "other": "x", "extra": ""}))
	if err == nil || !strings.HasSuffix(err.Error(), "differ in extra, missing, other") {
		t.Errorf("the difference is described as: %v", err)
	}
}

func TestImagesMustHoldTheReleasedBinaries(t *testing.T) {
	var archive bytes.Buffer
	if err := writeTarGzip(&archive, someFiles(), commitTime); err != nil {
		t.Fatal(err)
	}
	same := map[string]string{"riffle": strings.Repeat("program", 1000), "analyzer": "another program"}
	if err := sameBinaries(bytes.NewReader(archive.Bytes()), folder(t, same)); err != nil {
		t.Error(err)
	}
	same["analyzer"] = "a third program"
	if err := sameBinaries(bytes.NewReader(archive.Bytes()), folder(t, same)); err == nil {
		t.Error("another program was taken for the released one")
	}
}
