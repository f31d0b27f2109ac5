package role_test

import (
	"bytes"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"encoding/json"

	"github.com/riffle-dp/riffle/internal/role"
)

// untyped are the methods of zerolog that take whatever they are given, a record for example.
var untyped = []string{"Interface", "Any", "Bytes", "Hex", "RawJSON", "RawCBOR", "Fields", "Msgf", "MsgFunc"}

// looseLines finds the log lines of a file that are not made of typed attributes and a constant message. It sees
// lines that are written in one expression, which is how all are written.
func looseLines(t *testing.T, name string, src any) (found []string) {
	t.Helper()
	fset := token.NewFileSet()
	file, err := parser.ParseFile(fset, name, src, 0)
	if err != nil {
		t.Fatal(err)
	}
	ast.Inspect(file, func(n ast.Node) bool {
		call, ok := n.(*ast.CallExpr)
		if !ok {
			return true
		}
		end, ok := call.Fun.(*ast.SelectorExpr)
		if !ok || !slices.Contains([]string{"Msg", "Msgf", "MsgFunc", "Send", "Logger"}, end.Sel.Name) {
			return true
		}
		var methods []string // of the chain, from its end to its start
		for e := ast.Expr(call); ; {
			c, ok := e.(*ast.CallExpr)
			if !ok {
				break
			}
			s, ok := c.Fun.(*ast.SelectorExpr)
			if !ok {
				break
			}
			methods = append(methods, s.Sel.Name)
			e = s.X
		}
		if !slices.ContainsFunc(methods, func(m string) bool {
			return slices.Contains([]string{"Trace", "Debug", "Info", "Warn", "Error", "Fatal", "Panic", "Log",
				"WithLevel", "Err", "With"}, m)
		}) {
			return true // no log line
		}
		for _, m := range methods {
			if slices.Contains(untyped, m) {
				found = append(found, fset.Position(call.End()).String()+": "+m)
			}
		}
		if end.Sel.Name == "Msg" {
			if !constant(call.Args[0]) {
				found = append(found, fset.Position(call.End()).String()+": the message is not a constant")
			}
		}
		return true
	})
	return found
}

// constant reports whether an expression is a string literal of the program, in one piece or in several.
func constant(e ast.Expr) bool {
	switch e := e.(type) {
	case *ast.BasicLit:
		return e.Kind == token.STRING
	case *ast.BinaryExpr:
		return e.Op == token.ADD && constant(e.X) && constant(e.Y)
	}
	return false
}

// Log lines are typed attributes: in every role and command, no line takes a value of any type, or a message put
// together at run time. That is where payloads get into logs.
func TestLogLinesAreTyped(t *testing.T) {
	for line, loose := range map[string]bool{
		`log.Info().Str("a", "b").Msg("done")`:               false,
		`e.Log.Error().Err(err).Msg("failed")`:               false,
		`w.Bytes(x).Send()`:                                  false,
		`log.Info().Interface("record", r).Msg("done")`:      true,
		`log.Warn().Str("a", "b").Any("record", r).Send()`:   true,
		`log.Debug().Msgf("got %v", r)`:                      true,
		`log.Info().Msg("done, " + "all of it")`:             false,
		`log.Info().Msg("got " + r)`:                         true,
		`log.Debug().Msg("got " + r)`:                        true,
		`log.With().Interface("record", r).Logger()`:         true,
		`s.log.Error().Err(err).RawJSON("b", b).Msg("what")`: true,
	} {
		if found := looseLines(t, "line.go", "package p\nfunc f() { "+line+" }"); (len(found) > 0) != loose {
			t.Errorf("%s: found %q, want loose %v", line, found, loose)
		}
	}
	for _, root := range []string{"../../internal", "../../pkg", "../../cmd"} {
		filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
			if err == nil && !entry.IsDir() && strings.HasSuffix(path, ".go") && !strings.HasSuffix(path, "_test.go") {
				for _, found := range looseLines(t, path, nil) {
					t.Error(found)
				}
			}
			return nil
		})
	}
}

// A line has its role, its level, and a clock that does not tell the order of what happens within a second.
func TestLogLineHasWholeSeconds(t *testing.T) {
	var out bytes.Buffer
	env, err := role.NewEnv("actor", role.DefaultSettings(""), &out)
	if err != nil {
		t.Fatal(err)
	}
	env.Log.Debug().Msg("below the level")
	env.Log.Info().Int("reports", 3).Msg("released")
	var line struct {
		Role, Level, Message, Time string
		Reports                    int
	}
	if err := json.Unmarshal(out.Bytes(), &line); err != nil {
		t.Fatalf("%v: %s", err, out.String())
	}
	if at, err := time.Parse(time.RFC3339, line.Time); err != nil || at.Nanosecond() != 0 ||
		!strings.HasSuffix(line.Time, "Z") || time.Since(at) > time.Minute {
		t.Errorf("the time is %q", line.Time)
	}
	line.Time = ""
	if line.Role != "actor" || line.Level != "info" || line.Message != "released" || line.Reports != 3 {
		t.Errorf("%+v", line)
	}

	out.Reset()
	settings := role.DefaultSettings("")
	settings.Log.Format = "console"
	if env, err = role.NewEnv("actor", settings, &out); err != nil {
		t.Fatal(err)
	}
	env.Log.Info().Int("reports", 3).Msg("released")
	if strings.HasPrefix(out.String(), "{") || !strings.Contains(out.String(), "released") {
		t.Errorf("console: %q", out.String())
	}
}
