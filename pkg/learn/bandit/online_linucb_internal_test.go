package bandit

import (
	"math"
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"

	"gonum.org/v1/gonum/mat"

	"github.com/riffle-dp/riffle/pkg/convex"
	"github.com/riffle-dp/riffle/pkg/glm"
	"github.com/riffle-dp/riffle/pkg/glm/family"
	"github.com/riffle-dp/riffle/pkg/glm/public"
	"github.com/riffle-dp/riffle/pkg/learn"
	"github.com/riffle-dp/riffle/pkg/mechanism"
	"github.com/riffle-dp/riffle/pkg/protocol"
)

func lucbSetting(epsilon, delta float64) learn.Setting {
	return learn.Setting{Family: family.Linear{}, Dimension: 2, Arms: 5, Horizon: 1000, Radius: 1,
		Epsilon: epsilon, Delta: delta, Failure: 0.01}
}

// The average gradient at a point is 2 E[xx'](theta - theta*) + 2 Delta^2 theta, the noise of the arm taken out,
// however large that is on each coordinate: each mean within 4.5 standard errors (false alarm below 2e-4 over the
// twelve). Without the term of the variances the first mean is off by 2 sigma^2 theta, hundreds of standard errors, and
// with one variance for both coordinates by tens of them, which is asserted.
func TestGradientOfAReportIsUnbiased(t *testing.T) {
	const n = 200_000
	theta, star := []float64{0.5, -0.3}, []float64{-0.2, 0.7}
	for _, sigma := range [][]float64{{1.5, 1.5}, {0.5, 2}} {
		variance := []float64{sigma[0] * sigma[0], sigma[1] * sigma[1]}
		one := (variance[0] + variance[1]) / 2
		for _, zeta := range []float64{0, 0.1, 0.5} {
			r := rand.New(rand.NewPCG(1, 2))
			var sum, squares, want [2]float64
			for range n {
				x := []float64{2*r.Float64() - 1, 0.5}
				y := convex.Dot(x, star) + r.NormFloat64()
				for i := range want { // E[xx'] = diag(1/3, 1/4), since the first coordinate has mean 0
					want[i] = 2*[]float64{1. / 3, 0.25}[i]*(theta[i]-star[i]) + 2*zeta*theta[i]
					x[i] += sigma[i]*r.NormFloat64() + math.Sqrt(zeta)*r.NormFloat64()
				}
				for i, v := range onlineGradient(x, y+r.NormFloat64(), theta, variance) {
					sum[i] += v
					squares[i] += v * v
				}
			}
			for i := range want {
				mean := sum[i] / n
				se := math.Sqrt((squares[i]/n - mean*mean) / n)
				if math.Abs(mean-want[i]) > 4.5*se {
					t.Errorf("sigma %v, zeta %v: mean %v, want %v, standard error %v", sigma, zeta, mean, want[i], se)
				}
				if off := 2 * math.Abs((one-variance[i])*theta[i]); one != variance[i] && off < 10*se {
					t.Errorf("one variance for both would not be noticed: off by %v, standard error %v", off, se)
				}
			}
		}
	}
}

// The policy is optimistic over the confidence set of the reports: its covariance is the inverse of V = I + sum xx',
// and its center minimises |theta|^2 + sum (<x, theta_t> - <x, theta>)^2 over the ball of the parameter. A device
// follows it.
func TestPolicyIsTheConfidenceSetOfTheReports(t *testing.T) {
	s := lucbSetting(1, 1e-3)
	for _, radius := range []float64{1, 0.02} {
		s.Radius = radius
		p, err := newOnlineParameters(s)
		if err != nil {
			t.Fatal(err)
		}
		b, err := p.base(s.Horizon, 0)
		if err != nil {
			t.Fatal(err)
		}
		r := rand.New(rand.NewPCG(3, 4))
		v, u := mat.NewSymDense(2, []float64{1, 0, 0, 1}), mat.NewVecDense(2, nil)
		for range 500 {
			report := []float64{2 * r.NormFloat64(), r.NormFloat64(), r.NormFloat64()}
			x := mat.NewVecDense(2, report[:2])
			u.AddScaledVec(u, convex.Dot(report[:2], b.learner.Point()), x)
			v.SymRankOne(v, 1, x)
			if err := b.absorb(report, []float64{4, 1, 1}); err != nil {
				t.Fatal(err)
			}
		}
		got, err := b.policy()
		if err != nil {
			t.Fatal(err)
		}
		policy := got.(learn.Data).Policy
		if err := policy.Validate(); err != nil || policy.Profile != glm.OnlineLinUCB ||
			policy.Play != glm.PlayOptimistic || policy.Optimism.Width != 1 {
			t.Fatalf("%+v, %v", policy, err)
		}
		var product mat.Dense
		product.Mul(v, policy.Optimism.Covariance.Dense(2))
		for i := range 2 {
			for j := range 2 {
				if want := map[bool]float64{true: 1}[i == j]; math.Abs(product.At(i, j)-want) > 1e-9 {
					t.Errorf("entry %d, %d of V times the covariance is %v", i, j, product.At(i, j))
				}
			}
		}
		var direct mat.VecDense
		if err := direct.SolveVec(v, u); err != nil {
			t.Fatal(err)
		}
		center, free := policy.Optimism.Theta, direct.RawVector().Data
		outside := convex.Norm(free) > radius
		if outside != (radius == 0.02) {
			t.Fatalf("the center %v of the radius %v: the test shows nothing", free, radius)
		}
		if !outside && (math.Abs(center[0]-free[0]) > 1e-9 || math.Abs(center[1]-free[1]) > 1e-9) {
			t.Errorf("center %v, want %v", center, free)
		}
		for range 1000 { // in the norm of V the center is no farther from any point of the ball than it was
			angle, length := 2*math.Pi*r.Float64(), radius*math.Sqrt(r.Float64())
			at := []float64{length * math.Cos(angle), length * math.Sin(angle)}
			if square(v, center, at) > square(v, free, at)+1e-9 {
				t.Fatalf("the point %v is %v from the center, and %v from the one without the ball", at,
					square(v, center, at), square(v, free, at))
			}
		}
	}
}

// square is |x - y|^2 in the norm of v.
func square(v *mat.SymDense, x, y []float64) float64 {
	d := mat.NewVecDense(len(x), []float64{x[0] - y[0], x[1] - y[1]})
	return mat.Inner(d, v, d)
}

// The noise zeta is public: two runs with the same reports come to the same policy, and each batch has its own. Its
// variance is Delta^2, within five standard errors.
func TestZetaIsPublic(t *testing.T) {
	s := lucbSetting(1, 1e-3)
	s.Horizon, s.Options = 40, map[string]float64{"lambda_min": 0, "threshold": 0.25, "batch": 20}
	run := func() (policies []glm.Policy) {
		l, err := OnlineLinUCB(s)
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close()
		for step := l.Next(); ; step = l.Next() {
			policies = append(policies, step.Policy.(learn.Data).Policy)
			if step.Done {
				return policies
			}
			a := learn.Answer{People: step.Question.People, Variance: [][]float64{{1, 1, 1}}}
			for i := range step.Question.People {
				a.Reports = append(a.Reports, [][]float64{{float64(i % 3), 1, -1}})
			}
			if err := l.Absorb(a); err != nil {
				t.Fatal(err)
			}
		}
	}
	if a, b := run(), run(); len(a) != 3 || !reflect.DeepEqual(a, b) {
		t.Errorf("%d policies, and others in a second run", len(a))
	}
	const n = 20_000
	first, second := make([]float64, n), make([]float64, n)
	mechanism.Gaussian{Sigma: 0.5}.Add(first, public.NewSource(zetaPurpose, 0))
	mechanism.Gaussian{Sigma: 0.5}.Add(second, public.NewSource(zetaPurpose, 1))
	variance, covariance := convex.Dot(first, first)/n, convex.Dot(first, second)/n
	if math.Abs(variance-0.25) > 5*0.25*math.Sqrt(2./n) || math.Abs(covariance) > 5*0.25/math.Sqrt(n) {
		t.Errorf("variance %v, covariance of two batches %v", variance, covariance)
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
	p.public = public.NewSource(zetaPurpose, 0)
	for person := 1; person < 64; person++ {
		m := math.Floor(math.Log2(float64(person)))
		if want := math.Pow(2, -m/4); math.Abs(d.run.zeta-want) > 1e-12 {
			t.Fatalf("person %d: zeta %v, want %v", person, d.run.zeta, want)
		}
		if started := person&(person-1) == 0; started != (d.run.absorbed == 0) {
			t.Fatalf("person %d: the design has %d people", person, d.run.absorbed)
		}
		if err := d.absorb([]float64{1, 2, 3}, make([]float64, 3)); err != nil {
			t.Fatal(err)
		}
	}
}

// A report that noise cannot explain is taken for the nearest that it can; of 30 000 honest reports with the noise of
// bits, none is changed (a false alarm in one run of a hundred, the setting's failure probability, at most).
func TestOnlyImplausibleReportsAreChanged(t *testing.T) {
	s := lucbSetting(1, 1e-3)
	s.Horizon = 30_000
	p, err := newOnlineParameters(s)
	if err != nil {
		t.Fatal(err)
	}
	e := protocol.Encoding{Scale: 4, NoiseBits: 500, Bias: protocol.BiasHalf, Coordinates: []protocol.Coordinate{
		{Offset: -1, Levels: 8}, {Offset: -1, Levels: 8}, {Offset: -1, Levels: 8}}}
	variance, src, ones := e.Variance(1, 0), rand.NewChaCha8([32]byte{5}), make([]uint64, 3)
	for range s.Horizon {
		entries, err := e.Encode(nil, []float64{1, -1, 1}, src)
		if err != nil {
			t.Fatal(err)
		}
		for j, entry := range entries {
			ones[j] = uint64(entry)
		}
		report, err := e.Decode(ones, 1, 0)
		if err != nil {
			t.Fatal(err)
		}
		if got := p.plausible(report, variance); !slices.Equal(got, report) {
			t.Fatalf("the honest report %v became %v", report, got)
		}
	}
	reach := math.Sqrt(variance[0] * 2 * math.Log(2*3*30_000/s.Failure))
	got := p.plausible([]float64{63.5, 0.5, -63.5}, variance) // the ends of what an entry can say
	if math.Abs(got[0]-1-reach) > 1e-6 || got[1] != 0.5 || math.Abs(got[2]+1+reach) > 1e-6 || reach > 40 {
		t.Errorf("%v, with a reach of %v", got, reach)
	}
}

// A dishonest device that reports the largest numbers moves the debiased estimate no more than what is plausible does.
func TestALiarIsTakenForWhatIsPlausible(t *testing.T) {
	s := lucbSetting(10, 1e-3)
	s.Horizon, s.Options = 200, map[string]float64{"debiased": 1, "batch": 200}
	last := func(liar []float64) []float64 {
		l, err := OnlineLinUCB(s)
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close()
		a, r := learn.Answer{People: 200, Variance: [][]float64{{2, 2, 2}}}, rand.New(rand.NewPCG(5, 6))
		for range 199 {
			x := []float64{r.Float64(), r.Float64()}
			a.Reports = append(a.Reports, [][]float64{{x[0] + 1.4*r.NormFloat64(), x[1] + 1.4*r.NormFloat64(),
				(x[0]+x[1])/2 + 1.4*r.NormFloat64()}})
		}
		a.Reports = append(a.Reports, [][]float64{liar})
		if err := l.Absorb(a); err != nil {
			t.Fatal(err)
		}
		return l.Next().Policy.(learn.Data).Policy.Theta
	}
	far, farther := last([]float64{30, -30, 30}), last([]float64{3000, -3000, 3000})
	if !slices.Equal(far, farther) {
		t.Errorf("numbers of 30 give %v, numbers of 3000 %v", far, farther)
	}
}
