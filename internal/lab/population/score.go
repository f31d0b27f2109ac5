package population

import (
	"fmt"
	"iter"
)

// A Player says what it earns from person number i (from 0, in the population's order): a value as [Person.Value] defines it, or
// its expectation where the player's own choice is random.
type Player func(i int, p Person) (float64, error)

// Uniform plays an arm drawn uniformly; it scores the expectation.
func Uniform() Player {
	return func(_ int, p Person) (float64, error) { return p.Uniform(), nil }
}

// Constant plays the same arm for everybody.
func Constant(arm int) Player {
	return func(_ int, p Person) (float64, error) { return p.Value(arm) }
}

// Choose plays what a policy decides from the arms alone.
func Choose(decide func(arms [][]float64) (arm int, err error)) Player {
	return func(_ int, p Person) (float64, error) {
		arm, err := decide(p.Arms)
		if err != nil {
			return 0, err
		}
		return p.Value(arm)
	}
}

// Replay scores arms that were played in a run: arms[i] was played for person i.
func Replay(arms []int) Player {
	return func(i int, p Person) (float64, error) {
		if i >= len(arms) {
			return 0, fmt.Errorf("%w: %d plays recorded, person %d asked for", ErrArm, len(arms), i)
		}
		return p.Value(arms[i])
	}
}

// Greedy plays the arm with the largest inner product with a parameter; the first of equals.
func Greedy(theta []float64) Player {
	return Choose(func(arms [][]float64) (int, error) {
		best, top := -1, 0.0
		for a, x := range arms {
			if len(x) != len(theta) {
				return 0, fmt.Errorf("%w: arm of dimension %d for a parameter of dimension %d", ErrOption, len(x), len(theta))
			}
			z := dot(x, theta)
			if best < 0 || z > top {
				best, top = a, z
			}
		}
		return best, nil
	})
}

// Value returns a player's mean value over people: for labelled data the mean reward, for a two-arm decision with rewards 0 and 1
// the share of people for whom it was right.
func Value(people iter.Seq2[Person, error], play Player) (float64, error) {
	sum, n := 0.0, 0
	for p, err := range people {
		if err != nil {
			return 0, err
		}
		v, err := play(n, p)
		if err != nil {
			return 0, fmt.Errorf("person %d: %w", n, err)
		}
		sum += v
		n++
	}
	if n == 0 {
		return 0, ErrEmpty
	}
	return sum / float64(n), nil
}

// BestConstant returns the arm whose mean value over people is largest, and that value: what the best of the policies that ignore
// the context earns, known only in hindsight. Where the number of arms varies, only arms that everybody has take part.
func BestConstant(people iter.Seq2[Person, error]) (arm int, value float64, err error) {
	var sums []float64
	n := 0
	for p, err := range people {
		if err != nil {
			return 0, 0, err
		}
		v := p.values()
		if n == 0 {
			sums = make([]float64, len(v))
		}
		sums = sums[:min(len(sums), len(v))]
		for a := range sums {
			sums[a] += v[a]
		}
		n++
	}
	if n == 0 || len(sums) == 0 {
		return 0, 0, ErrEmpty
	}
	for a := range sums {
		if sums[a] > sums[arm] {
			arm = a
		}
	}
	return arm, sums[arm] / float64(n), nil
}

// Curve is how a player's regret grew.
type Curve struct {
	People []float64 // people decided for; the first entry is 0, the last everybody
	Regret []float64 // summed over those people, in units of reward
}

// Total returns the regret over everybody.
func (c Curve) Total() float64 {
	if len(c.Regret) == 0 {
		return 0
	}
	return c.Regret[len(c.Regret)-1]
}

// Regrets scores several players on the same people and returns a curve of each, of about points points (at least 2). The package
// comment defines regret.
func Regrets(people iter.Seq2[Person, error], points int, players ...Player) ([]Curve, error) {
	t := newTracker(points, len(players))
	n := 0
	for p, err := range people {
		if err != nil {
			return nil, err
		}
		best := p.Best()
		for i, play := range players {
			v, err := play(n, p)
			if err != nil {
				return nil, fmt.Errorf("person %d: %w", n, err)
			}
			t.sums[i] += best - v
		}
		n++
		t.record(n)
	}
	return t.curves(n), nil
}

// tracker thins curves while they grow, so that their length is bounded without knowing the number of people.
type tracker struct {
	limit, every int
	at           []float64
	regret       [][]float64
	sums         []float64
}

func newTracker(points, players int) *tracker {
	return &tracker{limit: 2 * max(points, 2), every: 1, at: []float64{0}, regret: [][]float64{make([]float64, players)},
		sums: make([]float64, players)}
}

func (t *tracker) record(n int) {
	if n%t.every != 0 {
		return
	}
	t.push(n)
	if len(t.at) <= t.limit {
		return
	}
	kept := 0
	for i := 0; i < len(t.at); i += 2 { // entry i is person i*every: keep the even ones
		t.at[kept], t.regret[kept] = t.at[i], t.regret[i]
		kept++
	}
	t.at, t.regret = t.at[:kept], t.regret[:kept]
	t.every *= 2
}

func (t *tracker) push(n int) {
	t.at = append(t.at, float64(n))
	t.regret = append(t.regret, append([]float64(nil), t.sums...))
}

func (t *tracker) curves(n int) []Curve {
	if t.at[len(t.at)-1] != float64(n) {
		t.push(n)
	}
	out := make([]Curve, len(t.sums))
	for i := range out {
		out[i].People = append([]float64(nil), t.at...)
		for _, row := range t.regret {
			out[i].Regret = append(out[i].Regret, row[i])
		}
	}
	return out
}

func dot(x, y []float64) float64 {
	sum := 0.0
	for i := range x {
		sum += x[i] * y[i]
	}
	return sum
}
