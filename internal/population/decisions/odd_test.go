package decisions_test

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/riffle-dp/riffle/internal/population/decisions"
	"github.com/riffle-dp/riffle/pkg/feature"
	"github.com/riffle-dp/riffle/pkg/glm/family"
)

var update = flag.Bool("update", false, "write the outcomes of odd files instead of comparing them")

// Odd files of every form are read as testdata/odd/outcomes.golden says, which people checked by hand: rightly, or
// refused with line, column and what to do. Rewards are from 0 to 1; files of vectors are read without a schema.
func TestOddFiles(t *testing.T) {
	logistic, err := family.New(family.NameLogistic, 1)
	if err != nil {
		t.Fatal(err)
	}
	paths, err := filepath.Glob("testdata/odd/*/*")
	if err != nil || len(paths) < 110 {
		t.Fatalf("%d files, %v", len(paths), err)
	}
	var out strings.Builder
	for _, path := range paths {
		if strings.HasSuffix(path, ".yaml") || strings.HasSuffix(path, "schema.json") {
			continue
		}
		o := decisions.Options{Family: logistic, Schema: schemaFor(t, path)}
		if strings.HasPrefix(filepath.Base(path), "vectors") {
			o.Schema = nil
		}
		fmt.Fprintf(&out, "%s\n", filepath.ToSlash(strings.TrimPrefix(path, filepath.FromSlash("testdata/odd/"))))
		log, err := decisions.Open(path, o)
		if err != nil {
			if !errors.Is(err, decisions.ErrLog) {
				t.Errorf("%s: %v", path, err)
			}
			fmt.Fprintf(&out, "  refused: %s\n", strings.TrimPrefix(err.Error(), path+": bad log: "))
			o.DropWithoutReward = true
			if log, err = decisions.Open(path, o); err != nil {
				continue
			}
			fmt.Fprintf(&out, "  with %d rows left out:\n", log.Dropped)
		}
		for _, d := range log.Decisions {
			fmt.Fprintf(&out, "  line %d: arm %d of %d, reward %g, propensity %g", d.Line, d.Arm, len(d.Arms), d.Reward,
				d.Propensity)
			if d.ID != "" {
				fmt.Fprintf(&out, ", id %s", d.ID)
			}
			fmt.Fprintf(&out, ", %.3g\n", d.Arms[d.Arm])
		}
	}
	golden := filepath.FromSlash("testdata/odd/outcomes.golden")
	if *update {
		if err := os.WriteFile(golden, []byte(out.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil || strings.ReplaceAll(string(want), "\r\n", "\n") != out.String() {
		t.Errorf("not the outcomes of %s (%v), but:\n%s", golden, err, out.String())
	}
}

// schemaFor is the schema in the folder of a file, or in the one above.
func schemaFor(t testing.TB, path string) *feature.Schema {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(filepath.Dir(path), "schema.json"))
	if err != nil {
		text, err = os.ReadFile(filepath.FromSlash("testdata/odd/schema.json"))
	}
	if err != nil {
		t.Fatal(err)
	}
	s, err := feature.Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	return s
}
