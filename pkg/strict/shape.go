package strict

import (
	"encoding"
	"encoding/json"
	"math"
	"reflect"
	"strconv"
	"strings"
)

// shape is what a type expects of JSON.
type shape struct {
	kind   kind
	of     reflect.Type // of a value that reads itself
	bits   int          // of a number
	elem   *shape       // of lists and maps
	length int          // of an array; -1: any
	fields map[string]field
	order  []string // names of fields as the type has them
}

type field struct {
	shape    *shape
	optional bool
}

type kind int

const (
	anything kind = iota // any, or a type that reads itself
	itself               // a type that reads itself, and is not null
	truth
	text
	base // bytes in base64
	float
	signed
	unsigned
	list
	object // a map
	record // a struct
)

// words say what each kind expects.
var words = map[kind]string{
	truth: "true or false", text: "a text", base: "a text", float: "a number", signed: "a whole number",
	unsigned: "a whole number from 0 on", list: "a list", object: "an object", record: "an object", itself: "a value"}

var readers = []reflect.Type{reflect.TypeFor[json.Unmarshaler](), reflect.TypeFor[encoding.TextUnmarshaler]()}

// compile returns the shape of a type. Types that contain themselves are found in seen.
func compile(t reflect.Type, seen map[reflect.Type]*shape) *shape {
	if t.Kind() == reflect.Pointer {
		return compile(t.Elem(), seen)
	}
	if s := seen[t]; s != nil {
		return s
	}
	s := &shape{length: -1}
	seen[t] = s
	for _, reads := range readers {
		if reflect.PointerTo(t).Implements(reads) {
			s.kind, s.of = itself, t
			return s
		}
	}
	switch k := t.Kind(); {
	case k == reflect.Bool:
		s.kind = truth
	case k == reflect.String:
		s.kind = text
	case k == reflect.Slice && t.Elem().Kind() == reflect.Uint8:
		s.kind = base
	case t.Kind() == reflect.Float32, t.Kind() == reflect.Float64:
		s.kind, s.bits = float, t.Bits()
	case k >= reflect.Int && k <= reflect.Int64:
		s.kind, s.bits = signed, t.Bits()
	case k >= reflect.Uint && k <= reflect.Uintptr:
		s.kind, s.bits = unsigned, t.Bits()
	case k == reflect.Slice:
		s.kind, s.elem = list, compile(t.Elem(), seen)
	case k == reflect.Array:
		s.kind, s.elem, s.length = list, compile(t.Elem(), seen), t.Len()
	case k == reflect.Map:
		s.kind, s.elem = object, compile(t.Elem(), seen)
	case k == reflect.Struct:
		s.kind, s.fields = record, map[string]field{}
		s.addFields(t, seen)
	}
	return s
}

// addFields adds a struct's fields, and those of structs that it embeds.
func (s *shape) addFields(t reflect.Type, seen map[reflect.Type]*shape) {
	for i := range t.NumField() {
		f := t.Field(i)
		tag, tagged := f.Tag.Lookup("json")
		name, rest, _ := strings.Cut(tag, ",")
		inner := f.Type
		if inner.Kind() == reflect.Pointer {
			inner = inner.Elem()
		}
		switch {
		case tag == "-":
		case f.Anonymous && name == "" && inner.Kind() == reflect.Struct:
			s.addFields(inner, seen)
		case f.IsExported():
			if !tagged || name == "" {
				name = f.Name
			}
			_, twice := s.fields[name]
			if !twice { // the outer one hides the one that is embedded
				s.order = append(s.order, name)
			}
			optional := strings.Contains(rest, "omitempty") || strings.Contains(rest, "omitzero")
			s.fields[name] = field{compile(f.Type, seen), optional}
		}
	}
}

// alike is the field whose name differs from this one in upper and lower case only, or "".
func (s *shape) alike(name string) string {
	for _, known := range s.order {
		if strings.EqualFold(known, name) {
			return known
		}
	}
	return ""
}

// number says what is wrong with a number for the type, or nothing.
func (s *shape) number(literal string) string {
	switch s.kind {
	case signed:
		if _, err := strconv.ParseInt(literal, 10, s.bits); err != nil {
			return "must be a whole number of at most " + strconv.Itoa(s.bits) + " bits"
		}
	case unsigned:
		if _, err := strconv.ParseUint(literal, 10, s.bits); err != nil {
			return "must be a whole number from 0 on of at most " + strconv.Itoa(s.bits) + " bits"
		}
	case float:
		v, err := strconv.ParseFloat(literal, s.bits)
		switch mantissa, _, _ := strings.Cut(strings.ToLower(literal), "e"); {
		case err != nil || math.IsInf(v, 0):
			return "is larger than a number can be here"
		case v == 0 && strings.ContainsAny(mantissa, "123456789"):
			return "is too small to be told from 0: write 0 if that is meant"
		}
	}
	return ""
}
