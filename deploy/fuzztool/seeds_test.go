package main

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// Every target passes its own inputs when they come from another process, as they do when it is fuzzed: a target that
// makes them anew in each process, from a fresh key, passes go test and fails before its first execution.
func TestEveryTargetTakesTheInputsOfAnotherProcess(t *testing.T) {
	if os.Getenv("RIFFLE_LONG") == "" {
		t.Skip("set RIFFLE_LONG=1: it links the tests of every package that has a target")
	}
	targets, err := discover(root)
	if err != nil {
		t.Fatal(err)
	}
	binary, built := filepath.Join(t.TempDir(), "target.test"), ""
	for _, of := range targets {
		if built != of.folder {
			c := exec.Command("go", "test", "-c", "-p=1", "-vet=off", "-o", binary, of.pattern())
			c.Dir = root
			said, err := c.CombinedOutput()
			if bytes.Contains(said, []byte("build constraints exclude all Go files")) {
				t.Logf("%s is left out: it needs cgo", of)
				continue
			}
			if err != nil {
				t.Fatalf("%s: %v\n%s", of, err, said)
			}
			built = of.folder
		}
		if said, err := takesItsInputs(t, binary, of); err != nil {
			t.Errorf("%s: %v\n%s", of, err, said)
		}
	}
}

// takesItsInputs fuzzes a target once, so that a second process runs the inputs of the first one.
func takesItsInputs(t *testing.T, binary string, of target) ([]byte, error) {
	c := exec.Command(binary, "-test.run=^$", "-test.fuzz=^"+of.name+"$", "-test.fuzztime=1x", "-test.parallel=1",
		"-test.fuzzcachedir="+t.TempDir())
	c.Dir = filepath.Join(root, filepath.FromSlash(of.folder))
	return c.CombinedOutput()
}
