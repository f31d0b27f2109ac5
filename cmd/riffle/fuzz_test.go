package main

import (
	"bufio"
	"bytes"
	"math"
	"os"
	"path/filepath"
	"testing"
)

// FuzzFitFile reads any bytes as the data of riffle fit. What is read has different columns and, in every row, as many
// cells; whatever is given out as a column of numbers is finite, one for each row.
func FuzzFitFile(f *testing.F) {
	f.Add([]byte("a, y\n1,2\n3,4\n"))
	f.Add([]byte("\xef\xbb\xbf\n" + `{"a":1,"y":2}{"y":4,"a":3}`))
	f.Add([]byte(`{"a":1}{"a":1,"b":2}`))
	f.Add([]byte(`{"a":1}{"b":1}null`))
	f.Add([]byte(`[1]`))
	f.Fuzz(func(t *testing.T, text []byte) {
		file, err := readFit(bufio.NewReader(bytes.NewReader(text)))
		if err != nil {
			return
		}
		names := map[string]bool{}
		for _, column := range file.columns {
			if names[column] {
				t.Fatalf("two columns are called %q", column)
			}
			names[column] = true
			values, err := file.numbers(column)
			if err == nil && len(values) != len(file.rows) {
				t.Fatalf("%d values of %d rows", len(values), len(file.rows))
			}
			for _, v := range values {
				if math.IsNaN(v) || math.IsInf(v, 0) {
					t.Fatalf("column %q has %v", column, v)
				}
			}
		}
		for _, row := range file.rows {
			if len(row) != len(file.columns) {
				t.Fatalf("%d cells in %d columns", len(row), len(file.columns))
			}
		}
	})
}

// FuzzFitBounds reads any bytes as the bounds of columns, from a file and from a flag. Every bound that is used is an
// increasing pair.
func FuzzFitBounds(f *testing.F) {
	f.Add([]byte(`{"a":[0,1]}`), "b=1,2")
	f.Add([]byte(`{"a":[1]}`), "")
	f.Add([]byte(`{"a":[2,1]}`), "b=NaN,Inf")
	path := filepath.Join(f.TempDir(), "bounds.json")
	f.Fuzz(func(t *testing.T, text []byte, flag string) {
		if err := os.WriteFile(path, text, 0o600); err != nil {
			t.Fatal(err)
		}
		bounds, err := fitBounds(path, []string{flag})
		if err != nil {
			return
		}
		for column := range bounds {
			b, err := boundsOf(bounds, column)
			if err == nil && (!(b.Low < b.High) || math.IsInf(b.High-b.Low, 0)) {
				t.Fatalf("column %q has the bounds %v", column, b)
			}
		}
	})
}
