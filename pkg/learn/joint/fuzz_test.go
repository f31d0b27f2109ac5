package joint_test

import (
	"encoding/binary"
	"errors"
	"math"
	"slices"
	"testing"

	"github.com/riffle-dp/riffle/pkg/learn/joint"
)

// FuzzRelease reads any numbers as what leaves a curator. What is read is written as the same numbers, all of them
// whole and below 2^53 in size.
func FuzzRelease(f *testing.F) {
	c := joint.Config{Dimension: 2}
	f.Add(make([]byte, 8*c.ReleaseDim()))
	f.Add(binary.LittleEndian.AppendUint64(nil, math.Float64bits(math.NaN())))
	f.Fuzz(func(t *testing.T, b []byte) {
		var values []float64
		for ; len(b) >= 8; b = b[8:] {
			values = append(values, math.Float64frombits(binary.LittleEndian.Uint64(b)))
		}
		for _, given := range [][]float64{values, slices.Grow(values, c.ReleaseDim())[:c.ReleaseDim()]} {
			r, err := c.ParseRelease(given)
			if err != nil {
				if !errors.Is(err, joint.ErrRelease) || r.V != nil {
					t.Fatalf("%+v, %v", r, err)
				}
				continue
			}
			if again := r.Values(); !slices.Equal(again, given) ||
				slices.ContainsFunc(again, func(v float64) bool { return math.Abs(v) >= 1<<53 }) {
				t.Fatalf("%v is written as %v", given, again)
			}
		}
	})
}
