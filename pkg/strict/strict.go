package strict

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"
)

// Options are what a reader is lenient about. The zero value is lenient about nothing.
type Options struct {
	// Missing says that any field may be absent. It then keeps the value that it had: a configuration over its
	// defaults.
	Missing bool
	// Unknown passes over fields that the type does not have, as in a log that another program makes for its own use. A
	// name that differs from one of the type's in upper and lower case only is refused even so.
	Unknown bool
	// MaxLine is the largest size of a row, in bytes. 0 is DefaultMaxLine.
	MaxLine int
}

// Error says what is wrong, and where.
type Error struct {
	Line    int    // from 1
	Field   string // path of the field, like arms[0][1]; empty: the whole value
	Problem string // what is wrong with it, like "is missing"; quotes no value
	err     error  // of a type's own UnmarshalJSON; may be nil
}

func (e *Error) Error() string {
	what := "it"
	if e.Field != "" {
		what = quoted(e.Field)
	}
	return fmt.Sprintf("line %d: %s %s", e.Line, what, e.Problem)
}

// Unwrap returns the error of a type's own UnmarshalJSON.
func (e *Error) Unwrap() error { return e.err }

// Unmarshal reads one JSON value into what a pointer points to. An error is an *Error. The value is then as it was,
// unless a type's own UnmarshalJSON refused its part.
func Unmarshal(text []byte, into any, o Options) error {
	v := reflect.ValueOf(into)
	if v.Kind() != reflect.Pointer || v.IsNil() {
		return errors.New("strict: a value is read into what a pointer points to")
	}
	text, problem := decoded(text)
	if problem != "" {
		return &Error{Line: 1, Problem: problem}
	}
	return reader{shape: compile(v.Type().Elem(), map[reflect.Type]*shape{}), options: o, line: 1}.read(text, into)
}

// reader reads values of one type.
type reader struct {
	shape   *shape
	options Options
	line    int // of the first byte
}

// read checks the text against the type, and only then reads it: whatever encoding/json takes otherwise than this
// package says is refused before.
func (r reader) read(text []byte, into any) error {
	switch {
	case len(bytes.TrimSpace(text)) == 0:
		return &Error{Line: r.line, Problem: "is empty"}
	case !utf8.Valid(text):
		return &Error{Line: r.line, Problem: "is not UTF-8: convert the file to UTF-8"}
	}
	w := walk{d: jsontext.NewDecoder(bytes.NewReader(text)), options: r.options, text: text, line: r.line}
	if err := w.value(r.shape, false); err != nil {
		return err
	}
	if len(bytes.TrimSpace(text[w.d.InputOffset():])) > 0 {
		return &Error{Line: w.at(), Problem: "has something behind it"}
	}
	if err := json.Unmarshal(text, into); err != nil { // the walk refuses all that has a name
		return &Error{Line: r.line, Problem: "cannot be read"}
	}
	return nil
}
