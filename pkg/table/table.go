// Package table reads tables that people hand in: columns with names, and a line for each person. riffle fit reads its
// tables here.
//
// It takes CSV with commas, with tabs, or with semicolons (where one number has a decimal comma all have, as
// spreadsheets write in much of Europe); lines that end in LF, CRLF or CR; a byte order mark; a first line sep=; quoted
// fields; and JSON lines. What it cannot read it refuses with a line. No error quotes a value: at most it names a
// column of the header, a line and what to do.
package table

import (
	"bufio"
	"bytes"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"unicode/utf8"
)

// ErrTable wraps every reason to refuse a table.
var ErrTable = errors.New("table")

// longestName is the longest name of a column, in bytes: what is longer is no header, but somebody's data.
const longestName = 100

// Table is what was read.
type Table struct {
	Columns []string // different, none empty
	rows    [][]string
	lines   []int // of the file, from 1, for each row
	decimal byte  // '.' or ','
}

// Rows is how many rows there are.
func (t *Table) Rows() int { return len(t.rows) }

func wrong(format string, args ...any) error {
	return fmt.Errorf("%w: %s", ErrTable, fmt.Sprintf(format, args...))
}

// Read reads a whole table. The first byte tells JSON lines from text with columns; the header tells what separates
// them.
func Read(from io.Reader) (*Table, error) {
	text, err := io.ReadAll(from)
	if err != nil {
		return nil, err
	}
	switch {
	case bytes.HasPrefix(text, []byte("\x1f\x8b")):
		return nil, wrong("the file is compressed: unpack it with gunzip")
	case bytes.HasPrefix(text, []byte("PK\x03\x04")):
		return nil, wrong("the file is a spreadsheet or another packed file: save it as CSV in UTF-8")
	case bytes.HasPrefix(text, []byte("\xff\xfe")) || bytes.HasPrefix(text, []byte("\xfe\xff")) ||
		bytes.IndexByte(text[:min(4, len(text))], 0) >= 0:
		return nil, wrong("the file is UTF-16: save it as UTF-8, or convert it: iconv -f UTF-16 -t UTF-8")
	case !utf8.Valid(text):
		return nil, wrong("the file is not UTF-8 text: save it as CSV in UTF-8, or convert it: iconv -f LATIN1 -t " +
			"UTF-8")
	}
	text = bytes.TrimPrefix(text, []byte("\xef\xbb\xbf"))
	start := bytes.TrimLeft(text, " \t\r\n")
	if len(start) == 0 {
		return nil, wrong("the file is empty: it needs a header and rows")
	}
	text = bytes.ReplaceAll(bytes.ReplaceAll(text, []byte("\r\n"), []byte("\n")), []byte("\r"), []byte("\n"))
	var t *Table
	switch start[0] {
	case '{':
		t, err = readJSON(text)
	case '[':
		return nil, wrong("this is one JSON array: write JSON lines, an object for each row without commas between, " +
			"or CSV")
	default:
		t, err = readText(text)
	}
	if err != nil {
		return nil, err
	}
	if t.Rows() == 0 {
		return nil, wrong("there is a header and no row: give a row for each person")
	}
	return t, t.checkNames()
}

// checkNames refuses what is no header, without quoting it.
func (t *Table) checkNames() error {
	numbers := 0
	for i, c := range t.Columns {
		switch _, err := number(c, t.decimal); {
		case c == "":
			return wrong("column %d has no name: give each column a name in the first line", i+1)
		case len(c) > longestName:
			return wrong("the name of column %d is longer than %d bytes: give each column a short name in the first "+
				"line", i+1,
				longestName)
		case err == nil:
			numbers++
		}
		if j := slices.Index(t.Columns[:i], c); j >= 0 {
			return wrong("columns %d and %d have the same name: rename one", j+1, i+1)
		}
	}
	if numbers > 0 {
		return wrong("the first line has numbers where names of columns belong: put a header there, such as age,dose")
	}
	return nil
}

// readText reads columns that are separated by what the header has most of: commas, semicolons or tabs.
func readText(text []byte) (*Table, error) {
	t, separator := &Table{decimal: '.'}, ','
	said, text := saidSeparator(text)
	header := firstLine(text)
	for _, s := range ";\t" {
		if outside(header, s) > outside(header, separator) {
			separator = s
		}
	}
	if said != 0 {
		separator = said
	}
	lines := csv.NewReader(bytes.NewReader(text))
	lines.Comma, lines.TrimLeadingSpace = separator, separator != '\t'
	for {
		row, err := lines.Read()
		if errors.Is(err, io.EOF) {
			if separator == ';' && t.hasCommas() {
				t.decimal = ','
			}
			return t, nil
		}
		if err != nil {
			return nil, unreadable(err)
		}
		line, _ := lines.FieldPos(0)
		if t.Columns == nil {
			for _, c := range row {
				t.Columns = append(t.Columns, strings.TrimSpace(c))
			}
			continue
		}
		t.rows, t.lines = append(t.rows, row), append(t.lines, line)
	}
}

// saidSeparator is what a first line of "sep=;" says, as spreadsheets write it, and the text with a blank line in its
// place; else 0.
func saidSeparator(text []byte) (rune, []byte) {
	line, _, _ := bytes.Cut(text, []byte("\n"))
	if said, ok := bytes.CutPrefix(line, []byte("sep=")); ok && len(said) == 1 && bytes.Contains([]byte(",;\t"), said) {
		return rune(said[0]), text[len(line):]
	}
	return 0, text
}

// firstLine is the first line that is not blank. A line ends outside quotes.
func firstLine(text []byte) string {
	quoted, trimmed := false, string(bytes.TrimLeft(text, "\n"))
	for i, r := range trimmed {
		switch {
		case r == '"':
			quoted = !quoted
		case r == '\n' && !quoted:
			return trimmed[:i]
		}
	}
	return trimmed
}

// hasCommas reports whether any value is a number with a decimal comma. A point is a mark of thousands then.
func (t *Table) hasCommas() bool {
	for _, row := range t.rows {
		for _, v := range row {
			if strings.Count(v, ",") == 1 && hasDigits(strings.TrimSpace(v)) {
				return true
			}
		}
	}
	return false
}

// unreadable says what of a line encoding/csv does not take, without its text.
func unreadable(err error) error {
	var parse *csv.ParseError
	switch {
	case !errors.As(err, &parse):
		return wrong("the file cannot be read: save it as CSV")
	case errors.Is(parse.Err, csv.ErrFieldCount):
		return wrong("line %d has another number of columns than the header: separate columns as in the header, and "+
			"put quotes around a value that has a separator in it", parse.Line)
	default:
		return wrong("line %d has a quote that is not closed, or that is inside a value: double a quote that is "+
			"part of a value, and put quotes around the whole", parse.StartLine)
	}
}

// outside counts a separator outside quotes.
func outside(header string, separator rune) (n int) {
	quoted := false
	for _, r := range header {
		switch r {
		case '"':
			quoted = !quoted
		case separator:
			if !quoted {
				n++
			}
		}
	}
	return n
}

// readJSON reads an object for each line.
func readJSON(text []byte) (*Table, error) {
	t, lines := &Table{decimal: '.'}, bufio.NewScanner(bytes.NewReader(text))
	lines.Buffer(nil, len(text)+1)
	for at := 1; lines.Scan(); at++ {
		if len(bytes.TrimSpace(lines.Bytes())) == 0 {
			continue
		}
		row, err := object(lines.Bytes())
		if err != nil {
			return nil, wrong("line %d %v", at, err)
		}
		if t.Columns == nil {
			for name := range row {
				t.Columns = append(t.Columns, name)
			}
			slices.Sort(t.Columns)
		}
		values := make([]string, len(t.Columns))
		for i, name := range t.Columns {
			v, ok := row[name]
			if !ok {
				return nil, wrong("line %d has no column %q, which the first line has: give every line the same "+
					"columns, null where a value is missing", at, name)
			}
			values[i] = v
		}
		if len(row) != len(t.Columns) {
			return nil, wrong("line %d has a column that the first line has not: give every line the same columns", at)
		}
		t.rows, t.lines = append(t.rows, values), append(t.lines, at)
	}
	return t, lines.Err()
}
