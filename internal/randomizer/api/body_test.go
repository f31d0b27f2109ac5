package api

import (
	"bytes"
	"encoding/json"
	"fmt"
	"reflect"
	"regexp"
	"runtime"
	"strings"
	"sync"
	"testing"

	"github.com/riffle-dp/riffle/internal/testing/allocated"
	"github.com/riffle-dp/riffle/internal/testing/testbed"
	"github.com/riffle-dp/riffle/pkg/feature"
	"github.com/riffle-dp/riffle/pkg/glm"
)

// twoNumbers is a schema of two dimensions.
const twoNumbers = `{"version":1,"context":[{"name":"age","kind":"number","low":0,"high":100}],` +
	`"arms":[{"name":"cost","kind":"number","low":0,"high":10},{"name":"push","kind":"flag"}],` +
	`"terms":[["cost"],["age","push"]]}`

const twoArms = `{"arms": [[0.6, 0.2], [-0.3, 0.5]]}`

const threeArms = `{"context": {"age": 31}, ` +
	`"arms": [{"id": "none", "cost": 0}, {"id": "sms", "cost": 1}, {"id": "call"}]}`

// value is a number as an app may send it, long enough to be recognized.
var value = regexp.MustCompile(`[0-9]{9,}`)

// What is read of a body is what it says, in any order of its keys: the vectors of the schema, ids, and the choice.
func TestReadDecision(t *testing.T) {
	schema, err := feature.Open([]byte(twoNumbers))
	if err != nil {
		t.Fatal(err)
	}
	want, err := schema.Encode(feature.Values{"age": 31.}, []feature.Arm{
		{ID: "none", Features: feature.Values{"cost": 0.}}, {ID: "sms", Features: feature.Values{"cost": 1.}},
		{ID: "call"},
	})
	if err != nil {
		t.Fatal(err)
	}
	const list = `"arms": [{"cost": 0, "id": "none"}, {"id": "sms", "cost": 1}, {"id": "call", "cost": null}]`
	for body, choice := range map[string]glm.Choice{
		`{"context": {"age": 31}, ` + list + `}`: {},
		`{"exclude": ["call", 0], ` + list + `, "default": "sms", "context": {"age": 31}}`: {
			Default: 1, Excluded: []int{2, 0},
		},
		`{"default": null, "exclude": null, "context": {"age": 31}, ` + list + `}`: {},
		`{"default": 2, "exclude": [], ` + list + `, "context": {"age": 31}}`:      {Default: 2},
	} {
		got, err := readDecision(strings.NewReader(body), 2, schema)
		if err != nil || !reflect.DeepEqual(got, Arms{want, []string{"none", "sms", "call"}, choice}) {
			t.Errorf("%s: %+v, %v", body, got, err)
		}
	}
}

// As many bodies about features as may be in flight take less than 128 MB together, in the largest dimension.
func TestFeaturesTakeBoundedMemory(t *testing.T) { // not parallel: it looks at the memory of the whole process
	var fields, terms, values []string
	for i := range 256 {
		name := fmt.Sprintf("f%d", i)
		fields = append(fields, fmt.Sprintf(`{"name":%q,"kind":"hashed","buckets":2}`, name))
		terms = append(terms, `["`+name+`"]`)
		values = append(values, fmt.Sprintf(`"%s":""`, name))
	}
	schema, err := feature.Parse([]byte(`{"version":1,"arms":[` + strings.Join(fields, ",") + `],"terms":[` +
		strings.Join(terms, ",") + `]}`))
	if err != nil || schema.Dimension() != glm.MaxDimension {
		t.Fatal(err)
	}
	limit, weight := decisionRoom(glm.MaxDimension, schema)
	var short, long []string
	for i := range maxArms {
		short = append(short, fmt.Sprintf(`{"id":"%d"}`, i))
	}
	for i := 0; (len(values)*10+10)*(i+1) < int(limit); i++ {
		long = append(long, fmt.Sprintf(`{"id":"%d",%s}`, i, strings.Join(values, ",")))
	}
	for name, body := range map[string]string{
		"short arms": `{"arms":[` + strings.Join(short, ",") + `]}`,
		"long arms":  `{"arms":[` + strings.Join(long, ",") + `]}`,
	} {
		size := int64(len(body))
		if size > limit {
			t.Fatalf("%s: %d bytes", name, size)
		}
		room := min(maxDecision, size*weight)
		runtime.GC()
		grown := allocated.Peak(func() {
			var wg sync.WaitGroup
			for range bytesInFlight / room {
				wg.Go(func() {
					if _, err := readDecision(strings.NewReader(body), glm.MaxDimension, schema); err != nil {
						t.Error(err)
					}
				})
			}
			wg.Wait()
		})
		if t.Logf("%s: %d bodies of %d bytes take %d MB", name, bytesInFlight/room, size, grown>>20); grown > 128<<20 {
			t.Errorf("%s: %d MB", name, grown>>20)
		}
	}
}

func FuzzReadDecision(f *testing.F) {
	schema, err := feature.Open([]byte(twoNumbers))
	if err != nil {
		f.Fatal(err)
	}
	f.Add([]byte(threeArms), true)
	f.Add([]byte(twoArms), false)
	f.Add([]byte(`{"default": 1, "exclude": [0], "arms": [[0.6, 0.2], [-0.3, 0.5]]}`), false)
	f.Fuzz(func(t *testing.T, body []byte, features bool) {
		s := schema
		if !features {
			s = nil
		}
		out, err := readDecision(bytes.NewReader(body), 2, s)
		switch {
		case err != nil:
			if out.Vectors != nil || reasonFor(fmt.Errorf("%w: %w", ErrArms, err)) == Internal {
				t.Errorf("%+v, %v", out, err)
			}
		case features && (len(out.IDs) != len(out.Vectors) || len(out.IDs) == 0) || !features && out.IDs != nil:
			t.Errorf("%+v", out)
		default:
			for _, i := range append(out.Choice.Excluded, out.Choice.Default) {
				if i < 0 || i > 0 && i >= len(out.Vectors) {
					t.Errorf("arm %d of %d", i, len(out.Vectors))
				}
			}
		}
	})
}

// In the largest dimension a body may have 4 MB. As many such bodies as may be in flight take less than 128 MB
// together.
func TestLargeDimensionsTakeBoundedMemory(t *testing.T) { // not parallel: it looks at the memory of the whole process
	bodies := testbed.HostileDecisions(twoArms)
	if n := decisionBytes(glm.MaxDimension); n != maxDecision {
		t.Fatalf("a decision may have %d bytes", n)
	}
	row := "[" + strings.Repeat("1,", glm.MaxDimension-1) + "1],"
	bodies = append(bodies, []byte(`{"arms": [`+strings.TrimSuffix(strings.Repeat(row, maxArms), ",")+`]}`))
	runtime.GC()
	for i, body := range bodies {
		grown := allocated.Peak(func() {
			var wg sync.WaitGroup
			for range bytesInFlight / maxDecision {
				wg.Go(func() {
					arms, err := readDecision(bytes.NewReader(body), glm.MaxDimension, nil)
					if len(arms.Vectors) > maxArms || (err == nil) != (i == len(bodies)-1 || i == 7) {
						t.Errorf("body %d: %d arms, %v", i, len(arms.Vectors), err)
					}
				})
			}
			wg.Wait()
		})
		if grown > 128<<20 {
			t.Errorf("body %d: %d MB", i, grown>>20)
		}
	}
}

// FuzzReward reads any bytes as the one JSON object of a reward. What is read is one object with known fields and
// nothing behind it; the error is the app's fault, and quotes no number.
func FuzzReward(f *testing.F) {
	f.Add([]byte(`{"token": "x", "reward": 123456789}`))
	f.Add([]byte(`{"token": "x"} {}`))
	f.Add([]byte(`{"token": 123456789}`))
	f.Add([]byte(`{"reward": 1e999999999}`))
	f.Fuzz(func(t *testing.T, body []byte) {
		var into struct {
			Token  string   `json:"token"`
			Reward *float64 `json:"reward"`
		}
		err := readStruct(bytes.NewReader(body), &into)
		if err == nil {
			if !json.Valid(body) {
				t.Fatalf("%q is read", body)
			}
			return
		}
		if reasonFor(err) == Internal {
			t.Fatalf("%q: %v", body, err)
		}
		for _, number := range value.FindAll(body, -1) {
			if bytes.Contains([]byte(err.Error()), number) {
				t.Fatalf("the error shows what was sent: %v", err)
			}
		}
	})
}
