package population

import (
	"fmt"
	"iter"
)

// A Policy is a fixed rule of play. It returns what it earns from person i (counted from 0, in the population's order):
// a value as [Person.Value] defines it, or its expectation if the policy chooses at random.
type Policy func(i int, p Person) (float64, error)

// Uniform plays an arm drawn uniformly; it earns the expectation.
func Uniform() Policy {
	return func(_ int, p Person) (float64, error) { return p.Uniform(), nil }
}

// Constant plays the same arm for every person.
func Constant(arm int) Policy {
	return func(_ int, p Person) (float64, error) { return p.Value(arm) }
}

// Choose plays the arm that decide picks from the person's arms.
func Choose(decide func(arms [][]float64) (arm int, err error)) Policy {
	return func(_ int, p Person) (float64, error) {
		arm, err := decide(p.Arms)
		if err != nil {
			return 0, err
		}
		return p.Value(arm)
	}
}

// Replay plays the arms of an earlier run: arms[i] for person i.
func Replay(arms []int) Policy {
	return func(i int, p Person) (float64, error) {
		if i >= len(arms) {
			return 0, fmt.Errorf("%w: %d plays recorded, person %d asked for", ErrArm, len(arms), i)
		}
		return p.Value(arms[i])
	}
}

// Greedy plays the arm of GreedyArm.
func Greedy(theta []float64) Policy {
	return Choose(func(arms [][]float64) (int, error) { return GreedyArm(arms, theta) })
}

// GreedyArm returns the arm with the largest inner product with a parameter, the first of equals.
func GreedyArm(arms [][]float64, theta []float64) (int, error) {
	best, top := -1, 0.0
	for a, x := range arms {
		if len(x) != len(theta) {
			return 0, fmt.Errorf("%w: arm of dimension %d for a parameter of dimension %d", ErrOption, len(x),
				len(theta))
		}
		if z := Dot(x, theta); best < 0 || z > top {
			best, top = a, z
		}
	}
	return best, nil
}

// Dot returns the inner product of two vectors of one length. Every package of the lab uses it, because the order of
// its summation is part of what a seed reproduces.
func Dot(x, y []float64) float64 {
	sum := 0.0
	for i, v := range x {
		sum += v * y[i]
	}
	return sum
}

// Value returns a policy's mean value over people: for labelled data the mean reward, and for a two-arm decision with
// rewards 0 and 1 the share of people for whom it was right.
func Value(people iter.Seq2[Person, error], policy Policy) (float64, error) {
	sum, n := 0.0, 0
	for p, err := range people {
		if err != nil {
			return 0, err
		}
		v, err := policy(n, p)
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

// BestConstant returns the arm whose mean value over people is largest, and that value: what the best of the policies
// that ignore the context earns, known only in hindsight. If the number of arms varies, only arms that all people have
// count.
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

// Curve is how a policy's regret grew.
type Curve struct {
	People []float64 // people decided for; the first entry is 0, the last the number of all people
	Regret []float64 // summed over those people, in units of reward
}

// Total returns the regret over all people.
func (c Curve) Total() float64 {
	if len(c.Regret) == 0 {
		return 0
	}
	return c.Regret[len(c.Regret)-1]
}

// Regrets scores several policies on the same people and returns a curve for each. A curve has at least points (and at
// least 2) and at most twice as many points, unless there are fewer people. The package comment defines regret.
func Regrets(people iter.Seq2[Person, error], points int, policies ...Policy) ([]Curve, error) {
	curves, sums := make([]Curve, len(policies)), make([]float64, len(policies))
	n, every := 0, 1 // a curve has a point at each multiple of every; it doubles as the curves grow
	push := func() {
		for i := range curves {
			curves[i].People, curves[i].Regret = append(curves[i].People, float64(n)), append(curves[i].Regret, sums[i])
		}
	}
	push()
	for p, err := range people {
		if err != nil {
			return nil, err
		}
		best := p.Best()
		for i, policy := range policies {
			v, err := policy(n, p)
			if err != nil {
				return nil, fmt.Errorf("person %d: %w", n, err)
			}
			sums[i] += best - v
		}
		if n++; n%every != 0 {
			continue
		}
		push()
		if n/every < 2*max(points, 2) {
			continue
		}
		every *= 2
		for i := range curves {
			curves[i].thin()
		}
	}
	if n%every != 0 {
		push()
	}
	return curves, nil
}

// thin keeps every other point, the first one among them.
func (c *Curve) thin() {
	kept := 0
	for i := 0; i < len(c.People); i += 2 {
		c.People[kept], c.Regret[kept] = c.People[i], c.Regret[i]
		kept++
	}
	c.People, c.Regret = c.People[:kept], c.Regret[:kept]
}
