package statistic_test

import (
	"math"
	"testing"

	"github.com/riffle-dp/riffle/pkg/glm/family"
)

type familyCase struct {
	name string
	r    float64
}

// familyCases covers every family, the bounded ones at a small, a moderate and a large R.
var familyCases = []familyCase{
	{"logistic", 1}, {"probit", 1},
	{"poisson", 1}, {"poisson", 5}, {"poisson", 40},
	{"gaussian", 0.01}, {"gaussian", 1}, {"gaussian", 5}, {"gaussian", 60},
	{"linear", 1},
}

func (c familyCase) build(t testing.TB) family.Family {
	t.Helper()
	f, err := family.New(c.name, c.r)
	if err != nil {
		t.Fatal(err)
	}
	return f
}

func near(t *testing.T, what string, got, want, tol float64) {
	t.Helper()
	if !(math.Abs(got-want) <= tol) {
		t.Errorf("%s = %.12g, want %.12g within %g", what, got, want, tol)
	}
}
