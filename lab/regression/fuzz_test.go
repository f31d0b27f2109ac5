package regression_test

import (
	"bytes"
	"errors"
	"math"
	"testing"

	"github.com/riffle-dp/riffle/lab/regression"
)

// FuzzTable reads any bytes as a table of numbers. What is read has a number of every column in every row and a target
// of every row, all of them finite; anything else is bad data.
func FuzzTable(f *testing.F) {
	f.Add([]byte("a,y\n1,2\n3,4\n"))
	f.Add([]byte("\xef\xbb\xbf" + `{"a":1,"y":2}` + "\n\n" + `{"y":4,"a":3}`))
	f.Add([]byte(`{"a":1,"y":null}`))
	f.Add([]byte("y\n1\n"))
	f.Add([]byte("a,y\nNaN,2\n3,Inf\n"))
	f.Fuzz(func(t *testing.T, text []byte) {
		table, err := regression.ReadTable(bytes.NewReader(text), "y")
		if err != nil {
			if !errors.Is(err, regression.ErrData) {
				t.Fatal(err)
			}
			return
		}
		if len(table.Rows) == 0 || len(table.Rows) != len(table.Target) || len(table.Columns) == 0 {
			t.Fatalf("%+v", table)
		}
		for i, row := range table.Rows {
			for _, x := range append(row, table.Target[i]) {
				if len(row) != len(table.Columns) || math.IsNaN(x) || math.IsInf(x, 0) {
					t.Fatalf("row %d of %+v", i, table)
				}
			}
		}
	})
}
