package play_test

import (
	"iter"
	"testing"

	"github.com/riffle-dp/riffle/internal/play"
	"github.com/riffle-dp/riffle/internal/population"
)

// greedy prepares all that it is given, and notes the most people and numbers that it held at a time.
type greedy struct{ left, people, numbers int }

func (g *greedy) Prepare(sets [][][]float64) {
	g.left, g.people = len(sets), max(g.people, len(sets))
	numbers := 0
	for _, arms := range sets {
		for _, x := range arms {
			numbers += len(x)
		}
	}
	g.numbers = max(g.numbers, numbers)
}

func (g *greedy) Prepared() int { return g.left }

func (g *greedy) Choose([][]float64) (int, error) {
	g.left--
	return 0, nil
}

func (g *greedy) Learn(float64) error { return nil }

// What a simulation holds of the people who come next has a bound, in people and in numbers of their arms: 8 MB of
// them, and the arms of one person more.
func TestPeopleWhoComeNextTakeBoundedMemory(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ arms, horizon, people, numbers int }{
		{1, 5000, 512, 512 * 1024}, {100, 1000, 11, 11 * 100 * 1024}, {2000, 20, 1, 2000 * 1024},
	} {
		arms := make([][]float64, c.arms)
		for i := range arms {
			arms[i] = make([]float64, 1024)
		}
		someone := population.Person{Arms: arms, Rewards: make([]float64, c.arms)}
		drawn, g := 0, &greedy{}
		people := iter.Seq2[population.Person, error](func(yield func(population.Person, error) bool) {
			for drawn++; yield(someone, nil); {
				drawn++
			}
		})
		score, err := play.Play(t.Context(), g, people, c.horizon, nil, nil)
		if err != nil || score.People != c.horizon || drawn != c.horizon {
			t.Fatalf("%d arms: %+v, %v, %d people drawn", c.arms, score, err, drawn)
		}
		if g.people != c.people || g.numbers != c.numbers {
			t.Errorf("%d arms: %d people with %d numbers at a time, want %d with %d", c.arms, g.people, g.numbers,
				c.people, c.numbers)
		}
	}
}
