package analyzer

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/riffle-dp/riffle/internal/testing/allocated"
	"github.com/riffle-dp/riffle/pkg/glm/symmetric"
)

// FuzzPrior reads any bytes as the file of the setting learner.prior. What is read has as many numbers as the dimension
// wants; anything else is an error.
func FuzzPrior(f *testing.F) {
	f.Add([]byte(`{"theta":[0.5,0],"precision":[[2,0.5],[0.5,1]]}`))
	f.Add([]byte(`{"theta":[0.5,0],"precision":[2,0.5,1]}`))
	f.Add([]byte(`{"theta":[0.5,0],"precision":[[2,0.5],[]]}`))
	f.Add([]byte(`{"theta":[0.5,0],"precision":null}`))
	path := filepath.Join(f.TempDir(), "prior.json")
	l := LearnerSettings{Dimension: 2, Prior: path}
	f.Fuzz(func(t *testing.T, text []byte) {
		if err := os.WriteFile(path, text, 0o600); err != nil {
			t.Fatal(err)
		}
		var p prior
		var err error
		allocated.ForInput(t, len(text), func() { p, err = l.prior() })
		if err == nil && (len(p.theta) != 2 || len(p.precision) != symmetric.Dim(2)) {
			t.Fatalf("%s is the prior %+v", text, p)
		}
	})
}
