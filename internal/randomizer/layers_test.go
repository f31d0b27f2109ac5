package randomizer

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// layers are the files of the room, each above those that it calls.
var layers = []string{
	"reason.go", "broker.go", "core.go", "numbers.go", "timetable.go", "places.go", "played.go", "following.go",
	"promises.go", "report.go", "forget.go", "rollback.go", "asks.go", "enrol.go", "attendance.go", "evidence.go",
	"registration.go", "draw.go", "panel.go", "register.go", "decide.go", "dryrun.go", "status.go", "host.go",
	"settings.go",
}

// A part of the host calls parts below it, and none above: what it does can be understood from what is below. Calls are
// told by their name, so that one whose name several types have, or a field, is not seen, nor one that
// is exported or goes through an interface or a value.
func TestCallsRunOneWay(t *testing.T) {
	files, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	// by function: the files that have one of that name
	parsed, declared := map[string]*ast.File{}, map[string][]string{}
	for _, name := range files {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		if !slices.Contains(layers, name) {
			t.Errorf("%s has no place in the order of the files", name)
		}
		if parsed[name], err = parser.ParseFile(token.NewFileSet(), name, nil, 0); err != nil {
			t.Fatal(err)
		}
		for _, d := range parsed[name].Decls {
			if fn, ok := d.(*ast.FuncDecl); ok && !fn.Name.IsExported() {
				declared[fn.Name.Name] = append(declared[fn.Name.Name], name)
			}
		}
	}
	if len(parsed) != len(layers) {
		t.Errorf("%d files, and an order of %d", len(parsed), len(layers))
	}
	for _, file := range parsed {
		ast.Inspect(file, func(n ast.Node) bool {
			if of, ok := n.(*ast.StructType); ok {
				for _, f := range of.Fields.List {
					for _, field := range f.Names {
						delete(declared, field.Name)
					}
				}
			}
			return true
		})
	}
	calls := 0
	for name, file := range parsed {
		imported := map[string]bool{}
		for _, i := range file.Imports {
			imported[strings.Trim(i.Path.Value[strings.LastIndexByte(i.Path.Value, '/')+1:], `"`)] = true
		}
		ast.Inspect(file, func(n ast.Node) bool {
			var called string
			switch n := n.(type) {
			case *ast.SelectorExpr: // as a value, too
				if of, ok := n.X.(*ast.Ident); !ok || !imported[of.Name] {
					called = n.Sel.Name
				}
			case *ast.CallExpr:
				if fn, ok := n.Fun.(*ast.Ident); ok && (fn.Obj == nil || fn.Obj.Kind == ast.Fun) {
					called = fn.Name
				}
			}
			in := declared[called]
			if len(in) != 1 {
				return true
			}
			calls++
			if slices.Index(layers, in[0]) > slices.Index(layers, name) {
				t.Errorf("%s calls %s, which is above it in %s", name, called, in[0])
			}
			return true
		})
	}
	if calls < 200 {
		t.Errorf("%d calls only are seen", calls)
	}
	t.Logf("%d calls", calls)
}
