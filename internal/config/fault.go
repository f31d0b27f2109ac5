package config

import (
	"errors"
	"fmt"
	"strings"
)

// A Fault is one thing wrong with a configuration. It names every key that takes part, with its value; the loader adds
// where each value came from.
type Fault struct {
	terms   []operand
	problem string   // between the first term and the second, if there is one
	remedy  string   // after the last term
	cause   error    // after the remedy
	given   []string // keys and sections that it was found with, besides those of the terms
}

type operand struct { // one key of a fault
	key    string
	value  any
	origin string
}

// Wrong says that one value is not allowed: Wrong("cohort.minimum", 1, "must be at least 2").
func Wrong(key string, value any, problem string) *Fault {
	return &Fault{terms: []operand{{key: key, value: value}}, problem: problem}
}

// Conflict says that two values do not go together:
// Conflict("cohort.minimum", 500, "must be at most", "cohort.size", 100).
func Conflict(key string, value any, relation, otherKey string, otherValue any) *Fault {
	return &Fault{terms: []operand{{key: key, value: value}, {key: otherKey, value: otherValue}}, problem: relation}
}

// Jointly says that no value is wrong by itself and that those of the given keys, or sections, do not work together.
func Jointly(problem string, keys ...string) *Fault {
	return &Fault{problem: problem, given: keys}
}

// Given names further keys, or sections, whose values the fault was found with. Where one of them is at fault itself,
// this fault is left out: it may be about the default in its place.
func (f *Fault) Given(keys ...string) *Fault {
	f.given = append(f.given, keys...)
	return f
}

// Called names the fault's keys as the caller's reader knows them: by flags, say, of a command that sets them.
func (f *Fault) Called(names map[string]string) *Fault {
	for i, t := range f.terms {
		if name, ok := names[t.key]; ok {
			f.terms[i].key = name
		}
	}
	return f
}

// From adds the error that showed the fault.
func (f *Fault) From(err error) *Fault {
	f.cause = err
	return f
}

// Unwrap gives the error of From.
func (f *Fault) Unwrap() error { return f.cause }

// FaultsOf takes apart what errors.Join put together; no error is no fault.
func FaultsOf(err error) []error {
	if err == nil {
		return nil
	}
	if joined, ok := err.(interface{ Unwrap() []error }); ok { // or one that wraps several and has a text of its own
		if parts := joined.Unwrap(); errors.Join(parts...).Error() == err.Error() {
			return parts
		}
	}
	return []error{err}
}

// Because adds what follows from the fault, or what to do about it.
func (f *Fault) Because(text string) *Fault {
	f.remedy = text
	return f
}

// Error gives the fault on one line.
func (f *Fault) Error() string {
	text := f.problem
	if len(f.terms) > 0 {
		text = f.terms[0].String() + " " + text
	}
	if len(f.terms) > 1 {
		text += " " + f.terms[1].String()
	}
	if f.remedy != "" {
		text += ": " + f.remedy
	}
	if f.cause != nil {
		text += ": " + f.cause.Error()
	}
	return text
}

func (t operand) String() string {
	text := t.key + " = " + show(t.value)
	if t.origin != "" {
		text += " (" + t.origin + ")"
	}
	return text
}

// An Error is everything that is wrong with a configuration, at once.
type Error struct {
	Faults []error
}

// Error gives one fault per line below a line that counts them.
func (e *Error) Error() string {
	var b strings.Builder
	b.WriteString("the configuration has 1 fault:")
	if n := len(e.Faults); n != 1 {
		b.Reset()
		fmt.Fprintf(&b, "the configuration has %d faults:", n)
	}
	for _, fault := range e.Faults {
		b.WriteString("\n  " + strings.ReplaceAll(fault.Error(), "\n", "\n    "))
	}
	return b.String()
}

// Unwrap gives the faults to errors.Is and errors.As.
func (e *Error) Unwrap() []error { return e.Faults }

// locate fills in where the values of a Fault in err came from, and puts prefix before its keys: a section validates
// itself without knowing where it is mounted. It returns the full keys, those of Given among them.
func locate(err error, prefix string, origin func(key string) string) []string {
	var f *Fault
	if !errors.As(err, &f) {
		return nil
	}
	var keys []string
	for i := range f.terms {
		f.terms[i].key = prefix + f.terms[i].key
		f.terms[i].origin = origin(f.terms[i].key)
		keys = append(keys, f.terms[i].key)
	}
	for i := range f.given {
		f.given[i] = prefix + f.given[i]
	}
	return append(keys, f.given...)
}
