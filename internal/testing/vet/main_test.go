package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// asCommand is the variable that makes the test's program the command.
const asCommand = "RIFFLE_TEST_VET"

func TestMain(m *testing.M) {
	if os.Getenv(asCommand) != "" {
		main()
		return
	}
	os.Exit(m.Run())
}

// What only Windows compiles is found on any machine: a type error in a program and in a test, and a wrong format. The
// same package is clean for Linux.
func TestFindsWhatOnlyWindowsHas(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct{ file, text, found string }{
		"type":      {"a_windows.go", "package a\n\nvar A int = \"a\"\n", "cannot use \"a\""},
		"test type": {"a_windows_test.go", "package a\n\nvar A int = \"a\"\n", "cannot use \"a\""},
		"format": {"a_windows.go", "package a\n\nimport \"fmt\"\n\nfunc A() { fmt.Printf(\"%d\", \"a\") }\n",
			"wrong type"},
	} {
		t.Run(name, func(t *testing.T) {
			folder := t.TempDir()
			for file, text := range map[string]string{
				"go.mod": "module a\n\ngo 1.26.0\n", "a.go": "package a\n", c.file: c.text,
			} {
				if err := os.WriteFile(filepath.Join(folder, file), []byte(text), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			check := func(platform string) (string, error) {
				cmd := exec.Command(self, "./...")
				cmd.Dir, cmd.Env = folder, append(os.Environ(), asCommand+"=1", "GOOS="+platform, "CGO_ENABLED=0")
				out, err := cmd.CombinedOutput()
				return string(out), err
			}
			if out, err := check("windows"); err == nil || !strings.Contains(out, c.found) {
				t.Errorf("for Windows: %v\n%s\nwant it to say %q", err, out, c.found)
			}
			if out, err := check("linux"); err != nil {
				t.Errorf("for Linux: %v\n%s", err, out)
			}
		})
	}
}
