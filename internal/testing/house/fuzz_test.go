package house

import (
	"go/ast"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// maxInputs is how many inputs a fuzz target may have in its folder testdata/fuzz.
const maxInputs = 30

// run runs a script of a folder's deploy in that folder, with dir before the programs that it finds.
func run(t *testing.T, folder, dir, script string, args ...string) (string, error) {
	t.Helper()
	path, err := filepath.Abs(filepath.Join(folder, "deploy", script))
	if err != nil {
		t.Fatal(err)
	}
	c := exec.Command(path, args...)
	c.Dir, c.Env = folder, append(os.Environ(), "PATH="+dir+string(os.PathListSeparator)+os.Getenv("PATH"))
	said, err := c.CombinedOutput()
	return string(said), err
}

// targets are the fuzz targets that deploy/fuzz finds: folder and function.
func targets(t *testing.T) []string {
	t.Helper()
	list, err := run(t, root, "", "fuzz", "--list")
	if err != nil {
		t.Fatalf("%v\n%s", err, list)
	}
	return strings.Split(strings.TrimSpace(list), "\n")
}

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o700); err != nil {
		t.Fatal(err)
	}
}

// deploy/fuzz finds every function that go test takes for a fuzz target, and the inputs of no target lie in a folder
// whose target is gone.
func TestEveryFuzzTargetIsFound(t *testing.T) {
	found := targets(t)
	var declared []string
	inputs := map[string]int{}
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		relative, err := filepath.Rel(root, path)
		folder := filepath.ToSlash(filepath.Dir(relative))
		if of, in, kept := strings.Cut(folder, "/testdata/fuzz/"); kept {
			if inputs[of+" "+in]++; !slices.Contains(found, of+" "+in) {
				t.Errorf("%s is an input of no target", path)
			}
		}
		if err != nil || !strings.HasSuffix(path, "_test.go") || strings.Contains(folder, "testdata") {
			return err
		}
		for _, d := range parse(t, path).Decls {
			f, ok := d.(*ast.FuncDecl)
			if ok && f.Recv == nil && strings.HasPrefix(f.Name.Name, "Fuzz") {
				declared = append(declared, folder+" "+f.Name.Name)
			}
		}
		return nil
	})
	if err != nil || len(declared) == 0 {
		t.Fatalf("%d targets, %v", len(declared), err)
	}
	if slices.Sort(declared); !slices.Equal(declared, found) {
		t.Errorf("declared are\n%s\ndeploy/fuzz finds\n%s", strings.Join(declared, "\n"), strings.Join(found, "\n"))
	}
	for of, n := range inputs {
		if n > maxInputs {
			t.Errorf("%s has %d inputs, at most %d are kept", of, n, maxInputs)
		}
	}
}

// OSS-Fuzz's build script hands every target outside of programs to OSS-Fuzz's helper, in a form in which the helper
// finds one function. A fake of the helper notes what it is given, and looks for the function as the helper does.
func TestTheOSSFuzzBuildHasEveryTarget(t *testing.T) {
	folder := t.TempDir()
	write(t, filepath.Join(folder, "compile_native_go_fuzzer_v2"), `#!/bin/bash -eu
folder=${1#"`+module+`"}
[ "$(grep -r --include='*.go' "func $2" "$folder" | grep -c testing.F)" -eq 1 ] || echo "$2 is not one function"
echo "$folder $2 $3"
`)
	given, err := run(t, root, folder, "ossfuzz/build.sh")
	if err != nil {
		t.Fatalf("%v\n%s", err, given)
	}
	var want string
	for _, of := range targets(t) {
		if _, name, _ := strings.Cut(of, " "); !below(of, "cmd") {
			want += of + " " + name + "\n"
		}
	}
	if given != want {
		t.Errorf("the helper is given\n%s\nwant\n%s", given, want)
	}
}

// What is no target is not listed: a function of another type, a method, a folder of test data. A name that begins with
// another target's is an error. A target that fails, and one that is not run, are in the table and end the run with an
// error; the other one passes.
func TestFuzzFindsWhatIsPlanted(t *testing.T) {
	folder := t.TempDir()
	script, err := os.ReadFile(filepath.Join(root, "deploy", "fuzz"))
	if err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(folder, "deploy", "fuzz"), string(script))
	write(t, filepath.Join(folder, "go.mod"), "module example.com/m\n\ngo 1.26\n")
	planted, err := os.ReadFile("testdata/targets.go.txt")
	if err != nil {
		t.Fatal(err)
	}
	text := string(planted)
	write(t, filepath.Join(folder, "x", "x_test.go"), text)
	write(t, filepath.Join(folder, "x", "testdata", "x_test.go"), text)
	if list, err := run(t, folder, "", "fuzz", "--list"); err != nil || list != "x FuzzBad\nx FuzzGood\nx FuzzSkips\n" {
		t.Errorf("%v\n%s", err, list)
	}
	if os.Getenv("RIFFLE_LONG") != "" { // it builds the standard library for fuzzing
		write(t, filepath.Join(folder, "x", "x_test.go"), strings.ReplaceAll(strings.ReplaceAll(text,
			"func FuzzNot(t *testing.T)    {}\n", ""), "func FuzzTwo(a, b *testing.F) {}\n", ""))
		table, err := run(t, folder, "", "fuzz", "--time", "10s")
		for _, want := range []string{`x +FuzzBad .* FAILED\n`, `x +FuzzGood +[1-9]\d* .* ok\n`,
			`x +FuzzSkips +0 .* NOT RUN\n`} {
			if !regexp.MustCompile(want).MatchString(table) || err == nil {
				t.Errorf("%v, want %s\n%s", err, want, table)
			}
		}
	}
	write(t, filepath.Join(folder, "y", "x_test.go"), strings.ReplaceAll(text, "FuzzGood", "FuzzGoodToo"))
	if said, err := run(t, folder, "", "fuzz", "--list"); err == nil ||
		!strings.Contains(said, "FuzzGoodToo begins with") {
		t.Errorf("%v\n%s", err, said)
	}
}
