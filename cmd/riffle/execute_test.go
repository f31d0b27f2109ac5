package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// execute runs riffle with this standard input and these arguments, and gives what it printed as results and beside
// them.
func execute(t *testing.T, in string, args ...string) (out, said string, err error) {
	t.Helper()
	var results, beside bytes.Buffer
	cmd := root()
	cmd.SetIn(strings.NewReader(in))
	cmd.SetOut(&results)
	cmd.SetErr(&beside)
	cmd.SetArgs(args)
	err = cmd.ExecuteContext(t.Context())
	return results.String(), beside.String(), err
}

// written is a file of this name with a text.
func written(t *testing.T, name, text string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}
