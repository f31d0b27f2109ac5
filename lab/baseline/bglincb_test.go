package baseline_test

import (
	"context"
	"errors"
	"math"
	"math/rand/v2"
	"testing"

	"gonum.org/v1/gonum/mat"

	"github.com/riffle-dp/riffle/internal/play"
	"github.com/riffle-dp/riffle/lab/baseline"
	"github.com/riffle-dp/riffle/lab/environment"
	"github.com/riffle-dp/riffle/pkg/glm/learner"
)

// With narrow widths B-GLinCB has far less regret than uniform play (0.04 of it in this run), with the constants of its
// paper as much: at 20,000 people they eliminate nothing.
func TestBGLinCBLearnsWithNarrowWidths(t *testing.T) {
	if testing.Short() {
		t.Skip("nothing of it runs at the same time as anything else")
	}
	e, err := environment.Spec{Kind: environment.Ball}.Open(1, 20000)
	if err != nil {
		t.Fatal(err)
	}
	s := setting(t, e)
	regret := func(a play.Algorithm, err error) float64 {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		score, err := play.Play(context.Background(), a, e.People(), 20000, nil, nil)
		if err != nil {
			t.Fatal(err)
		}
		return score.Regret
	}
	uniform := regret(&baseline.Uniform{Source: s.Source}, nil)
	narrow := regret(baseline.NewBGLinCB(s, learner.Config{Paper: learner.PaperConfig{Width: 0.05}, Epsilon: 1}))
	paper := regret(baseline.NewBGLinCB(s,
		learner.Config{Paper: learner.PaperConfig{Constants: learner.ProofConstants}, Epsilon: 1}))
	if !(narrow > 0 && narrow < 0.1*uniform) || paper < 0.8*uniform || paper > 1.2*uniform {
		t.Errorf("uniform play %.0f, narrow widths %.0f, the paper's constants %.0f", uniform, narrow, paper)
	}
}

// rare draws arm sets of the first J basis vectors of ten, J at least j with probability 2^-(j-1): later directions are
// offered to few people.
func rare(n int, seed uint64) [][][]float64 {
	random := rand.New(rand.NewPCG(seed, 1))
	sets := make([][][]float64, n)
	for i := range sets {
		for j := range 10 {
			x := make([]float64, 10)
			x[j] = 1
			if sets[i] = append(sets[i], x); random.IntN(2) == 0 {
				break
			}
		}
	}
	return sets
}

// coverage is the mean over fresh sets of the largest x'A^-1 x, with A the mean of xx' under the design.
func coverage(t *testing.T, d *baseline.DistributionalDesign, sets [][][]float64) float64 {
	t.Helper()
	a := mat.NewSymDense(10, nil)
	for _, arms := range sets {
		weights, err := d.Weights(arms)
		if err != nil {
			t.Fatal(err)
		}
		sum := 0.0
		for i, w := range weights {
			sum += w
			a.SymRankOne(a, w/float64(len(sets)), mat.NewVecDense(10, arms[i]))
		}
		if math.Abs(sum-1) > 1e-9 {
			t.Fatalf("probabilities sum to %v", sum)
		}
	}
	var inverse mat.Dense
	if err := inverse.Inverse(a); err != nil {
		t.Fatal(err)
	}
	mean := 0.0
	for _, arms := range sets {
		most := 0.0
		for _, x := range arms {
			v := mat.NewVecDense(10, x)
			most = math.Max(most, mat.Inner(v, &inverse, v))
		}
		mean += most / float64(len(sets))
	}
	return mean
}

// Where some directions are offered to few people, the learnt design covers arm sets that it has not seen better than
// people's own G-optimal designs do, which spend as many draws on what everybody has.
func TestDistributionalDesignCoversRareDirections(t *testing.T) {
	own, err := baseline.LearnDesign(nil, 0.01)
	if err != nil {
		t.Fatal(err)
	}
	learnt, err := baseline.LearnDesign(rare(4000, 1), 0.01)
	if err != nil {
		t.Fatal(err)
	}
	fresh := rare(8000, 2)
	a, b := coverage(t, own, fresh), coverage(t, learnt, fresh)
	t.Logf("expected largest leverage: own designs %.1f, learnt %.1f", a, b)
	if !(b < 0.75*a) {
		t.Errorf("expected largest leverage %.1f with own designs, %.1f with the learnt one", a, b)
	}
}

// What Draw draws has the probabilities of Weights: over 20,000 draws no share is off by more than 5 standard
// deviations of the widest (false alarms below 1e-5).
func TestDrawsHaveTheirWeights(t *testing.T) {
	d, err := baseline.LearnDesign(rare(2000, 3), 0.01)
	if err != nil {
		t.Fatal(err)
	}
	arms := [][]float64{{1, 0, 0, 0, 0, 0, 0, 0, 0, 0}, {0, 1, 0, 0, 0, 0, 0, 0, 0, 0}, {0, 0, 0, 1, 0, 0, 0, 0, 0, 0}}
	weights, err := d.Weights(arms)
	if err != nil {
		t.Fatal(err)
	}
	const draws = 20000
	counts, source := make([]float64, len(arms)), rand.NewPCG(4, 4)
	for range draws {
		a, err := d.Draw(arms, source)
		if err != nil {
			t.Fatal(err)
		}
		counts[a] += 1.0 / draws
	}
	for i, w := range weights {
		if math.Abs(counts[i]-w) > 5*0.5/math.Sqrt(draws) {
			t.Errorf("arm %d: drawn %.4f, probability %.4f", i, counts[i], w)
		}
	}
	if !(weights[2] > weights[1] && weights[1] > weights[0]) {
		t.Errorf("rarer directions are not drawn more: %v", weights)
	}
}

func TestBGLinCBRefusesBadSettings(t *testing.T) {
	e, err := environment.Spec{Kind: environment.Ball}.Open(1, 5000)
	if err != nil {
		t.Fatal(err)
	}
	s := setting(t, e)
	if _, err := baseline.NewBGLinCB(s, learner.Config{Epsilon: 1,
		Paper: learner.PaperConfig{Warmup: 4000}}); !errors.Is(err, baseline.ErrSetting) {
		t.Errorf("a warm-up of most people: %v", err)
	}
	s.Radius = 0
	if _, err := baseline.NewBGLinCB(s, learner.Config{Epsilon: 1}); !errors.Is(err, baseline.ErrSetting) {
		t.Errorf("no radius: %v", err)
	}
}
