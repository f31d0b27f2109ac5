package spill

import "fmt"

// Pile is a run of bytes that grows at its end. Append may be called by many goroutines at a time.
type Pile struct {
	store  *Store
	blocks []uint32 // places in the file, or frames; all blocks are full but the last
	size   int64
}

// Pile returns an empty pile. Close it.
func (s *Store) Pile() *Pile { return &Pile{store: s} }

// Append adds bytes at the end, those of all parts together: bytes of other calls are before or behind. After an
// error, which is the disk's, none of them is there, and it can be called again.
func (p *Pile) Append(parts ...[]byte) error {
	p.store.mu.Lock()
	defer p.store.mu.Unlock()
	blocks, size := len(p.blocks), p.size
	for _, b := range parts {
		if err := p.extend(b); err != nil {
			p.cut(blocks, size)
			return err
		}
	}
	p.queueFull(size)
	return nil
}

// extend adds bytes, which can still be taken back. The store is locked. After an error some of them may be there.
func (p *Pile) extend(b []byte) error {
	for len(b) > 0 {
		at := int(p.size) % p.store.block
		if at == 0 {
			i, err := p.store.get(p)
			if err != nil {
				return err
			}
			p.blocks = append(p.blocks, framed|i)
		}
		f := &p.store.frames[p.blocks[len(p.blocks)-1]&^framed]
		n := min(len(b), p.store.block-at)
		f.b = append(f.b, b[:n]...)
		b, p.size = b[n:], p.size+int64(n)
	}
	return nil
}

// queueFull lets the blocks go to the file that became full since the pile had this size.
func (p *Pile) queueFull(size int64) {
	for i := size / int64(p.store.block); i < p.size/int64(p.store.block); i++ {
		p.store.full = append(p.store.full, p.blocks[i]&^framed)
	}
}

// cut takes back what was appended since the pile had so many blocks and bytes, and was not queued.
func (p *Pile) cut(blocks int, size int64) {
	for _, place := range p.blocks[blocks:] {
		p.store.unused = append(p.store.unused, place&^framed)
	}
	if at := int(size) % p.store.block; at > 0 {
		f := &p.store.frames[p.blocks[blocks-1]&^framed]
		f.b = f.b[:at]
	}
	p.blocks, p.size = p.blocks[:blocks], size
}

// Size is how many bytes the pile has.
func (p *Pile) Size() int64 {
	p.store.mu.Lock()
	defer p.store.mu.Unlock()
	return p.size
}

// Read calls f with the bytes from the beginning, in pieces of a whole number of entries of this size. A piece is valid
// only during the call. What is appended meanwhile may be missing. Its error is f's or the disk's; it can be called
// again.
func (p *Pile) Read(entry int, f func(b []byte) error) error {
	p.store.mu.Lock()
	blocks, size := len(p.blocks), p.size
	p.store.mu.Unlock()
	if size%int64(entry) != 0 {
		return fmt.Errorf("spill: %d bytes are not whole entries of %d", size, entry)
	}
	var piece []byte
	for i := range blocks {
		var err error
		if piece, err = p.store.read(piece, p, i); err != nil {
			return err
		}
		if i == blocks-1 { // another goroutine may have appended to it
			piece = piece[:min(int64(len(piece)), size)]
		}
		whole := len(piece) - len(piece)%entry
		if whole == 0 {
			continue
		}
		if err := f(piece[:whole]); err != nil {
			return err
		}
		size -= int64(whole)
		piece = piece[:copy(piece, piece[whole:])]
	}
	return nil
}

// load appends all bytes to dst.
func (p *Pile) load(dst []byte) ([]byte, error) {
	err := p.Read(1, func(b []byte) error { dst = append(dst, b...); return nil })
	return dst, err
}

// Close gives back what the pile takes.
func (p *Pile) Close() error {
	p.store.mu.Lock()
	defer p.store.mu.Unlock()
	p.store.forget(p)
	p.blocks, p.size = nil, 0
	return nil
}

// Buckets are piles of entries of one size, among which entries are spread.
type Buckets struct {
	store *Store
	size  int
	piles []Pile
}

// Buckets returns so many empty buckets for entries of this many bytes. Close them.
func (s *Store) Buckets(number, size int) *Buckets {
	b := &Buckets{s, size, make([]Pile, number)}
	for i := range b.piles {
		b.piles[i].store = s
	}
	return b
}

// Append adds entries, one after another, each to the bucket whose number is at its place in to. After
// an error, which is the disk's, some of them may be there: close the buckets, and begin anew.
func (b *Buckets) Append(entries []byte, to []uint32) error {
	if len(entries) != len(to)*b.size {
		return fmt.Errorf("spill: %d bytes are not %d entries of %d", len(entries), len(to), b.size)
	}
	b.store.mu.Lock()
	defer b.store.mu.Unlock()
	for i, bucket := range to {
		p := &b.piles[bucket]
		size := p.size
		if err := p.extend(entries[i*b.size:][:b.size]); err != nil {
			return err
		}
		p.queueFull(size)
	}
	return nil
}

// Len is how many buckets there are.
func (b *Buckets) Len() int { return len(b.piles) }

// Pile is one of the buckets.
func (b *Buckets) Pile(bucket int) *Pile { return &b.piles[bucket] }

// Close gives back what the buckets take.
func (b *Buckets) Close() error {
	for i := range b.piles {
		_ = b.piles[i].Close() // never fails
	}
	return nil
}
