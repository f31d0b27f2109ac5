package wal

import (
	"bytes"
	"encoding/binary"
	"errors"
	"hash/crc32"
	"os"
	"path/filepath"
	"testing"

	"github.com/riffle-dp/riffle/internal/testing/allocated"
)

// frame is a frame of the log at its place.
func frame(n name, place uint32, payload []byte) []byte {
	h := make([]byte, header)
	(&log{name: n, frames: place}).head(h, payload)
	return append(h, payload...)
}

// FuzzLogFile reads any bytes as the file of a log: as they are, behind the right header, as the payload of a first
// frame, and behind a whole frame. What is read of the frames is written as the same bytes, up to a torn one at the
// end; anything else is damage that says so, and what is before a torn frame is never lost.
func FuzzLogFile(f *testing.F) {
	n := name{session: 5, number: 2}
	first := put("a", "1")
	begin := binary.LittleEndian.AppendUint32(n.header(), 3)
	whole := append(bytes.Clone(begin), frame(n, 0, first.append(nil))...)
	for _, b := range [][]byte{
		whole, whole[:len(whole)-1], append(bytes.Clone(whole), frame(n, 1, put("b", "").append(nil))...),
		append(bytes.Clone(whole), frame(n, 2, nil)...), first.append(nil),
		Change{Bucket: things, Key: []byte("a")}.append(nil),
		Change{Bucket: things, Key: []byte("b"), Below: true}.append(nil),
		{0, 0x81, 0, 'b', 1, 'k', 1, 'v'}, {1, 1, 'b', 1, 'k', 1, 'v'}, // not as append writes them
		{3, 0, 0, 0}, {0, 255, 255, 255, 255, 255, 255, 255, 255, 255, 1}, {},
	} {
		f.Add(b)
	}
	path := filepath.Join(f.TempDir(), "log")
	f.Fuzz(func(t *testing.T, data []byte) {
		for _, b := range [][]byte{
			data, append(bytes.Clone(begin), data...), append(bytes.Clone(begin), frame(n, 0, data)...),
			append(bytes.Clone(whole), data...),
		} {
			if err := os.WriteFile(path, b, 0o600); err != nil {
				t.Fatal(err)
			}
			var c content
			var err error
			allocated.ForInput(t, len(b), func() { c, err = read(path, n) })
			if err != nil {
				if !errors.Is(err, ErrDamaged) {
					t.Fatal(err)
				}
				continue
			}
			if c.before != binary.LittleEndian.Uint32(b[fileHeader-4:]) {
				t.Fatalf("%d frames in the log before, of %x", c.before, b[:fileHeader])
			}
			if bytes.HasPrefix(b, whole) && (c.frames < 1 || len(c.changes) < 1 ||
				!bytes.Equal(c.changes[0].append(nil), first.append(nil))) {
				t.Fatalf("the first frame is lost: %d frames, %d changes", c.frames, len(c.changes))
			}
			var written, rest []byte
			for _, one := range c.changes {
				written = one.append(written)
			}
			for at := uint32(0); at < c.frames; at++ { // the payloads, one after another
				size := int(binary.LittleEndian.Uint32(b[fileHeader+len(rest)+header*int(at)+4:]))
				from := fileHeader + len(rest) + header*int(at) + header
				rest = append(rest, b[from:from+size]...)
			}
			if !bytes.Equal(written, rest) {
				t.Fatalf("%x is written as %x", rest, written)
			}
		}
	})
}

// FuzzLogLeft opens a file beside which any bytes are left as its log, with the right header. What was flushed before
// is there, or the file is refused as damaged; and it opens again to the same.
func FuzzLogLeft(f *testing.F) {
	folder := f.TempDir()
	path := filepath.Join(folder, "file")
	d, err := Open(path, Options{Buckets: [][]byte{things}, NoSync: true})
	if err != nil {
		f.Fatal(err)
	}
	err = errors.Join(d.Commit([]Change{put("old", "1")}), d.Flush(), d.Commit([]Change{put("new", "2")}))
	if err != nil {
		f.Fatal(err)
	}
	left := f.TempDir() // as a process that is killed leaves it
	if err := os.CopyFS(left, os.DirFS(folder)); err != nil {
		f.Fatal(err)
	}
	numbers, err := d.logs()
	if err != nil || len(numbers) != 1 {
		f.Fatal(numbers, err)
	}
	log := filepath.Base(d.log(numbers[0]))
	good, err := os.ReadFile(filepath.Join(left, log))
	if err = errors.Join(err, d.Close()); err != nil {
		f.Fatal(err)
	}
	n := name{
		session: binary.LittleEndian.Uint64(good[len(magic):]),
		number:  binary.LittleEndian.Uint64(good[len(magic)+8:]),
	}
	f.Add(good[fileHeader:])
	f.Add(good[fileHeader : len(good)-1])
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, frames []byte) {
		// The sums are mended, so that the fuzzer gets past them.
		if place, length, ok := headAt(frames, 0, n); !ok && len(frames) >= header {
			frames = append(frame(n, 0, frames[header:]), frames[:0]...)
		} else if payload := header + int(length); ok && place == 0 && payload <= len(frames) {
			binary.LittleEndian.PutUint32(frames[8:], crc32.Checksum(frames[header:payload], castagnoli))
			binary.LittleEndian.PutUint32(frames[12:], headSum(n, frames))
		}
		here := t.TempDir()
		if err := os.CopyFS(here, os.DirFS(left)); err != nil {
			t.Fatal(err)
		}
		left := append(bytes.Clone(good[:fileHeader]), frames...)
		if err := os.WriteFile(filepath.Join(here, log), left, 0o600); err != nil {
			t.Fatal(err)
		}
		var before map[string]string
		for range 2 {
			d, err := Open(filepath.Join(here, "file"), Options{Buckets: [][]byte{things}, NoSync: true})
			if err != nil {
				if !errors.Is(err, ErrDamaged) || before != nil {
					t.Fatalf("opened %v: %v", before, err)
				}
				return
			}
			got := holds(t, d)
			if err := d.Close(); err != nil {
				t.Fatal(err)
			}
			if before != nil {
				same(t, "opened again", got, before)
			}
			before = got
		}
	})
}
