package decisions

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"iter"
	"maps"
	"slices"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/riffle-dp/riffle/pkg/strict"
)

// object is an object in JSON whose members are read when they are asked for.
type object map[string]jsontext.Value

// UnmarshalJSON implements json.Unmarshaler.
func (o *object) UnmarshalJSON(text []byte) error {
	d := jsontext.NewDecoder(bytes.NewReader(text))
	if start, err := d.ReadToken(); err != nil || start.Kind() != '{' {
		return errNoObject
	}
	*o = object{}
	for d.PeekKind() == '"' {
		name, err := d.ReadToken()
		key := name.String()
		if err != nil {
			return errNoObject
		}
		member, err := d.ReadValue()
		if err != nil {
			return errNoObject
		}
		(*o)[key] = member.Clone()
	}
	return nil
}

var errNoObject = errors.New("it must be an object, one for each decision")

// get implements fields.
func (o object) get(column string) value {
	v, ok := o[column]
	return value{json: v, there: ok}
}

// values are a list in JSON.
type values []jsontext.Value

// UnmarshalJSON implements json.Unmarshaler.
func (l *values) UnmarshalJSON(text []byte) error {
	d := jsontext.NewDecoder(bytes.NewReader(text))
	if start, err := d.ReadToken(); err != nil || start.Kind() != '[' {
		return errors.New("it must be a list")
	}
	for d.PeekKind() != ']' {
		member, err := d.ReadValue()
		if err != nil {
			return err
		}
		*l = append(*l, member.Clone())
	}
	return nil
}

// openJSON opens an object for each decision.
func openJSON(text *bufio.Reader, o Options) (iter.Seq2[row, error], *builder, error) {
	first := firstObject(text)
	if isDSJSON(first) {
		b, err := newBuilder(o, form{dsjsonColumns, true})
		return dsjson(text), b, err
	}
	of, err := formOf(slices.Collect(maps.Keys(first)), o.Columns)
	if err != nil {
		return nil, nil, err
	}
	b, err := newBuilder(o, of)
	return objects(text), b, err
}

// objects reads JSON Lines: columns are the names of an object, the context's fields those of its member "context" if
// it has one, else its own.
func objects(text io.Reader) iter.Seq2[row, error] {
	return func(yield func(row, error) bool) {
		for line, err := range strict.Rows[object](text, strict.Options{}) {
			r := row{line: line.Line, columns: line.Value.get, context: line.Value.get}
			r.names = slices.Sorted(maps.Keys(line.Value))
			if context, ok := line.Value["context"]; ok && context.Kind() == '{' && err == nil {
				var members object
				if err = strict.Unmarshal(context, &members, strict.Options{}); err == nil {
					r.context = func(column string) value {
						in, beside := members.get(column), line.Value.get(column)
						switch {
						case !in.there:
							return beside
						case beside.there && !bytes.Equal(in.json, beside.json):
							in.problem = `is in "context" and, with another value, beside it: leave one out`
						}
						return in
					}
					r.names = slices.DeleteFunc(r.names, func(name string) bool { return name == "context" })
					r.names = append(r.names, slices.Sorted(maps.Keys(members))...)
				}
			}
			if !yield(r, err) || err != nil {
				return
			}
		}
	}
}
