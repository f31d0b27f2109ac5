package privacy

import (
	"encoding/json"
	"math"
)

// Epsilon is a guarantee; +Inf, null in JSON, is none at all.
type Epsilon float64

// MarshalJSON writes null where there is no guarantee.
func (e Epsilon) MarshalJSON() ([]byte, error) {
	if v := float64(e); !math.IsInf(v, 0) && !math.IsNaN(v) {
		return json.Marshal(v)
	}
	return []byte("null"), nil
}

// UnmarshalJSON reads what MarshalJSON wrote.
func (e *Epsilon) UnmarshalJSON(b []byte) error {
	if string(b) == "null" {
		*e = Epsilon(math.Inf(1))
		return nil
	}
	return json.Unmarshal(b, (*float64)(e))
}
