package population_test

import (
	"errors"
	"testing"

	"github.com/riffle-dp/riffle/internal/population"
	"github.com/riffle-dp/riffle/pkg/glm/family"
)

func newFamily(t testing.TB, name string, max float64) family.Family {
	t.Helper()
	f, err := family.New(name, max)
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
		theta, err := population.Fit(p.People(), p.Info().Dim, newFamily(t, "logistic", 1))
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

func TestFitStaysFiniteOrRefuses(t *testing.T) {
	logistic := newFamily(t, "logistic", 1)
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
