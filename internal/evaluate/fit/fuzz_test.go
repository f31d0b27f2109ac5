package fit

import (
	"math"
	"os"
	"path/filepath"
	"testing"
)

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
		columns, err := Options{BoundsFile: path, Bounds: []string{flag}}.declared()
		if err != nil {
			return
		}
		for column := range columns.bounds {
			b, err := columns.boundsOf(column)
			if err == nil && (!(b.Low < b.High) || math.IsInf(b.High-b.Low, 0)) {
				t.Fatalf("column %q has the bounds %v", column, b)
			}
		}
	})
}
