package regression

import (
	"encoding/binary"
	"errors"
	"fmt"
	"iter"
	"math"
	"math/rand/v2"
	"slices"
	"sort"

	"gonum.org/v1/gonum/stat/distuv"

	"github.com/riffle-dp/riffle/pkg/convex"
	"github.com/riffle-dp/riffle/pkg/glm/family"
	"github.com/riffle-dp/riffle/pkg/learn"
)

// ErrData wraps every reason to refuse a specification, a file or a draw.
var ErrData = errors.New("regression: bad data")

// Point is one kind of people: their features, of norm at most 1, their mean reward, and what share of people they are.
type Point struct {
	X      []float64
	Mean   float64
	Weight float64
}

// The laws of a reward with a given mean.
const (
	// Rademacher rewards are -1 or 1.
	Rademacher = "rademacher"
	// Exact rewards are the mean itself.
	Exact = "exact"
)

// Data is one run of a specification: people who come one after the other, and what is true of them.
type Data struct {
	Name   string
	Dim    int
	Family family.Family
	Radius float64 // the bound of the true parameter's norm that estimators are told
	// People is how many there are; 0: as many as anyone asks for.
	People int
	// Truth says that the means of the points are true; without it they are rewards of people held out.
	Truth bool

	draw              func(n int) iter.Seq[learn.Record]
	contexts, shifted []Point // by which models are scored; no shifted ones: no score there
	used              int
}

// Draw yields the records of the next n people. Records of equal people may come as one with a count; the order of
// records says nothing then. What it yields must not be changed.
func (d *Data) Draw(n int) (iter.Seq[learn.Record], error) {
	if n < 1 || d.People > 0 && n > d.People-d.used {
		return nil, fmt.Errorf("%w: %d further people of %s, which has %d and gave %d", ErrData, n, d.Name, d.People,
			d.used)
	}
	d.used += n
	return d.draw(n), nil
}

// finite is a draw from finitely many points, whose weights add to 1.
func finite(points []Point, law string, rng *rand.Rand) func(int) iter.Seq[learn.Record] {
	cumulative := make([]float64, len(points))
	sum := 0.0
	for i, p := range points {
		sum += p.Weight
		cumulative[i] = sum
	}
	return func(n int) iter.Seq[learn.Record] {
		if n < 2*len(points) {
			return func(yield func(learn.Record) bool) {
				for range n {
					i := min(len(points)-1, sort.SearchFloat64s(cumulative, rng.Float64()*sum))
					if !yield(learn.Record{Arm: points[i].X, Reward: reward(points[i].Mean, law, rng)}) {
						return
					}
				}
			}
		}
		return func(yield func(learn.Record) bool) {
			rest, mass := n, sum
			for i, p := range points {
				count := rest
				if i < len(points)-1 {
					count = binomial(rest, p.Weight/mass, rng)
				}
				rest, mass = rest-count, mass-p.Weight
				for _, r := range rewards(p, count, law, rng) {
					if !yield(r) {
						return
					}
				}
			}
		}
	}
}

// rewards are the records of so many people of one kind, at most one for each value of the reward.
func rewards(p Point, count int, law string, rng *rand.Rand) (out []learn.Record) {
	if law == Exact {
		if count > 0 {
			out = append(out, learn.Record{Arm: p.X, Reward: p.Mean, Times: count})
		}
		return out
	}
	high := binomial(count, (1+p.Mean)/2, rng)
	if high > 0 {
		out = append(out, learn.Record{Arm: p.X, Reward: 1, Times: high})
	}
	if high < count {
		out = append(out, learn.Record{Arm: p.X, Reward: -1, Times: count - high})
	}
	return out
}

func reward(mean float64, law string, rng *rand.Rand) float64 {
	switch {
	case law == Exact:
		return mean
	case rng.Float64() < (1+mean)/2:
		return 1
	}
	return -1
}

func binomial(n int, p float64, rng *rand.Rand) int {
	switch {
	case n == 0 || !(p > 0):
		return 0
	case p >= 1:
		return n
	}
	return int(distuv.Binomial{N: float64(n), P: p, Src: rng}.Rand())
}

// dense is a draw from a law of contexts that is not finite.
func dense(d int, fill func(x []float64, rng *rand.Rand), theta []float64, law string, rng *rand.Rand,
) func(int) iter.Seq[learn.Record] {
	return func(n int) iter.Seq[learn.Record] {
		return func(yield func(learn.Record) bool) {
			for range n {
				x := make([]float64, d)
				fill(x, rng)
				if !yield(learn.Record{Arm: x, Reward: reward(convex.Dot(x, theta), law, rng)}) {
					return
				}
			}
		}
	}
}

// inOrder is a draw from people in a fixed order, each of whom comes once.
func inOrder(people []learn.Record) func(int) iter.Seq[learn.Record] {
	return func(n int) iter.Seq[learn.Record] {
		next := people[:n]
		people = people[n:]
		return slices.Values(next)
	}
}

// axes are the coordinate directions with equal weights and the means of a linear model. All share one array.
func axes(theta []float64) []Point {
	d := len(theta)
	shared := make([]float64, 2*d-1)
	shared[d-1] = 1
	points := make([]Point, d)
	for i := range points {
		points[i] = Point{X: shared[d-1-i : 2*d-1-i : 2*d-1-i], Mean: theta[i], Weight: 1 / float64(d)}
	}
	return points
}

// stream is the generator of one purpose of a seed and a number of people, so that the runs of different numbers do not
// share their luck.
func stream(seed uint64, people int, purpose byte) *rand.Rand {
	var key [32]byte
	copy(key[:], "regression")
	binary.LittleEndian.PutUint64(key[12:], seed)
	binary.LittleEndian.PutUint64(key[20:], uint64(people))
	key[31] = purpose
	return rand.New(rand.NewChaCha8(key))
}

// unit scales a vector down to norm 1 if it is longer.
func unit(x []float64) []float64 {
	n := math.Sqrt(convex.Dot(x, x))
	if n <= 1 {
		return x
	}
	out := make([]float64, len(x))
	for i, v := range x {
		out[i] = v / n
	}
	return out
}
