package feature_test

import (
	"encoding/json"
	"os"
	"regexp"
	"testing"

	"github.com/riffle-dp/riffle/pkg/feature"
)

// The page about features shows the vectors that its schema makes of its request.
func TestTheVectorsOfThePageAreRight(t *testing.T) {
	text, err := os.ReadFile("../../docs/features.md")
	if err != nil {
		t.Fatal(err)
	}
	find := func(form string) []byte {
		m := regexp.MustCompile(form).FindSubmatch(text)
		if m == nil {
			t.Fatalf("the page has nothing like %s", form)
		}
		return m[1]
	}
	var ask struct {
		Context feature.Values
		Arms    []feature.Arm
	}
	var want [][]float64
	if err := json.Unmarshal(find(`-d '(\{"context.*\})'`), &ask); err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(find("(?s)```json vectors\n(.*?)```"), &want); err != nil {
		t.Fatal(err)
	}
	s, err := feature.Parse(find("(?s)```json schema\n(.*?)```"))
	if err != nil {
		t.Fatal(err)
	}
	got, err := s.Encode(ask.Context, ask.Arms)
	if err != nil {
		t.Fatal(err)
	}
	same(t, "docs/features.md", got, want)
}
