package main

import (
	"cmp"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path"
	"path/filepath"
	"slices"
	"strings"
)

// target is one fuzz target.
type target struct {
	folder string // below the root of the repository, with slashes
	name   string // of the function
	test   string // name of the package that it is in
}

// String is the target as --list shows it.
func (t target) String() string { return t.folder + " " + t.name }

// compare orders targets by folder and name.
func (t target) compare(o target) int {
	return cmp.Or(cmp.Compare(t.folder, o.folder), cmp.Compare(t.name, o.name))
}

// pattern is the folder as the go command takes it.
func (t target) pattern() string { return "./" + t.folder }

// corpus is the folder of the target's inputs.
func (t target) corpus() string { return path.Join(t.folder, "testdata", "fuzz", t.name) }

// discover finds every fuzz target below a folder, by folder and name. It is an error if a name begins with another
// one: OSS-Fuzz finds a target by the beginning of its line, and would take both for one.
func discover(root string) ([]target, error) {
	var all []target
	err := filepath.WalkDir(root, func(file string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && file != root && (strings.HasPrefix(d.Name(), ".") || d.Name() == "testdata"):
			return fs.SkipDir
		case d.IsDir() || !strings.HasSuffix(file, "_test.go"):
			return nil
		}
		parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		folder, err := filepath.Rel(root, filepath.Dir(file))
		if err != nil {
			return err
		}
		for _, decl := range parsed.Decls {
			if f, ok := decl.(*ast.FuncDecl); ok && isTarget(f) {
				all = append(all, target{filepath.ToSlash(folder), f.Name.Name, parsed.Name.Name})
			}
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	slices.SortFunc(all, target.compare)
	for _, a := range all {
		for _, b := range all {
			if a != b && strings.HasPrefix(b.name, a.name) {
				return nil, fmt.Errorf("the name of %s begins with that of %s: rename one of them", b, a)
			}
		}
	}
	return all, nil
}

// isTarget tells whether it is a function like func FuzzX(f *testing.F).
func isTarget(f *ast.FuncDecl) bool {
	if f.Recv != nil || !strings.HasPrefix(f.Name.Name, "Fuzz") || f.Type.Params.NumFields() != 1 {
		return false
	}
	pointer, ok := f.Type.Params.List[0].Type.(*ast.StarExpr)
	if !ok {
		return false
	}
	of, ok := pointer.X.(*ast.SelectorExpr)
	return ok && of.Sel.Name == "F"
}
