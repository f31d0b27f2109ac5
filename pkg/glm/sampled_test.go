package glm_test

import (
	"errors"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"gonum.org/v1/gonum/floats/scalar"
	"pgregory.net/rapid"

	"github.com/riffle-dp/riffle/pkg/convex"
	"github.com/riffle-dp/riffle/pkg/glm"
	"github.com/riffle-dp/riffle/pkg/glm/symmetric"
)

// drawSampled makes a valid policy that samples, some of whose draws may be equal.
func drawSampled(r *rapid.T, d int) *glm.Policy {
	p := drawPolicy(r, d)
	p.Play = glm.PlaySampled
	for range rapid.IntRange(1, glm.MaxDraws/2).Draw(r, "draws") {
		draw := rapid.SliceOfN(rapid.Float64Range(-1, 1), d, d).Draw(r, "draw")
		p.Draws = append(p.Draws, draw)
		if rapid.Bool().Draw(r, "twice") {
			p.Draws = append(p.Draws, slices.Clone(draw))
		}
	}
	return p
}

// Without a share of explorers, an arm's probability is exactly the share of draws under which it is the best survivor.
// Probabilities sum to 1 with any such share, and every decision states the probability of its arm.
func TestSampledProbabilitiesAreSharesOfDraws(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		d := rapid.IntRange(1, 4).Draw(r, "d")
		p := drawSampled(r, d)
		if err := p.Validate(); err != nil {
			r.Fatal(err)
		}
		arms := drawArms(r, d)
		all, err := p.Probabilities(arms)
		if err != nil {
			r.Fatal(err)
		}
		sum := 0.0
		for _, v := range all {
			sum += v
		}
		if !scalar.EqualWithinAbs(sum, 1, 1e-12) {
			r.Fatalf("%v sum to %v", all, sum)
		}
		decision, err := p.Decide(arms, rand.NewChaCha8([32]byte{3}))
		if err != nil || decision.Propensity != all[decision.Arm] || !(decision.Propensity > 0) {
			r.Fatalf("%+v of %v, %v", decision, all, err)
		}
		p.Explore = 0
		if all, err = p.Probabilities(arms); err != nil {
			r.Fatal(err)
		}
		survivors, err := p.Eliminate(arms)
		if err != nil {
			r.Fatal(err)
		}
		times := make([]float64, len(arms))
		for _, draw := range p.Draws {
			best := survivors[0]
			for _, a := range survivors {
				if convex.Dot(arms[a], draw) > convex.Dot(arms[best], draw) {
					best = a
				}
			}
			times[best]++
		}
		for a, n := range times {
			if all[a] != n/float64(len(p.Draws)) {
				r.Fatalf("%v, arms are best under %v of %d draws", all, times, len(p.Draws))
			}
		}
	})
}

// With theta as the only draw everybody gets the greedy arm, in the control group, with caution and without a record as
// elsewhere.
func TestOneDrawOfThetaIsGreedy(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		d := rapid.IntRange(1, 4).Draw(r, "d")
		p := drawPolicy(r, d)
		p.Control = rapid.SampledFrom([]float64{0, 0.25}).Draw(r, "control")
		arms := drawArms(r, d)
		choice := glm.Choice{Default: rapid.IntRange(0, len(arms)-1).Draw(r, "default"),
			Unrecorded: rapid.Bool().Draw(r, "unrecorded")}
		greedy := p.Clone()
		greedy.Play = glm.PlayGreedy
		p.Play, p.Draws = glm.PlaySampled, [][]float64{slices.Clone(p.Theta)}
		want, err := greedy.ProbabilitiesFor(arms, choice)
		if err != nil {
			r.Fatal(err)
		}
		got, err := p.ProbabilitiesFor(arms, choice)
		if err != nil || !slices.EqualFunc(got, want, func(x, y float64) bool {
			return scalar.EqualWithinAbs(x, y, 1e-12)
		}) {
			r.Fatalf("%v, greedily %v, %v", got, want, err)
		}
	})
}

// counted counts the random words that are taken.
type counted struct {
	*rand.ChaCha8
	words int
}

func (c *counted) Uint64() uint64 { c.words++; return c.ChaCha8.Uint64() }

// A device picks its draw with one random word, and the first of equal arms.
func TestSampledPlayTakesOneWordAndTheFirstOfEquals(t *testing.T) {
	p := &glm.Policy{Profile: glm.Practical, Family: "logistic", MaxReward: 1, Dimension: 2, Radius: 3,
		Theta: []float64{0, 0}, Play: glm.PlaySampled, Draws: [][]float64{{1, 0}, {0, 1}, {0, 0}, {-1, 0}, {2, 0.5}}}
	if err := p.Validate(); err != nil {
		t.Fatal(err)
	}
	arms := [][]float64{{0, 0.5}, {0.5, 0}, {0.5, 0}, {-0.5, 0}, {0, 0.5}}
	got, err := p.Probabilities(arms)
	if want := []float64{0.4, 0.4, 0, 0.2, 0}; err != nil || !slices.Equal(got, want) {
		t.Errorf("%v, want %v, %v", got, want, err)
	}
	src := &counted{ChaCha8: rand.NewChaCha8([32]byte{5})}
	for n := range 20 {
		if _, err := p.Decide(arms, src); err != nil || src.words != n+1 {
			t.Fatalf("%d words for %d decisions, %v", src.words, n+1, err)
		}
	}
}

// A draw under which an eliminated arm would be best counts for the best of the survivors.
func TestDrawsDoNotBringBackAnEliminatedArm(t *testing.T) {
	stage := glm.Stage{Theta: []float64{2, 0}, Covariance: symmetric.Packed{1e-4, 0, 1e-4}, Width: 1}
	p := &glm.Policy{Profile: glm.Practical, Family: "logistic", MaxReward: 1, Dimension: 2, Radius: 3,
		Theta: []float64{2, 0}, Stages: []glm.Stage{stage}, Play: glm.PlaySampled,
		Draws: [][]float64{{-2, 0.5}, {2, -0.5}, {2, -0.5}, {2, -0.5}}}
	got, err := p.Probabilities([][]float64{{-0.5, 0}, {0.5, 0.1}, {0.5, -0.1}})
	if want := []float64{0, 0.25, 0.75}; err != nil || !slices.Equal(got, want) {
		t.Errorf("%v, want %v, %v", got, want, err)
	}
}

func TestDrawsThatNoDeviceMayFollow(t *testing.T) {
	valid := func() *glm.Policy {
		return &glm.Policy{Profile: glm.Practical, Family: "logistic", MaxReward: 1, Dimension: 2, Radius: 3,
			Theta: []float64{0, 0}, Play: glm.PlaySampled, Draws: [][]float64{{3, 0}, {0, -1}}}
	}
	if err := valid().Validate(); err != nil {
		t.Fatal(err)
	}
	most := valid()
	most.Draws = slices.Repeat(most.Draws[:1], glm.MaxDraws)
	if err := most.Validate(); err != nil {
		t.Errorf("the most draws: %v", err)
	}
	arms := [][]float64{{1, 0}, {0, 1}}
	for name, c := range map[string]struct {
		spoil  func(p *glm.Policy)
		decide bool // whether a device that did not validate it can still decide
	}{
		"no draws":       {func(p *glm.Policy) { p.Draws = nil }, false},
		"too many":       {func(p *glm.Policy) { p.Draws = slices.Repeat(p.Draws[:1], glm.MaxDraws+1) }, false},
		"short":          {func(p *glm.Policy) { p.Draws[1] = p.Draws[1][:1] }, false},
		"long":           {func(p *glm.Policy) { p.Draws[0] = []float64{0, 0, 0} }, false},
		"empty":          {func(p *glm.Policy) { p.Draws[1] = nil }, false},
		"outside":        {func(p *glm.Policy) { p.Draws[1] = []float64{3, 0.1} }, true},
		"NaN":            {func(p *glm.Policy) { p.Draws[0][1] = math.NaN() }, true},
		"infinite":       {func(p *glm.Policy) { p.Draws[0][1] = math.Inf(-1) }, true},
		"greedy":         {func(p *glm.Policy) { p.Play = glm.PlayGreedy }, true},
		"uniform":        {func(p *glm.Policy) { p.Play = glm.PlayUniform }, true},
		"design":         {func(p *glm.Policy) { p.Play = glm.PlayDesign }, true},
		"default":        {func(p *glm.Policy) { p.Play = glm.PlayDefault }, true},
		"no play at all": {func(p *glm.Policy) { p.Play = "" }, false},
	} {
		p := valid()
		c.spoil(p)
		if err := p.Validate(); !errors.Is(err, glm.ErrPolicy) {
			t.Errorf("%s: %v", name, err)
		}
		if _, err := p.Decide(arms, rand.NewChaCha8([32]byte{})); (err == nil) != c.decide ||
			err != nil && !errors.Is(err, glm.ErrPolicy) {
			t.Errorf("%s: a decision: %v", name, err)
		}
	}
}

func TestClonesShareNoDraws(t *testing.T) {
	p := &glm.Policy{Draws: [][]float64{{1, 2}, {3, 4}}}
	q := p.Clone()
	q.Draws[0][0], q.Draws[1] = 9, nil
	if !slices.Equal(p.Draws[0], []float64{1, 2}) || !slices.Equal(p.Draws[1], []float64{3, 4}) {
		t.Errorf("%v", p.Draws)
	}
	if (&glm.Policy{}).Clone().Draws != nil {
		t.Error("no draws became some")
	}
}

// Draws cost no memory for each arm or draw: only the weights of the survivors and the list of them.
func TestDraftsOfManyDrawsAllocateLittle(t *testing.T) {
	const d, arms = 20, 20
	p := &glm.Policy{Profile: glm.Practical, Family: "logistic", MaxReward: 1, Dimension: d, Radius: 3,
		Theta: make([]float64, d), Play: glm.PlaySampled}
	set := make([][]float64, arms)
	for i := range set {
		set[i] = make([]float64, d)
		set[i][i] = 1
	}
	allocated := func(draws int) float64 {
		p.Draws = nil
		for k := range draws {
			p.Draws = append(p.Draws, set[k%arms])
		}
		return testing.AllocsPerRun(20, func() {
			if _, err := p.Draft(set, glm.Choice{}); err != nil {
				t.Fatal(err)
			}
		})
	}
	if few, many := allocated(1), allocated(glm.MaxDraws); many > few || many > 4 {
		t.Errorf("%v allocations with %d draws, %v with one", many, glm.MaxDraws, few)
	}
}
