package spill

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"math/bits"
	"slices"
)

// Sorter sorts entries of one size. It is fast where the first eight bytes are spread evenly, as those of a digest are,
// and right wherever they are not. It spreads the entries by their first byte as they come, and by further ones where
// one of these parts does not fit into a quarter of the store's memory, in which each is sorted.
type Sorter struct {
	store   *Store
	size    int
	entries int64
	few     *Pile    // as long as all may fit
	parts   *Buckets // by the first byte; nil before
	to      []uint32
}

// Sorter returns a sorter of entries of this many bytes, at least 8. Close it.
func (s *Store) Sorter(size int) *Sorter { return &Sorter{store: s, size: size, few: s.Pile()} }

// indexed is how many bytes it takes to sort an entry, beside the entry.
const indexed = 2 * 16

// soon is from how many entries on they are spread, because parts that the processor's cache holds are sorted faster.
const soon = 1 << 14

// fits is how many entries of this size are sorted in memory.
func (s *Store) fits(size int) int64 { return s.memory / 4 / int64(size+indexed) }

// Append adds one or more entries, one after another. It must not be called concurrently. After an error,
// which is the disk's, some of them may be there: close the sorter, and begin anew.
func (s *Sorter) Append(entries []byte) error {
	s.entries += int64(len(entries) / s.size)
	if s.parts == nil {
		if s.entries <= min(soon, s.store.fits(s.size)) {
			return s.few.Append(entries)
		}
		s.parts = s.store.Buckets(256, s.size)
		if err := s.spread(s.few, 0, s.parts); err != nil {
			return err
		}
	}
	return s.route(entries, 0, s.parts)
}

// route adds entries to the parts that their byte at this place says.
func (s *Sorter) route(entries []byte, at int, parts *Buckets) error {
	s.to = s.to[:0]
	for i := at; i < len(entries); i += s.size {
		s.to = append(s.to, uint32(entries[i]))
	}
	return parts.Append(entries, s.to)
}

// spread moves a pile's entries to the parts.
func (s *Sorter) spread(p *Pile, at int, parts *Buckets) error {
	err := p.Read(s.size, func(b []byte) error { return s.route(b, at, parts) })
	return cmp.Or(err, p.Close())
}

// Size is how many entries there are.
func (s *Sorter) Size() int64 { return s.entries }

// Sorted calls f with all entries in ascending order, in pieces of one or more. Equal entries are beside each other,
// if need be at the end of one piece and at the beginning of the next. A piece is valid only during the call. It may be
// called once.
func (s *Sorter) Sorted(f func(entries []byte) error) error {
	w := &sorting{Sorter: s, f: f}
	if s.parts == nil {
		return w.pile(s.few, 0)
	}
	return w.all(s.parts, 0)
}

// Close gives back what the sorter takes.
func (s *Sorter) Close() error {
	if s.parts != nil {
		return s.parts.Close()
	}
	return s.few.Close()
}

// sorting is one run of Sorted. Its memory serves one pile after another.
type sorting struct {
	*Sorter
	f           func([]byte) error
	entries     []byte
	order, next []indexedEntry
	out         []byte
}

// indexedEntry is an entry's beginning and its number in the pile.
type indexedEntry struct {
	first  uint64
	number uint32
}

// all sorts parts one after another, whose entries have their first bytes in common up to this place.
func (w *sorting) all(parts *Buckets, at int) error {
	for i := range parts.Len() {
		p := parts.Pile(i)
		if err := cmp.Or(w.pile(p, at+1), p.Close()); err != nil {
			return err
		}
	}
	return nil
}

// pile sorts the entries of a pile, which are equal before this place.
func (w *sorting) pile(p *Pile, from int) error {
	if p.Size()/int64(w.size) <= w.store.fits(w.size) {
		return w.inMemory(p)
	}
	at, err := w.differ(p, from)
	if err != nil {
		return err
	}
	if at == w.size { // all are equal
		return p.Read(w.size, w.f)
	}
	parts := w.store.Buckets(256, w.size)
	defer parts.Close()
	if err := w.spread(p, at, parts); err != nil {
		return err
	}
	return w.all(parts, at)
}

// differ is the first place from this one on at which not all entries of a pile are equal; their size where there is
// none.
func (w *sorting) differ(p *Pile, from int) (at int, err error) {
	var first []byte
	at = w.size
	err = p.Read(w.size, func(b []byte) error {
		if first == nil {
			first = bytes.Clone(b[:w.size])
		}
		for ; len(b) > 0; b = b[w.size:] {
			for i := from; i < at; i++ {
				if b[i] != first[i] {
					at = i
				}
			}
		}
		return nil
	})
	return at, err
}

// inMemory sorts a pile that fits.
func (w *sorting) inMemory(p *Pile) (err error) {
	if w.entries, err = p.load(slices.Grow(w.entries[:0], int(p.Size()))); err != nil {
		return err
	}
	n := len(w.entries) / w.size
	w.order, w.next = slices.Grow(w.order[:0], n)[:n], slices.Grow(w.next[:0], n)[:n]
	differ := uint64(0)
	for i := range w.order {
		w.order[i] = indexedEntry{binary.BigEndian.Uint64(w.entries[i*w.size:]), uint32(i)}
		differ |= w.order[i].first ^ w.order[0].first
	}
	w.radix(bits.LeadingZeros64(differ))
	for out := range slices.Chunk(w.order, max(1, largestBlock/w.size)) {
		w.out = w.out[:0]
		for _, e := range out {
			w.out = append(w.out, w.at(e)...)
		}
		if err := w.f(w.out); err != nil {
			return err
		}
	}
	return nil
}

// at is the whole entry.
func (w *sorting) at(e indexedEntry) []byte { return w.entries[int(e.number)*w.size:][:w.size] }

// digit is how many bits one pass of radix sorts by.
const digit = 11

// radix sorts the order of entries that have so many first bits in common: by the next 22 bits in two passes, from the
// lower to the higher, and runs that are equal there by comparison.
func (w *sorting) radix(common int) {
	shift := max(0, 64-common-2*digit)
	for _, by := range []int{shift, shift + digit} {
		var count [1 << digit]uint32
		for _, e := range w.order {
			count[e.first>>by%(1<<digit)]++
		}
		at := uint32(0)
		for i, n := range count {
			count[i], at = at, at+n
		}
		for _, e := range w.order {
			d := e.first >> by % (1 << digit)
			w.next[count[d]] = e
			count[d]++
		}
		w.order, w.next = w.next, w.order
	}
	for from := 0; from < len(w.order); {
		to := from + 1
		for to < len(w.order) && w.order[to].first>>shift == w.order[from].first>>shift {
			to++
		}
		if to-from > 1 {
			slices.SortFunc(w.order[from:to], func(a, b indexedEntry) int {
				if a.first != b.first {
					return cmp.Compare(a.first, b.first)
				}
				return bytes.Compare(w.at(a), w.at(b))
			})
		}
		from = to
	}
}
