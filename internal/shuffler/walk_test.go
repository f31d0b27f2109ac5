package shuffler

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"strings"
	"testing"
)

// The longest way of a report through the files of the room: from its arrival to its place in the journal and its
// acknowledgement.
const (
	filesOfAReport   = 8
	returnsOfAReport = 4 // to a file that was left before
)

// step is a function on the way of a report, and those that it calls on that way, in order.
type step struct {
	file, function string
	calls          []*step
}

// The way of a report is the one of testdata/walk.txt: each function there calls those that are below it. It crosses
// few files, and comes back to one seldom.
func TestTheWayOfAReport(t *testing.T) {
	text, err := os.ReadFile("testdata/walk.txt")
	if err != nil {
		t.Fatal(err)
	}
	root := &step{}
	way := []*step{root} // down to the last line
	for line := range strings.Lines(string(text)) {
		depth := len(line) - len(strings.TrimLeft(line, "\t"))
		file, function, ok := strings.Cut(strings.TrimSpace(line), ": ")
		if !ok || depth >= len(way) {
			t.Fatalf("line %q", line)
		}
		s := &step{file: file, function: function}
		way[depth].calls = append(way[depth].calls, s)
		way = append(way[:depth+1], s)
	}
	seen, returns, at := map[string]bool{}, 0, ""
	enter := func(file string) {
		if file == "" || file == at {
			return
		}
		if seen[file] {
			returns++
		}
		seen[file], at = true, file
	}
	var walk func(s *step)
	walk = func(s *step) {
		enter(s.file)
		for _, next := range s.calls {
			if s != root {
				enter(s.file)
				if !calls(t, s, next.function) {
					t.Errorf("%s: %s does not call %s", s.file, s.function, next.function)
				}
			}
			walk(next)
		}
		if len(s.calls) == 0 {
			calls(t, s, "") // it is there
		}
	}
	walk(root)
	if len(seen) > filesOfAReport || returns > returnsOfAReport {
		t.Errorf("a report crosses %d files and comes back %d times", len(seen), returns)
	}
	t.Logf("%d files, %d returns", len(seen), returns)
}

// calls reports whether the body of a function names another one.
func calls(t *testing.T, s *step, other string) (found bool) {
	t.Helper()
	_, other, _ = strings.Cut(other, ".")
	receiver, name, _ := strings.Cut(s.function, ".")
	f, err := parser.ParseFile(token.NewFileSet(), s.file, nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range f.Decls {
		fn, ok := d.(*ast.FuncDecl)
		if !ok || fn.Name.Name != name || fn.Recv == nil || receiverOf(fn) != receiver {
			continue
		}
		ast.Inspect(fn.Body, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.SelectorExpr:
				found = found || n.Sel.Name == other
			case *ast.Ident:
				found = found || strings.EqualFold(n.Name, other) // as a parameter, too
			}
			return true
		})
		return found
	}
	t.Errorf("%s has no %s", s.file, s.function)
	return true
}

// receiverOf is the type that a method is of.
func receiverOf(fn *ast.FuncDecl) string {
	of := fn.Recv.List[0].Type
	if star, ok := of.(*ast.StarExpr); ok {
		of = star.X
	}
	id, _ := of.(*ast.Ident)
	if id == nil {
		return ""
	}
	return id.Name
}
