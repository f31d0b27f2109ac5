package strict_test

import (
	"testing"

	"github.com/riffle-dp/riffle/pkg/strict"
)

func TestList(t *testing.T) {
	type name string
	for want, of := range map[string][]name{
		"": nil, "a": {"a"}, "a or b": {"a", "b"}, "a, b or c": {"a", "b", "c"},
	} {
		if got := strict.List(of, "or"); got != want {
			t.Errorf("%q is %q, want %q", of, got, want)
		}
	}
	if got := strict.List([]string{"a", "b", "c"}, "and"); got != "a, b and c" {
		t.Error(got)
	}
}
