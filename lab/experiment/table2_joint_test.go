package experiment_test

import (
	"context"
	"math"
	"os"
	"reflect"
	"testing"

	"github.com/riffle-dp/riffle/lab/experiment"
)

// The private rows of the published table are repeated, and the sound variant is better than them. Without RIFFLE_LONG
// the test runs two seeds of the first column at epsilon 4, on which the literal rows vary by 6 % between seeds, so
// that 20 % is 4.7 standard errors; with RIFFLE_LONG=1 it runs all cells, ten seeds each.
func TestPrivateRowsOfThePublishedTable(t *testing.T) {
	if testing.Short() {
		t.Skip("nothing of it runs at the same time as anything else")
	}
	e, err := experiment.Load("table2-joint")
	if err != nil {
		t.Fatal(err)
	}
	changes := experiment.Changes{Only: []string{"joint", "joint-literal"}, Seeds: 10}
	if os.Getenv("RIFFLE_LONG") == "" {
		e.Environments = e.Environments[:1]
		changes.Seeds, changes.Epsilons = 2, []float64{4}
	}
	if err := e.Change(changes); err != nil {
		t.Fatal(err)
	}
	rows, err := e.Run(context.Background(), experiment.Options{})
	if err != nil {
		t.Fatal(err)
	}
	published := map[float64][]float64{4: {674.17, 721.26, 744.35}, 6: {516.58, 546.97, 559.04},
		8: {425.53, 445.27, 452.60}}
	most := map[float64]float64{1: 500, 4: 200, 6: 200, 8: 200}
	column := map[string]int{}
	for _, r := range rows {
		t.Logf("%s %s, epsilon %v, delta %v: %.1f +- %.1f", r.Environment, r.Algorithm, *r.Epsilon, r.Delta, r.Regret,
			r.RegretSE)
		if r.Algorithm == "joint" {
			if r.Regret > most[*r.Epsilon] || r.Delta != 1e-5 {
				t.Errorf("%s, epsilon %v: the sound variant has %.1f at delta %v", r.Environment, *r.Epsilon, r.Regret,
					r.Delta)
			}
			continue
		}
		key := r.Algorithm + string(rune('0'+int(*r.Epsilon)))
		want := published[*r.Epsilon][column[key]]
		column[key]++
		if math.Abs(r.Regret/want-1) > 0.2 || r.Delta != 0.02 {
			t.Errorf("%s, epsilon %v: %.1f at delta %v, published %.1f at 0.02", r.Environment, *r.Epsilon, r.Regret,
				r.Delta, want)
		}
	}
}

// An environment may have a number of people of its own, an algorithm a delta and families; a row has its floor.
func TestRowsOfEnvironmentsAndAlgorithmsWithTheirOwn(t *testing.T) {
	rows, e := run(t, `{name: own, title: t, about: a, horizons: [30], epsilons: [1], delta: 1.0e-5, seeds: 1,
		environments: [{kind: ball, family: probit, people: 40}, {kind: lower-bound}],
		algorithms: [{name: joint}, {name: other, kind: joint, delta: 1.0e-3}, {name: ecolog, families: [logistic]}]}`, "")
	type row struct {
		algorithm string
		people    int
		delta     float64
		floor     bool
	}
	var got []row
	for _, r := range rows {
		got = append(got, row{r.Algorithm, r.Horizon, r.Delta, r.Floor > 0})
	}
	want := []row{{"joint", 40, 1e-5, false}, {"other", 40, 1e-3, false}, {"joint", 30, 1e-5, true},
		{"other", 30, 1e-3, true}, {"ecolog", 30, 0, true}}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("rows %+v, want %+v", got, want)
	}
	if err := e.Change(experiment.Changes{Horizons: []int{20}}); err != nil || e.Environments[0].People != 0 {
		t.Errorf("other horizons: %v, %+v", err, e.Environments[0])
	}
}
