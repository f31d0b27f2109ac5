package strict

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"iter"
	"reflect"
)

// DefaultMaxLine is the largest size of a row in bytes, unless Options say another: far above a decision with a
// thousand arms of dimension 30, and far below what a machine holds.
const DefaultMaxLine = 1 << 20

// Row is one row of a table.
type Row[T any] struct {
	Line  int // of the file, from 1
	Value T
}

// Rows reads a table with one JSON value on each line, in order, and passes over blank lines. Lines end as on any
// system: LF, CR LF or CR. A mark of UTF-8 at the start is passed over; UTF-16 and compressed files are named as such.
// The first error is the last thing that is yielded: an *Error, or what the source said, which is not wrapped.
func Rows[T any](in io.Reader, o Options) iter.Seq2[Row[T], error] {
	return func(yield func(Row[T], error) bool) {
		r := reader{shape: compile(reflect.TypeFor[T](), map[reflect.Type]*shape{}), options: o}
		limit := o.MaxLine
		if limit == 0 {
			limit = DefaultMaxLine
		}
		lines := bufio.NewScanner(in)
		lines.Buffer(nil, limit+2) // the line with its end
		lines.Split(splitLine)
		for lines.Scan() {
			r.line++
			text := lines.Bytes()
			if r.line == 1 {
				var problem string
				if text, problem = decoded(text); problem != "" {
					yield(Row[T]{}, &Error{Line: 1, Problem: problem})
					return
				}
			}
			if len(bytes.TrimSpace(text)) == 0 {
				continue
			}
			row := Row[T]{Line: r.line}
			err := r.read(text, &row.Value)
			if err != nil && lines.Err() != nil {
				err = lines.Err() // the line is cut off because the source failed
			}
			if !yield(row, err) || err != nil {
				return
			}
		}
		err := lines.Err()
		if errors.Is(err, bufio.ErrTooLong) {
			err = &Error{Line: r.line + 1, Problem: fmt.Sprintf("has more than %d bytes: each row must be on a "+
				"line of its own", limit)}
		}
		if err != nil {
			yield(Row[T]{}, err)
		}
	}
}

// splitLine is a bufio.SplitFunc: lines end with LF, CR LF or CR.
func splitLine(data []byte, atEOF bool) (advance int, line []byte, err error) {
	end := bytes.IndexAny(data, "\r\n")
	switch {
	case end < 0 && atEOF && len(data) > 0:
		return len(data), data, nil
	case end < 0:
		return 0, nil, nil
	case data[end] == '\n':
		return end + 1, data[:end], nil
	case end+1 < len(data) && data[end+1] == '\n':
		return end + 2, data[:end], nil
	case end+1 < len(data) || atEOF:
		return end + 1, data[:end], nil
	}
	return 0, nil, nil // what follows the CR decides
}

// decoded is a file's beginning without its mark of UTF-8, or what it is in place of JSON.
func decoded(start []byte) (rest []byte, problem string) {
	switch {
	case bytes.HasPrefix(start, []byte("\x1f\x8b")):
		return nil, "is compressed: unpack the file with gunzip"
	case bytes.HasPrefix(start, []byte("PK\x03\x04")):
		return nil, "is a spreadsheet or another packed file: save it as text"
	case bytes.HasPrefix(start, []byte("\xff\xfe")), bytes.HasPrefix(start, []byte("\xfe\xff")),
		bytes.IndexByte(start[:min(4, len(start))], 0) >= 0:
		return nil, "is UTF-16 or not text at all: convert the file to UTF-8"
	}
	return bytes.TrimPrefix(start, []byte("\xef\xbb\xbf")), ""
}
