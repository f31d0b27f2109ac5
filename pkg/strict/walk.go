package strict

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"io"
	"reflect"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
)

// walk goes through a text beside the shape that it must have.
type walk struct {
	d       *jsontext.Decoder
	options Options
	text    []byte
	line    int // of the first byte
}

// at is the line that was reached.
func (w walk) at() int { return w.line + bytes.Count(w.text[:w.d.InputOffset()], []byte("\n")) }

// wrong is an error about the value that was read last.
func (w walk) wrong(problem string) *Error {
	return &Error{Line: w.at(), Field: path(w.d.StackPointer()), Problem: problem}
}

// broken is an error about the grammar. It quotes nothing but the name of a field.
func (w walk) broken(err error) error {
	said, ok := errors.AsType[*jsontext.SyntacticError](err)
	switch {
	case ok && errors.Is(said.Err, jsontext.ErrDuplicateName):
		return &Error{Line: w.at(), Field: path(said.JSONPointer), Problem: "occurs twice"}
	case errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, io.EOF):
		return &Error{Line: w.at(), Problem: "is cut off"}
	case !ok:
		return &Error{Line: w.at(), Problem: "is not JSON"}
	}
	before := w.text[:min(int(said.ByteOffset), len(w.text))]
	return &Error{Line: w.line + bytes.Count(before, []byte("\n")), Problem: "is not JSON from byte " +
		strconv.Itoa(len(before)-bytes.LastIndexByte(before, '\n')) + " of the line on"}
}

// value reads one value that must have the shape, or may be null.
func (w walk) value(s *shape, optional bool) error {
	kind := w.d.PeekKind()
	if s.kind == itself && kind != 'n' {
		return w.itself(s)
	}
	if s.kind == anything || optional && kind == 'n' {
		if err := w.d.SkipValue(); err != nil {
			return w.broken(err)
		}
		return nil
	}
	t, err := w.d.ReadToken()
	if err != nil {
		return w.broken(err)
	}
	switch {
	case kind == 'n':
		return w.wrong("is null: it must be " + words[s.kind])
	case kind == '{' && s.kind == record:
		return w.record(s)
	case kind == '{' && s.kind == object:
		return w.members(s)
	case kind == '[' && s.kind == list:
		return w.list(s)
	case kind == '0' && (s.kind == float || s.kind == signed || s.kind == unsigned):
		if problem := s.number(t.String()); problem != "" {
			return w.wrong(problem)
		}
		return nil
	case kind == '"' && s.kind == base:
		if text := t.String(); strings.ContainsAny(text, "\r\n") {
			return w.wrong("is not base64")
		} else if _, err := base64.StdEncoding.Strict().DecodeString(text); err != nil {
			return w.wrong("is not base64")
		}
		return nil
	case kind == '"' && s.kind == text, (kind == 't' || kind == 'f') && s.kind == truth:
		return nil
	}
	return w.wrong("must be " + words[s.kind])
}

// itself has a value of a type that reads itself read what is its own, to say where it refuses what.
func (w walk) itself(s *shape) error {
	raw, err := w.d.ReadValue()
	if err != nil {
		return w.broken(err)
	}
	if err := json.Unmarshal(raw, reflect.New(s.of).Interface()); err != nil {
		wrong := w.wrong("cannot be read: " + err.Error())
		wrong.err = err
		return wrong
	}
	return nil
}

// name reads the next name of an object, or its end.
func (w walk) name() (name string, more bool, err error) {
	t, err := w.d.ReadToken()
	if err != nil {
		return "", false, w.broken(err)
	}
	return t.String(), t.Kind() == '"', nil
}

func (w walk) record(s *shape) error {
	there := make(map[string]bool, len(s.fields))
	for {
		name, more, err := w.name()
		if err != nil {
			return err
		}
		if !more {
			break
		}
		f, known := s.fields[name]
		if !known {
			if err := w.unknown(s, name); err != nil {
				return err
			}
			f.shape = &shape{}
		}
		there[name] = true
		if err := w.value(f.shape, f.optional); err != nil {
			return err
		}
	}
	for _, name := range s.order {
		if !there[name] && !s.fields[name].optional && !w.options.Missing {
			return &Error{Line: w.at(), Field: path(w.d.StackPointer().AppendToken(name)), Problem: "is missing"}
		}
	}
	return nil
}

func (w walk) unknown(s *shape, name string) error {
	switch known := s.alike(name); {
	case known != "":
		return w.wrong("is not a field here: it is written " + strconv.Quote(known))
	case !w.options.Unknown:
		return w.wrong("is not a field here")
	}
	return nil
}

func (w walk) members(s *shape) error {
	for {
		_, more, err := w.name()
		if err != nil || !more {
			return err
		}
		if err := w.value(s.elem, false); err != nil {
			return err
		}
	}
}

func (w walk) list(s *shape) error {
	for n := 0; ; n++ {
		if w.d.PeekKind() == ']' {
			if _, err := w.d.ReadToken(); err != nil {
				return w.broken(err)
			}
			if s.length >= 0 && n != s.length {
				return w.wrong("must have " + strconv.Itoa(s.length) + " entries")
			}
			return nil
		}
		if err := w.value(s.elem, false); err != nil {
			return err
		}
	}
}

// path is a pointer to a value as a reader of an error writes it: arms[0][1].
func path(p jsontext.Pointer) string {
	var b strings.Builder
	for token := range p.Tokens() {
		switch _, err := strconv.ParseUint(token, 10, 64); {
		case err == nil:
			b.WriteString("[" + token + "]")
		case b.Len() > 0:
			b.WriteString("." + token)
		default:
			b.WriteString(token)
		}
	}
	return b.String()
}

const maxName = 80 // bytes of a field's path that an error shows: a log that lost its line ends could be one long name

// quoted is a name in quotes, and no more of it than a name has.
func quoted(name string) string {
	if len(name) > maxName {
		name = strings.ToValidUTF8(name[:maxName], "") + "..."
	}
	return strconv.Quote(name)
}
