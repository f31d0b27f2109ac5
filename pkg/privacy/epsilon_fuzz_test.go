package privacy

import (
	"encoding/json"
	"math"
	"testing"
)

// FuzzEpsilon reads any JSON as an epsilon. What is read is written so that it is read as the same, and none is written
// as null.
func FuzzEpsilon(f *testing.F) {
	f.Add([]byte("1.5"))
	f.Add([]byte("null"))
	f.Add([]byte(`"1"`))
	f.Fuzz(func(t *testing.T, text []byte) {
		var e, again Epsilon
		if json.Unmarshal(text, &e) != nil {
			return
		}
		b, err := json.Marshal(e)
		if err != nil || json.Unmarshal(b, &again) != nil || again != e || math.IsNaN(float64(e)) {
			t.Fatalf("%s is %v, and written as %s, %v", text, e, b, err)
		}
	})
}
