package web

import (
	"os"
	"testing"
)

// builtIn is the folder that buildOnce made; empty: none.
var builtIn string

func TestMain(m *testing.M) {
	passed := m.Run()
	os.RemoveAll(builtIn)
	os.Exit(passed)
}
