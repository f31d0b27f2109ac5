// Package table reads tables that people hand in: columns with names, and a line for each person. riffle fit reads its
// tables here.
//
// It takes CSV with commas, with tabs, or with semicolons (where one number has a decimal comma all have, as
// spreadsheets write in much of Europe); lines that end in LF, CRLF or CR; a byte order mark; a first line sep=; quoted
// fields; and JSON lines; all also packed with gzip. What it cannot read it refuses with a line. No error quotes a
// value: at most it names a column of the header, a line and what to do.
package table

import (
	"bufio"
	"bytes"

	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/riffle-dp/riffle/pkg/strict"
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

// Read reads a whole table, also one that is compressed with gzip. The first byte tells JSON lines from text with
// columns; the header tells what separates them.
func Read(from io.Reader) (*Table, error) {
	in, err := Plain(from)
	if err != nil {
		return nil, err
	}
	start, err := First(in)
	if err != nil {
		return nil, err
	}
	var t *Table
	switch start {
	case '{':
		t, err = readJSON(in)
	case '[':
		return nil, wrong("this is one JSON array: write JSON lines, an object for each row without commas between, " +
			"or CSV")
	default:
		t, err = readText(in)
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
		return wrong("the first line has numbers where names of columns belong: put a header there, such as " +
			"age,dose, without names that are numbers")
	}
	return nil
}

// readText reads columns that are separated by what the header has most of: commas, semicolons or tabs.
func readText(text *bufio.Reader) (*Table, error) {
	in, err := cells(text)
	if err != nil {
		return nil, err
	}
	t := &Table{Columns: in.Columns, decimal: '.'}
	for {
		row, line, err := in.next()
		if errors.Is(err, io.EOF) {
			if in.separator == ';' && t.hasCommas() {
				t.decimal = ','
			}
			return t, nil
		}
		if err != nil {
			return nil, err
		}
		t.rows, t.lines = append(t.rows, row), append(t.lines, line)
	}
}

// hasCommas reports whether any value is a number with a decimal comma. A point is a mark of thousands then.
func (t *Table) hasCommas() bool {
	for _, row := range t.rows {
		if slices.ContainsFunc(row, hasComma) {
			return true
		}
	}
	return false
}

// hasComma reports whether a value is a number with one comma.
func hasComma(v string) bool { return strings.Count(v, ",") == 1 && hasDigits(strings.TrimSpace(v)) }

// readJSON reads an object for each line.
func readJSON(text io.Reader) (*Table, error) {
	t, lines := &Table{decimal: '.'}, bufio.NewScanner(text)
	lines.Buffer(nil, strict.DefaultMaxLine)
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
	if errors.Is(lines.Err(), bufio.ErrTooLong) {
		return nil, wrong("a line has more than %d bytes: write an object for each row, each on a line of its own",
			strict.DefaultMaxLine)
	}
	return t, lines.Err()
}
