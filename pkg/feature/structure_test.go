package feature_test

import (
	"fmt"
	"testing"

	"pgregory.net/rapid"

	_ "github.com/riffle-dp/riffle/internal/testing/fixedseed"
	"github.com/riffle-dp/riffle/pkg/feature"
	"github.com/riffle-dp/riffle/pkg/glm/structure"
)

// With a term of the id for every number of the context, each option has weights of its own. Each is made of terms in
// which a field of the context comes first, so that an option's coordinates are not one after the other.
func TestOptionsOfASchema(t *testing.T) {
	s := parse(t, `{"version": 1, "context": [{"name": "x", "kind": "number", "low": 0, "high": 1},
		{"name": "y", "kind": "flag"}, {"name": "c", "kind": "category", "values": ["a", "b"]}],
		"arms": [{"name": "id", "kind": "category", "values": ["p", "q", "r"]}],
		"terms": [["id"], ["id", "x"], ["y", "id"], ["c", "id"]]}`)
	st, d := s.Structure(), s.Dimension()
	if err := st.Validate(d); err != nil || d != 15 {
		t.Fatal(d, err)
	}
	// An option has three coordinates and two of the category c, of which one is other than 0.
	if n := st.Pairs(d); n != 3*(5*6/2-1) {
		t.Errorf("%d pairs of %v", n, st)
	}
	if runs := st.Disjoint(d); len(runs) != 3 || fmt.Sprint(runs[1]) != "[1 4 7 10 13]" {
		t.Errorf("options are %v", runs)
	}
}

// A pair of coordinates is possible if and only if there are features with both other than 0.
func TestTheStructureOfASchemaIsExact(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		kinds := []string{
			`{"name": %q, "kind": "number", "low": -1, "high": 1}`, `{"name": %q, "kind": "flag"}`,
			`{"name": %q, "kind": "category", "values": ["u", "v", "w"]}`,
			`{"name": %q, "kind": "category", "values": ["u", "v", "w"], "baseline": true}`,
			`{"name": %q, "kind": "category", "values": ["u", "v"], "other": true}`,
			`{"name": %q, "kind": "buckets", "thresholds": [0.5, 1.5]}`, `{"name": %q, "kind": "hashed", "buckets": 3}`,
		}
		names := []string{"a", "b", "id"}
		kind := []int{rapid.IntRange(0, 6).Draw(r, "a"), rapid.IntRange(0, 6).Draw(r, "b"),
			rapid.SampledFrom([]int{2, 3, 4, 6}).Draw(r, "id")}
		terms := rapid.SampledFrom([]string{
			`["id"], ["a"], ["b"]`, `["id", "a"], ["b"]`, `["a", "id"], ["id", "b"], ["bias"]`, `["a", "b", "id"]`,
			`["id"], ["b", "id", "a"], ["a", "b"]`, `["a", "b"], ["a", "id"], ["a"]`,
		}).Draw(r, "terms")
		s := parse(t, fmt.Sprintf(`{"version": 1, "context": [`+kinds[kind[0]]+`, `+kinds[kind[1]]+`], "arms": [`+
			kinds[kind[2]]+`], "terms": [`+terms+`]}`, names[0], names[1], names[2]))
		values := func(k int) (texts []any) {
			switch k {
			case 0:
				return []any{0.3, -1.0}
			case 1:
				return []any{true, false}
			case 5:
				return []any{0.0, 1.0, 2.0, nil}
			case 6: // enough texts for every place
				for n := range 12 {
					texts = append(texts, fmt.Sprint(n))
				}
				return texts
			}
			return []any{"u", "v", "w"}
		}
		st, d := s.Structure(), s.Dimension()
		if err := st.Validate(d); err != nil {
			r.Fatal(err)
		}
		seen := make([]bool, d*d)
		for _, a := range values(kind[0]) {
			for _, b := range values(kind[1]) {
				for _, id := range values(kind[2]) {
					if kind[2] == 2 && id == nil {
						continue
					}
					vectors, err := s.Encode(feature.Values{"a": a, "b": b}, []feature.Arm{{ID: id.(string)}})
					if err != nil {
						r.Fatal(err)
					}
					if !st.Fits(vectors[0]) {
						r.Errorf("%v of %v, %v, %v does not fit %v", vectors[0], a, b, id, st)
					}
					for i, x := range vectors[0] {
						for j, y := range vectors[0] {
							seen[i*d+j] = seen[i*d+j] || x*y != 0
						}
					}
				}
			}
		}
		for i := range d {
			for j := range d {
				if st.Possible(i, j) != seen[i*d+j] && (i != j || seen[i*d+i]) {
					r.Errorf("terms %s, kinds %v: (%d, %d) is possible: %v, seen: %v", terms, kind, i, j,
						st.Possible(i, j), seen[i*d+j])
				}
			}
		}
	})
}

func parse(t *testing.T, text string) *feature.Schema {
	t.Helper()
	s, err := feature.Parse([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// A schema of very many products has a structure that says less than it could, and is valid.
func TestTheStructureOfALargeSchemaIsValid(t *testing.T) {
	s := parse(t, `{"version": 1, "context": [{"name": "h", "kind": "hashed", "buckets": 40},
		{"name": "g", "kind": "hashed", "buckets": 12}], "arms": [{"name": "id", "kind": "category", "values":
		["p", "q", "r", "s", "t", "u", "v", "w", "x", "y", "z", "a"]}], "terms": [["h", "g"], ["id"]]}`)
	if st := s.Structure(); st.Validate(s.Dimension()) != nil || len(st) != 42 {
		t.Errorf("%d groups: %v", len(st), st.Validate(s.Dimension()))
	}
	s = parse(t, `{"version": 1, "context": [{"name": "h", "kind": "hashed", "buckets": 240}],
		"arms": [{"name": "id", "kind": "category", "values": ["p", "q"]}], "terms": [["h", "id"], ["id"], ["bias"]]}`)
	if st := s.Structure(); st.Validate(s.Dimension()) != nil || len(st) > structure.MaxGroups {
		t.Errorf("%d groups: %v", len(st), st.Validate(s.Dimension()))
	}
}
