package learner_test

import (
	"math"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/riffle-dp/riffle/pkg/glm/learner"
)

func sum(v []int) (total int) {
	for _, n := range v {
		total += n
	}
	return total
}

// The batch sizes of equation (7), worked out by hand, and a number of batches of O(log log T).
func TestPaperScheduleFollowsEquation7(t *testing.T) {
	for _, c := range []struct {
		horizon        int
		warmup, second float64
		want           []int
	}{
		{100000, 2155, 0, []int{2155, 633, 15906, 79764, 1542}},
		{1000000, 10000, 0, []int{10000, 2000, 89443, 598140, 300417}},
		{100000, 2155, 2155, []int{2155, 2155, 29360, 66330}},
	} {
		alpha := 2 * math.Sqrt(float64(c.horizon))
		if c.second == 0 {
			c.second = alpha
		}
		if got := learner.PaperSchedule(c.horizon, c.warmup, c.second, alpha); !slices.Equal(got, c.want) {
			t.Errorf("%+v: %v", c, got)
		}
	}
	for horizon, most := range map[int]int{10000: 4, 100000: 5, 1000000: 5} {
		bound := 2 + math.Ceil(math.Log2((2+math.Log2(float64(horizon)))/4))
		if int(bound) != most {
			t.Errorf("bound for %d is %v, want %d", horizon, bound, most)
		}
		alpha := 2 * math.Sqrt(float64(horizon))
		if got := learner.PaperSchedule(horizon, 1, alpha, alpha); len(got) > most+1 {
			t.Errorf("%d batches for %d", len(got), horizon)
		}
	}
	// The closed form of the recursion: tau_k = alpha^(2-2^(2-k)).
	for k, size := range learner.PaperSchedule(1<<30, 1, 632.5, 632.5)[1:5] {
		if want := math.Pow(632.5, 2-math.Exp2(float64(-k))); size != int(math.Ceil(want)) {
			t.Errorf("batch %d: %d, want %v", k+2, size, want)
		}
	}
}

func TestSchedulesSumToTheHorizon(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		horizon := rapid.IntRange(1, 1<<30).Draw(r, "horizon")
		first := rapid.IntRange(1, 100000).Draw(r, "first")
		smallest := rapid.IntRange(1, 1000).Draw(r, "smallest")
		epochs := rapid.IntRange(1, 40).Draw(r, "epochs")
		growth := rapid.Float64Range(1.1, 10).Draw(r, "growth")
		sizes := learner.GeometricSchedule(horizon, first, growth, epochs, smallest)
		if sum(sizes) != horizon || slices.Min(sizes) < 1 || len(sizes) > epochs {
			r.Fatalf("%v", sizes)
		}
		if len(sizes) > 1 && sizes[len(sizes)-1] < smallest {
			r.Fatalf("last of %v is below %d", sizes, smallest)
		}
		alpha := 2 * math.Sqrt(float64(horizon))
		sizes = learner.PaperSchedule(horizon, float64(first), alpha, alpha)
		if sum(sizes) != horizon || slices.Min(sizes) < 1 {
			r.Fatalf("%v", sizes)
		}
	})
}

// The rule for the first cohort gives the sizes of the cases from which it was made, delta = 1e-6.
func TestFirstCohortRule(t *testing.T) {
	n := func(epsilon float64, d int, radius float64, horizon int) int {
		cfg, err := learner.Config{Epsilon: epsilon, Dimension: d, Radius: radius, Horizon: horizon}.Resolve()
		if err != nil {
			t.Fatal(err)
		}
		return cfg.Practical.FirstCohort
	}
	for _, c := range []struct {
		epsilon   float64
		d         int
		radius    float64
		low, high int
	}{
		{1, 5, 3, 170, 190}, {.5, 5, 3, 310, 360}, {4, 5, 3, 50, 90}, {1, 7, 5, 230, 330}, {1, 3, 3, 80, 120},
		{1, 12, 3, 600, 900},
	} {
		if got := n(c.epsilon, c.d, c.radius, 100000); got < c.low || got > c.high {
			t.Errorf("epsilon %v, d %d, S %v: %d, want %d to %d", c.epsilon, c.d, c.radius, got, c.low, c.high)
		}
	}
	if got := n(1, 5, 3, 1000); got != 100 {
		t.Errorf("a horizon of 1000 people: %d, want a tenth", got)
	}
	if got := n(1, 5, 3, 300); got != 50 {
		t.Errorf("a horizon of 300 people: %d, want the smallest cohort", got)
	}
}
