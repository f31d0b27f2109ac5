package config

import (
	"fmt"
	"maps"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"time"
)

// A field is one setting: a leaf of a configuration struct.
type field struct {
	key      string // as in the file: "cohort.minimum"
	doc      string
	required bool
	index    []int // path of the field in the struct, for reflect
	typ      reflect.Type
	preset   any // the default, of type typ
}

// Flag is the flag of a key: --cohort-minimum for cohort.minimum.
func Flag(key string) string {
	return "--" + strings.NewReplacer(".", "-", "_", "-").Replace(key)
}

// Variable is the environment variable of a role's key: RIFFLE_SHUFFLER_COHORT_MINIMUM for cohort.minimum.
func Variable(role, key string) string {
	return Prefix(role) + strings.ToUpper(strings.ReplaceAll(key, ".", "_"))
}

// Prefix begins all variables of a role: RIFFLE_SHUFFLER_.
func Prefix(role string) string {
	return "RIFFLE_" + strings.ToUpper(strings.ReplaceAll(role, "-", "_")) + "_"
}

// A Schema is everything that can be set: the fields in the order of the struct, and the doc comments of the sections.
type Schema struct {
	role     string
	fields   []*field
	byKey    map[string]*field
	sections map[string]string
}

var (
	keyForm = regexp.MustCompile(`^[a-z][a-z0-9]*(_[a-z0-9]+)*$`)
	// serviceLink matches what Docker links and Kubernetes services put into the environment of every container near
	// a service called riffle-<role>: RIFFLE_SHUFFLER_PORT_4222_TCP_ADDR and the like. They are not settings, and no
	// setting may be named like one.
	serviceLink = regexp.MustCompile(
		`_(SERVICE_HOST|SERVICE_PORT(_.*)?|PORT|PORT_\d+_(TCP|UDP|SCTP)(_(PROTO|PORT|ADDR))?)$`)
)

// New reads the schema of a role from the struct config, whose values are the defaults. No key may want a flag of the
// given names. Its errors are mistakes in the program.
func New(role string, config any, taken ...string) (*Schema, error) {
	s := &Schema{role: role, byKey: map[string]*field{}, sections: map[string]string{}}
	if err := s.add(reflect.ValueOf(config), "", nil); err != nil {
		return nil, err
	}
	// Flags and variables are the keys with their separators folded together, so two keys can meet in one flag.
	flags := map[string]string{}
	for _, name := range taken {
		flags["--"+name] = "--" + name
	}
	for _, f := range s.fields {
		name := Flag(f.key)
		if other, taken := flags[name]; taken {
			return nil, fmt.Errorf("config: the key %s wants the same flag as %s", f.key, other)
		}
		flags[name] = f.key
		if serviceLink.MatchString(Variable("", f.key)) {
			return nil, fmt.Errorf("config: the variable of %s looks like one that Docker or Kubernetes sets by "+
				"itself: rename the key", f.key)
		}
	}
	return s, nil
}

func (s *Schema) add(v reflect.Value, prefix string, index []int) error {
	for i := range v.NumField() {
		sf := v.Type().Field(i)
		at := append(append([]int(nil), index...), i)
		key, doc := sf.Tag.Get("key"), sf.Tag.Get("doc")
		if key == "." && sf.Type.Kind() == reflect.Struct { // its keys are among ours
			if err := s.add(v.Field(i), prefix, at); err != nil {
				return err
			}
			continue
		}
		if !sf.IsExported() || !keyForm.MatchString(key) {
			return fmt.Errorf("config: %s.%s needs to be exported and to have a key tag of the form lower_case, "+
				"not %q", v.Type(), sf.Name, key)
		}
		key = prefix + key
		_, section := s.sections[key]
		if _, leaf := s.byKey[key]; leaf || section {
			return fmt.Errorf("config: two fields have the key %s", key)
		}
		if sf.Type.Kind() == reflect.Struct {
			s.sections[key] = doc
			if err := s.add(v.Field(i), key+".", at); err != nil {
				return err
			}
			continue
		}
		f := &field{key: key, doc: doc, required: sf.Tag.Get("required") == "true", index: at, typ: sf.Type,
			preset: v.Field(i).Interface()}
		if f.typeName() == "" {
			return fmt.Errorf("config: %s has the type %s, which no file or flag can hold", key, sf.Type)
		}
		if doc == "" {
			return fmt.Errorf("config: %s has no doc tag: say what it does, its unit, and what zero means", key)
		}
		s.put(f)
	}
	return nil
}

func (s *Schema) put(f *field) {
	s.fields = append(s.fields, f)
	s.byKey[f.key] = f
}

// keys lists every key, in the order of the struct, and the sections.
func (s *Schema) keys() []string {
	var keys []string
	for _, f := range s.fields {
		keys = append(keys, f.key)
	}
	return append(keys, slices.Sorted(maps.Keys(s.sections))...)
}

// typeName is what people call the type of the field, "" for a type that cannot be configured.
func (f *field) typeName() string {
	switch f.typ {
	case reflect.TypeFor[time.Duration]():
		return "duration"
	case reflect.TypeFor[[]string]():
		return "list"
	}
	switch k := f.typ.Kind(); {
	case k == reflect.String:
		return "string"
	case k == reflect.Bool:
		return "bool"
	case k >= reflect.Int && k <= reflect.Int64, k >= reflect.Uint && k <= reflect.Uint64:
		return "int"
	case k == reflect.Float64:
		return "float"
	}
	return ""
}
