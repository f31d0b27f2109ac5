package population_test

import (
	"errors"
	"testing"

	"github.com/riffle-dp/riffle/internal/lab/environment"
	"github.com/riffle-dp/riffle/internal/lab/population"
	"github.com/riffle-dp/riffle/pkg/glm"
)

func family(t testing.TB, name string, max float64) glm.Family {
	t.Helper()
	f, err := glm.NewFamily(name, max)
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// The fit to the training file is right for 0.8447 of the people of the test file with the map b7 (the figure of an
// independent fit), and for 0.8339 of them with the four features of the block map (measured here, to detect changes).
func TestFitOfTheCensusHasItsKnownValue(t *testing.T) {
	for _, c := range []struct {
		m    population.FeatureMap
		want float64
	}{{population.MapB7, 0.8447}, {population.MapBlock, 0.8339}} {
		p := adult(t, population.AdultOptions{TestHoldout: true, Map: c.m})
		theta, err := population.Fit(p.People(), p.Info().Dim, family(t, "logistic", 1))
		if err != nil {
			t.Fatal(err)
		}
		v, err := population.Value(p.Holdout(), population.Greedy(theta))
		if err != nil || !near(v, c.want, 0.0001) {
			t.Errorf("%s: value %v (%v), want %v", c.m, v, err, c.want)
		}
		t.Logf("%s: value %.4f, parameter %.3f of norm %.2f", c.m, v, theta, norm(theta))
	}
}

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

func TestFitStaysFiniteOrRefuses(t *testing.T) {
	logistic := family(t, "logistic", 1)
	// The arms separate ann's rewards, and the second arm is the null vector: the fit stays finite.
	if theta, err := population.Fit(of(ann), 1, logistic); err != nil || !(theta[0] > 5) {
		t.Errorf("separated: %v, %v", theta, err)
	}
	if _, err := population.Fit(of(), 1, logistic); !errors.Is(err, population.ErrEmpty) {
		t.Errorf("no people: %v", err)
	}
	if _, err := population.Fit(of(ann), 2, logistic); !errors.Is(err, population.ErrOption) {
		t.Errorf("dimension: %v", err)
	}
}
