package feature_test

import (
	"slices"
	"testing"

	"github.com/riffle-dp/riffle/pkg/feature"
)

// Each entry is named for what makes it other than 0, in every kind of field and in products.
func TestEntriesAreNamedForWhatTheySay(t *testing.T) {
	s, err := feature.Parse([]byte(`{"version": 1,
		"context": [{"name": "age", "kind": "number", "low": 18, "high": 90},
			{"name": "dose", "kind": "buckets", "thresholds": [5, 7.5], "baseline": true},
			{"name": "plan", "kind": "category", "values": ["a", "b"], "other": true},
			{"name": "tag", "kind": "hashed", "buckets": 2}, {"name": "new", "kind": "flag"}],
		"arms": [{"name": "id", "kind": "category", "values": ["none", "sms", "call"], "baseline": true}],
		"terms": [["bias"], ["id"], ["id", "age"], ["dose"], ["plan"], ["tag"], ["new"], ["id", "dose"]]}`))
	if err != nil {
		t.Fatal(err)
	}
	want := []string{"bias", "id = sms", "id = call", "id = sms × age", "id = call × age", "5 ≤ dose < 7.5",
		"dose ≥ 7.5",
		"plan = a", "plan = b", "plan other", "tag #0", "tag #1", "new",
		"id = sms × 5 ≤ dose < 7.5", "id = sms × dose ≥ 7.5", "id = call × 5 ≤ dose < 7.5", "id = call × dose ≥ 7.5"}
	if got := s.Names(); !slices.Equal(got, want) || len(got) != s.Dimension() {
		t.Fatalf("%d of %d:\n%q", len(got), s.Dimension(), got)
	}
	// The names are where the encoder puts the numbers.
	vectors, err := s.Encode(feature.Values{"age": 90.0, "dose": 6.0, "plan": "zzz", "new": true, "tag": nil},
		[]feature.Arm{{ID: "call"}})
	if err != nil {
		t.Fatal(err)
	}
	var set []string
	for i, v := range vectors[0] {
		if v != 0 {
			set = append(set, want[i])
		}
	}
	if !slices.Equal(set, []string{"bias", "id = call", "id = call × age", "5 ≤ dose < 7.5", "plan other", "new",
		"id = call × 5 ≤ dose < 7.5"}) {
		t.Errorf("%q", set)
	}
}
