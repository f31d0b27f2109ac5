package statistic_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"pgregory.net/rapid"

	"github.com/riffle-dp/riffle/pkg/glm/family"
	"github.com/riffle-dp/riffle/pkg/glm/statistic"
)

// boundedFamilies are the families with the settings in which the bounds of the statistics are tested.
var boundedFamilies = []familyCase{{"logistic", 1}, {"probit", 1}, {"poisson", 5}, {"gaussian", 1}, {"gaussian", 5},
	{"linear", 1}}

// randomDirection is uniform on the unit sphere.
func randomDirection(rng *rand.Rand, d int) []float64 {
	x := make([]float64, d)
	for {
		sum := 0.0
		for i := range x {
			x[i] = rng.NormFloat64()
			sum += x[i] * x[i]
		}
		if sum > 0 {
			for i := range x {
				x[i] /= math.Sqrt(sum)
			}
			return x
		}
	}
}

func scaled(x []float64, a float64) []float64 {
	y := make([]float64, len(x))
	for i := range x {
		y[i] = a * x[i]
	}
	return y
}

func randomRecord(rng *rand.Rand, d int, minReward, maxReward float64) statistic.Record {
	r := statistic.Record{Arm: scaled(randomDirection(rng, d), 1.2*math.Pow(rng.Float64(),
		[]float64{0.1, 1}[rng.IntN(2)])),
		Weight: 1.1 * rng.Float64()}
	r.Explored = r.Arm[0] > 0
	switch rng.IntN(3) { // the ends are where the distances are largest
	case 0:
		r.Reward = minReward
	case 1:
		r.Reward = maxReward
	default:
		r.Reward = minReward + (maxReward-minReward)*rng.Float64()
	}
	return r
}

func distance(a, b []float64) float64 {
	sum := 0.0
	for i := range a {
		sum += (a[i] - b[i]) * (a[i] - b[i])
	}
	return math.Sqrt(sum)
}

// violation says how the vectors of a pair of records break the bounds, or "".
func violation(b statistic.Bounds, u, v []float64) string {
	for _, w := range [][]float64{u, v} {
		for j := range w {
			if !(w[j] >= b.Lower[j] && w[j] <= b.Upper[j]) {
				return fmt.Sprintf("coordinate %d = %v outside [%v, %v]", j, w[j], b.Lower[j], b.Upper[j])
			}
		}
	}
	if dist := distance(u, v); !(dist <= b.Diameter) {
		return fmt.Sprintf("distance %v above the diameter %v", dist, b.Diameter)
	}
	return ""
}

// attack searches for a pair of records that breaks the bounds: random pairs, then hill climbing on the distance and on
// each coordinate from the best of them. It returns the first violation found, and the largest distance and the widest
// coordinate spread found, as shares of the bounds.
func attack(
	t testing.TB, s statistic.Statistic, b statistic.Bounds, seed uint64, steps int,
) (broken string, distanceShare, rangeShare float64) {
	t.Helper()
	rng := rand.New(rand.NewPCG(seed, 1))
	minReward, maxReward := 0.0, 1.0
	if s.Family != nil {
		minReward, maxReward = s.Family.MinReward(), s.Family.MaxReward()
	}
	vector := func(r statistic.Record) []float64 {
		v, err := s.Vector(nil, r)
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
	vary := func(r statistic.Record, step float64) statistic.Record {
		arm := append([]float64(nil), r.Arm...)
		for i := range arm {
			arm[i] += step * rng.NormFloat64()
		}
		r.Arm = arm
		if rng.IntN(4) == 0 {
			r.Reward = minReward + (maxReward-minReward)*float64(rng.IntN(2))
		}
		r.Weight += step * rng.NormFloat64()
		return r
	}
	draw := func() statistic.Record { return randomRecord(rng, s.ArmDim, minReward, maxReward) }
	climb := func(score func(u, v []float64) float64) float64 {
		p, q := draw(), draw()
		best := math.Inf(-1)
		for i := range steps {
			p2, q2 := p, q
			if i < steps/4 {
				p2, q2 = draw(), draw()
			} else {
				step := math.Pow(10, -4*float64(i)/float64(steps))
				if i%3 != 0 {
					p2 = vary(p, step)
				}
				if i%3 != 1 {
					q2 = vary(q, step)
				}
			}
			u, v := vector(p2), vector(q2)
			if broken == "" {
				broken = violation(b, u, v)
			}
			if sc := score(u, v); sc > best {
				best, p, q = sc, p2, q2
			}
		}
		return best
	}
	for try := 0; try < 6 && distanceShare < 0.9; try++ { // there are local maxima
		distanceShare = math.Max(distanceShare, climb(distance)/b.Diameter)
	}
	for try := 0; try < 6 && rangeShare < 0.9; try++ {
		for j := range b.Lower {
			spread := climb(func(u, v []float64) float64 { return u[j] - v[j] })
			rangeShare = math.Max(rangeShare, spread/(b.Upper[j]-b.Lower[j]))
		}
	}
	return broken, distanceShare, rangeShare
}

func theta(rng *rand.Rand, d int, size float64) []float64 {
	return scaled(randomDirection(rng, d), size)
}

func bounds(t testing.TB, s statistic.Statistic) statistic.Bounds {
	t.Helper()
	b, err := s.Bounds()
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func statistics(t testing.TB, f family.Family, theta []float64) []statistic.Statistic {
	t.Helper()
	h, err := statistic.NewHessian(f, theta)
	if err != nil {
		t.Fatal(err)
	}
	g, err := statistic.NewGradient(f, theta)
	if err != nil {
		t.Fatal(err)
	}
	c, err := statistic.NewCovariance(len(theta), 0.7)
	if err != nil {
		t.Fatal(err)
	}
	r, err := statistic.NewRow(f, len(theta))
	if err != nil {
		t.Fatal(err)
	}
	p, err := statistic.NewPair(f, len(theta))
	if err != nil {
		t.Fatal(err)
	}
	return []statistic.Statistic{h, g, c, r, p}
}

// Every statistic is attacked for every family, dimension and several sizes of theta. The attack must come close to the
// bounds; otherwise it would show nothing.
func TestBoundsHold(t *testing.T) {
	rng := rand.New(rand.NewPCG(5, 5))
	for _, c := range boundedFamilies {
		f := c.build(t)
		for _, d := range []int{1, 2, 3, 5} {
			for _, size := range []float64{0, 0.5, 1, 3, 5} {
				for _, s := range statistics(t, f, theta(rng, d, size)) {
					b := bounds(t, s)
					broken, dist, spread := attack(t, s, b, rng.Uint64(), 500)
					if broken != "" {
						t.Errorf("%v %s d=%d |theta|=%v: %s", c, s.Kind, d, size, broken)
					}
					if dist < 0.85 || spread < 0.75 {
						t.Errorf("%v %s d=%d |theta|=%v: the attack reaches only %.3f of the diameter, %.3f of a range",
							c, s.Kind, d, size, dist, spread)
					}
				}
			}
		}
	}
}

// mirrored is the family of R - r at -z: its variance is larger on the other side of 0 than that of every family here.
type mirrored struct{ family.Family }

func (m mirrored) LogPartition(z float64) float64 { return m.Family.LogPartition(-z) + m.MaxReward()*z }
func (m mirrored) Mean(z float64) float64         { return m.MaxReward() - m.Family.Mean(-z) }
func (m mirrored) Variance(z float64) float64     { return m.Family.Variance(-z) }

// The bounds do not depend on the side of 0 on which the variance is larger.
func TestBoundsHoldForMirroredFamilies(t *testing.T) {
	rng := rand.New(rand.NewPCG(8, 8))
	for _, c := range []familyCase{{"poisson", 5}, {"gaussian", 5}} {
		f := mirrored{c.build(t)}
		for _, d := range []int{1, 2, 3} {
			for _, size := range []float64{0.5, 1, 3} {
				for _, s := range statistics(t, f, theta(rng, d, size)) {
					if broken, _, _ := attack(t, s, bounds(t, s), rng.Uint64(), 500); broken != "" {
						t.Errorf("%v %s d=%d |theta|=%v: %s", c, s.Kind, d, size, broken)
					}
				}
			}
		}
	}
}

// The bounds hold in random settings, theta along an axis and huge records included.
func TestBoundsHoldProperty(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		c := rapid.SampledFrom(boundedFamilies).Draw(rt, "family")
		d := rapid.IntRange(1, 6).Draw(rt, "d")
		coordinates := rapid.SliceOfN(rapid.OneOf(rapid.Just(0.0), rapid.Float64Range(-3, 3)), d, d)
		th := coordinates.Draw(rt, "theta")
		arm := rapid.SliceOfN(rapid.OneOf(rapid.Just(0.0), rapid.Float64Range(-1, 1), rapid.Float64()), d, d)
		record := rapid.Custom(func(rt *rapid.T) statistic.Record {
			return statistic.Record{Arm: arm.Draw(rt, "arm"), Reward: rapid.Float64Range(-1, 7).Draw(rt, "reward"),
				Weight: rapid.Float64Range(-1, 2).Draw(rt, "weight")}
		})
		p, q := record.Draw(rt, "p"), record.Draw(rt, "q")
		if rapid.Bool().Draw(rt, "null") {
			q = statistic.Record{Null: true}
		}
		for _, s := range statistics(t, c.build(t), th) {
			b := bounds(t, s)
			u, err := s.Vector(nil, p)
			if err != nil {
				rt.Fatal(err)
			}
			v, err := s.Vector(nil, q)
			if err != nil {
				rt.Fatal(err)
			}
			if len(u) != s.Dim() || len(v) != s.Dim() {
				rt.Fatalf("%s: vectors of length %d and %d, Dim says %d", s.Kind, len(u), len(v), s.Dim())
			}
			if msg := violation(b, u, v); msg != "" {
				rt.Errorf("%v %s: %s", c, s.Kind, msg)
			}
		}
	})
}

// Each bound is broken on purpose; the attack of TestBoundsHold must notice every time.
func TestBrokenBoundsAreCaught(t *testing.T) {
	rng := rand.New(rand.NewPCG(6, 6))
	direction := randomDirection(rng, 4)
	for _, m := range []struct {
		name   string
		family familyCase
		size   float64
		kind   statistic.Kind
		mutate func(f family.Family, size float64, b *statistic.Bounds)
	}{
		{"diameter 2 mu(|theta|), right for symmetric families only", familyCase{"poisson", 5}, 1, statistic.Gradient,
			func(f family.Family, size float64, b *statistic.Bounds) { b.Diameter = 2 * f.Mean(size) }},
		{"the distance of two rewards at the same arm", familyCase{"gaussian", 5}, 3, statistic.Gradient,
			func(f family.Family, size float64, b *statistic.Bounds) { b.Diameter = f.MaxReward() }},
		{"a grid of 8 cells without the margin", familyCase{"logistic", 1}, 5, statistic.Gradient,
			func(f family.Family, size float64, b *statistic.Bounds) { b.Diameter = 2 * gridRadius(f, size, 8) }},
		{"the same for poisson", familyCase{"poisson", 5}, 3, statistic.Gradient,
			func(f family.Family, size float64, b *statistic.Bounds) { b.Diameter = 2 * gridRadius(f, size, 8) }},
		{"the ball moved to the origin", familyCase{"logistic", 1}, 3, statistic.Gradient,
			func(f family.Family, size float64, b *statistic.Bounds) {
				for j := range b.Lower {
					b.Lower[j], b.Upper[j] = -b.Diameter/2, b.Diameter/2
				}
			}},
		{"the ball on the other side", familyCase{"probit", 1}, 2, statistic.Gradient,
			func(f family.Family, size float64, b *statistic.Bounds) {
				for j := range b.Lower {
					b.Lower[j], b.Upper[j] = -b.Upper[j], -b.Lower[j]
				}
			}},
		{"rewards from 0 where they begin at -1", familyCase{"linear", 1}, 0.5, statistic.Gradient,
			func(f family.Family, size float64, b *statistic.Bounds) { b.Diameter /= 1.9 }},
		{"the mean kept in the range of rewards", familyCase{"linear", 1}, 3, statistic.Gradient,
			func(f family.Family, size float64, b *statistic.Bounds) { b.Diameter = 4 }},
		{"weight bounded at z = 0 only", familyCase{"poisson", 5}, 1, statistic.Hessian,
			func(f family.Family, size float64, b *statistic.Bounds) {
				b.Diameter *= f.Variance(0) / f.MaxVariance(size)
			}},
		{"diameter of one matrix, not of two", familyCase{"logistic", 1}, 1, statistic.Hessian,
			func(f family.Family, size float64, b *statistic.Bounds) { b.Diameter /= math.Sqrt2 }},
		{"off-diagonals without the sqrt 2", familyCase{"logistic", 1}, 0.1, statistic.Hessian,
			func(f family.Family, size float64, b *statistic.Bounds) {
				b.Lower[1], b.Upper[1] = b.Lower[1]/math.Sqrt2, b.Upper[1]/math.Sqrt2
			}},
		{"diameter of one matrix", familyCase{"logistic", 1}, 1, statistic.Covariance,
			func(f family.Family, size float64, b *statistic.Bounds) { b.Diameter /= math.Sqrt2 }},
		{"arm and reward each by itself", familyCase{"linear", 1}, 0.5, statistic.Pair,
			func(f family.Family, size float64, b *statistic.Bounds) { b.Diameter = 2 }},
		{"rewards from 0 where they begin at -1, beside arms", familyCase{"linear", 1}, 0.5, statistic.Pair,
			func(f family.Family, size float64, b *statistic.Bounds) { b.Diameter = math.Sqrt(5) }},
		{"a diameter 1 % short", familyCase{"logistic", 1}, 3, statistic.Gradient,
			func(f family.Family, size float64, b *statistic.Bounds) { b.Diameter *= 0.99 }},
	} {
		f := m.family.build(t)
		for _, s := range statistics(t, f, scaled(direction, m.size)) {
			if s.Kind != m.kind {
				continue
			}
			b := bounds(t, s)
			m.mutate(f, m.size, &b)
			caught := false
			for seed := uint64(0); seed < 4 && !caught; seed++ {
				broken, _, _ := attack(t, s, b, seed, 2000)
				caught = broken != ""
			}
			if !caught {
				t.Errorf("%s (%v, |theta| = %v): not caught", m.name, m.family, m.size)
			}
		}
	}
}

// gridRadius is a careless computation of the enclosing ball's radius: the best centre and the maximum over a coarse
// grid, without a margin.
func gridRadius(f family.Family, size float64, cells int) float64 {
	best := math.Inf(1)
	for k := range 400 {
		c := f.MaxReward() * float64(k) / 400
		largest := 0.0
		for i := 0; i <= cells; i++ {
			a := 2*float64(i)/float64(cells) - 1
			for _, m := range []float64{f.Mean(size * a), f.MaxReward() - f.Mean(-size*a)} {
				largest = math.Max(largest, m*m-2*c*m*a+c*c)
			}
		}
		best = math.Min(best, math.Sqrt(largest))
	}
	return best
}
