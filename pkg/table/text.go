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

// formats are files that are no text, by how they begin, and what to do with them.
var formats = []struct{ magic, problem string }{
	{"PK\x03\x04", "a spreadsheet or another packed file: save it as CSV in UTF-8"},
	{"\xd0\xcf\x11\xe0", "a spreadsheet or another document: save it as CSV in UTF-8"},
	{"<", "HTML or XML, whatever its name says: open it as a spreadsheet and save it as CSV in UTF-8"},
	{"PAR1", "Parquet: convert it, in Python with pandas: " +
		`pandas.read_parquet("FILE").to_json("FILE.jsonl", orient="records", lines=True, double_precision=15)`},
	{"ARROW1\x00", "Arrow or Feather: convert it to CSV or JSON Lines"},
	{"Obj\x01", "Avro: convert it to CSV or JSON Lines"},
	{gzipped, "compressed with gzip twice: unpack it once: gunzip"},
	{"BZh91AY", "compressed with bzip2: unpack it: bunzip2"},
	{"\xfd7zXZ", "compressed with xz: unpack it: unxz"},
	{"\x28\xb5\x2f\xfd", "compressed with zstd: unpack it: unzstd"},
	{"\xff\xfe", utf16}, {"\xfe\xff", utf16},
}

const (
	gzipped = "\x1f\x8b"
	mark    = "\xef\xbb\xbf" // of UTF-8, at the start
	utf16   = "UTF-16: save it as UTF-8, or convert it: iconv -f UTF-16 -t UTF-8"
)

// Plain is the text that a file holds: without gzip and without a byte order mark, in UTF-8, and with lines that end in
// LF. What is none is refused, here or while the text is read, with ErrTable.
func Plain(from io.Reader) (*bufio.Reader, error) {
	in, packed := bufio.NewReaderSize(from, peeked), false
	start, _ := in.Peek(8)
	if packed = bytes.HasPrefix(start, []byte(gzipped)); packed {
		unpacked, err := gzip.NewReader(in)
		if err != nil {
			return nil, errGzip
		}
		in = bufio.NewReaderSize(unpacked, peeked)
		start, _ = in.Peek(8)
	}
	for _, f := range formats {
		if bytes.HasPrefix(start, []byte(f.magic)) {
			return nil, wrong("the file is %s", f.problem)
		}
	}
	if bytes.IndexByte(start[:min(4, len(start))], 0) >= 0 {
		return nil, wrong("the file is %s", utf16)
	}
	for bytes.HasPrefix(start, []byte(mark)) { // programs that join files leave several
		_, _ = in.Discard(len(mark))
		start, _ = in.Peek(8)
	}
	return bufio.NewReaderSize(&lineFeeds{from: in, packed: packed, chunk: make([]byte, peeked)}, peeked), nil
}

var errGzip = wrong("the file is compressed with gzip, and damaged or cut off: get it anew")

// lineFeeds gives text with CR and CR LF as LF, and refuses what is not UTF-8 or has a zero byte.
type lineFeeds struct {
	from   io.Reader
	packed bool
	chunk  []byte
	rest   int    // bytes at the beginning of chunk: a character whose end is to come
	ready  []byte // of chunk, to be given
	cr     bool   // the last byte was a CR
	lines  int    // that ended so far
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
	good, problem := text, ""
	if at := bytes.IndexByte(text, 0); at >= 0 {
		good, problem = text[:at], "has a zero byte, so that it is no text: save it as CSV in UTF-8"
	}
	if !utf8.Valid(good) {
		good = good[:valid(good)]
		problem = "is not UTF-8 text: save it as CSV in UTF-8, or convert it: iconv -f LATIN1 -t UTF-8"
	}
	l.ready = text[:0]
	for _, c := range good {
		if c == '\n' && l.cr {
			l.cr = false
			continue
		}
		if l.cr = c == '\r'; l.cr {
			c = '\n'
		}
		if c == '\n' {
			l.lines++
		}
		l.ready = append(l.ready, c)
	}
	if problem != "" {
		l.ready, l.end = nil, wrong("line %d: the file %s", l.lines+1, problem)
	}
}

// valid is how many bytes at the start of a text are UTF-8.
func valid(text []byte) (n int) {
	for n < len(text) {
		r, size := utf8.DecodeRune(text[n:])
		if r == utf8.RuneError && size == 1 {
			break
		}
		n += size
	}
	return n
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
