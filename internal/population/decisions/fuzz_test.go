package decisions_test

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/riffle-dp/riffle/internal/population/decisions"
	"github.com/riffle-dp/riffle/pkg/feature"
)

// FuzzNamedLogs reads any bytes with a schema, as a log of any form. What is read is whole: arms of the schema's
// dimension and of norm at most 1, one of them played, a propensity, and a line. What is refused says so with ErrLog.
func FuzzNamedLogs(f *testing.F) {
	paths, err := filepath.Glob("testdata/odd/*/*")
	if err != nil {
		f.Fatal(err)
	}
	for _, path := range paths {
		text, err := os.ReadFile(path)
		if err != nil {
			f.Fatal(err)
		}
		if len(text) < 4<<10 {
			f.Add(text)
		}
	}
	schema := schemaFor(f, "testdata/odd/x")
	f.Fuzz(func(t *testing.T, text []byte) {
		line := 0
		for d, err := range decisions.Rows(bytes.NewReader(text), decisions.Options{Schema: schema}) {
			if err != nil {
				if !errors.Is(err, decisions.ErrLog) {
					t.Fatal(err)
				}
				return
			}
			if d.Line <= line || d.Arm < 0 || d.Arm >= len(d.Arms) || !(d.Propensity > 0 && d.Propensity <= 1) {
				t.Fatalf("behind line %d: %+v", line, d)
			}
			line = d.Line
			for _, x := range d.Arms {
				norm := 0.0
				for _, v := range x {
					norm += v * v
				}
				if len(x) != schema.Dimension() || !(norm <= 1) {
					t.Fatalf("an arm %v", x)
				}
			}
		}
	})
}

// FuzzColumns reads any text as a file of columns and as what a command line says. With what is read a log is read, or
// refused with ErrLog.
func FuzzColumns(f *testing.F) {
	f.Add("arm: offer\npropensity: {value: 0.25}\narms: {value: [none, sms]}\n", "reward=clicked,arms:=a|b")
	f.Add("reward: 1\n", "arm=")
	f.Add("arms: {value: [{id: a, x: 1}]}\nage: {value: }\n", "rewards=a|b,age:=")
	path := filepath.Join(f.TempDir(), "columns.yaml")
	log := "offer,clicked,arm,reward,propensity,a,b\nsms,1,a,0,0.5,0,1\n"
	schema := schemaFor(f, "testdata/odd/x")
	f.Fuzz(func(t *testing.T, file, said string) {
		if err := os.WriteFile(path, []byte(file), 0o600); err != nil {
			t.Fatal(err)
		}
		read, err := decisions.ReadColumns(path)
		if err != nil {
			read = nil
		}
		named, err := decisions.ParseColumns(strings.Split(strings.ReplaceAll(said, "@", ""), ","))
		if err != nil {
			named = nil
		}
		for _, c := range []decisions.Columns{read, named} {
			for _, s := range []*feature.Schema{nil, schema} {
				for _, every := range []bool{false, true} {
					o := decisions.Options{Columns: c, Schema: s, Every: every}
					_, err := decisions.Read(strings.NewReader(log), o)
					if err != nil && !errors.Is(err, decisions.ErrLog) {
						t.Fatal(err)
					}
				}
			}
		}
	})
}
