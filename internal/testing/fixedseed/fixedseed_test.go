package fixedseed

import (
	"flag"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestSeedIsRapids(t *testing.T) {
	if _, chosen := os.LookupEnv("RAPID_SEED"); chosen {
		t.Skip("RAPID_SEED chooses another seed")
	}
	if got := flag.Lookup("rapid.seed").DefValue; got != "0" {
		t.Errorf("rapid's own default is %s, want 0: a new one each run", got)
	}
	if got := flag.Lookup("rapid.seed").Value.String(); got != Seed {
		t.Errorf("rapid.seed is %s, want %s", got, Seed)
	}
}

// TestEveryPropertyTestHasIt: no package of the project uses rapid without importing this one.
func TestEveryPropertyTestHasIt(t *testing.T) {
	uses, fixed := map[string]bool{}, map[string]bool{}
	err := filepath.WalkDir("../../..", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(path, "_test.go") {
			return err
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.ImportsOnly)
		if err != nil {
			return err
		}
		for _, i := range file.Imports {
			switch dir := filepath.Dir(path); i.Path.Value {
			case `"pgregory.net/rapid"`:
				uses[dir] = true
			case `"github.com/riffle-dp/riffle/internal/testing/fixedseed"`:
				fixed[dir] = true
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(uses) < 10 {
		t.Errorf("only %d packages use rapid: is the search broken?", len(uses))
	}
	for dir := range uses {
		if !fixed[dir] {
			t.Errorf("%s uses rapid without importing internal/testing/fixedseed: its cases change from run to run",
				dir)
		}
	}
}
