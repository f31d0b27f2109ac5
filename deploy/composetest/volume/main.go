// Command volume does to a folder what a bad day does: it fills its disk, and brings an older copy of it back. It runs
// in a container that has a volume of a deployment, for the trial; it is part of no image that is deployed.
//
//	volume save FOLDER   writes the folder as a tar archive to standard output
//	volume load FOLDER   replaces what is in the folder by such an archive from standard input
//	volume fill FOLDER   writes a file until the disk has no room
//	volume free FOLDER   removes that file
//	volume tear FOLDER   lengthens every block of the broker's streams by bytes that were never written
//	volume deny FOLDER   fails every write to a file of process 1, in whose namespace it runs, whatever the folder
//	volume allow FOLDER  takes that back
//	volume hold          waits, so that a volume in memory outlives the container that uses it
package main

import (
	"archive/tar"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
)

const filler = "filler"

func main() {
	var err error
	switch {
	case len(os.Args) == 2 && os.Args[1] == "hold":
		end := make(chan os.Signal, 1)
		signal.Notify(end, syscall.SIGTERM, syscall.SIGINT)
		<-end
	case len(os.Args) != 3:
		err = errors.New("usage: volume save|load|fill|free|tear|deny|allow FOLDER")
	default:
		folder := os.Args[2]
		switch os.Args[1] {
		case "save":
			err = save(folder, os.Stdout)
		case "load":
			err = load(folder, os.Stdin)
		case "fill":
			err = fill(filepath.Join(folder, filler))
		case "tear":
			err = tear(folder)
		case "deny", "allow":
			err = limit(1, os.Args[1] == "deny")
		case "free":
			err = os.Remove(filepath.Join(folder, filler))
		default:
			err = fmt.Errorf("unknown: %s", os.Args[1])
		}
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "volume:", err)
		os.Exit(1)
	}
}

func save(folder string, to io.Writer) error {
	w := tar.NewWriter(to)
	err := filepath.WalkDir(folder, func(path string, e fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := e.Info()
		if err != nil || path == folder || !e.IsDir() && !info.Mode().IsRegular() {
			return err
		}
		h, err := tar.FileInfoHeader(info, "")
		if err != nil {
			return err
		}
		if h.Name, err = filepath.Rel(folder, path); err != nil {
			return err
		}
		if err := w.WriteHeader(h); err != nil || e.IsDir() {
			return err
		}
		f, err := os.Open(path)
		if err != nil {
			return err
		}
		defer f.Close()
		_, err = io.Copy(w, f)
		return err
	})
	return errors.Join(err, w.Close())
}

func load(folder string, from io.Reader) error {
	old, err := os.ReadDir(folder)
	if err != nil {
		return err
	}
	for _, e := range old {
		if err := os.RemoveAll(filepath.Join(folder, e.Name())); err != nil {
			return err
		}
	}
	r := tar.NewReader(from)
	for {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		path := filepath.Join(folder, filepath.Clean("/"+h.Name))
		if h.Typeflag == tar.TypeDir {
			err = os.Mkdir(path, h.FileInfo().Mode().Perm())
		} else {
			err = write(path, r, h.FileInfo().Mode().Perm())
		}
		if err == nil {
			err = os.Chown(path, h.Uid, h.Gid)
		}
		if err != nil {
			return err
		}
	}
}

func write(path string, from io.Reader, mode fs.FileMode) error {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, mode)
	if err != nil {
		return err
	}
	_, err = io.Copy(f, from)
	return errors.Join(err, f.Close())
}

// fill stops where the disk takes not another byte.
func fill(path string) error {
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	for size := 1 << 20; size > 0; {
		if _, err := f.Write(make([]byte, size)); errors.Is(err, syscall.ENOSPC) {
			size /= 2
		} else if err != nil {
			return errors.Join(err, f.Close())
		}
	}
	return f.Close()
}

// torn is how many bytes a block gets: the length of a short record.
const torn = 100

// tear leaves blocks as a power cut does in the middle of a write: a file has its new length, and holds zeros where the
// bytes had not yet come to the disk.
func tear(folder string) error {
	return filepath.WalkDir(folder, func(path string, e fs.DirEntry, err error) error {
		if err != nil || filepath.Ext(path) != ".blk" {
			return err
		}
		info, err := e.Info()
		if err != nil {
			return err
		}
		return os.Truncate(path, info.Size()+torn)
	})
}
