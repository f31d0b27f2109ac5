package config

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
)

// A Validator checks the relations between its own fields. It returns all the faults, not the first, made with Wrong
// and Conflict, with keys relative to itself. The configuration and every section of it may be one.
type Validator interface {
	Validate() []error
}

// Sources is where a configuration comes from, weakest first; the defaults are in the schema.
type Sources struct {
	Path    string   // of the YAML file, "" for none
	Environ []string // as os.Environ gives it
	Flags   Flags
}

// A setting is a value as it was written, and where.
type setting struct {
	field  *field
	text   string
	list   []string // the items of a list that came as items; text is then empty
	origin string
}

// A Loading is a configuration on its way from its sources into its struct. It goes on after a fault, so that its
// *Error has all of them.
type Loading struct {
	schema  *Schema
	config  reflect.Value     // the struct
	values  map[string]any    // by key, for every field
	origins map[string]string // where the value of a key came from; no entry: the default
	broken  map[string]bool   // keys that already have a fault
	faults  []error
}

// Load reads all the sources and fills config, a pointer to the struct that s describes. It holds defaults where a
// value was at fault: see Err.
func (s *Schema) Load(src Sources, config any) *Loading {
	l := &Loading{
		schema: s, config: reflect.ValueOf(config).Elem(), values: map[string]any{}, origins: map[string]string{},
		broken: map[string]bool{},
	}
	for _, f := range s.fields {
		l.values[f.key] = f.preset
	}
	if src.Path != "" {
		l.apply(l.readFile(src.Path))
	}
	l.apply(l.readEnviron(src.Environ))
	l.apply(src.Flags.settings())

	for _, f := range s.fields {
		l.config.FieldByIndex(f.index).Set(reflect.ValueOf(l.values[f.key]))
	}
	return l
}

// Check finds what is missing in the struct, which Load has filled, and what its Validators have to say. If there are
// faults it asks more, which may be nil, as well. Then the struct holds defaults where a value is at fault, and what is
// said with regard to those is left out.
func (l *Loading) Check(more func() []error) error {
	l.check()
	if len(l.faults) > 0 && more != nil {
		l.examine(more)
	}
	return l.Err()
}

func (l *Loading) check() {
	for _, f := range l.schema.fields {
		if f.required && !l.broken[f.key] && reflect.ValueOf(l.values[f.key]).IsZero() {
			l.fault(fmt.Errorf("%s is required: give it %s", f.key, l.schema.ways(f)), f.key)
		}
	}
	found := l.validate(l.config, "")
	for _, key := range found { // only now: two Validators may object to one value
		if l.schema.byKey[key] != nil {
			l.broken[key] = true
		}
	}
}

func (l *Loading) examine(ask func() []error) {
	for _, f := range l.schema.fields {
		if l.broken[f.key] && f.index != nil {
			l.config.FieldByIndex(f.index).Set(reflect.ValueOf(f.preset))
		}
	}
	for _, err := range ask() {
		if !l.isTainted(locate(err, "", l.origin)) {
			l.fault(err)
		}
	}
}

// isTainted reports whether one of the keys, or a key of one of the sections, has a fault.
func (l *Loading) isTainted(keys []string) bool {
	return slices.ContainsFunc(keys, func(key string) bool {
		if l.broken[key] {
			return true
		}
		_, section := l.schema.sections[key]
		for broken := range l.broken {
			if section && strings.HasPrefix(broken, key+".") {
				return true
			}
		}
		return false
	})
}

// validate asks every Validator in config; what is said about a key that already has a fault is left out, because its
// value is not the one that was written. It returns the keys of what it adds.
func (l *Loading) validate(v reflect.Value, prefix string) (found []string) {
	if validator, ok := v.Addr().Interface().(Validator); ok {
		for _, err := range validator.Validate() {
			if keys := locate(err, prefix, l.origin); !l.isTainted(keys) {
				l.fault(err)
				found = append(found, keys...)
			}
		}
	}
	for i := range v.NumField() {
		if sf := v.Type().Field(i); sf.Type.Kind() == reflect.Struct {
			below := prefix
			if key := sf.Tag.Get("key"); key != "." {
				below += key + "."
			}
			found = append(found, l.validate(v.Field(i), below)...)
		}
	}
	return found
}

func (l *Loading) origin(key string) string {
	if origin, set := l.origins[key]; set {
		return origin
	}
	return "default"
}

func (l *Loading) fault(err error, keys ...string) {
	for _, key := range keys {
		l.broken[key] = true
	}
	for _, f := range l.faults {
		if f.Error() == err.Error() {
			return
		}
	}
	l.faults = append(l.faults, err)
}

// Refuse makes one *Error of what was found in a configuration without faults.
func (l *Loading) Refuse(err error) error {
	for _, fault := range FaultsOf(err) {
		locate(fault, "", l.origin)
		l.fault(fault)
	}
	return l.Err()
}

// Err is nil, or an *Error with all faults so far.
func (l *Loading) Err() error {
	if len(l.faults) == 0 {
		return nil
	}
	return &Error{Faults: l.faults}
}

// apply lays settings over what is there.
func (l *Loading) apply(settings []setting) {
	for _, s := range settings {
		var value any = s.list
		if s.list == nil {
			parsed, err := s.field.parse(s.text)
			if err != nil {
				l.fault(fmt.Errorf("%s: %w", s.origin, err), s.field.key)
				continue
			}
			value = parsed
		}
		l.values[s.field.key] = value
		l.origins[s.field.key] = s.origin
	}
}

// workerVariables begin the names of variables, behind a role's own prefix, that are for its workers.
const workerVariables = "WORKER_"

// readEnviron finds the settings among the environment variables.
func (l *Loading) readEnviron(environ []string) []setting {
	prefix := Prefix(l.schema.role)
	known := map[string]*field{prefix + "CONFIG": nil}
	names := []string{prefix + "CONFIG"}
	for _, f := range l.schema.fields {
		name := Variable(l.schema.role, f.key)
		known[name] = f
		names = append(names, name)
	}
	var settings []setting
	for _, entry := range environ {
		name, text, _ := strings.Cut(entry, "=")
		if !strings.HasPrefix(name, prefix) || strings.HasPrefix(name, prefix+workerVariables) {
			continue
		}
		f, ok := known[name]
		switch {
		case f != nil:
			settings = append(settings, setting{field: f, text: text, origin: name})
		case !ok && !serviceLink.MatchString("_"+strings.TrimPrefix(name, prefix)):
			l.fault(fmt.Errorf("unknown variable %s%s", name, didYouMean(name, names)))
		}
	}
	return settings
}

// ways says how the field can be set.
func (s *Schema) ways(f *field) string {
	return fmt.Sprintf("in the file, in %s, or with %s", Variable(s.role, f.key), Flag(f.key))
}
