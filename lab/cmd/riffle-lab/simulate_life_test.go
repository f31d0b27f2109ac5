package main

import (
	"io"
	"strings"
	"testing"
)

// A number of nothing is refused by its flag. It does not stand for a default, which would play another life than
// asked.
func TestALifeOfNothingIsRefused(t *testing.T) {
	for _, flag := range []string{"--people", "--days", "--dimension", "--arms", "--seeds", "--rate"} {
		cmd := root()
		cmd.SetArgs([]string{"simulate", "life", flag, "0", "--out", t.TempDir()})
		cmd.SetOut(io.Discard)
		cmd.SetErr(io.Discard)
		if err := cmd.Execute(); err == nil || !strings.HasPrefix(err.Error(), flag+" 0 must be") {
			t.Errorf("%s: %v", flag, err)
		}
	}
}
