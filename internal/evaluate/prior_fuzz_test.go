package evaluate_test

import (
	"encoding/json"
	"errors"
	"testing"

	"github.com/riffle-dp/riffle/internal/evaluate"
)

// FuzzReadPrior reads any bytes as a prior in two dimensions. What is read has a positive definite precision, and is
// written so that it is read again.
func FuzzReadPrior(f *testing.F) {
	f.Add([]byte(`{"theta":[1,2],"precision":[2,0.5,1]}`))
	f.Add([]byte(`{"theta":[1,2],"precision":[1,2,1]}`))
	f.Add([]byte(`{"theta":[1]}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		p, err := evaluate.ReadPrior(text, 2)
		if err != nil {
			if !errors.Is(err, evaluate.ErrPrior) {
				t.Fatal(err)
			}
			return
		}
		if a, b, c := p.Precision[0], p.Precision[1], p.Precision[2]; len(p.Theta) != 2 || !(a > 0 && c > 0) ||
			b/a*b > c*(1+1e-9) {
			t.Fatalf("%s is the prior %+v", text, p)
		}
		again, err := json.Marshal(p)
		if err == nil {
			_, err = evaluate.ReadPrior(again, 2)
		}
		if err != nil {
			t.Fatalf("%s is written as %s: %v", text, again, err)
		}
	})
}
