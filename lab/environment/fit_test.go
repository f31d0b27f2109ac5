package environment_test

import (
	"testing"

	"github.com/riffle-dp/riffle/internal/population"
	"github.com/riffle-dp/riffle/lab/environment"
)

// Of each family the fit to 20000 rewards finds the true parameter: the curvature per record is at least 0.02 in every
// direction, so its error is below 0.35 with a false-alarm rate far below 1e-6. A sign error or a wrong link misses by
// more than 1.
func TestFitFindsTheParameter(t *testing.T) {
	for _, c := range []struct {
		name string
		max  float64
	}{{"logistic", 1}, {"probit", 1}, {"poisson", 5}, {"gaussian", 4}, {"linear", 1}} {
		size := 2.0
		if c.name == "linear" {
			size = 1
		}
		e, err := environment.Spec{Kind: environment.Ball, Norm: size, Family: c.name, MaxReward: c.max}.Open(4, 2000)
		if err != nil {
			t.Fatal(err)
		}
		theta, err := population.Fit(e.People(), 5, e.Family)
		if err != nil {
			t.Fatal(err)
		}
		for i := range theta {
			theta[i] -= e.Theta[i]
		}
		if norm(theta) > 0.35 {
			t.Errorf("%s: the fit is %v off", c.name, norm(theta))
		}
	}
}
