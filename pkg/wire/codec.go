package wire

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math"
	"strconv"
	"time"
	"unicode/utf8"
)

// coder goes through the fields of a message of the schema in the order of their numbers, and writes them or reads
// them. One function for each type of message names its fields once, for both. Tests hold these functions to the
// schema, with the code that is generated from it.
//
// What a coder writes is the deterministic serialization of protobuf, and a reader takes nothing else: it fails once
// and for all at a field out of order, of another type, twice or unknown, at a zero that is written out, and at a
// longer form of a number. Empty lists become nil.
type coder struct {
	b          []byte // written so far, or left to be read
	reads      bool
	shares     bool // what is read shares the memory of what it is read from
	failed     bool
	deployment string // that the message names
}

// marshal is the one encoding of a message.
func marshal[T any](fields func(*coder, *T), m *T) ([]byte, error) {
	var c coder
	fields(&c, m)
	return c.written()
}

func (c *coder) written() ([]byte, error) {
	if c.failed {
		return nil, fmt.Errorf("%w: a text is not UTF-8", ErrMalformed)
	}
	return c.b, nil
}

// unmarshal reads a message from its one encoding. What it returns shares the memory of b.
func unmarshal[T any](fields func(*coder, *T), b []byte) (*T, error) {
	c, m := coder{b: b, reads: true, shares: true}, new(T)
	fields(&c, m)
	return m, c.read()
}

// read is the error of bytes that were no message, or more than one.
func (c *coder) read() error {
	if c.failed || len(c.b) > 0 {
		return fmt.Errorf("%w: unknown fields or not the canonical encoding", ErrMalformed)
	}
	return nil
}

// next reports whether the field that comes next to be read has this number and type, and steps behind its tag.
func (c *coder) next(n int, t wireType) bool {
	var room [binary.MaxVarintLen32]byte
	tag := appendTag(room[:0], n, t)
	if c.failed || !bytes.HasPrefix(c.b, tag) {
		return false
	}
	c.b = c.b[len(tag):]
	return true
}

// varint is a number that was just read, or 0.
func (c *coder) varint() uint64 {
	v, n := binary.Uvarint(c.b)
	if c.failed = c.failed || n < 1 || n != varintSize(v); c.failed {
		return 0
	}
	c.b = c.b[n:]
	return v
}

// fixed is the next bytes to be read; zeros where there are not so many.
func (c *coder) fixed(size int) []byte {
	if c.failed = c.failed || len(c.b) < size; c.failed {
		return make([]byte, size)
	}
	v := c.b[:size:size]
	c.b = c.b[size:]
	return v
}

// content is what is in a field of bytes that comes next to be read; ok says that there is one.
func (c *coder) content(n int) (content []byte, ok bool) {
	if !c.next(n, bytesType) {
		return nil, false
	}
	size := c.varint()
	if c.failed = c.failed || size > uint64(len(c.b)); c.failed {
		return nil, false
	}
	return c.fixed(int(size)), true
}

// number is a field of a whole number up to most; 0 is absent.
func (c *coder) number(n int, v, most uint64) uint64 {
	if !c.reads {
		if v != 0 {
			c.b = binary.AppendUvarint(appendTag(c.b, n, varintType), v)
		}
		return v
	}
	if !c.next(n, varintType) {
		return 0
	}
	v = c.varint()
	c.failed = c.failed || v == 0 || v > most
	return v
}

func (c *coder) uint64(n int, at *uint64) {
	if v := c.number(n, *at, math.MaxUint64); c.reads {
		*at = v
	}
}

func (c *coder) uint32(n int, at *uint32) {
	if v := c.number(n, uint64(*at), math.MaxUint32); c.reads {
		*at = uint32(v)
	}
}

// count is a field of 32 bits that is an int here.
func (c *coder) count(n int, at *int) {
	if v := c.number(n, uint64(uint32(*at)), math.MaxUint32); c.reads {
		*at = int(v)
	}
}

func (c *coder) bool(n int, at *bool) {
	var v uint64
	if *at {
		v = 1
	}
	if v = c.number(n, v, 1); c.reads {
		*at = v == 1
	}
}

// milliseconds is a field of a duration of whole milliseconds.
func (c *coder) milliseconds(n int, at *time.Duration) {
	if v := c.number(n, uint64(uint32(*at/time.Millisecond)), math.MaxUint32); c.reads {
		*at = time.Duration(v) * time.Millisecond
	}
}

// enum is a field of an enumeration: a number of 32 bits with a sign.
func (c *coder) enum(n int, at *int32) {
	v := c.number(n, uint64(*at), math.MaxUint64)
	if c.reads {
		*at = int32(v)
		c.failed = c.failed || uint64(*at) != v
	}
}

// name is a field of an enumeration that is a word here. A number without a word is read as its digits, so that the
// refusal can name it; it cannot be written.
func name[S ~string](c *coder, n int, words []S, at *S) {
	var number int32
	for i, word := range words {
		if !c.reads && word == *at {
			number = int32(i)
		}
	}
	if c.enum(n, &number); !c.reads {
		return
	}
	if number >= 0 && int(number) < len(words) && words[number] != "" {
		*at = words[number]
	} else {
		*at = S(strconv.Itoa(int(number)))
	}
}

// float is a field of a double; 0 is absent, and -0 is not.
func (c *coder) float(n int, at *float64) {
	if v := math.Float64bits(*at); !c.reads {
		if v != 0 {
			c.b = binary.LittleEndian.AppendUint64(appendTag(c.b, n, fixed64Type), v)
		}
		return
	}
	*at = 0
	if c.next(n, fixed64Type) {
		v := binary.LittleEndian.Uint64(c.fixed(8))
		c.failed = c.failed || v == 0
		*at = math.Float64frombits(v)
	}
}

// wide64 and wide32 are fields of a fixed width that are always there.
func (c *coder) wide64(n int, at *uint64) {
	if !c.reads {
		c.b = binary.LittleEndian.AppendUint64(appendTag(c.b, n, fixed64Type), *at)
		return
	}
	c.failed = !c.next(n, fixed64Type)
	*at = binary.LittleEndian.Uint64(c.fixed(8))
}

func (c *coder) wide32(n int, at *uint32) {
	if !c.reads {
		c.b = binary.LittleEndian.AppendUint32(appendTag(c.b, n, fixed32Type), *at)
		return
	}
	c.failed = !c.next(n, fixed32Type)
	*at = binary.LittleEndian.Uint32(c.fixed(4))
}

// bytes is a field of bytes; none are absent.
func (c *coder) bytes(n int, at *[]byte) {
	if !c.reads {
		if len(*at) > 0 {
			c.b = appendBytes(c.b, n, *at)
		}
		return
	}
	content, ok := c.content(n)
	c.failed = c.failed || ok && len(content) == 0
	if *at = content; !c.shares {
		*at = bytes.Clone(content)
	}
}

// array is a field of 32 bytes.
func (c *coder) array(n int, at *[32]byte) {
	b := at[:]
	if c.bytes(n, &b); c.reads {
		c.failed = c.failed || len(b) != len(at)
		copy(at[:], b)
	}
}

// text is a field of a text; none is absent.
func (c *coder) text(n int, at *string) {
	if !c.reads {
		if c.failed = c.failed || !utf8.ValidString(*at); *at != "" {
			c.b = appendBytes(c.b, n, *at)
		}
		return
	}
	content, ok := c.content(n)
	c.failed = c.failed || ok && len(content) == 0 || !utf8.Valid(content)
	*at = string(content)
}

// named is the field of the deployment that a statement names.
func (c *coder) named(at *string) {
	c.text(1, at)
	c.deployment = *at
}

// every is a list of bytes, of which some may be empty.
func (c *coder) every(n int, at *[][]byte) {
	if !c.reads {
		for _, b := range *at {
			c.b = appendBytes(c.b, n, b)
		}
		return
	}
	for content, ok := c.content(n); ok; content, ok = c.content(n) {
		*at = append(*at, bytes.Clone(content))
	}
}

// inside is a field with a length, and what f writes or reads in it. It is written if present says so; the result says
// whether it was there.
func (c *coder) inside(n int, present bool, f func(*coder)) bool {
	if c.reads {
		content, ok := c.content(n)
		if !ok {
			return false
		}
		in := coder{b: content, reads: true, shares: c.shares}
		f(&in)
		c.failed = in.read() != nil
		return true
	}
	if present {
		c.b = appendTag(c.b, n, bytesType)
		from := len(c.b)
		f(c)
		size := len(c.b) - from
		var room [binary.MaxVarintLen64]byte
		length := binary.AppendUvarint(room[:0], uint64(size))
		c.b = append(c.b, length...)
		copy(c.b[from+len(length):], c.b[from:from+size])
		copy(c.b[from:], length)
	}
	return present
}

// numbers is a list of whole numbers.
func numbers[N uint32 | uint64](c *coder, n int, at *[]N) {
	c.inside(n, len(*at) > 0, func(c *coder) {
		if !c.reads {
			for _, v := range *at {
				c.b = binary.AppendUvarint(c.b, uint64(v))
			}
			return
		}
		*at = make([]N, 0, c.varints())
		for len(c.b) > 0 && !c.failed {
			v := c.varint()
			c.failed = c.failed || uint64(N(v)) != v
			*at = append(*at, N(v))
		}
	})
}

// varints is how many numbers are left to be read. None are no list.
func (c *coder) varints() (n int) {
	for _, b := range c.b {
		if b < 0x80 {
			n++
		}
	}
	c.failed = c.failed || n == 0
	return n
}

// signed is a list of whole numbers with signs.
func (c *coder) signed(n int, at *[]int64) {
	var coded []uint64
	for _, v := range *at {
		coded = append(coded, uint64(v)<<1^uint64(v>>63))
	}
	if numbers(c, n, &coded); c.reads {
		for _, v := range coded {
			*at = append(*at, int64(v>>1)^-int64(v&1))
		}
	}
}

// wides is a list of numbers of 32 bits of a fixed width.
func (c *coder) wides(n int, at *[]uint32) {
	c.inside(n, len(*at) > 0, func(c *coder) {
		if !c.reads {
			for _, v := range *at {
				c.b = binary.LittleEndian.AppendUint32(c.b, v)
			}
			return
		}
		for c.failed = len(c.b) == 0; len(c.b) > 0 && !c.failed; {
			*at = append(*at, binary.LittleEndian.Uint32(c.fixed(4)))
		}
	})
}

// floats is a list of doubles.
func (c *coder) floats(n int, at *[]float64) {
	c.inside(n, len(*at) > 0, func(c *coder) {
		if !c.reads {
			for _, v := range *at {
				c.b = binary.LittleEndian.AppendUint64(c.b, math.Float64bits(v))
			}
			return
		}
		*at = make([]float64, 0, len(c.b)/8)
		for c.failed = len(c.b) == 0; len(c.b) > 0 && !c.failed; {
			*at = append(*at, math.Float64frombits(binary.LittleEndian.Uint64(c.fixed(8))))
		}
	})
}

// optional is a field of a message that may be absent.
func optional[T any](c *coder, n int, at **T, fields func(*coder, *T)) {
	m := *at
	if c.reads {
		m = new(T)
	}
	if there := c.inside(n, m != nil, func(c *coder) { fields(c, m) }); c.reads && there {
		*at = m
	}
}

// list is a list of messages. Further ones than most fail to be read.
func list[T any](c *coder, n int, at *[]T, most int, fields func(*coder, *T)) {
	for i := range *at {
		c.inside(n, true, func(c *coder) { fields(c, &(*at)[i]) })
	}
	for c.reads && len(*at) < most {
		var m T
		if !c.inside(n, false, func(c *coder) { fields(c, &m) }) {
			return
		}
		*at = append(*at, m)
	}
}
