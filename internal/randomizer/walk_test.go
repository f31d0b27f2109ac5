package randomizer

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"strings"
	"testing"
)

// The longest way of a record through the files of the room: from an app's request until the broker has the report. The
// pure files that it crosses are not counted.
const (
	filesOfARecord   = 10
	returnsOfARecord = 8 // to a file that was left before
)

// stage is a function on the way of a record, and those that it calls on that way, in order.
type stage struct {
	file, function string
	calls          []*stage
}

// The way of a record is the one of testdata/walk.txt: each function there calls those that are below it. It crosses
// few files, and comes back to one seldom. It begins anew with the decision, with the reward, and when the report is
// due.
func TestTheWayOfARecord(t *testing.T) {
	text, err := os.ReadFile("testdata/walk.txt")
	if err != nil {
		t.Fatal(err)
	}
	root := &stage{}
	way := []*stage{root} // down to the last line
	for line := range strings.Lines(string(text)) {
		depth := len(line) - len(strings.TrimLeft(line, "\t"))
		file, function, ok := strings.Cut(strings.TrimSpace(line), ": ")
		if !ok || depth >= len(way) {
			t.Fatalf("line %q", line)
		}
		s := &stage{file: file, function: function}
		way[depth].calls = append(way[depth].calls, s)
		way = append(way[:depth+1], s)
	}
	seen, returns, at := map[string]bool{}, 0, ""
	enter := func(file string) {
		if file == "" || file == at || strings.HasPrefix(file, "../") {
			return
		}
		if seen[file] {
			returns++
		}
		seen[file], at = true, file
	}
	var walk func(s *stage)
	walk = func(s *stage) {
		enter(s.file)
		body := bodyOf(t, s)
		for _, next := range s.calls {
			if s != root && !names(body, next.function) {
				t.Errorf("%s: %s does not call %s", s.file, s.function, next.function)
			}
			enter(s.file)
			walk(next)
		}
	}
	walk(root)
	if len(seen) > filesOfARecord || returns > returnsOfARecord {
		t.Errorf("a record crosses %d files and comes back %d times", len(seen), returns)
	}
	t.Logf("%d files, %d returns", len(seen), returns)
}

// bodyOf is what a stage's function does.
func bodyOf(t *testing.T, s *stage) ast.Node {
	t.Helper()
	if s.file == "" {
		return nil
	}
	f, err := parser.ParseFile(token.NewFileSet(), s.file, nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range f.Decls {
		if fn, ok := d.(*ast.FuncDecl); ok && fullName(fn) == s.function {
			return fn.Body
		}
	}
	t.Fatalf("%s has no %s", s.file, s.function)
	return nil
}

// fullName is a function's name behind that of its receiver's type.
func fullName(fn *ast.FuncDecl) string {
	if fn.Recv == nil {
		return fn.Name.Name
	}
	of := fn.Recv.List[0].Type
	if star, ok := of.(*ast.StarExpr); ok {
		of = star.X
	}
	return of.(*ast.Ident).Name + "." + fn.Name.Name
}

// names reports whether a body names a function.
func names(body ast.Node, function string) (found bool) {
	name := function[strings.LastIndexByte(function, '.')+1:]
	ast.Inspect(body, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.SelectorExpr:
			found = found || n.Sel.Name == name
		case *ast.Ident:
			found = found || n.Name == name
		}
		return true
	})
	return found
}
