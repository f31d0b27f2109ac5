package main

import (
	"bufio"
	"encoding/csv"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/riffle-dp/riffle/pkg/learn/estimate"
)

// A fitFile is the data of riffle fit: columns by name, and rows of texts.
type fitFile struct {
	columns []string
	rows    [][]string
}

// readFitFile reads a file of CSV with a header, or of JSON lines, one object of numbers for each row.
func readFitFile(path string) (fitFile, error) {
	file, err := os.Open(path)
	if err != nil {
		return fitFile{}, err
	}
	defer func() { _ = file.Close() }()
	f, err := readFit(bufio.NewReader(file))
	if err != nil {
		return fitFile{}, fmt.Errorf("%s: %w", path, err)
	}
	return f, nil
}

// readFit tells CSV and JSON lines apart by the first byte after a byte order mark and white space.
func readFit(r *bufio.Reader) (f fitFile, err error) {
	if mark, err := r.Peek(3); err == nil && string(mark) == "\xef\xbb\xbf" {
		_, _ = r.Discard(3)
	}
	first := byte(0)
	for {
		if first, err = r.ReadByte(); errors.Is(err, io.EOF) {
			return f, errors.New("the file is empty")
		} else if err != nil {
			return f, err
		}
		if !strings.ContainsRune(" \t\r\n", rune(first)) {
			break
		}
	}
	if err := r.UnreadByte(); err != nil {
		return f, err
	}
	switch first {
	case '{':
		f, err = readJSONLines(r)
	case '[':
		return f, errors.New("this is one JSON array; want JSON lines, an object for each row without commas between, or CSV")
	default:
		f, err = readCSV(r)
	}
	if err != nil {
		return f, err
	}
	for i, c := range f.columns {
		if slices.Contains(f.columns[:i], c) {
			return f, fmt.Errorf("two columns are called %q; rename one", c)
		}
	}
	if len(f.columns) == 1 && strings.ContainsAny(f.columns[0], ";\t") {
		return f, fmt.Errorf("the header is one column, %q; separate columns by commas", f.columns[0])
	}
	return f, nil
}

func readCSV(r io.Reader) (f fitFile, err error) {
	lines := csv.NewReader(r)
	lines.TrimLeadingSpace = true
	if f.columns, err = lines.Read(); err != nil {
		return f, fmt.Errorf("the header with the columns' names: %w", err)
	}
	for i, c := range f.columns {
		f.columns[i] = strings.TrimSpace(c)
	}
	f.rows, err = lines.ReadAll()
	return f, err
}

func readJSONLines(r io.Reader) (f fitFile, err error) {
	decoder := json.NewDecoder(r)
	for {
		var object map[string]json.RawMessage
		if err := decoder.Decode(&object); errors.Is(err, io.EOF) {
			return f, nil
		} else if err != nil {
			return f, fmt.Errorf("row %d: %w", len(f.rows)+1, err)
		}
		if len(object) == 0 {
			return f, fmt.Errorf("row %d has no columns", len(f.rows)+1)
		}
		if f.columns == nil {
			for name := range object {
				f.columns = append(f.columns, name)
			}
			slices.Sort(f.columns)
		}
		if len(object) != len(f.columns) {
			return f, fmt.Errorf("row %d has %d columns, the first one has %d: %q", len(f.rows)+1, len(object), len(f.columns),
				f.columns)
		}
		row := make([]string, len(f.columns))
		for i, name := range f.columns {
			row[i] = string(object[name])
		}
		f.rows = append(f.rows, row)
	}
}

// numbers are the values of a column.
func (f fitFile) numbers(column string) ([]float64, error) {
	at := slices.Index(f.columns, column)
	if at < 0 {
		return nil, fmt.Errorf("there is no column %q; there are %q", column, f.columns)
	}
	out := make([]float64, len(f.rows))
	for i, row := range f.rows {
		v, err := strconv.ParseFloat(strings.TrimSpace(row[at]), 64)
		switch {
		case errors.Is(err, strconv.ErrRange) || err == nil && (math.IsNaN(v) || math.IsInf(v, 0)):
			return nil, fmt.Errorf("column %q has %q in row %d, which is no finite number; write a number in its place, as for "+
				"a missing value, or leave out such rows only if that is no secret", column, row[at], i+1)
		case err != nil:
			return nil, fmt.Errorf("column %q has %q in row %d, which is no number; replace a category by a column of 0 and "+
				"1 for each of its values but one, from a list that does not depend on the data, and leave out rows with "+
				"missing values only if that is no secret", column, row[at], i+1)
		}
		out[i] = v
	}
	return out, nil
}

// fitBounds are the columns' public bounds, from the file of --bounds-file and then from --bounds.
func fitBounds(path string, given []string) (map[string]estimate.Range, error) {
	bounds := map[string]estimate.Range{}
	if path != "" {
		text, err := os.ReadFile(path)
		if err != nil {
			return nil, err
		}
		var file map[string][]float64
		if err := json.Unmarshal(text, &file); err != nil {
			return nil, fmt.Errorf(`%s: %w; want {"COLUMN": [LOW, HIGH], ..}`, path, err)
		}
		for name, b := range file {
			if len(b) != 2 {
				return nil, fmt.Errorf("%s: %q has %d bounds; want [LOW, HIGH]", path, name, len(b))
			}
			bounds[name] = estimate.Range{Low: b[0], High: b[1]}
		}
	}
	for _, text := range given {
		name, values, _ := strings.Cut(text, "=")
		low, high, _ := strings.Cut(values, ",")
		l, err := strconv.ParseFloat(strings.TrimSpace(low), 64)
		h, err2 := strconv.ParseFloat(strings.TrimSpace(high), 64)
		if err != nil || err2 != nil || !(l < h) || math.IsInf(h-l, 0) {
			return nil, fmt.Errorf("--bounds %q: want COLUMN=LOW,HIGH with two increasing finite numbers", text)
		}
		bounds[name] = estimate.Range{Low: l, High: h}
	}
	return bounds, nil
}

// boundsOf are those of a column, which must be given.
func boundsOf(bounds map[string]estimate.Range, column string) (estimate.Range, error) {
	b, ok := bounds[column]
	if !ok {
		return b, fmt.Errorf("column %q has no bounds: say --bounds %s=LOW,HIGH with what is known of it without looking at "+
			"the data. Bounds are published with the result, and the noise is measured by them; bounds that are computed "+
			"from the data (the smallest and the largest value) would reveal single people, without any noise", column, column)
	}
	if !(b.Low < b.High) || math.IsInf(b.High-b.Low, 0) {
		return b, fmt.Errorf("column %q has the bounds %v and %v; want increasing finite ones", column, b.Low, b.High)
	}
	return b, nil
}
