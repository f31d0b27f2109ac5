package learner_test

import (
	"errors"
	"math"
	"math/rand/v2"
	"reflect"
	"testing"

	"github.com/riffle-dp/riffle/pkg/glm"
	"github.com/riffle-dp/riffle/pkg/glm/family"
	"github.com/riffle-dp/riffle/pkg/glm/learner"
	"github.com/riffle-dp/riffle/pkg/glm/statistic"
	"github.com/riffle-dp/riffle/pkg/glm/structure"
)

// Without noise a learner that is told the structure of arms learns what it learns without, to the last bits, from
// fewer numbers; its policies carry the structure.
func TestStructuredSumsTeachTheSame(t *testing.T) {
	for _, profile := range []glm.Profile{glm.Practical, glm.Paper} {
		config := learner.Config{Profile: profile, Dimension: 6, Horizon: 4000, MinCohort: 50,
			Practical: learner.PracticalConfig{FirstCohort: 200, Control: 0.1}, Paper: learner.PaperConfig{Rounds: 3}}
		told := config
		told.Structure = structure.Options(3, 2)
		full, structured := begun(t, config), begun(t, told)
		rng := rand.New(rand.NewPCG(3, 4))
		f := family.Logistic{}
		for !full.Next().Done {
			a, b := full.Next(), structured.Next()
			if !reflect.DeepEqual(b.Policy.Structure, told.Structure) || a.Policy.Structure != nil {
				t.Fatalf("%s: structures %v and %v", profile, a.Policy.Structure, b.Policy.Structure)
			}
			var records []statistic.Record
			for range a.Cohort {
				arm := make([]float64, 6)
				k := 2 * rng.IntN(3)
				arm[k], arm[k+1] = rng.NormFloat64()/3, 0.6
				r := statistic.Record{Arm: arm, Weight: rng.Float64(), Control: rng.IntN(9) == 0}
				if rng.Float64() < f.Mean(2*arm[k]-arm[k+1]+float64(k)/4) {
					r.Reward = 1
				}
				records = append(records, r)
			}
			of, less := exactly(t, a, records), exactly(t, b, records)
			if a.Round == 0 { // a later one of the paper has a gradient only
				if len(of[0].Sum) != 21 || len(less[0].Sum) != 9 {
					t.Fatalf("%s: %d products are released, of a structure %d", profile, len(of[0].Sum),
						len(less[0].Sum))
				}
				if err := structured.Absorb(of); !errors.Is(err, learner.ErrAggregate) {
					t.Fatalf("%s: sums of any arm are absorbed: %v", profile, err)
				}
			}
			if err := errors.Join(full.Absorb(of), structured.Absorb(less)); err != nil {
				t.Fatal(err)
			}
			for i, want := range full.Next().Policy.Theta {
				if got := structured.Next().Policy.Theta[i]; math.Abs(got-want) > 1e-9 {
					t.Fatalf("%s, epoch %d: coefficient %d is %v, without structure %v", profile, a.Epoch, i, got, want)
				}
			}
		}
		if n := full.Next().Epoch; n < 2 {
			t.Errorf("%s: %d epochs", profile, n)
		}
	}
}

// Tied groups, of which a feature schema makes options with weights of their own, are runs to the learner as one group
// is: with the same sums in another order it learns the same.
func TestTiedGroupsAreRuns(t *testing.T) {
	config := learner.Config{Dimension: 6, Horizon: 100000}
	one, tied := config, config
	one.Structure = structure.Options(2, 3)
	tied.Structure = structure.Structure{{From: 0, Count: 2, Size: 1, Choice: 1},
		{From: 2, Count: 2, Size: 2, Choice: 1}}
	place := []int{0, 2, 3, 1, 4, 5} // of the coordinates of one, in tied
	a, b := begun(t, one), begun(t, tied)
	first, second := a.Next(), b.Next()
	if second.Cohort != first.Cohort {
		t.Errorf("first cohort of %d, of one group %d", second.Cohort, first.Cohort)
	}
	rng := rand.New(rand.NewPCG(5, 6))
	var records, moved []statistic.Record
	for range first.Cohort {
		arm, other := make([]float64, 6), make([]float64, 6)
		k := 3 * rng.IntN(2)
		arm[k], arm[k+1], arm[k+2] = rng.NormFloat64()/2, rng.NormFloat64()/4, 0.6
		for i, x := range arm {
			other[place[i]] = x
		}
		r := statistic.Record{Arm: arm, Weight: 1, Reward: float64(rng.IntN(2))}
		records, moved = append(records, r), append(moved, r)
		moved[len(moved)-1].Arm = other
	}
	of, also := exactly(t, first, records), exactly(t, second, moved)
	for i := range of {
		for j := range of[i].Variance {
			of[i].Variance[j], also[i].Variance[j] = 20, 20 // nobody knows that there is no noise
		}
	}
	if err := errors.Join(a.Absorb(of), b.Absorb(also)); err != nil {
		t.Fatal(err)
	}
	for i, want := range a.Next().Policy.Theta {
		if got := b.Next().Policy.Theta[place[i]]; math.Abs(got-want) > 1e-9 {
			t.Errorf("coefficient %d is %v, of one group %v", i, got, want)
		}
	}
}

func begun(t *testing.T, c learner.Config) *learner.Learner {
	t.Helper()
	l, err := learner.New(c)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// exactly are the sums that a step asks for, without noise.
func exactly(t *testing.T, step learner.Step, records []statistic.Record) (out []learner.Aggregate) {
	t.Helper()
	for _, s := range step.Statistics[step.Round] {
		a := learner.Aggregate{Kind: s.Kind, Sum: make([]float64, s.Dim()), Variance: make([]float64, s.Dim()),
			Reports: len(records)}
		for _, r := range records {
			v, err := s.Vector(nil, r)
			if err != nil {
				t.Fatal(err)
			}
			for j := range v {
				a.Sum[j] += v[j]
			}
		}
		out = append(out, a)
	}
	return out
}

func TestAStructureOfOtherArmsIsRefused(t *testing.T) {
	_, err := learner.New(learner.Config{Dimension: 5, Horizon: 1000, Structure: structure.Options(3, 2)})
	if !errors.Is(err, learner.ErrConfig) || !errors.Is(err, structure.ErrInvalid) {
		t.Errorf("%v", err)
	}
}
