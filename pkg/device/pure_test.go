//go:build !js

package device

import (
	"encoding/json"
	"go/ast"
	"go/parser"
	"go/token"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// This package imports no broker, database, network, process or log, directly or through anything else. Nothing of this
// module that it imports reads the clock or waits for it, reads a file, or draws from global randomness, except
// pkg/seal, which makes keys.
func TestTheCoreIsPure(t *testing.T) {
	t.Parallel()
	out, err := exec.Command("go", "list", "-deps", "-json=ImportPath,Dir,GoFiles,Module", ".").Output()
	if err != nil {
		t.Fatal(err)
	}
	banned := []string{"net", "net/http", "os/exec", "os/signal", "log", "log/slog", "database/sql"}
	own := map[string]bool{}
	for d := json.NewDecoder(strings.NewReader(string(out))); d.More(); {
		var p struct {
			ImportPath, Dir string
			GoFiles         []string
			Module          *struct{ Main bool }
		}
		if err := d.Decode(&p); err != nil {
			t.Fatal(err)
		}
		for _, part := range []string{"nats-io/", "bbolt", "zerolog", "prometheus/", "riffle/internal/"} {
			if strings.Contains(p.ImportPath, part) || slices.Contains(banned, p.ImportPath) {
				t.Errorf("pkg/device imports %s", p.ImportPath)
				break
			}
		}
		if p.Module == nil || !p.Module.Main || strings.Contains(p.ImportPath, "/messages/") {
			continue
		}
		name := p.ImportPath[strings.Index(p.ImportPath, "/pkg/")+1:]
		own[name] = true
		for _, file := range p.GoFiles {
			for _, use := range impure(t, filepath.Join(p.Dir, file)) {
				if name != "pkg/seal" || use != "crypto/rand" {
					t.Errorf("%s/%s uses %s", name, file, use)
				}
			}
		}
	}
	for _, name := range []string{"pkg/device", "pkg/wire", "pkg/plan", "pkg/seal", "pkg/channel/shuffle"} {
		if !own[name] {
			t.Errorf("%s was not looked at", name)
		}
	}
}

// impure lists what a source file uses of the machine: its clock, its files, its randomness.
func impure(t *testing.T, path string) (all []string) {
	t.Helper()
	file, err := parser.ParseFile(token.NewFileSet(), path, nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	clock := "" // what package time is called in the file
	for _, i := range file.Imports {
		switch name, _ := strconv.Unquote(i.Path.Value); name {
		case "os", "syscall", "math/rand", "math/rand/v2", "crypto/rand":
			all = append(all, name)
		case "time":
			if clock = "time"; i.Name != nil {
				clock = i.Name.Name
			}
		}
	}
	timed := []string{"Now", "Since", "Until", "Sleep", "After", "AfterFunc", "Tick", "NewTimer", "NewTicker"}
	ast.Inspect(file, func(n ast.Node) bool {
		if s, ok := n.(*ast.SelectorExpr); ok {
			if x, ok := s.X.(*ast.Ident); ok && clock != "" && x.Name == clock && slices.Contains(timed, s.Sel.Name) {
				all = append(all, "time."+s.Sel.Name)
			}
		}
		return true
	})
	return all
}

// The rule above would see what it forbids: files of packages that may use the machine.
func TestTheRuleOfPuritySeesTheClock(t *testing.T) {
	t.Parallel()
	for path, want := range map[string]string{
		"../../internal/role/clock.go": "time.Now", "../seal/keys.go": "crypto/rand",
		"../../internal/randomizer/api/body.go": "os",
	} {
		if got := impure(t, path); !slices.Contains(got, want) {
			t.Errorf("%s uses %v, and %s is not among it", path, got, want)
		}
	}
}
