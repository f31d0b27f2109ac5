package api_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"reflect"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/riffle-dp/riffle/pkg/client"
	"github.com/riffle-dp/riffle/pkg/problem"
)

// words are what the comments of the client's source say, of types, of their fields, and of reasons.
type words struct {
	types   map[string]string // by name, and by "Type.Field"
	reasons map[client.Reason]string
	decided []any // reasons of decisions
}

// read reads the source of the client and of problem details.
func read(t *testing.T) *words {
	t.Helper()
	w := &words{types: map[string]string{}, reasons: map[client.Reason]string{}}
	for _, pattern := range []string{"../../../pkg/client/*.go", "../../../pkg/problem/*.go"} {
		paths, err := filepath.Glob(pattern)
		if err != nil || len(paths) == 0 {
			t.Fatal(pattern, err)
		}
		for _, path := range paths {
			file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.ParseComments)
			if err != nil {
				t.Fatal(err)
			}
			for _, d := range file.Decls {
				if g, ok := d.(*ast.GenDecl); ok {
					w.declared(g)
				}
			}
		}
	}
	return w
}

func (w *words) declared(g *ast.GenDecl) {
	inDecisions := strings.HasPrefix(g.Doc.Text(), "Reasons of a Decision")
	for _, spec := range g.Specs {
		switch s := spec.(type) {
		case *ast.TypeSpec:
			w.types[s.Name.Name] = said(g.Doc, s.Doc)
			of, ok := s.Type.(*ast.StructType)
			if !ok {
				continue
			}
			for _, f := range of.Fields.List {
				for _, name := range f.Names {
					w.types[s.Name.Name+"."+name.Name] = said(f.Doc, f.Comment)
				}
			}
		case *ast.ValueSpec:
			if kind, ok := s.Type.(*ast.Ident); !ok || kind.Name != "Reason" {
				continue
			}
			name, _ := strconv.Unquote(s.Values[0].(*ast.BasicLit).Value)
			if inDecisions {
				w.decided = append(w.decided, name)
			}
			w.reasons[client.Reason(name)] = said(s.Doc, s.Comment)
		}
	}
}

// said is the first of some comments that says something, on one line.
func said(comments ...*ast.CommentGroup) string {
	for _, c := range comments {
		if text := strings.Join(strings.Fields(c.Text()), " "); text != "" {
			return text
		}
	}
	return ""
}

// of is what a refusal's reason means, and what to do.
func (w *words) of(r client.Reason) string {
	if r == client.HostFull { // of a decision it means its places
		return "This host keeps as many opt-outs as it can. Opt others in again."
	}
	return w.reasons[r]
}

// problem is the schema of problem details.
func (w *words) problem() object {
	s := w.schemaOf(reflect.TypeFor[problem.Details](), nil)
	properties := s["properties"].(object)
	properties["type"] = object{"const": "about:blank"}
	properties["dry_run"] = object{"type": "boolean", "description": "the host is in dry run"}
	return s
}

// schema is that of a value's type; the types that it is made of become components.
func (w *words) schema(value any, components object) object {
	return w.schemaOf(reflect.TypeOf(value), components)
}

func (w *words) schemaOf(t reflect.Type, components object) object {
	switch {
	case t == reflect.TypeFor[time.Time]():
		return object{"type": "string", "format": "date-time"}
	case t == reflect.TypeFor[time.Duration]():
		return object{"type": "integer", "description": "nanoseconds"}
	case t == reflect.TypeFor[[]byte]():
		return object{"type": "string", "contentEncoding": "base64"}
	case t == reflect.TypeFor[client.Reason]():
		return object{"type": "string"}
	case t == reflect.TypeFor[client.EntryState]():
		return object{"enum": []any{client.Asked, client.Reserved, client.Spent}}
	}
	switch t.Kind() {
	case reflect.Bool:
		return object{"type": "boolean"}
	case reflect.String:
		return object{"type": "string"}
	case reflect.Float64:
		return object{"type": "number"}
	case reflect.Int, reflect.Uint32, reflect.Uint64:
		return object{"type": "integer"}
	case reflect.Pointer:
		return w.schemaOf(t.Elem(), components)
	case reflect.Array, reflect.Slice:
		s := object{"type": "array", "items": w.schemaOf(t.Elem(), components)}
		if t.Kind() == reflect.Array {
			s["minItems"], s["maxItems"] = t.Len(), t.Len()
		}
		return s
	case reflect.Struct:
		if components == nil {
			return w.structure(t, nil)
		}
		if _, known := components[t.Name()]; !known {
			components[t.Name()] = object{}
			components[t.Name()] = w.structure(t, components)
		}
		return object{"$ref": "#/components/schemas/" + t.Name()}
	}
	panic("no schema of " + t.String())
}

func (w *words) structure(t reflect.Type, components object) object {
	properties, required := object{}, []string{}
	for f := range t.Fields() {
		name, options, _ := strings.Cut(f.Tag.Get("json"), ",")
		optional := strings.Contains(options, "omitempty") || strings.Contains(options, "omitzero")
		s := w.schemaOf(f.Type, components)
		if kind, one := s["type"].(string); one && f.Type.Kind() == reflect.Pointer && !optional {
			s["type"] = []string{kind, "null"}
		}
		if t == reflect.TypeFor[client.Decision]() && name == "reason" {
			s = object{"enum": w.decided}
		}
		if text := w.types[t.Name()+"."+f.Name]; text != "" && s["description"] == nil {
			s["description"] = text
		}
		properties[name] = s
		if !optional {
			required = append(required, name)
		}
	}
	s := object{"type": "object", "properties": properties, "required": required}
	if text := w.types[t.Name()]; text != "" && components != nil {
		s["description"] = text
	}
	return s
}
