package house

import (
	"go/ast"
	"go/parser"
	"go/scanner"
	"go/token"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// What a file, a package and a type may have at most.
const (
	maxFileLines   = 400
	maxColumns     = 120 // a tab is four; a raw string is a text of its own, whose lines Go cannot break
	maxFiles       = 25  // of a package, without tests
	maxTypeMethods = 40
)

// A reader sees a file on a few screens, and a package and a type at a glance.
func TestNothingIsTooLarge(t *testing.T) {
	found := map[string]int{}
	every(t, func(p Package) {
		files, err := filepath.Glob(filepath.Join(p.Dir, "*.go"))
		if err != nil {
			t.Fatal(err)
		}
		for _, file := range files {
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			if strings.HasSuffix(file, ".pb.go") {
				continue
			}
			lines := strings.Split(strings.TrimSuffix(string(text), "\n"), "\n")
			found["lines of "+p.path()+"/"+filepath.Base(file)] = len(lines)
			if !strings.HasSuffix(file, "_test.go") {
				found["files of "+p.path()]++
				for of, n := range methods(parse(t, file)) {
					found["methods of "+p.path()+"."+of] += n
				}
			}
			raw := rawStrings(t, text)
			for i, line := range lines {
				if n := len([]rune(strings.ReplaceAll(line, "\t", "    "))); n > maxColumns && !raw[i+1] {
					t.Errorf("%s/%s:%d: %d columns, at most %d", p.path(), filepath.Base(file), i+1, n, maxColumns)
				}
			}
		}
	})
	for _, what := range slices.Sorted(maps.Keys(found)) {
		kind, _, _ := strings.Cut(what, " ")
		limit := map[string]int{"lines": maxFileLines, "files": maxFiles, "methods": maxTypeMethods}[kind]
		if n := found[what]; n > limit {
			t.Errorf("%s: %d, at most %d", what, n, limit)
		}
	}
}

// rawStrings are the lines, from 1, that a raw string is on.
func rawStrings(t *testing.T, text []byte) map[int]bool {
	t.Helper()
	files, lines := token.NewFileSet(), map[int]bool{}
	file := files.AddFile("", files.Base(), len(text))
	var s scanner.Scanner
	s.Init(file, text, func(at token.Position, msg string) { t.Fatalf("%v: %s", at, msg) }, 0)
	for {
		at, kind, literal := s.Scan()
		if kind == token.EOF {
			return lines
		}
		if kind == token.STRING && literal[0] == '`' {
			first := file.Line(at)
			for i := range strings.Count(literal, "\n") + 1 {
				lines[first+i] = true
			}
		}
	}
}

// parse reads a Go file.
func parse(t *testing.T, path string) *ast.File {
	t.Helper()
	file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
	if err != nil {
		t.Fatal(err)
	}
	return file
}

// methods counts the methods that a file declares, by the name of their type.
func methods(file *ast.File) map[string]int {
	n := map[string]int{}
	for _, d := range file.Decls {
		f, ok := d.(*ast.FuncDecl)
		if !ok || f.Recv == nil {
			continue
		}
		receiver := f.Recv.List[0].Type
		if pointer, ok := receiver.(*ast.StarExpr); ok {
			receiver = pointer.X
		}
		switch of := receiver.(type) { // with one or several type parameters
		case *ast.IndexExpr:
			receiver = of.X
		case *ast.IndexListExpr:
			receiver = of.X
		}
		n[receiver.(*ast.Ident).Name]++
	}
	return n
}
