package feature_test

import (
	"bytes"
	"encoding/json"
	"flag"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/riffle-dp/riffle/pkg/feature"
)

var update = flag.Bool("update", false, "write the vectors of the golden files anew (only after a deliberate change)")

// golden is what a golden file holds. Vectors are left out where there is an error, which names what is wrong.
type golden struct {
	Schema    json.RawMessage `json:"schema"`
	Dimension int             `json:"dimension"`
	Scale     float64         `json:"scale"`
	Cases     []struct {
		Name    string           `json:"name"`
		Context feature.Values   `json:"context"`
		Arms    []feature.Values `json:"arms"`
		Vectors [][]float64      `json:"vectors,omitempty"`
		Error   string           `json:"error,omitempty"`
	} `json:"cases"`
}

// arms takes the ids out of arms as they are in JSON.
func arms(all []feature.Values) []feature.Arm {
	out := make([]feature.Arm, len(all))
	for i, a := range all {
		id, _ := a["id"].(string)
		out[i] = feature.Arm{ID: id, Features: feature.Values{}}
		for name, v := range a {
			if name != "id" {
				out[i].Features[name] = v
			}
		}
	}
	return out
}

// The vectors that clients in other languages must come to, bit for bit.
func TestGolden(t *testing.T) {
	files, err := filepath.Glob("testdata/*.golden")
	if err != nil || len(files) < 3 {
		t.Fatal(files, err)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		var g golden
		strict := json.NewDecoder(bytes.NewReader(text))
		strict.DisallowUnknownFields()
		if err := strict.Decode(&g); err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		var schema bytes.Buffer
		if err := json.Compact(&schema, g.Schema); err != nil {
			t.Fatal(err)
		}
		open := feature.Open // the files hold canonical schemas, but for spaces
		if *update {
			open = feature.Parse
		}
		s, err := open(schema.Bytes())
		if err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		if !*update && (s.Dimension() != g.Dimension || s.Scale() != g.Scale) {
			t.Errorf("%s: dimension %d, scale %v", file, s.Dimension(), s.Scale())
		}
		g.Schema, g.Dimension, g.Scale = s.Canonical(), s.Dimension(), s.Scale()
		for i := range g.Cases {
			c := &g.Cases[i]
			vectors, err := s.Encode(c.Context, arms(c.Arms))
			switch {
			case c.Error != "":
				if err == nil || !strings.Contains(err.Error(), c.Error) {
					t.Errorf("%s: %s: %v, want an error about %s", file, c.Name, err, c.Error)
				}
			case err != nil:
				t.Errorf("%s: %s: %v", file, c.Name, err)
			case *update:
				c.Vectors = vectors
			default:
				same(t, file+": "+c.Name, vectors, c.Vectors)
			}
		}
		if *update {
			var out bytes.Buffer
			e := json.NewEncoder(&out)
			e.SetEscapeHTML(false)
			if err := e.Encode(g); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(file, lines(out.Bytes()), 0o644); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// same compares vectors bit for bit: -0 is not 0.
func same(t *testing.T, name string, got, want [][]float64) {
	t.Helper()
	if len(got) != len(want) {
		t.Errorf("%s: %d vectors, want %d", name, len(got), len(want))
		return
	}
	for i := range got {
		if len(got[i]) != len(want[i]) {
			t.Errorf("%s: arm %d has %d numbers, want %d", name, i, len(got[i]), len(want[i]))
			continue
		}
		for j := range got[i] {
			if math.Float64bits(got[i][j]) != math.Float64bits(want[i][j]) {
				t.Errorf("%s: arm %d, number %d: %v, want %v", name, i, j, got[i][j], want[i][j])
			}
		}
	}
}

// lines puts each case and each vector on a line of its own.
func lines(text []byte) []byte {
	for _, cut := range []string{`{"name":`, `"vectors":[`, `"dimension":`, `"cases":`} {
		text = bytes.ReplaceAll(text, []byte(","+cut), []byte(",\n"+cut))
	}
	return bytes.ReplaceAll(text, []byte("],["), []byte("],\n["))
}
