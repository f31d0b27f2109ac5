package plan

import (
	"errors"
	"math"
	"testing"

	"github.com/riffle-dp/riffle/pkg/glm/learner"
	"github.com/riffle-dp/riffle/pkg/glm/statistic"
	"github.com/riffle-dp/riffle/pkg/glm/structure"
	"github.com/riffle-dp/riffle/pkg/privacy"
)

// structuredStep is a step of two options at a point whose part of one option is larger than that of the other.
func structuredStep(t *testing.T, p, cohort int) learner.Step {
	t.Helper()
	step := stepAt(t, learner.Config{Dimension: 2 * p, Structure: structure.Options(2, p), Horizon: 5000}, cohort, 0)
	theta := make([]float64, 2*p)
	theta[0], theta[p] = 0.4, -1.2
	for i := range step.Statistics[0] {
		step.Statistics[0][i].Theta = theta
	}
	return step
}

// delta is at most what the counts of a release round give away at epsilon of two people, if so many devices are
// honest: the exact law of every coordinate, and the sum of their losses.
func delta(t *testing.T, a *Announcement, x, y [][]float64, honest int, epsilon float64) float64 {
	t.Helper()
	sum := losses{mass: []float64{1}}
	for i, e := range a.Encodings {
		noise, err := privacy.NewBinomial(uint64(honest)*uint64(e.NoiseBits), e.Bias.Float())
		if err != nil {
			t.Fatal(err)
		}
		for j, c := range e.Coordinates {
			if x[i][j] == y[i][j] {
				continue // tells nothing
			}
			bits := honest * int(e.NoiseBits)
			p, q := ones(noise, e, c, x[i][j], bits), ones(noise, e, c, y[i][j], bits)
			sum = sum.with(lossesOf(p, q))
		}
	}
	return sum.delta(epsilon)
}

// A certificate of structured statistics is never exceeded by what the exact laws of all coordinates give away of any
// two people: of one option and of two, with all rewards, at all angles, and the null record; and some pair comes near
// it.
func TestACertificateOfStructuredStatisticsIsNeverExceeded(t *testing.T) {
	terms := Terms{Epsilon: 2, Delta: 1e-3, DropOut: 0.05, MaxMessages: 60, MaxShift: 16}
	for _, p := range []int{1, 2} {
		step := structuredStep(t, p, 40)
		proposal, err := Propose(step, terms)
		if err != nil {
			t.Fatal(err)
		}
		a := proposal.Announced(step)
		g, err := Guarantee(a, 0)
		if err != nil {
			t.Fatal(err)
		}
		if eps := g.Epsilon(terms.Delta); !(eps <= terms.Epsilon) {
			t.Errorf("epsilon %v", eps)
		}
		person := func(r statistic.Record) (out [][]float64) {
			for _, s := range step.Statistics[0] {
				v, err := s.Vector(nil, r)
				if err != nil {
					t.Fatal(err)
				}
				out = append(out, v)
			}
			return out
		}
		people := [][][]float64{person(statistic.Record{Null: true})}
		for option := range 2 {
			for n := range 4 * p {
				arm := make([]float64, 2*p)
				arm[option*p] = math.Cos(math.Pi * float64(n) / float64(2*p))
				if p > 1 {
					arm[option*p+1] = math.Sin(math.Pi * float64(n) / float64(2*p))
				}
				for _, reward := range []float64{0, 1} {
					people = append(people, person(statistic.Record{Arm: arm, Reward: reward}))
				}
			}
		}
		closest := 0.0
		for i, x := range people[:len(people)/2+1] { // null, and all of the first option
			for j, y := range people {
				if i == j {
					continue
				}
				exact, bound := delta(t, a, x, y, int(a.Cohort.Minimum), 2), g.Delta(2)
				if closest = math.Max(closest, exact/bound); !(exact <= bound) {
					t.Errorf("runs of %d: people %d and %d: delta is at least %v, the certificate says %v", p, i, j,
						exact, bound)
				}
			}
		}
		if closest < []float64{0, 0.5, 0.08}[p] { // in two dimensions no pair is as far apart as in three
			t.Errorf("runs of %d: delta comes to %v of the certificate only", p, closest)
		}
	}
}

// The certificate of structured statistics follows from the announced structure: without it, or with another one, the
// announcement is refused, and so is a structure that is none.
func TestTheStructureIsPartOfThePlan(t *testing.T) {
	step := structuredStep(t, 3, 500)
	p, err := Propose(step, terms)
	if err != nil {
		t.Fatal(err)
	}
	a := p.Announced(step)
	round, err := CheckRound(a)
	if err != nil || len(round.Encodings[0].Coordinates) != 12 || round.Statistics[1].Structure == nil {
		t.Fatalf("%+v, %v", round, err)
	}
	for name, s := range map[string]structure.Structure{
		"none": nil, "of three options": structure.Options(3, 2), "too large": structure.Options(2, 4),
	} {
		changed := a.Clone()
		changed.Policy.Structure = s
		if _, err := CheckRound(changed); !errors.Is(err, ErrPlan) {
			t.Errorf("%s: %v", name, err)
		}
		if _, err := Guarantee(changed, 0); !errors.Is(err, ErrPlan) {
			t.Errorf("%s, its guarantee: %v", name, err)
		}
	}
}

// What a proposer keeps of one structure is not used for another: their spreads differ.
func TestProposersTellStructuresApart(t *testing.T) {
	proposer := new(Proposer)
	for _, s := range []structure.Structure{nil, structure.Options(2, 3), structure.Options(3, 2), nil} {
		step := stepAt(t, learner.Config{Dimension: 6, Structure: s, Horizon: 5000}, 500, 2.5)
		got, err := proposer.Propose(step, terms)
		if err != nil {
			t.Fatal(err)
		}
		want, err := Propose(step, terms)
		if err != nil {
			t.Fatal(err)
		}
		if got.Details.Epsilon != want.Details.Epsilon || !got.Plan.Equal(want.Plan) {
			t.Errorf("%v: a used proposer plans %+v, a new one %+v", s, got.Plan, want.Plan)
		}
	}
}

// What takes long to work out of a structure of many groups is worked out once for each kind of statistic, however many
// releases an announcement plans: judging it must not take hours.
func TestManyReleasesOfOneKindAreWorkedOutOnce(t *testing.T) {
	const d = 40
	many := structure.Structure{{Count: d, Size: 1}}
	for i := range structure.MaxGroups - 1 {
		many = append(many, structure.Group{From: i % (d - 2), Count: 2, Size: 1})
	}
	step := stepAt(t, learner.Config{Dimension: d, Structure: many, Horizon: 5000}, 500, 0)
	p, err := Propose(step, Terms{Epsilon: 1, Delta: 1e-6, MaxMessages: 1000})
	if err != nil {
		t.Fatal(err)
	}
	hessian, encoding := p.Plan.Rounds[0].Releases[0], p.Encodings[0]
	judged := func(n int, judge func(*Announcement) error) float64 {
		a := p.Announced(step)
		a.Plan.Rounds, a.Encodings = []Round{{}}, nil
		for range n {
			a.Plan.Rounds[0].Releases = append(a.Plan.Rounds[0].Releases, hessian)
			a.Encodings = append(a.Encodings, encoding)
		}
		a.Plan.Rounds = append(a.Plan.Rounds, a.Plan.Rounds[0]) // so that no two are certified together
		return testing.AllocsPerRun(1, func() {
			if err := judge(a); err != nil {
				t.Error(err)
			}
		})
	}
	for name, judge := range map[string]func(*Announcement) error{
		"its guarantee": func(a *Announcement) error { _, err := Guarantee(a, 0); return err },
		"its round":     func(a *Announcement) error { _, err := CheckRound(a); return err },
	} {
		if few, lots := judged(2, judge), judged(12, judge); lots > few+4*structure.MaxGroups {
			t.Errorf("%s: %v allocations for 2 releases, %v for 12", name, few, lots)
		}
	}
}
