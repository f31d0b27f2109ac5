// Package spill works on more bytes than fit into memory: what does not fit is in a file that nobody else can read.
//
// What is spilt never outlives the process: the file is sealed with a key that only this process has, in memory, and is
// removed. So an order in which things came may be there, and a disk that is stolen tells nothing of it. Each block
// of the file is sealed with AES-256-GCM under a nonce of its own, which the process remembers: a block that was
// changed, exchanged or brought back by whoever writes to the disk is an error, never other bytes. Whoever can read the
// memory of the process, or its swapped pages, reads all: swap belongs on an encrypted disk, or nowhere.
package spill

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
)

// DefaultMemory is how many bytes a Store keeps in memory by default.
const DefaultMemory = 128 << 20

const (
	leastMemory  = 256 << 10 // with less, the blocks would be smaller than what it takes to find them again
	largestBlock = 32 << 10
	filePrefix   = "spill-"
)

// Store hands out memory up to a bound, and a file beyond it. It is safe for concurrent use.
//
// The bound holds for all piles and sorters together, and for what sorting one sorter at a time takes. Beyond it go one
// block for each pile that is open (the 1024th part of the bound, at most 32 KiB), a block for each reader, what a
// single call appends, and some ten bytes for each block in the file.
type Store struct {
	folder string
	memory int64
	block  int // bytes of a block
	limit  int // blocks in memory

	mu     sync.Mutex
	frames []frame  // memory of a block each
	unused []uint32 // frames that hold nothing
	full   []uint32 // frames that no pile appends to any more, oldest first
	aead   cipher.AEAD
	sealed []byte   // one block
	last   [12]byte // nonce
	file   *os.File
	places uint32   // that the file has for blocks
	free   []uint32 // of them
	seals  []uint32 // how often each place was written to, or would have been
	closed bool
}

// frame is the memory of a block, which is the block at this place of the pile.
type frame struct {
	b    []byte
	pile *Pile
	at   int
}

// framed marks the number of a block that is in memory: of its frame. Others are places in the file.
const framed = 1 << 31

// New opens a store with this many bytes of memory, 0 for DefaultMemory and at least 256 KiB, whose file is in a
// folder that belongs to one process. It makes the folder, and removes what an earlier process left there.
func New(folder string, memory int64) (*Store, error) {
	if memory == 0 {
		memory = DefaultMemory
	}
	memory = max(memory, leastMemory)
	if err := os.MkdirAll(folder, 0o700); err != nil {
		return nil, fmt.Errorf("spill: %w", err)
	}
	left, err := os.ReadDir(folder)
	if err != nil {
		return nil, fmt.Errorf("spill: %w", err)
	}
	for _, file := range left {
		if !strings.HasPrefix(file.Name(), filePrefix) {
			continue
		}
		if err := os.Remove(filepath.Join(folder, file.Name())); err != nil {
			return nil, fmt.Errorf("spill: what an earlier process left cannot be removed: %w", err)
		}
	}
	key := make([]byte, 32)
	_, _ = rand.Read(key) // never fails
	c, err := aes.NewCipher(key)
	if err != nil {
		return nil, fmt.Errorf("spill: %w", err)
	}
	aead, err := cipher.NewGCM(c)
	if err != nil {
		return nil, fmt.Errorf("spill: %w", err)
	}
	s := &Store{folder: folder, memory: memory, block: int(min(memory/1024, largestBlock)), aead: aead}
	s.limit = int(memory*3/4) / s.block // the rest is for sorting
	return s, nil
}

// Memory is the bound in bytes.
func (s *Store) Memory() int64 { return s.memory }

// Piles is how many piles may be open at the same time so that their last blocks take a quarter of the memory.
func (s *Store) Piles() int { return int(s.memory/4) / s.block }

// Close gives back all memory and removes the file. What the store handed out cannot be used any more.
func (s *Store) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed, s.frames, s.unused, s.full, s.free = true, nil, nil, nil, nil
	return s.remove()
}

// errClosed says that a store or what it handed out is used after its end.
var errClosed = errors.New("spill: used after it was closed")

// get returns a frame for the last block of a pile. Where the bound is reached, the oldest full block goes to the file
// first. The error is the disk's, and then nothing is lost.
func (s *Store) get(p *Pile) (uint32, error) {
	if s.closed {
		return 0, errClosed
	}
	for len(s.frames)-len(s.unused) >= s.limit && len(s.full) > 0 {
		if err := s.evict(s.full[0]); err != nil {
			return 0, err
		}
		s.full = s.full[1:]
	}
	n := len(s.unused)
	if n == 0 {
		s.frames = append(s.frames, frame{b: make([]byte, 0, s.block)})
		s.unused, n = append(s.unused, uint32(len(s.frames)-1)), 1
	}
	i := s.unused[n-1]
	s.unused = s.unused[:n-1]
	s.frames[i] = frame{s.frames[i].b[:0], p, len(p.blocks)}
	return i, nil
}

// evict writes a full block to the file.
func (s *Store) evict(i uint32) error {
	if s.file == nil {
		f, err := os.CreateTemp(s.folder, filePrefix+"*")
		if err != nil {
			return fmt.Errorf("spill: what does not fit into %d bytes of memory needs a file: %w", s.memory, err)
		}
		s.file = f
	}
	place := s.places
	if n := len(s.free); n > 0 {
		place = s.free[n-1]
	} else if int(place) == len(s.seals) {
		s.seals = append(s.seals, 0)
	}
	f := s.frames[i]
	s.seals[place]++ // also if the write fails: no nonce serves twice
	s.sealed = s.aead.Seal(s.sealed[:0], s.nonce(place), f.b, nil)
	if _, err := s.file.WriteAt(s.sealed, s.offset(place)); err != nil {
		return fmt.Errorf("spill: %w; what does not fit into %d bytes of memory is in that file, which has %d "+
			"bytes: make room on its disk", err, s.memory, s.offset(s.places))
	}
	if place == s.places {
		s.places++
	} else {
		s.free = s.free[:len(s.free)-1]
	}
	f.pile.blocks[f.at] = place
	s.unused = append(s.unused, i)
	return nil
}

// offset is where a place begins in the file.
func (s *Store) offset(place uint32) int64 { return int64(place) * int64(s.block+s.aead.Overhead()) }

// nonce is the one of what was last written to a place.
func (s *Store) nonce(place uint32) []byte {
	binary.BigEndian.PutUint32(s.last[4:], place)
	binary.BigEndian.PutUint32(s.last[8:], s.seals[place])
	return s.last[:]
}

// read appends the bytes of a pile's block to dst.
func (s *Store) read(dst []byte, p *Pile, at int) ([]byte, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed || at >= len(p.blocks) {
		return dst, errClosed
	}
	place := p.blocks[at]
	if place&framed != 0 {
		return append(dst, s.frames[place&^framed].b...), nil
	}
	size := s.block + s.aead.Overhead()
	dst = slices.Grow(dst, size)
	sealed := dst[len(dst) : len(dst)+size]
	if _, err := s.file.ReadAt(sealed, s.offset(place)); err != nil {
		return dst, fmt.Errorf("spill: %w", err)
	}
	opened, err := s.aead.Open(sealed[:0], s.nonce(place), sealed, nil)
	if err != nil {
		return dst, fmt.Errorf("spill: %s was changed by somebody else, or its disk is damaged", s.file.Name())
	}
	return dst[:len(dst)+len(opened)], nil
}

// forget gives back what the blocks of a pile take. The file goes when nothing is in it any more.
func (s *Store) forget(p *Pile) {
	if s.closed || len(p.blocks) == 0 {
		return
	}
	queued := false
	for _, place := range p.blocks {
		if place&framed == 0 {
			s.free = append(s.free, place)
			continue
		}
		queued = queued || len(s.frames[place&^framed].b) == s.block
		s.frames[place&^framed].pile = nil
	}
	if queued {
		s.full = slices.DeleteFunc(s.full, func(i uint32) bool { return s.frames[i].pile == nil })
	}
	for _, place := range p.blocks {
		if place&framed != 0 {
			s.unused = append(s.unused, place&^framed)
		}
	}
	if s.places > 0 && len(s.free) == int(s.places) {
		_ = s.remove() // where it cannot be removed, New does
		s.places, s.free = 0, nil
	}
}

// remove removes the file.
func (s *Store) remove() error {
	if s.file == nil {
		return nil
	}
	err := errors.Join(s.file.Close(), os.Remove(s.file.Name()))
	if s.file = nil; err != nil {
		return fmt.Errorf("spill: %w", err)
	}
	return nil
}
