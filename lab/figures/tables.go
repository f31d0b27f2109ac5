package main

import (
	"bytes"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"
)

// tables is the folder of tables that are files. The first line of each says what made it:
//
//	Made by: riffle-lab simulate arena; regret by environment
//
// Below is one table, whose columns are as wide as they must be.
const tables = "lab/docs/tables"

// renewFile puts the table that a command printed in place of that of a file.
func (s source) renewFile(file, printed []byte) ([]byte, error) {
	first, old, err := readTable(file)
	if err != nil {
		return nil, err
	}
	made, err := printedTable(printed)
	if err != nil {
		return nil, err
	}
	out, err := s.layOut(old, made)
	if err != nil {
		return nil, err
	}
	return writeTable(first, out), nil
}

// readTable takes a file apart: its first line, and its table.
func readTable(file []byte) (first string, g grid, err error) {
	lines := strings.Split(strings.TrimSuffix(string(file), "\n"), "\n")
	if len(lines) < 5 || lines[1] != "" || strings.Trim(lines[3], "-+") != "" {
		return "", g, errors.New("the file is not a first line, an empty one and a table")
	}
	g = parseTable(lines[2:])
	for i, row := range g.rows { // empty cells at a line's end are not written
		for len(row) < len(g.header) {
			row = append(row, "")
		}
		g.rows[i] = row
	}
	return lines[0], g, nil
}

// number matches the cells of columns that are aligned to the right.
var number = regexp.MustCompile(`^[-–]?$|^-?[0-9]|^never$|^grows$`)

func writeTable(first string, g grid) []byte {
	widths, right := make([]int, len(g.header)), make([]bool, len(g.header))
	for i := range g.header {
		right[i] = true
		for n, row := range append([][]string{g.header}, g.rows...) {
			widths[i] = max(widths[i], utf8.RuneCountInString(row[i]))
			right[i] = right[i] && (n == 0 || number.MatchString(row[i]))
		}
	}
	var b bytes.Buffer
	line := func(between string, row []string) {
		padded := make([]string, len(row))
		for i, cell := range row {
			pad := strings.Repeat(" ", widths[i]-utf8.RuneCountInString(cell))
			if padded[i] = cell + pad; right[i] {
				padded[i] = pad + cell
			}
		}
		b.WriteString(strings.TrimRight(strings.Join(padded, between), " ") + "\n")
	}
	b.WriteString(first + "\n\n")
	line(" | ", g.header)
	rules := make([]string, len(widths))
	for i, w := range widths {
		rules[i] = strings.Repeat("-", w)
	}
	line("-+-", rules)
	for _, row := range g.rows {
		line(" | ", row)
	}
	return b.Bytes()
}

// printedTable is the first table of Markdown that a command printed.
func printedTable(printed []byte) (grid, error) {
	_, from, _ := strings.Cut("\n"+string(printed), "\n| ")
	lines, _ := tableLines("| " + from)
	if len(lines) < 3 {
		return grid{}, fmt.Errorf("the command printed a table of %d lines", len(lines))
	}
	return parseTable(lines), nil
}

// replaceTable puts the table that a command printed in place of the one below the comment of the source.
func (s source) replaceTable(page, printed []byte) ([]byte, error) {
	before, after, found := bytes.Cut(page, []byte(s.comment))
	if !found {
		return nil, fmt.Errorf("no comment %q", strings.TrimSpace(s.comment))
	}
	oldLines, rest := tableLines(strings.TrimLeft(string(after), "\n"))
	if len(oldLines) < 2 {
		return nil, errors.New("the page has no table below the comment")
	}
	made, err := printedTable(printed)
	if err != nil {
		return nil, err
	}
	out, err := s.layOut(parseTable(oldLines), made)
	if err != nil {
		return nil, err
	}
	text := string(before) + s.comment + "\n"
	for i, row := range append([][]string{out.header}, out.rows...) {
		text += "| " + strings.Join(row, " | ") + " |\n"
		if i == 0 {
			text += oldLines[1] + "\n"
		}
	}
	return []byte(text + rest), nil
}

// A grid is a table without the line below its header.
type grid struct {
	header []string
	rows   [][]string
}

func parseTable(lines []string) (g grid) {
	g.header = cells(lines[0])
	for _, line := range lines[2:] {
		g.rows = append(g.rows, cells(line))
	}
	return g
}

// values are those of one column, each once.
func (g grid) values(column int) (all []string) {
	for _, row := range g.rows {
		if !slices.Contains(all, row[column]) {
			all = append(all, row[column])
		}
	}
	return all
}

// layOut is the printed table as the old one is laid out: of its columns those that the old one has, in their order.
// If the source says "CELL by COLUMN", the values of COLUMN are the last columns, under the old headings. What the old
// table has in further columns stays as it is.
func (s source) layOut(old, made grid) (out grid, err error) {
	out.header = old.header
	if s.cell == "" {
		for _, row := range made.rows {
			var kept []string
			for _, column := range old.header {
				at := slices.Index(made.header, column)
				if at < 0 {
					return out, fmt.Errorf("the command's table has no column %q", column)
				}
				kept = append(kept, row[at])
			}
			out.rows = append(out.rows, kept)
		}
		return out, nil
	}
	cell, by := slices.Index(made.header, s.cell), slices.Index(made.header, s.by)
	if cell < 0 || by < 0 {
		return out, fmt.Errorf("the command's table has no column %q or %q", s.cell, s.by)
	}
	values := made.values(by)
	keys := len(old.header) - len(values)
	if keys < 1 {
		return out, fmt.Errorf("the page's table has %d columns, too few for %d of %q", len(old.header), len(values),
			s.by)
	}
	at := map[string]int{} // the row of a key
	for _, row := range made.rows {
		line := make([]string, len(old.header))
		for i, column := range old.header[:keys] {
			if of := slices.Index(made.header, column); of >= 0 {
				line[i] = row[of]
			}
		}
		key := strings.Join(line[:keys], "|")
		n, seen := at[key]
		if !seen {
			n = len(out.rows)
			at[key], out.rows = n, append(out.rows, line)
		}
		out.rows[n][keys+slices.Index(values, row[by])] = row[cell]
	}
	for i, column := range old.header[:keys] { // further columns of the page
		if !slices.Contains(made.header, column) {
			carry(old, out, i, keys)
		}
	}
	return out, nil
}

// carry copies a column from the rows of the old table with the same other keys.
func carry(old, out grid, column, keys int) {
	key := func(row []string) string {
		k := slices.Clone(row[:keys])
		k[column] = ""
		return strings.Join(k, "|")
	}
	for _, row := range out.rows {
		for _, before := range old.rows {
			if key(before) == key(row) {
				row[column] = before[column]
			}
		}
	}
}

// tableLines are the lines of the table that a text begins with, and the rest of the text.
func tableLines(text string) (lines []string, rest string) {
	for strings.HasPrefix(text, "|") {
		line, after, _ := strings.Cut(text, "\n")
		lines, text = append(lines, line), after
	}
	return lines, text
}

func cells(line string) (of []string) {
	for _, c := range strings.Split(strings.Trim(line, "|"), "|") {
		of = append(of, strings.TrimSpace(c))
	}
	return of
}
