package strict_test

import (
	"testing"

	"github.com/riffle-dp/riffle/pkg/strict"
)

// What a program kept is read whole or not at all.
func TestWhatWasKeptIsReadWhole(t *testing.T) {
	for text, good := range map[string]bool{
		`{"a": 1}`: true, `{"a": 1}` + "\n ": true, `{}`: true,
		`{"a": 1, "b": 2}`: false, `{"a": 1}x`: false, `{"a": 1}{}`: false, `{"a": 1}}`: false, `{"a": "x"}`: false,
		``: false,
	} {
		var v struct {
			A int `json:"a"`
		}
		if err := strict.Kept([]byte(text), &v); (err == nil) != good {
			t.Errorf("%q: %v", text, err)
		}
	}
}
