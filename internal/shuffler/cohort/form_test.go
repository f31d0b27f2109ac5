package cohort

import (
	"bytes"
	"encoding/json"
	"flag"
	"os"
	"reflect"
	"testing"
)

var update = flag.Bool("update", false, "write testdata/form.jsonl")

// fill puts another number, or something of it, into every field that a value has.
func fill(v reflect.Value, n *int64) {
	*n++
	switch v.Kind() {
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		fill(v.Elem(), n)
	case reflect.Struct:
		for i := range v.NumField() {
			if v.Type().Field(i).IsExported() { // the others are not written
				fill(v.Field(i), n)
			}
		}
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 1, 1))
		fill(v.Index(0), n)
	case reflect.Map:
		key, value := reflect.New(v.Type().Key()).Elem(), reflect.New(v.Type().Elem()).Elem()
		fill(key, n)
		fill(value, n)
		v.Set(reflect.MakeMap(v.Type()))
		v.SetMapIndex(key, value)
	case reflect.Bool:
		v.SetBool(true)
	case reflect.String:
		v.SetString("text")
	case reflect.Int, reflect.Int32, reflect.Int64:
		v.SetInt(*n)
	default:
		v.SetUint(uint64(*n))
	}
}

// The journal's form is the one that shufflers have on their disks: every field of every event and of a snapshot is
// written under its name, and read again.
func TestTheJournalKeepsItsForm(t *testing.T) {
	t.Parallel()
	var lines []byte
	n := int64(0)
	for i := range reflect.TypeFor[Event]().NumField() {
		ev := new(Event)
		field := reflect.ValueOf(ev).Elem().Field(i)
		if field.Type() == reflect.TypeFor[*Snapshot]() { // its base is below
			ev.Snapshot = &Snapshot{Version: snapshotVersion, Sum: []byte{1}, Base: json.RawMessage(`{}`)}
		} else {
			fill(field, &n)
		}
		line := ev.Encode()
		if again, err := DecodeEvent(line); err != nil || !reflect.DeepEqual(again, ev) {
			t.Errorf("%s is read as %+v, %v", line, again, err)
		}
		lines = append(append(lines, line...), '\n')
	}
	var b base
	fill(reflect.ValueOf(&b).Elem(), &n)
	line, err := json.Marshal(b)
	if err != nil {
		t.Fatal(err)
	}
	lines = append(append(lines, line...), '\n')
	const path = "testdata/form.jsonl"
	if *update {
		if err := os.WriteFile(path, lines, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if want, err := os.ReadFile(path); err != nil || !bytes.Equal(lines, want) {
		t.Errorf("the form of the journal changed: %v\n%s", err, lines)
	}
}
