package policyfile_test

import (
	"bytes"
	"errors"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/riffle-dp/riffle/pkg/deployment"
	"github.com/riffle-dp/riffle/pkg/deployment/policyfile"
	"github.com/riffle-dp/riffle/pkg/deployment/policyfile/scoring"
	"github.com/riffle-dp/riffle/pkg/feature"
	"github.com/riffle-dp/riffle/pkg/glm"
	"github.com/riffle-dp/riffle/pkg/glm/family"
	"github.com/riffle-dp/riffle/pkg/plan"
)

var update = flag.Bool("update", false, "write the golden file instead of comparing it")

// reminders is a schema with a field of each kind that SQL and PMML have.
const reminders = `{"version":1,"context":[{"name":"age","kind":"number","low":18,"high":90},` +
	`{"name":"evening","kind":"flag"}],` +
	`"arms":[{"name":"id","kind":"category","values":["none","sms","call"],"baseline":true}],` +
	`"terms":[["bias"],["id"],["id","age"],["evening","id"]]}`

// certificate is that of examples.
var certificate = policyfile.Certificate{Channel: plan.Shuffle, Unit: "one record of one person",
	RestsOn: plan.Shuffle.RestsOn(), Epsilon: policyfile.Bound(0.97), EpsilonAlone: policyfile.Bound(14.5), Delta: 1e-6,
	Releases: 4, Recomputed: 4}

// example is a policy of the practical profile with the schema of reminders.
func example(t testing.TB) *policyfile.File {
	t.Helper()
	s, err := feature.Parse([]byte(reminders))
	if err != nil {
		t.Fatal(err)
	}
	p := glm.Policy{Profile: glm.Practical, Epoch: 4, Family: family.NameLogistic, MaxReward: 1,
		Dimension: s.Dimension(), Structure: s.Structure(), Radius: 3, Play: glm.PlayGreedy, Caution: 1,
		Theta: []float64{-0.5, 0.25, 1.125, -0.75, 0.1, 0.3, 0}}
	f, err := family.New(p.Family, p.MaxReward)
	if err != nil {
		t.Fatal(err)
	}
	d := p.Dimension
	known := glm.Stage{Theta: p.Theta}
	half := make([]float64, d)
	for i := range d {
		for j := i; j < d; j++ {
			v := 0.0
			if i == j {
				v = 0.01 * float64(i+1)
			}
			known.Covariance = append(known.Covariance, v)
		}
		half[i] = 0.25 * float64(i+1)
	}
	p.Scaling = glm.NewScaling(f, p.Radius, known)
	a := &plan.Announcement{Deployment: "reminders", Epoch: 5, Final: true, Policy: p, Schema: s.Canonical()}
	file, err := policyfile.New(a, [32]byte{1, 2, 3}, deployment.Estimate{Cohorts: 4, Theta: p.Theta, HalfWidth: half,
		Interval: "95 % for each coefficient by itself."}, certificate)
	if err != nil {
		t.Fatal(err)
	}
	return file
}

// The form of the file is the golden one, and what is read is written again to the byte.
func TestFileHasItsForm(t *testing.T) {
	golden := filepath.Join("testdata", "policy.json")
	text, err := example(t).Encode()
	if err != nil {
		t.Fatal(err)
	}
	if *update {
		if err := os.WriteFile(golden, text, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(text, want) {
		t.Errorf("the form changed: it needs a new version\n%s", text)
	}
	f, err := policyfile.Decode(want)
	if err != nil {
		t.Fatal(err)
	}
	if again, err := f.Encode(); err != nil || !bytes.Equal(again, want) {
		t.Errorf("read and written: %v\n%s", err, again)
	}
}

// What does not fit together is refused, in a sentence that says what.
func TestFilesThatDoNotFitAreRefused(t *testing.T) {
	text, err := example(t).Encode()
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ old, new, want string }{
		{`riffle-policy-1`, `riffle-policy-2`, `its format is "riffle-policy-2"`},
		{`"theta": [`, `"theta": [7, `, "dimension"},
		{`"caution": 1`, `"caution": 2`, "it was changed after the export"},
		{`"coefficient": 1.125`, `"coefficient": 1.25`, "in the policy it is 1.125"},
		{`"name": "id = call"`, `"name": "id = sms"`, `by the schema it is "id = call"`},
		{`"low": -1.15`, `"low": 1.15`, "does not hold the coefficient"},
		{"\"coefficient\": -0.5,\n      \"low\": -0.75,", "\"coefficient\": -0.5,", "has one end"},
		{`"call"`, `"letter"`, "by the schema"},
		{`"channel": "shuffle"`, `"channel": "magic"`, `its channel is "magic"`},
		{`rests on the shuffler being honest`, `rests on nobody, or on the shuffler`, "that of the channel shuffle rests"},
		{`one record of one person`, `one record\u001b[2J`, "cannot be printed"},
		{`95 % for each`, `95 %\u001b[2J for each`, "cannot be printed"},
		{`"epsilon": 0.97`, `"epsilon": -1`, "at least 0"},
		{`"final": true,`, ``, `"final" is missing`},
		{`"final": true,`, `"final": true, "final": true,`, "twice"},
		{`"epoch": 5`, `"epoch": 0`, "epoch from 1"},
		{`"deployment": "reminders"`, `"deployment": "../x"`, "deployment"},
		{`"terms": [`, `"terms": [], "terms": [`, "twice"},
		{`"announcement": "01`, `"announcement": "`, "digest of the announcement"},
	} {
		changed := strings.Replace(string(text), c.old, c.new, 1)
		if changed == string(text) {
			t.Fatalf("no %s", c.old)
		}
		if _, err := policyfile.Decode([]byte(changed)); !errors.Is(err, policyfile.ErrFile) ||
			!strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: want %q, got %v", c.new, c.want, err)
		}
	}
	unbounded := strings.Replace(string(text), `"epsilon_alone": 14.5`, `"epsilon_alone": null`, 1)
	if _, err := policyfile.Decode([]byte(unbounded)); err != nil {
		t.Errorf("an epsilon that nothing bounds: %v", err)
	}
}

// FuzzPolicyFile: what is accepted is written and read again as the same bytes, and makes every export or none with a
// reason.
func FuzzPolicyFile(f *testing.F) {
	text, err := os.ReadFile(filepath.Join("testdata", "policy.json"))
	if err != nil {
		f.Fatal(err)
	}
	f.Add(text)
	f.Add([]byte(`{"format":"riffle-policy-1"}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		file, err := policyfile.Decode(text)
		if err != nil {
			if !errors.Is(err, policyfile.ErrFile) {
				t.Errorf("%v", err)
			}
			return
		}
		first, err := file.Encode()
		if err != nil {
			t.Fatal(err)
		}
		again, err := policyfile.Decode(first)
		if err != nil {
			t.Fatal(err)
		}
		if second, err := again.Encode(); err != nil || !bytes.Equal(first, second) {
			t.Errorf("%v\n%s\n%s", err, first, second)
		}
		for _, write := range []func(*policyfile.File) ([]byte, error){scoring.Python, scoring.SQL, scoring.PMML} {
			if _, err := write(file); err != nil && !errors.Is(err, scoring.ErrUnsupported) {
				t.Error(err)
			}
		}
		if _, _, err := file.Prior(); err != nil && !errors.Is(err, policyfile.ErrFile) {
			t.Error(err)
		}
	})
}
