package table

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"errors"
	"io"
	"unicode/utf8"
)

// peeked is how much of a file is looked at to tell what it is, in bytes; a header is shorter.
const peeked = 64 << 10

// Plain is the text that a file holds: without gzip and without a byte order mark, in UTF-8, and with lines that end in
// LF. What is none is refused, here or while the text is read, with ErrTable.
func Plain(from io.Reader) (*bufio.Reader, error) {
	in, packed := bufio.NewReaderSize(from, peeked), false
	start, _ := in.Peek(4)
	if packed = bytes.HasPrefix(start, []byte("\x1f\x8b")); packed {
		unpacked, err := gzip.NewReader(in)
		if err != nil {
			return nil, errGzip
		}
		in = bufio.NewReaderSize(unpacked, peeked)
		start, _ = in.Peek(4)
	}
	switch {
	case bytes.HasPrefix(start, []byte("PK\x03\x04")):
		return nil, wrong("the file is a spreadsheet or another packed file: save it as CSV in UTF-8")
	case bytes.HasPrefix(start, []byte("PAR1")):
		return nil, wrong("the file is Parquet: convert it, in Python with pandas: " +
			`pandas.read_parquet("FILE").to_json("FILE.jsonl", orient="records", lines=True, double_precision=15)`)
	case bytes.HasPrefix(start, []byte("\xff\xfe")) || bytes.HasPrefix(start, []byte("\xfe\xff")) ||
		bytes.IndexByte(start, 0) >= 0:
		return nil, wrong("the file is UTF-16: save it as UTF-8, or convert it: iconv -f UTF-16 -t UTF-8")
	case bytes.HasPrefix(start, []byte("\xef\xbb\xbf")):
		_, _ = in.Discard(3)
	}
	return bufio.NewReaderSize(&lineFeeds{from: in, packed: packed, chunk: make([]byte, peeked)}, peeked), nil
}

var errGzip = wrong("the file is compressed with gzip, and damaged or cut off: get it anew")

// lineFeeds gives text with CR and CR LF as LF, and refuses what is not UTF-8.
type lineFeeds struct {
	from   io.Reader
	packed bool
	chunk  []byte
	rest   int    // bytes at the beginning of chunk: a character whose end is to come
	ready  []byte // of chunk, to be given
	cr     bool   // the last byte was a CR
	end    error
}

// Read implements io.Reader.
func (l *lineFeeds) Read(into []byte) (int, error) {
	for len(l.ready) == 0 {
		if l.end != nil {
			return 0, l.end
		}
		l.fill()
	}
	n := copy(into, l.ready)
	l.ready = l.ready[n:]
	return n, nil
}

// fill reads the next chunk.
func (l *lineFeeds) fill() {
	kept := l.chunk[len(l.chunk)-l.rest:]
	n := copy(l.chunk, kept)
	read, err := l.from.Read(l.chunk[n:])
	text := l.chunk[:n+read]
	if l.end = err; err != nil && !errors.Is(err, io.EOF) && l.packed {
		l.end = errGzip
	}
	l.rest = 0
	if err == nil { // a character that is cut off here may go on
		l.rest = cutOff(text)
		text = text[:len(text)-l.rest]
		copy(l.chunk[len(l.chunk)-l.rest:], l.chunk[len(text):len(text)+l.rest])
	}
	if !utf8.Valid(text) {
		l.end = wrong("the file is not UTF-8 text: save it as CSV in UTF-8, or convert it: iconv -f LATIN1 -t UTF-8")
		return
	}
	l.ready = text[:0]
	for _, c := range text {
		if c == '\n' && l.cr {
			l.cr = false
			continue
		}
		if l.cr = c == '\r'; l.cr {
			c = '\n'
		}
		l.ready = append(l.ready, c)
	}
}

// cutOff is how many bytes at the end of a text begin a character that may go on.
func cutOff(text []byte) int {
	for back := 1; back < utf8.UTFMax && back <= len(text); back++ {
		if c := text[len(text)-back:]; utf8.RuneStart(c[0]) {
			if utf8.FullRune(c) {
				return 0
			}
			return back
		}
	}
	return 0
}
