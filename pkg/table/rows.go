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
)

// First is the first byte that is no white space, which stays to be read.
func First(in *bufio.Reader) (byte, error) {
	start, err := in.Peek(peeked)
	if at := bytes.TrimLeft(start, " \t\n"); len(at) > 0 {
		return at[0], nil
	}
	if err != nil && !errors.Is(err, io.EOF) {
		return 0, err
	}
	return 0, wrong("the file is empty: it needs a header and rows")
}

// Cells is a table of text with columns that is read row by row, in the memory of one.
type Cells struct {
	Columns   []string
	lines     *csv.Reader
	separator rune
	commas    bool // a number with a decimal comma was there
	point     int  // line of the first number with a decimal point that was read; 0: none yet
	after     int  // line behind the last row; 0: no row yet
}

// Row is a row of Cells, until the next one is read.
type Row struct {
	Line  int
	cells []string
	of    *Cells
}

// NewCells reads the header of what Plain gives. A column without a name is there under the name ""; other names
// differ.
func NewCells(text *bufio.Reader) (*Cells, error) {
	c, err := cells(text)
	if err != nil {
		return nil, err
	}
	t := Table{decimal: '.'}
	for i, name := range c.Columns {
		if name == "" { // of an index, as pandas writes it
			name = fmt.Sprintf("column %d", i+1)
		}
		t.Columns = append(t.Columns, name)
	}
	return c, t.checkNames()
}

// cells reads the header. What separates columns is what it has most of, commas, semicolons or tabs.
func cells(text *bufio.Reader) (*Cells, error) {
	c := &Cells{separator: ','}
	start, err := text.Peek(peeked)
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, err
	}
	said, length := saidSeparator(start)
	_, _ = text.Discard(length)
	header := firstLine(start[length:])
	for _, s := range ";\t" {
		if outside(header, s) > outside(header, c.separator) {
			c.separator = s
		}
	}
	if said != 0 {
		c.separator = said
	}
	c.lines = csv.NewReader(text)
	c.lines.Comma, c.lines.TrimLeadingSpace = c.separator, c.separator != '\t'
	row, _, err := c.next()
	if errors.Is(err, io.EOF) {
		return nil, wrong("the file is empty: it needs a header and rows")
	}
	for _, name := range row {
		c.Columns = append(c.Columns, strings.TrimSpace(name))
	}
	return c, err
}

// next is the next row that is not blank, or io.EOF. Where there is one column, a blank line between rows would be one
// without a value, or nothing: it is refused.
func (c *Cells) next() (row []string, line int, err error) {
	row, err = c.lines.Read()
	for errors.Is(err, csv.ErrFieldCount) && len(row) == 1 && strings.TrimSpace(row[0]) == "" {
		row, err = c.lines.Read()
	}
	if err != nil {
		return nil, 0, unreadable(err)
	}
	line, _ = c.lines.FieldPos(0)
	if len(row) == 1 && c.after > 0 && line > c.after {
		return nil, 0, wrong("line %d is blank, in a table of one column: write NA for a value that is missing, or "+
			"leave the line out", c.after)
	}
	if strings.HasPrefix(row[0], byteOrder) {
		return nil, 0, wrong("line %d begins with a byte order mark, as where files were joined: remove it, and what "+
			"is there of a second header", line)
	}
	c.after = line + 1 + strings.Count(row[0], "\n")
	return row, line, nil
}

// Next is the next row, or io.EOF. A table between whose columns are semicolons has decimal points or decimal commas:
// one number of each is refused.
func (c *Cells) Next() (Row, error) {
	row, line, err := c.next()
	if err == nil && c.separator == ';' && !c.commas && slices.ContainsFunc(row, hasComma) {
		if c.commas = true; c.point > 0 {
			return Row{}, wrong("line %d has a number with a comma, and line %d has one with a point: write all "+
				"numbers with one decimal mark and without a mark of thousands", line, c.point)
		}
	}
	return Row{Line: line, cells: row, of: c}, err
}

// Text is a cell without white space around it.
func (r Row) Text(column int) string { return strings.TrimSpace(r.cells[column]) }

// Number is a cell that holds a finite number.
func (r Row) Number(column int) (float64, error) {
	decimal := byte('.')
	if r.of.commas {
		decimal = ','
	}
	v, err := number(r.cells[column], decimal)
	if err != nil {
		return 0, noNumber(err, r.of.Columns[column], r.Line, decimal)
	}
	if r.of.point == 0 && strings.Contains(r.cells[column], ".") {
		r.of.point = r.Line
	}
	return v, nil
}

// byteOrder is the byte order mark, as a character.
const byteOrder = "\ufeff"

// saidSeparator is what a first line of "sep=;" says, as spreadsheets write it, and how long that line is; else 0.
func saidSeparator(text []byte) (said rune, length int) {
	line, _, _ := bytes.Cut(text, []byte("\n"))
	if s, ok := bytes.CutPrefix(line, []byte("sep=")); ok && len(s) == 1 && bytes.Contains([]byte(",;\t"), s) {
		return rune(s[0]), len(line)
	}
	return 0, 0
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

// unreadable says what of a line encoding/csv does not take, without its text.
func unreadable(err error) error {
	var parse *csv.ParseError
	switch {
	case errors.Is(err, io.EOF), errors.Is(err, ErrTable):
		return err
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
