package role

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

// sources is where a configuration comes from, weakest first; the defaults are in the schema.
type sources struct {
	path      string   // of the YAML file, "" for none
	environ   []string // as os.Environ gives it
	envPrefix string   // RIFFLE_SHUFFLER_
	flags     []setting
}

// A setting is a value as it was written, and where.
type setting struct {
	field  *field
	text   string
	list   []string // the items of a list that came as items; text is then empty
	origin string
}

// A loading is a configuration on its way from its sources into its struct.
type loading struct {
	*schema
	values  map[string]any    // by key, for every field
	origins map[string]string // where the value of a key came from; no entry: the default
	broken  map[string]bool   // keys that already have a fault
	faults  []error
}

// load reads all the sources and fills config, a pointer to the struct that s describes. It goes on after a fault, so
// that the *ConfigError it returns has all of them; config then holds defaults where a value was at fault.
func (s *schema) load(src sources, config any) (*loading, error) {
	l := &loading{schema: s, values: map[string]any{}, origins: map[string]string{}, broken: map[string]bool{}}
	for _, f := range s.fields {
		l.values[f.key] = f.preset
	}
	if src.path != "" {
		l.apply(l.readFile(src.path))
	}
	l.apply(l.readEnviron(src.environ, src.envPrefix))
	l.apply(src.flags)

	root := reflect.ValueOf(config).Elem()
	for _, f := range s.fields {
		root.FieldByIndex(f.index).Set(reflect.ValueOf(l.values[f.key]))
	}
	return l, l.err()
}

// check finds what is missing in config, which load has filled, and what its Validators have to say.
func (l *loading) check(config any, envPrefix string) error {
	for _, f := range l.fields {
		if f.required && !l.broken[f.key] && reflect.ValueOf(l.values[f.key]).IsZero() {
			l.fault(fmt.Errorf("%s is required: give it %s", f.key, f.ways(envPrefix)), f.key)
		}
	}
	found := l.validate(reflect.ValueOf(config).Elem(), "")
	for _, key := range found { // only now: two Validators may object to one value
		if l.byKey[key] != nil {
			l.broken[key] = true
		}
	}
	return l.err()
}

// examine adds what ask finds in a configuration that is at fault already. Where a value is at fault the default
// stands in for it, and what is said with regard to it is left out.
func (l *loading) examine(config any, ask func() []error) error {
	root := reflect.ValueOf(config).Elem()
	for _, f := range l.fields {
		if l.broken[f.key] && f.index != nil {
			root.FieldByIndex(f.index).Set(reflect.ValueOf(f.preset))
		}
	}
	for _, err := range ask() {
		if !l.tainted(locate(err, "", l.origin)) {
			l.fault(err)
		}
	}
	return l.err()
}

// tainted reports whether one of the keys, or a key of one of the sections, has a fault.
func (l *loading) tainted(keys []string) bool {
	return slices.ContainsFunc(keys, func(key string) bool {
		if l.broken[key] {
			return true
		}
		_, section := l.sections[key]
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
func (l *loading) validate(v reflect.Value, prefix string) (found []string) {
	if validator, ok := v.Addr().Interface().(Validator); ok {
		for _, err := range validator.Validate() {
			if keys := locate(err, prefix, l.origin); !l.tainted(keys) {
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

func (l *loading) origin(key string) string {
	if origin, set := l.origins[key]; set {
		return origin
	}
	return "default"
}

func (l *loading) fault(err error, keys ...string) {
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

// refuse makes one ConfigError of what Prepare found.
func (l *loading) refuse(err error) error {
	for _, fault := range FaultsOf(err) {
		locate(fault, "", l.origin)
		l.fault(fault)
	}
	return l.err()
}

func (l *loading) err() error {
	if len(l.faults) == 0 {
		return nil
	}
	return &ConfigError{Faults: l.faults}
}

// apply lays settings over what is there.
func (l *loading) apply(settings []setting) {
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
func (l *loading) readEnviron(environ []string, prefix string) []setting {
	known := map[string]*field{prefix + "CONFIG": nil}
	names := []string{prefix + "CONFIG"}
	for _, f := range l.fields {
		known[f.env(prefix)] = f
		names = append(names, f.env(prefix))
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
func (f *field) ways(envPrefix string) string {
	return fmt.Sprintf("in the file, in %s, or with %s", f.env(envPrefix), dashed(f.key))
}
