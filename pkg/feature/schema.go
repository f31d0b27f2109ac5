package feature

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/riffle-dp/riffle/pkg/strict"
)

// Errors of this package. Each is wrapped in a sentence that names the field or term, and never a value of features.
var (
	// ErrSchema says that a schema is malformed.
	ErrSchema = errors.New("bad schema of features")
	// ErrFeatures says that features do not fit the schema.
	ErrFeatures = errors.New("the features do not fit the announced schema")
)

// Bounds of a schema and of features.
const (
	Version      = 1        // of the form of schemas
	MaxBytes     = 64 << 10 // of a schema's JSON
	MaxDimension = 512      // of a vector
	MaxFields    = 256      // of the context, and of an arm
	MaxFactors   = 3        // fields of one term
	MaxText      = 256      // bytes of a text or of an arm's id
	MaxArms      = 1024     // of one decision
)

// The names that a schema gives a meaning.
const (
	Bias = "bias" // a term that is the number 1
	ID   = "id"   // the arm's id, as a field
)

// Kind says what values a field takes and how they become numbers; the package's documentation has the table.
type Kind string

// The kinds of fields.
const (
	Number   Kind = "number"
	Flag     Kind = "flag"
	Category Kind = "category"
	Buckets  Kind = "buckets"
	Hashed   Kind = "hashed"
)

// Field is one field of the context or of arms. Its name is 1 to 64 of a-z, 0-9 and "_", begins with a letter, is not
// Bias, and is unique among all fields.
type Field struct {
	Name string `json:"name"`
	Kind Kind   `json:"kind"`
	// Low and High are the range of a number: finite, Low below High, and so is High - Low. Values outside count as the
	// nearest inside.
	Low  *float64 `json:"low,omitempty"`
	High *float64 `json:"high,omitempty"`
	// Values are the texts of a category: distinct, each of 1 to MaxText bytes.
	Values []string `json:"values,omitempty"`
	// Other gives a category one more place, for every text that is not listed. Without it such a text is an error.
	Other bool `json:"other,omitempty"`
	// Thresholds of buckets: finite, each above the one before, at least one.
	Thresholds []float64 `json:"thresholds,omitempty"`
	// Buckets is how many places a hash has, from 1.
	Buckets int `json:"buckets,omitempty"`
	// Baseline makes the first value of a category, or the first bucket, a block of zeros.
	Baseline bool `json:"baseline,omitempty"`
}

// Limit bounds how often one device plays an arm in one epoch.
type Limit struct {
	Arm    string `json:"arm"`     // id
	AtMost uint32 `json:"at_most"` // from 1
}

// form is a schema as JSON.
type form struct {
	Version int        `json:"version"`
	Context []Field    `json:"context,omitempty"`
	Arms    []Field    `json:"arms"`
	Terms   [][]string `json:"terms"`
	Limits  []Limit    `json:"limits,omitempty"`
}

// Schema says how features become vectors. It does not change, and any number of goroutines may use it.
type Schema struct {
	form      form
	canonical []byte
	fields    []Field        // of the context, then of arms
	context   int            // how many of them are of the context
	index     map[string]int // into fields, by name
	terms     []term
	dimension int
	scale     float64
	limits    map[string]uint32
}

// term is one term, with its place in a vector.
type term struct {
	fields []int // into Schema.fields; empty: the bias
	offset int
}

// isName reports whether a text is a name of 1 to 64 of a-z, 0-9 and "_" that begins with a letter.
func isName(s string) bool {
	return s != "" && len(s) <= 64 && s[0] >= 'a' && s[0] <= 'z' &&
		strings.Trim(s, "abcdefghijklmnopqrstuvwxyz0123456789_") == ""
}

func bad(format string, v ...any) error {
	return fmt.Errorf("%w: %s", ErrSchema, fmt.Sprintf(format, v...))
}

// Parse reads a schema from JSON of at most MaxBytes and checks it. Every error is ErrSchema and says what to change:
// an unknown key, a field that no term names, a term that names no field, no term with a field of arms (all arms of a
// decision would be alike), more than MaxDimension numbers.
func Parse(text []byte) (*Schema, error) {
	if len(text) > MaxBytes {
		return nil, bad("it has %d bytes, at most %d", len(text), MaxBytes)
	}
	s := &Schema{index: map[string]int{}, limits: map[string]uint32{}}
	if err := strict.Unmarshal(text, &s.form, strict.Options{}); err != nil {
		return nil, bad("not the JSON that is expected: %v", err)
	}
	if s.form.Version != Version {
		return nil, bad(`"version" is %d, and this program knows %d`, s.form.Version, Version)
	}
	for _, check := range []func() error{s.addFields, s.addTerms, s.addLimits} {
		if err := check(); err != nil {
			return nil, err
		}
	}
	s.scale = scale(len(s.terms))
	var out bytes.Buffer
	e := json.NewEncoder(&out)
	e.SetEscapeHTML(false)
	if err := e.Encode(s.form); err != nil {
		return nil, bad("%v", err)
	}
	s.canonical = bytes.TrimSuffix(out.Bytes(), []byte("\n"))
	if n := len(s.canonical); n > MaxBytes {
		return nil, bad("its one form has %d bytes, at most %d", n, MaxBytes)
	}
	return s, nil
}

// Open reads an announced schema: as Parse, but refuses every form other than the canonical one, so that no two readers
// of JSON can read it differently.
func Open(announced []byte) (*Schema, error) {
	s, err := Parse(announced)
	if err == nil && !bytes.Equal(s.canonical, announced) {
		return nil, bad("it is announced in another form than its canonical one")
	}
	return s, err
}

// Canonical is the one JSON form of the schema, which is announced. Parse of it gives the same schema.
func (s *Schema) Canonical() []byte { return slices.Clone(s.canonical) }

// Dimension is the length of the vectors, 1 to MaxDimension.
func (s *Schema) Dimension() int { return s.dimension }

// Scale is the number s by which all blocks are multiplied: fl(1 / fl(sqrt(T))) * (1 - 2^-40) for T terms, each
// operation in float64. The first factor exceeds 1/sqrt(T) by less than 2^-51 of it, and the product is rounded by at
// most 2^-53 of itself, so T s^2 < 1 - 2^-40: less than 1 by more than the rounding of a sum of at most 512 squares,
// which is below 2^-43.
func (s *Schema) Scale() float64 { return s.scale }

func scale(terms int) float64 { return (1 / math.Sqrt(float64(terms))) * (1 - 0x1p-40) }

// Limits are the limits of arms by id.
func (s *Schema) Limits() []Limit { return slices.Clone(s.form.Limits) }

// AtMost is how often one device may play the arm in one epoch; limited says whether there is a limit.
func (s *Schema) AtMost(arm string) (times uint32, limited bool) {
	times, limited = s.limits[arm]
	return times, limited
}

func (s *Schema) addFields() error {
	for place, fields := range [][]Field{s.form.Context, s.form.Arms} {
		if len(fields) > MaxFields {
			return bad("%d fields, at most %d of the context and as many of arms", len(fields), MaxFields)
		}
		for i := range fields {
			f := &fields[i]
			if !isName(f.Name) || f.Name == Bias {
				return bad("%s field %d: a name is 1 to 64 of a-z, 0-9 and _, begins with a letter, and is not %q",
					[]string{"context", "arm"}[place], i, Bias)
			}
			if _, twice := s.index[f.Name]; twice {
				return bad("field %q: the name occurs twice among the context and arms", f.Name)
			}
			if f.Name == ID && (place == 0 || f.Kind != Category && f.Kind != Hashed) {
				return bad("field %q: it is the arm's id: a field of arms, %s or %s", ID, Category, Hashed)
			}
			if err := f.check(); err != nil {
				return bad("field %q: %v", f.Name, err)
			}
			s.index[f.Name] = len(s.fields)
			s.fields = append(s.fields, *f)
		}
	}
	s.context = len(s.form.Context)
	return nil
}

// check says what is wrong with a field apart from its name, and gives zeros their one form.
func (f *Field) check() error {
	has := map[string]bool{
		"low": f.Low != nil, "high": f.High != nil, "values": f.Values != nil, "other": f.Other,
		"thresholds": f.Thresholds != nil, "buckets": f.Buckets != 0, "baseline": f.Baseline,
	}
	takes, known := map[Kind][]string{
		Number: {"low", "high"}, Flag: {}, Category: {"values", "other", "baseline"},
		Buckets: {"thresholds", "baseline"}, Hashed: {"buckets"},
	}[f.Kind]
	if !known {
		return fmt.Errorf("its kind must be %s, %s, %s, %s or %s", Number, Flag, Category, Buckets, Hashed)
	}
	for _, key := range []string{"low", "high", "values", "other", "thresholds", "buckets", "baseline"} {
		if has[key] && !slices.Contains(takes, key) {
			return fmt.Errorf("a %s takes no %q", f.Kind, key)
		}
	}
	switch f.Kind {
	case Number:
		if f.Low == nil || f.High == nil || !(*f.Low < *f.High) || math.IsInf(*f.High-*f.Low, 0) {
			return errors.New(`a number needs "low" and a larger "high", and their difference must be finite`)
		}
		*f.Low, *f.High = *f.Low+0, *f.High+0 // -0 becomes 0
	case Category:
		if n := len(f.Values); n > MaxDimension+1 {
			return fmt.Errorf("it has %d values, at most %d", n, MaxDimension+1)
		}
		for i, v := range f.Values {
			if len(v) < 1 || len(v) > MaxText || !utf8.ValidString(v) || slices.Contains(f.Values[:i], v) {
				return fmt.Errorf("value %d is empty, longer than %d bytes, not UTF-8, or occurs twice", i, MaxText)
			}
		}
	case Buckets:
		if len(f.Thresholds) == 0 {
			return errors.New(`buckets need at least one of "thresholds"`)
		}
		for i := range f.Thresholds {
			if i > 0 && !(f.Thresholds[i-1] < f.Thresholds[i]) {
				return fmt.Errorf("threshold %d is not above the one before it", i)
			}
			f.Thresholds[i] += 0
		}
	}
	if w := f.Width(); w < 1 || w > MaxDimension {
		return fmt.Errorf("it becomes %d numbers; it must become 1 to %d", w, MaxDimension)
	}
	return nil
}

// Width is the length of the field's block.
func (f *Field) Width() int {
	w := 1
	switch f.Kind {
	case Category:
		w = len(f.Values)
		if f.Other {
			w++
		}
	case Buckets:
		w = len(f.Thresholds) + 1
	case Hashed:
		w = f.Buckets
	}
	if f.Baseline {
		w--
	}
	return w
}

func (s *Schema) addTerms() error {
	used := make([]bool, len(s.fields))
	seen := map[string]bool{}
	ofArms := false
	for i, names := range s.form.Terms {
		if len(names) < 1 || len(names) > MaxFactors {
			return bad("term %d names %d fields, it must name 1 to %d", i, len(names), MaxFactors)
		}
		sorted := slices.Sorted(slices.Values(names))
		if key := fmt.Sprint(sorted); seen[key] {
			return bad("term %d occurs twice", i)
		} else {
			seen[key] = true
		}
		t, width := term{offset: s.dimension}, 1
		for j, name := range names {
			if name == Bias {
				if len(names) > 1 {
					return bad("term %d multiplies %q, which changes nothing: leave it out", i, Bias)
				}
				continue
			}
			f, known := s.index[name]
			if !known || slices.Contains(names[:j], name) {
				return bad("term %d: name %d is no field of the context or of arms, or occurs twice in the term", i, j)
			}
			used[f], ofArms = true, ofArms || f >= s.context
			t.fields = append(t.fields, f)
			if width *= s.fields[f].Width(); width > MaxDimension { // each is at most MaxDimension: no overflow
				break
			}
		}
		if s.dimension += width; s.dimension > MaxDimension {
			return bad("a vector has more than %d numbers, by term %d", MaxDimension, i)
		}
		s.terms = append(s.terms, t)
	}
	if !ofArms {
		return bad("no term has a field of arms, so all arms of a decision would be alike; for intercepts name %q", ID)
	}
	if i := slices.Index(used, false); i >= 0 {
		return bad("field %q is in no term: put it into one, or leave it out", s.fields[i].Name)
	}
	return nil
}

func (s *Schema) addLimits() error {
	for i, l := range s.form.Limits {
		if len(l.Arm) < 1 || len(l.Arm) > MaxText || l.AtMost < 1 {
			return bad(`limit %d: "arm" has 1 to %d bytes, and "at_most" is at least 1`, i, MaxText)
		}
		if _, twice := s.limits[l.Arm]; twice {
			return bad("limit %d: its arm has a limit already", i)
		}
		if f, ok := s.index[ID]; ok && s.fields[f].Kind == Category && !s.fields[f].Other &&
			!slices.Contains(s.fields[f].Values, l.Arm) {
			return bad("limit %d: no arm can have this id: it is no value of the field %q", i, ID)
		}
		s.limits[l.Arm] = l.AtMost
	}
	return nil
}

// ContextFields are the fields of the context.
func (s *Schema) ContextFields() []Field { return slices.Clone(s.form.Context) }

// ArmFields are the fields of arms, the id among them if it is a field.
func (s *Schema) ArmFields() []Field { return slices.Clone(s.form.Arms) }
