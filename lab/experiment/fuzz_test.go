package experiment_test

import (
	"errors"
	"testing"

	"github.com/riffle-dp/riffle/lab/experiment"
)

// FuzzExperiment: whatever a file holds, it is refused with ErrExperiment or can be validated again.
func FuzzExperiment(f *testing.F) {
	f.Add([]byte(small))
	f.Add([]byte(`{"name":"x","environments":[{"kind":"adult"}],"horizons":[0],"seeds":1,` +
		`"algorithms":[{"name":"uniform"}]}`))
	f.Add([]byte("a: &a [*a]"))
	f.Fuzz(func(t *testing.T, text []byte) {
		e, err := experiment.Parse(text)
		if err != nil {
			if !errors.Is(err, experiment.ErrExperiment) {
				t.Fatal(err)
			}
			return
		}
		if err := e.Validate(); err != nil {
			t.Fatal(err)
		}
	})
}
