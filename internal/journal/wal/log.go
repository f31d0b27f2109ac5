package wal

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"os"
	"path/filepath"
	"runtime"
)

// A log is a file of frames. A frame is what one commit wrote: it is there whole, or it is not there.
//
//	file:  "riffle log 1\n\x00\x00\x00", number of the session (8 bytes), number of the log (8), how many frames the
//	       log before it has (4), frames
//	frame: place of the frame in its file from 0 (4), bytes of the payload (4), CRC-32C of the payload (4),
//	       CRC-32C of both numbers of the log and these 12 bytes (4), payload
//
// All numbers are little endian. A frame is on the disk before the next one is written, so that a power cut can leave
// at most the last one torn; anything else that does not check is damage, and is an error.

const (
	magic      = "riffle log 1\n\x00\x00\x00"
	fileHeader = len(magic) + 20
	header     = 16
	// maxFrame bounds the payload of one frame.
	maxFrame = 1 << 30
)

// ErrDamaged says that a file does not hold what was written to it, in a way that no crash explains.
var ErrDamaged = errors.New("the file is damaged")

// Kinds of changes in the log.
const (
	kindPut    byte = iota
	kindForget      // the key
	kindBelow       // every smaller key
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// name is what a log is called in its file.
type name struct{ session, number uint64 }

// header is what the file of a log begins with; how many frames the log before it has follows.
func (n name) header() []byte { return n.append([]byte(magic)) }

func (n name) append(b []byte) []byte {
	return binary.LittleEndian.AppendUint64(binary.LittleEndian.AppendUint64(b, n.session), n.number)
}

// log is one file that commits are appended to. One goroutine at a time.
type log struct {
	file   *os.File
	path   string
	name   name
	frames uint32
	size   int64
	sync   func() error
	buffer []byte
}

// create begins a log. It is in its folder durably when create returns.
func create(path string, n name, before uint32, unsync bool) (*log, error) {
	file, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, err
	}
	l := &log{file: file, path: path, name: n, size: int64(fileHeader), sync: file.Sync}
	if unsync {
		l.sync = func() error { return nil }
	}
	_, err = file.Write(binary.LittleEndian.AppendUint32(n.header(), before))
	if err == nil && !unsync {
		err = errors.Join(file.Sync(), SyncFolder(filepath.Dir(path)))
	}
	if err != nil {
		return nil, errors.Join(err, file.Close())
	}
	return l, nil
}

// append makes one frame durable. After an error the log must not be written any more.
func (l *log) append(changes []Change) error {
	size := 0
	for _, c := range changes {
		size += len(c.Bucket) + len(c.Key) + len(c.Value) + 1 + 3*binary.MaxVarintLen64
	}
	if size > maxFrame {
		return fmt.Errorf("a commit of some %d bytes, at most %d", size, maxFrame)
	}
	b := append(l.buffer[:0], make([]byte, header)...)
	for _, c := range changes {
		b = c.append(b)
	}
	payload := b[header:]
	l.head(b[:header], payload)
	if _, err := l.file.Write(b); err != nil {
		return err
	}
	if err := l.sync(); err != nil {
		return err
	}
	l.frames++
	l.size += int64(len(b))
	if l.buffer = b; cap(b) > 1<<20 { // one burst must not be held for ever
		l.buffer = nil
	}
	return nil
}

func (l *log) head(h, payload []byte) {
	binary.LittleEndian.PutUint32(h, l.frames)
	binary.LittleEndian.PutUint32(h[4:], uint32(len(payload)))
	binary.LittleEndian.PutUint32(h[8:], crc32.Checksum(payload, castagnoli))
	binary.LittleEndian.PutUint32(h[12:], headSum(l.name, h))
}

func headSum(n name, h []byte) uint32 {
	return crc32.Checksum(append(n.append(make([]byte, 0, 28)), h[:12]...), castagnoli)
}

// content is what a log holds.
type content struct {
	changes []Change
	frames  uint32
	before  uint32 // frames of the log before it
}

// read returns what a log holds. Its last frame may be torn, and is left out: if no log is behind this one, it was
// never acknowledged. All other damage is ErrDamaged.
func read(path string, n name) (c content, err error) {
	b, err := os.ReadFile(path)
	if err != nil {
		return c, err
	}
	if len(b) < fileHeader || !bytes.HasPrefix(b, n.header()) {
		return c, damage(path, 0, "the header is not that of this log")
	}
	c.before = binary.LittleEndian.Uint32(b[fileHeader-4:])
	for at := fileHeader; at < len(b); c.frames++ {
		payload, ok := frameAt(b, at, n, c.frames)
		if !ok {
			if behind := frameBehind(b, at+1, n, c.frames); behind >= 0 {
				return c, damage(path, at, fmt.Sprintf("there is a later frame at byte %d", behind))
			}
			return c, nil
		}
		for len(payload) > 0 {
			var one Change
			if one, payload, err = parse(payload); err != nil {
				return c, damage(path, at, err.Error())
			}
			c.changes = append(c.changes, one)
		}
		at += header + int(binary.LittleEndian.Uint32(b[at+4:]))
	}
	return c, nil
}

func damage(path string, at int, what string) error {
	return fmt.Errorf("%s: %w at byte %d: %s", path, ErrDamaged, at, what)
}

// headAt reports whether a frame's header is there, of which frame, and the length of its payload.
func headAt(b []byte, at int, n name) (place, length uint32, ok bool) {
	if at+header > len(b) || binary.LittleEndian.Uint32(b[at+12:]) != headSum(n, b[at:at+header]) {
		return 0, 0, false
	}
	return binary.LittleEndian.Uint32(b[at:]), binary.LittleEndian.Uint32(b[at+4:]), true
}

func frameAt(b []byte, at int, n name, want uint32) (payload []byte, ok bool) {
	place, length, ok := headAt(b, at, n)
	if !ok || place != want || length > maxFrame || at+header+int(length) > len(b) {
		return nil, false
	}
	payload = b[at+header : at+header+int(length)]
	return payload, crc32.Checksum(payload, castagnoli) == binary.LittleEndian.Uint32(b[at+8:])
}

// frameBehind finds a frame after a place: one that could only be written once the frame of that place was durable. -1
// where there is none.
func frameBehind(b []byte, from int, n name, after uint32) int {
	for at := from; at+header <= len(b); at++ {
		if place, _, ok := headAt(b, at, n); ok && place > after {
			return at
		}
	}
	return -1
}

// SyncFolder makes the names in a folder durable. Windows cannot flush a folder, and gives no such promise.
func SyncFolder(path string) error {
	if runtime.GOOS == "windows" {
		return nil
	}
	d, err := os.Open(path)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

// append writes a change: kind, then bucket, key and value, each behind its length.
func (c Change) append(b []byte) []byte {
	kind := kindPut
	switch {
	case c.Below:
		kind = kindBelow
	case c.Value == nil:
		kind = kindForget
	}
	b = append(b, kind)
	for _, part := range [][]byte{c.Bucket, c.Key, c.Value} {
		b = append(binary.AppendUvarint(b, uint64(len(part))), part...)
	}
	return b
}

func parse(b []byte) (c Change, rest []byte, err error) {
	if b[0] > kindBelow {
		return c, nil, fmt.Errorf("a change of an unknown kind, %d: this version is older than the file", b[0])
	}
	forget := b[0] != kindPut
	c.Below = b[0] == kindBelow
	b = b[1:]
	for _, part := range []*[]byte{&c.Bucket, &c.Key, &c.Value} {
		n, width := binary.Uvarint(b)
		if width <= 0 || n > uint64(len(b)-width) {
			return c, nil, io.ErrUnexpectedEOF
		}
		if width > 1 && b[width-1] == 0 || forget && part == &c.Value && n > 0 {
			return c, nil, errors.New("a change that is not written as this program writes it")
		}
		*part = b[width : width+int(n) : width+int(n)]
		b = b[width+int(n):]
	}
	if forget {
		c.Value = nil
	}
	return c, b, nil
}
