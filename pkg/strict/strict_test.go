package strict_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/riffle-dp/riffle/pkg/strict"
)

type inner struct {
	Theta []float64 `json:"theta"`
	Note  string    `json:"note,omitempty"`
}

// base is embedded.
type base struct {
	ID string `json:"id"`
}

type all struct {
	base
	On     bool               `json:"on"`
	Name   string             `json:"name"`
	Count  int                `json:"count"`
	Small  uint8              `json:"small"`
	Value  float64            `json:"value"`
	Key    []byte             `json:"key"`
	Digest [2]byte            `json:"digest"`
	Wait   time.Duration      `json:"wait"`
	Rows   [][]float64        `json:"rows"`
	Inner  inner              `json:"inner"`
	By     map[string]float64 `json:"by"`
	Any    any                `json:"any"`
	Maybe  *inner             `json:"maybe,omitempty"`
	Zero   int                `json:"zero,omitzero"`
	Hidden int                `json:"-"`
}

func whole() map[string]string {
	return map[string]string{"id": `"a"`, "on": `true`, "name": `"n"`, "count": `-3`, "small": `255`, "value": `1e-3`,
		"key": `"AQI="`, "digest": `[1,2]`, "wait": `1000`, "rows": `[[1,2],[3]]`, "inner": `{"theta":[0.5]}`,
		"by": `{"x":1}`, "any": `{"y":null}`}
}

// written is an object of members; names that are in extra replace those of whole, and "" removes one.
func written(extra map[string]string) string {
	members := whole()
	for name, value := range extra {
		members[name] = value
		if value == "" {
			delete(members, name)
		}
	}
	var parts []string
	for _, name := range slices.Sorted(maps.Keys(members)) { // an error names the same byte each time
		parts = append(parts, fmt.Sprintf("%q:%s", name, members[name]))
	}
	return "{" + strings.Join(parts, ",") + "}"
}

func TestWhatIsWholeIsRead(t *testing.T) {
	want := all{base: base{"a"}, On: true, Name: "n", Count: -3, Small: 255, Value: 1e-3, Key: []byte{1, 2},
		Digest: [2]byte{1, 2}, Wait: 1000, Rows: [][]float64{{1, 2}, {3}}, Inner: inner{Theta: []float64{0.5}},
		By: map[string]float64{"x": 1}, Any: map[string]any{"y": nil}}
	for _, text := range []string{written(nil), "\xef\xbb\xbf" + written(nil) + " \r\n",
		written(map[string]string{"maybe": "null"})} {
		var got all
		if err := strict.Unmarshal([]byte(text), &got, strict.Options{}); err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%s:\n%+v, %v", text, got, err)
		}
	}
}

// Each of these is one fault in a text that is read without it. The error names the field and what is wrong with it,
// and quotes no value: every value that is refused here holds "77" or "Ada".
func TestWhatIsNotWholeIsRefused(t *testing.T) {
	for _, c := range []struct{ name, value, field, problem string }{
		{"on", `"Ada"`, "on", "true or false"}, {"on", `77`, "on", "true or false"}, {"name", `77`, "name", "a text"},
		{"count", `77.5`, "count", "whole number"}, {"count", `77e77`, "count", "whole number"},
		{"count", `77777777777777777777`, "count", "64 bits"}, {"small", `277`, "small", "8 bits"},
		{"small", `-77`, "small", "from 0 on"}, {"value", `"77"`, "value", "a number"},
		{"value", `77e400`, "value", "larger"},
		{"value", `-77e400`, "value", "larger"}, {"value", `77e-400`, "value", "too small"},
		{"value", `null`, "value", "null"},
		{"value", `[77]`, "value", "a number"}, {"rows", `[[1],[77,null]]`, "rows[1][1]", "null"},
		{"rows", `[[1],null]`, "rows[1]", "null"}, {"rows", `null`, "rows", "null"},
		{"rows", `{"Ada":77}`, "rows", "a list"},
		{"rows", `[[true]]`, "rows[0][0]", "a number"}, {"inner", `{"theta":[77,null]}`, "inner.theta[1]", "null"},
		{"inner", `{}`, "inner.theta", "missing"}, {"inner", `null`, "inner", "null"},
		{"inner", `[77]`, "inner", "an object"},
		{"inner", `{"theta":[1],"theta":[77]}`, "inner.theta", "twice"},
		{"inner", `{"theta":[1],"\u0074heta":[77]}`, "inner.theta", "twice"},
		{"inner", `{"theta":[1],"Theta":[77]}`, "inner.Theta", `written \"theta\"`},
		{"inner", `{"theta":[1],"more":"Ada"}`, "inner.more", "not a field"}, {"by", `{"x":1,"x":77}`, "by.x", "twice"},
		{"by", `{"x":null}`, "by.x", "null"}, {"any", `{"x":1,"x":77}`, "any.x", "twice"},
		{"digest", `[77]`, "digest", "2 entries"},
		{"digest", `[1,2,77]`, "digest", "2 entries"}, {"digest", `[1,777]`, "digest[1]", "8 bits"},
		{"maybe", `{"theta":null}`, "maybe.theta", "null"}, {"maybe", `{}`, "maybe.theta", "missing"},
		{"key", `"Ada!"`, "key", "base64"},
		{"value", ``, "value", "missing"}, {"id", ``, "id", "missing"}, {"Value", `77`, "Value", "written"},
		{"hidden", `77`, "hidden", "not a field"}, {"Hidden", `77`, "Hidden", "not a field"},
		{"value", `NaN`, "", "not JSON"},
		{"value", `Infinity77`, "", "not JSON"}, {"value", `077`, "", "not JSON"}, {"value", `+77`, "", "not JSON"},
		{"value", `.77`, "", "not JSON"}, {"value", `77,`, "", "not JSON"}, {"name", `"\ud800Ada"`, "", "not JSON"},
		{"name", "\"Ada\x01\"", "", "not JSON"}, {"name", "\"Ada\xff\"", "", "UTF-8"},
		{"value", `'77'`, "", "not JSON"},
	} {
		var got all
		err := strict.Unmarshal([]byte(written(map[string]string{c.name: c.value})), &got, strict.Options{})
		said, ok := errors.AsType[*strict.Error](err)
		if !ok || said.Line != 1 || said.Field != c.field ||
			!strings.Contains(strings.ReplaceAll(said.Problem, `"`, `\"`), c.problem) {
			t.Errorf("%s as %s: %v; want %q and %q", c.name, c.value, err, c.field, c.problem)
		}
		if err != nil && (strings.Contains(err.Error(), "77") || strings.Contains(err.Error(), "Ada")) {
			t.Errorf("the error quotes a value: %v", err)
		}
		if ok && !reflect.DeepEqual(got, all{}) && c.name != "key" {
			t.Errorf("%s as %s left %+v", c.name, c.value, got)
		}
	}
	for name, text := range map[string]string{
		"cut off": written(nil)[:20], "has something": written(nil) + "{}", "behind it": written(nil) + "77",
		"empty":     "\n",
		"an object": "[77]", "UTF-16": "\xff\xfe{\x00", "compressed": "\x1f\x8b\x08", "something": written(nil) + "]",
		"is null": "null",
	} {
		if err := strict.Unmarshal([]byte(text), new(all), strict.Options{}); err == nil ||
			!strings.Contains(err.Error(), name) {
			t.Errorf("%q: %v, want %q", text, err, name)
		}
	}
	deep := strings.Repeat("[", 1<<20)
	if err := strict.Unmarshal([]byte(written(map[string]string{"any": deep})), new(all),
		strict.Options{}); err == nil {
		t.Error("a million lists in each other were read")
	}
}

func TestLinesOfAValueAreCounted(t *testing.T) {
	err := strict.Unmarshal([]byte("{\n\"theta\":\n[1,\nnull]}"), new(inner), strict.Options{})
	if said, ok := errors.AsType[*strict.Error](err); !ok || said.Line != 4 || said.Field != "theta[1]" {
		t.Error(err)
	}
	err = strict.Unmarshal([]byte("{\"theta\":[1],\n\"note\":\"a\"\n x}"), new(inner), strict.Options{})
	if said, ok := errors.AsType[*strict.Error](err); !ok || said.Line != 3 {
		t.Error(err)
	}
}

func TestOptionsAreLenientAboutWhatTheySay(t *testing.T) {
	got := inner{Theta: []float64{1}, Note: "default"}
	if err := strict.Unmarshal([]byte(`{"note":"b"}`), &got, strict.Options{Missing: true}); err != nil ||
		got.Note != "b" || len(got.Theta) != 1 {
		t.Errorf("%+v, %v", got, err)
	}
	unknown := strict.Options{Unknown: true}
	if err := strict.Unmarshal([]byte(`{"theta":[2],"who":{"a":null}}`), &got, unknown); err != nil ||
		got.Theta[0] != 2 {
		t.Errorf("%+v, %v", got, err)
	}
	for _, text := range []string{`{"theta":[2],"who":1,"who":2}`, `{"theta":[2],"who":{"a":1,"a":2}}`, `{"who":1}`,
		`{"theta":[2],"THETA":[3]}`, `{"Theta":[2]}`, `{"theta":[null],"who":1}`} {
		if err := strict.Unmarshal([]byte(text), &got, unknown); err == nil {
			t.Errorf("%s was read", text)
		}
	}
	for _, text := range []string{`{"note":7}`, `{"theta":null}`, `{"who":1}`} {
		if err := strict.Unmarshal([]byte(text), &got, strict.Options{Missing: true}); err == nil {
			t.Errorf("%s was read", text)
		}
	}
}

// refuses reads itself, and refuses what it reads.
type refuses struct{}

var errRefused = errors.New("refused")

func (*refuses) UnmarshalJSON([]byte) error { return errRefused }

func TestATypeThatReadsItselfSaysWhatIsWrong(t *testing.T) {
	var v struct {
		In []refuses `json:"in"`
	}
	if err := strict.Unmarshal([]byte("{\n\"in\":[1]}"), &v, strict.Options{}); !errors.Is(err, errRefused) ||
		!strings.Contains(err.Error(), "refused") || !strings.Contains(err.Error(), "in[0]") {
		t.Error(err)
	}
	if err := strict.Unmarshal([]byte(`{"in":[null]}`), &v, strict.Options{}); err == nil ||
		errors.Is(err, errRefused) {
		t.Errorf("null: %v", err)
	}
}

// What is read is written so that the same is read again, whatever the text; an error is an *Error of a bounded length,
// and the number of values in what is read is that of the text.
func FuzzUnmarshal(f *testing.F) {
	f.Add(written(nil))
	for _, text := range []string{`{"theta":[1,null]}`, `{"theta":[1],"Theta":[2]}`, `{"a":{"a":1,"a":2}}`,
		"\xef\xbb\xbf{}", `[1e400]`} {
		f.Add(text)
		f.Add(written(map[string]string{"any": text}))
	}
	f.Fuzz(func(t *testing.T, text string) {
		var first, second all
		err := strict.Unmarshal([]byte(text), &first, strict.Options{})
		if err != nil {
			if said, ok := errors.AsType[*strict.Error](err); !ok || said.Line < 1 || len(err.Error()) > 1000 {
				t.Fatal(err)
			}
			return
		}
		again, err := json.Marshal(first)
		if err == nil {
			err = strict.Unmarshal(again, &second, strict.Options{})
		}
		if err != nil {
			t.Fatalf("%q is written as %q: %v", text, again, err)
		}
		third, err := json.Marshal(second)
		if err != nil || string(third) != string(again) {
			t.Fatalf("%q is written as %q, and that as %q: %v", text, again, third, err)
		}
	})
}
