package play_test

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"runtime"
	"testing"

	"github.com/riffle-dp/riffle/internal/play"
	"github.com/riffle-dp/riffle/internal/population"
	"github.com/riffle-dp/riffle/pkg/glm/learner"
)

// stubborn hides that its algorithm can prepare decisions: every decision is made when its turn comes.
type stubborn struct{ play.Algorithm }

// Decisions that are prepared for many people at once, on one processor or on four, are those that are made one by one,
// to the last bit of what was learnt, over changes of the policy and with a learner that goes on after its horizon.
func TestPreparedDecisionsAreThoseMadeOneByOne(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(0))
	anytime := config
	anytime.Horizon = 100
	for name, start := range map[string]func() (play.Preparer, error){
		"batched": func() (play.Preparer, error) {
			return play.NewBatched(config, play.Exact, rand.NewChaCha8([32]byte{5}), rand.NewChaCha8([32]byte{6}))
		},
		"anytime": func() (play.Preparer, error) {
			return play.NewAnytime(anytime, play.Exact, rand.NewChaCha8([32]byte{5}),
				rand.NewChaCha8([32]byte{6}))
		},
	} {
		var first []byte
		for i, processors := range []int{1, 1, 4} {
			runtime.GOMAXPROCS(processors)
			preparer, err := start()
			if err != nil {
				t.Fatal(err)
			}
			counted := &counting{Preparer: preparer}
			var algorithm play.Algorithm = counted
			if i == 0 {
				algorithm = stubborn{counted}
			}
			score, err := play.Play(context.Background(), algorithm, crowd(t).People(), people, []int{50, people}, nil)
			if err != nil {
				t.Fatal(err)
			}
			theta, err := preparer.(play.Estimator).Final()
			if err != nil {
				t.Fatal(err)
			}
			text, err := json.Marshal([]any{score, theta, counted.played})
			if err != nil {
				t.Fatal(err)
			}
			if (counted.prepared > 0) != (i > 0) {
				t.Errorf("%s: run %d prepared %d times", name, i, counted.prepared)
			}
			if first == nil {
				first = text
			} else if string(first) != string(text) {
				t.Errorf("%s: with %d processors\n%s\none by one\n%s", name, processors, text, first)
			}
		}
	}
}

// counting notes what its algorithm plays, and how often it is asked to prepare.
type counting struct {
	play.Preparer
	played   []int
	prepared int
}

func (c *counting) Prepare(sets [][][]float64) {
	c.prepared++
	c.Preparer.Prepare(sets)
}

func (c *counting) Choose(arms [][]float64) (int, error) {
	arm, err := c.Preparer.Choose(arms)
	c.played = append(c.played, arm)
	return arm, err
}

// An arm set that no policy accepts is an error of its person, after the people before them have decided.
func TestPreparedErrorsBelongToTheirPerson(t *testing.T) {
	b, err := play.NewBatched(config, play.Exact, rand.NewChaCha8([32]byte{5}), rand.NewChaCha8([32]byte{6}))
	if err != nil {
		t.Fatal(err)
	}
	good, bad := [][]float64{{1, 0, 0}, {0, 1, 0}}, [][]float64{{1}}
	b.Prepare([][][]float64{good, good, bad, good})
	for i, arms := range [][][]float64{good, good, bad} {
		if _, err := b.Choose(arms); (err != nil) != (i == 2) {
			t.Errorf("person %d: %v", i, err)
		}
		if i < 2 {
			if err := b.Learn(0); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// What a run of a thousand people costs whose designs take most of the time, on one processor and on all.
func BenchmarkPlay(b *testing.B) {
	p, err := population.Synthetic(population.SyntheticOptions{Users: 1000, Seed: 3, Dim: 20, Arms: 200, Norm: 2})
	if err != nil {
		b.Fatal(err)
	}
	all := runtime.GOMAXPROCS(0)
	for _, processors := range []int{1, all} {
		b.Run(fmt.Sprintf("processors=%d", processors), func(b *testing.B) {
			defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(processors))
			for b.Loop() {
				a, err := play.NewBatched(learner.Config{Dimension: 20, Radius: 2, Horizon: 1000}, play.Exact,
					rand.NewChaCha8([32]byte{5}), rand.NewChaCha8([32]byte{6}))
				if err != nil {
					b.Fatal(err)
				}
				if _, err := play.Play(context.Background(), a, p.People(), 1000, nil, nil); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
