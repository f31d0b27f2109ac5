package bandit

import (
	"errors"
	"math"
	"math/rand/v2"
	"testing"

	"gonum.org/v1/gonum/mat"

	"github.com/riffle-dp/riffle/pkg/convex"
	"github.com/riffle-dp/riffle/pkg/glm/family"
	"github.com/riffle-dp/riffle/pkg/learn"
	"github.com/riffle-dp/riffle/pkg/mechanism"
)

func lucbSetting(epsilon, delta float64) learn.Setting {
	return learn.Setting{Family: family.Linear{}, Dimension: 2, Arms: 5, Horizon: 1000, Radius: 1,
		Epsilon: epsilon, Delta: delta,
		Failure: 0.01, Noise: rand.NewChaCha8([32]byte{1})}
}

// The average gradient at a point is 2 E[xx'](theta - theta*) + 2 Delta^2 theta, the noise of the arm taken out: each
// coordinate within 4.5 standard errors (false alarm below 1e-4 over the six). Without the term of Sigma the first mean
// is off by 2 sigma^2 theta, hundreds of standard errors.
func TestGradientOfAReportIsUnbiased(t *testing.T) {
	const n, sigma = 200_000, 1.5
	theta, star := []float64{0.5, -0.3}, []float64{-0.2, 0.7}
	for _, zeta := range []float64{0, 0.1, 0.5} {
		r := rand.New(rand.NewPCG(1, 2))
		var sum, squares, want [2]float64
		for range n {
			x := []float64{2*r.Float64() - 1, 0.5}
			y := convex.Dot(x, star) + r.NormFloat64()
			for i := range want { // E[xx'] = diag(1/3, 1/4), since the first coordinate has mean 0
				want[i] = 2*[]float64{1. / 3, 0.25}[i]*(theta[i]-star[i]) + 2*zeta*theta[i]
				x[i] += sigma*r.NormFloat64() + math.Sqrt(zeta)*r.NormFloat64()
			}
			for i, v := range onlineGradient(x, y+sigma*r.NormFloat64(), theta, sigma) {
				sum[i] += v
				squares[i] += v * v
			}
		}
		for i := range want {
			mean := sum[i] / n
			se := math.Sqrt((squares[i]/n - mean*mean) / n)
			if math.Abs(mean-want[i]) > 4.5*se {
				t.Errorf("zeta %v: mean %v, want %v, standard error %v", zeta, mean, want[i], se)
			}
		}
	}
}

// The center is the theta that minimises |theta|^2 + sum (<x, theta_t> - <x, theta>)^2, and the inverse stays one over
// 20 000 additions.
func TestCenterAndInverse(t *testing.T) {
	const n, d = 20_000, 3
	g, r := newGrowing(d, 1), rand.New(rand.NewPCG(3, 4))
	u, moments := make([]float64, d), mat.NewSymDense(d, nil)
	for i := range d {
		moments.SetSym(i, i, 1)
	}
	for range n {
		x := []float64{r.NormFloat64(), r.NormFloat64(), 0.01 * r.NormFloat64()}
		predicted := r.NormFloat64()
		if err := g.add(x); err != nil {
			t.Fatal(err)
		}
		for i, v := range x {
			u[i] += predicted * v
		}
		moments.SymRankOne(moments, 1, mat.NewVecDense(d, x))
	}
	var direct mat.VecDense
	if err := direct.SolveVec(moments, mat.NewVecDense(d, u)); err != nil {
		t.Fatal(err)
	}
	set := g.around(u, 1)
	inverse := set.Covariance.Dense(d)
	for i := range d {
		if math.Abs(set.Theta[i]-direct.AtVec(i)) > 1e-9 {
			t.Errorf("center %v, want %v", set.Theta, direct.RawVector().Data)
		}
		for j := range d {
			entry := 0.0
			for k := range d {
				entry += moments.At(i, k) * inverse.At(k, j)
			}
			if want := map[bool]float64{true: 1}[i == j]; math.Abs(entry-want) > 1e-8 {
				t.Errorf("entry %d, %d of V times its inverse is %v", i, j, entry)
			}
		}
	}
	if want := mat.LogDet; math.Abs(g.logDet-func() float64 { v, _ := want(moments); return v }()) > 1e-6 {
		t.Errorf("ln det %v", g.logDet)
	}
}

// The score of an arm is the largest inner product over the ellipsoid: none of 20 000 points of its surface has more,
// and one comes within 1 %.
func TestScoreIsTheMaximumOverTheEllipsoid(t *testing.T) {
	g, r := newGrowing(2, 1), rand.New(rand.NewPCG(5, 6))
	for range 10 {
		if err := g.add([]float64{r.NormFloat64(), 3 * r.NormFloat64()}); err != nil {
			t.Fatal(err)
		}
	}
	set := g.around([]float64{1, -2}, 1.5)
	x, best := []float64{0.6, -0.7}, math.Inf(-1)
	for i := range 20_000 {
		angle := 2 * math.Pi * float64(i) / 20_000
		v := []float64{math.Cos(angle), math.Sin(angle)}
		length := 0.0
		for a := range 2 {
			for b := range 2 {
				length += v[a] * v[b] * g.matrix.At(a, b)
			}
		}
		point := []float64{set.Theta[0] + 1.5*v[0]/math.Sqrt(length), set.Theta[1] + 1.5*v[1]/math.Sqrt(length)}
		best = max(best, convex.Dot(x, point))
	}
	if score := convex.Dot(x, set.Theta) + set.HalfWidth(x); best > score+1e-9 || best < score-1e-4 {
		t.Errorf("score %v, largest over the surface %v", score, best)
	}
}

// Algorithm 9 starts anew after 1, 3, 7, 15 ... people, with zeta 2^(-m k) and nothing of the past.
func TestAnytimeStartsAnew(t *testing.T) {
	p, err := newOnlineParameters(lucbSetting(1, 1e-3))
	if err != nil {
		t.Fatal(err)
	}
	d, err := p.anytime(0.25)
	if err != nil {
		t.Fatal(err)
	}
	for person := 1; person < 64; person++ {
		m := math.Floor(math.Log2(float64(person)))
		if want := math.Pow(2, -m/4); math.Abs(d.run.zeta-want) > 1e-12 {
			t.Fatalf("person %d: zeta %v, want %v", person, d.run.zeta, want)
		}
		if started := person&(person-1) == 0; started != (d.run.design.added == 0) {
			t.Fatalf("person %d: the design has %d people", person, d.run.design.added)
		}
		if err := d.absorb([]float64{1, 2, 3}); err != nil {
			t.Fatal(err)
		}
	}
}

// earning is a base that does nothing, so that a test can say what it earns.
type earning struct{ absorbed int }

func (*earning) policy() (learn.Policy, error) { return learn.Data{}, nil }
func (e *earning) absorb([]float64) error      { e.absorbed++; return nil }

// Of two bases one of which earns nothing, the combiner drops it or plays it for less than a fifth of the people; a
// sole base is never dropped.
func TestCombinerLeavesTheBadBase(t *testing.T) {
	s := lucbSetting(math.Inf(1), 0.1)
	s.Horizon, s.Options = 10_000, map[string]float64{"regret": 0.1, "deviation": 0.1}
	p, err := newOnlineParameters(s, "regret", "deviation")
	if err != nil {
		t.Fatal(err)
	}
	for bad := range 2 {
		bases := []*earning{{}, {}}
		c := newCombined(p, []onlineBase{bases[0], bases[1]}, []float64{0.3, 0.6})
		c.bases[0].promise, c.bases[0].power = c.bases[1].promise, c.bases[1].power // two equal bases
		c.bases[0].handicap = c.bases[1].handicap
		r := rand.New(rand.NewPCG(7, 8))
		for range s.Horizon {
			if _, err := c.policy(); err != nil {
				t.Fatal(err)
			}
			y := 0.0
			if c.current != bad && r.Float64() < 0.9 {
				y = 1
			}
			if err := c.absorb([]float64{0, 0, y}); err != nil {
				t.Fatal(err)
			}
		}
		if n := bases[bad].absorbed; n == 0 || n > s.Horizon/5 {
			t.Errorf("the base that earns nothing got %d of %d people", n, s.Horizon)
		}
		if c.bases[0].dropped && c.bases[1].dropped {
			t.Error("no base is left")
		}
	}
}

// Half the noise of the joint bandit's tree gives more than its guarantee, and its own noise less, for the sensitivity
// of a whole stream.
func TestJointBudget(t *testing.T) {
	for _, epsilon := range []float64{0.2, 1, 10} {
		s := lucbSetting(epsilon, 1e-5)
		statistic := newLinearRecord(s).moments()
		noise, err := jointNoise(s, statistic, 1000)
		if err != nil {
			t.Fatal(err)
		}
		of := mechanism.Sensitivity{Dim: 10 * statistic.Dim(), L2: math.Sqrt(4.5 * 10)} // a leaf of 1000 is in 10 nodes
		if delta := noise.Guarantee(of).Delta(epsilon); !(delta <= 1e-5 && delta > 0.98e-5) {
			t.Errorf("epsilon %v: delta %v", epsilon, delta)
		}
		half := mechanism.Gaussian{Sigma: noise.Deviation() / 2}
		if delta := half.Guarantee(of).Delta(epsilon); delta < 5e-5 {
			t.Errorf("epsilon %v: with half the noise delta is %v", epsilon, delta)
		}
	}
}

func TestMatrixThatIsNotDefiniteIsRefused(t *testing.T) {
	if _, err := inverseRows(mat.NewSymDense(2, []float64{1, 2, 2, 1})); !errors.Is(err, errMatrix) {
		t.Error(err)
	}
}

// The handicaps are the theorem's: for a base of power 1/2 the bracket is 9/4. The bound subtracts the handicap, so
// that of two bases that earn the same the one with the smaller handicap is played.
func TestCombinerHandicaps(t *testing.T) {
	s := lucbSetting(1, 1e-3)
	p, err := newOnlineParameters(s, "regret", "deviation")
	if err != nil {
		t.Fatal(err)
	}
	c := newCombined(p, []onlineBase{&earning{}, &earning{}}, []float64{0.42, 0.84})
	const people, root = 1000., math.Sqrt2
	logs := math.Pow(math.Log(people), 1.5)
	slow, promise := math.Pow(people, 0.125), logs*root/0.84
	first := slow / (root * math.Sqrt(people) * (logs*slow + 1))
	second := 1 / (logs * root * math.Sqrt(people))
	want := promise*math.Sqrt(people) + 2.25*promise*promise*people*second +
		288*math.Log(math.Pow(people, 3)*2/s.Failure)*people*second + 1/first
	if got := c.bases[1].handicap; math.Abs(got/want-1) > 1e-9 {
		t.Errorf("handicap %v, want %v", got, want)
	}
	for i := range c.bases {
		c.bases[i].people, c.bases[i].mean, c.bases[i].handicap = 1e6, 0.5, 0
		c.bases[i].promise, c.bases[i].power = 0, 0.5
	}
	c.bases[0].handicap = 100
	if _, err := c.policy(); err != nil || c.current != 1 {
		t.Errorf("base %d is played, %v", c.current, err)
	}
}

// A base whose rewards fall behind its own mean by more than it promised is dropped, and the other then gets everyone,
// however little it earns; the last is kept.
func TestCombinerDropsABaseThatBreaksItsPromise(t *testing.T) {
	s := lucbSetting(math.Inf(1), 0.1)
	p, err := newOnlineParameters(s, "regret", "deviation")
	if err != nil {
		t.Fatal(err)
	}
	c := newCombined(p, []onlineBase{&earning{}, &earning{}}, []float64{0.3, 0.6})
	for i := range c.bases {
		c.bases[i].promise, c.bases[i].handicap = 0, 0
	}
	for step := range 2000 {
		y := 1.0
		if step >= 300 {
			y = -1
		}
		if c.current = 0; c.bases[0].dropped {
			c.current = 1
		}
		if err := c.absorb([]float64{0, 0, y}); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := c.policy(); err != nil || !c.bases[0].dropped || c.bases[1].dropped || c.current != 1 {
		t.Errorf("dropped %v and %v, base %d is played, %v", c.bases[0].dropped, c.bases[1].dropped, c.current, err)
	}
}
