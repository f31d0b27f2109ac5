package privacy

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
)

// Bounds that must lie above the certificate (Renyi, cpSGD) or below it (the exact Gaussian), with known values of
// each.

// concentratedBudget returns the largest rho for which rho-zero-concentrated differential privacy implies (epsilon,
// delta)-DP by the simple conversion epsilon = rho + 2 sqrt(rho ln(1/delta)) (Bun, Steinke, 2016, Proposition 1.3). mu
// = sqrt(2 rho) is a lower bound on MuFor.
func concentratedBudget(epsilon, delta float64) float64 {
	l := math.Log(1 / delta)
	r := epsilon / (math.Sqrt(l+epsilon) + math.Sqrt(l)) // the difference of the roots, without cancellation
	return r * r
}

// cpsgd returns the epsilon of the closed-form bound for one binomial release at the given delta: Agarwal, Suresh, Yu,
// Kumar, McMahan, "cpSGD: communication-efficient and differentially-private distributed SGD", 2018, Theorem 1, with
// unit quantisation steps. L1 shift is taken as sqrt(Dimension) times the l2 shift. It is an upper neighbour of
// Certify, kept for comparison. Times must be 1.
//
// It is refused unless N p (1-p) >= max(23 ln(10 D/delta), 2 LInf), the theorem's condition.
func cpsgd(r IntegerRelease, delta float64) (float64, error) {
	if err := r.check(); err != nil {
		return 0, err
	}
	if !(delta > 0 && delta < 1) || r.Times != 1 {
		return 0, fmt.Errorf("%w: delta %v, times %d, want delta in (0,1) and one release",
			ErrNeighbour, delta, r.Times)
	}
	p, d, inf := r.Noise.p, float64(r.Dimension), math.Min(float64(r.LInf), math.Floor(r.L2))
	v := float64(r.Noise.n) * p * (1 - p)
	if need := math.Max(23*math.Log(10*d/delta), 2*inf); !(v >= need) {
		return 0, fmt.Errorf("%w: variance %v, the theorem needs %v", ErrNeighbour, v, need)
	}
	q, c, h := cpsgdConstants(p)
	l1 := math.Sqrt(d) * r.L2
	return r.L2*math.Sqrt(2*math.Log(1.25/delta))/math.Sqrt(v) +
		(r.L2*c*math.Sqrt(math.Log(10/delta))+l1*q)/(v*(1-delta/10)) +
		(2.0/3*inf*math.Log(1.25/delta)+inf*h*math.Log(20*d/delta)*math.Log(10/delta))/v, nil
}

// cpsgdConstants returns b_p, c_p and d_p of the theorem.
func cpsgdConstants(p float64) (q, c, h float64) {
	o := 1 - p
	q = 2.0/3*(p*p+o*o) + 1 - 2*p
	c = math.Sqrt2 * (3*p*p*p + 3*o*o*o + 2*p*p + 2*o*o)
	h = 4.0 / 3 * (p*p + o*o)
	return q, c, h
}

func TestRenyiDivergencesOfTheBinomial(t *testing.T) {
	for _, q := range []struct {
		n      uint64
		p      float64
		k      int
		values map[float64]float64
	}{
		{10000, 0.5, 10, map[float64]float64{2: 0.0400002, 8: 0.1600180}},
		{10000, 0.25, 10, map[float64]float64{8: 0.2162936}},
		{2000, 0.5, 6, map[float64]float64{8: 0.2882936}},
	} {
		b := binomialTable(t, q.n, q.p)
		b.renyi(q.k, 8, func(i int, got float64) {
			if want, ok := q.values[renyiOrders[i]]; ok && math.Abs(got-want) > 1e-7 {
				t.Errorf("N=%d p=%v k=%d order %v: %v, want %v", q.n, q.p, q.k, renyiOrders[i], got, want)
			}
		})
	}
}

func TestRenyiComposesReleases(t *testing.T) {
	release := func(n uint64, p float64, dimension int, shift float64, levels, times int) IntegerRelease {
		return IntegerRelease{binomialTable(t, n, p), dimension, shift + math.Sqrt(float64(dimension)), levels, times}
	}
	demo := []IntegerRelease{release(1200, 0.5, 2, 4, 4, 6), release(600, 0.5, 3, 2*math.Sqrt2, 4, 1)}
	demo3 := []IntegerRelease{release(4800, 0.5, 2, 4, 4, 6), release(4800, 0.5, 3, 2*math.Sqrt2, 4, 1)}
	covariance := release(10000, 0.5, 6, 8*math.Sqrt2, 16, 1)
	for _, q := range []struct {
		name     string
		releases []IntegerRelease
		delta    float64
		want     float64
	}{
		{"covariance p=1/2", []IntegerRelease{covariance}, 1e-5, 1.1248},
		{"covariance p=1/4", []IntegerRelease{release(14000, 0.25, 6, 8*math.Sqrt2, 16, 1)}, 1e-5, 1.1113},
		{"30 gradients", []IntegerRelease{release(50000, 0.5, 3, 4, 4, 30)}, 1e-5, 1.1490},
		{"demo, batches 1 and 2", demo, 1e-5, 3.9390},
		{"demo, batches 1 and 2", demo, 1e-6, 4.3995},
		{"demo, batch 3", demo3, 1e-5, 1.7173},
	} {
		got, err := Renyi(q.releases, q.delta, 8.5)
		if err != nil {
			t.Errorf("%s: %v", q.name, err)
			continue
		}
		if math.Abs(got.Epsilon-q.want) > 1e-3 {
			t.Errorf("%s: epsilon %v at order %v, want %v", q.name, got.Epsilon, got.Order, q.want)
		}
	}
	if got, _ := Renyi([]IntegerRelease{covariance}, 1e-5, 8.5); got.Order != 16 {
		t.Errorf("order %v, want 16", got.Order)
	}
	within(t, "Dint", covariance.L2, 13.763198, 1e-7, 1e-7)
	if got, err := cpsgd(covariance, 1e-5); err != nil || math.Abs(got-2.2101) > 1e-4 {
		t.Errorf("cpSGD of the covariance: %v, %v, want 2.2101", got, err)
	}
}

func TestMuForIsAboveConcentratedPrivacy(t *testing.T) {
	for _, q := range []struct{ epsilon, delta, want float64 }{{1, 1e-5, 0.0208199}, {2, 1e-5, 0.0800454},
		{1, 1e-6, 0.0174689}, {8, 1e-6, 0.9097068}} {
		got := concentratedBudget(q.epsilon, q.delta)
		if math.Abs(got-q.want) > 1e-7 {
			t.Errorf("rho(%v,%v) = %v, want %v", q.epsilon, q.delta, got, q.want)
		}
		if mu, _ := MuFor(q.epsilon, q.delta); mu < math.Sqrt(2*got) {
			t.Errorf("mu(%v,%v) = %v below sqrt(2 rho) = %v", q.epsilon, q.delta, mu, math.Sqrt(2*got))
		}
	}
}

func TestCPSGDHasThePaperConstants(t *testing.T) {
	for _, w := range [][4]float64{{0.5, 1.0 / 3, 2.4748737, 2.0 / 3}, {0.25, 0.9166667, 3.6239223, 0.8333333}} {
		q, c, h := cpsgdConstants(w[0])
		if math.Abs(q-w[1]) > 1e-7 || math.Abs(c-w[2]) > 1e-7 || math.Abs(h-w[3]) > 1e-7 {
			t.Errorf("p=%v: %v %v %v, want %v", w[0], q, c, h, w[1:])
		}
	}
	r := IntegerRelease{binomialTable(t, 1e6, 0.5), 1, 1, 1, 1}
	if got, err := cpsgd(r, 1e-6); err != nil || math.Abs(got-0.0113987) > 1e-7 {
		t.Errorf("cpSGD: %v, %v, want 0.0113987", got, err)
	}
	r.Noise = binomialTable(t, 100, 0.5)
	if _, err := cpsgd(r, 1e-6); !errors.Is(err, ErrNeighbour) {
		t.Errorf("variance 25 accepted: %v", err)
	}
}

// TestPaperParametersGiveFarLessThanEpsilonOne is arithmetic only: the constants that make the paper's own parameters
// undeployable.
func TestPaperParametersGiveFarLessThanEpsilonOne(t *testing.T) {
	const n, d, epsilon, delta = 1000.0, 3.0, 1.0, 1e-6
	g := math.Ceil(math.Max(2*math.Sqrt(n), math.Max(d, 4)))
	l := math.Log(4 * (d*d + 1) / delta)
	b := 24e4 * g * g * l * l / (epsilon * epsilon * n)
	within(t, "g", g, 64, 0, 0)
	within(t, "b", b, 3.012e8, 1e-3, 1e-3)
	within(t, "std of a sum", 2/g*math.Sqrt(n*(0.25+b*3/16)), 7426.48, 1e-4, 1e-4)
	// The certificate says what those bits are worth.
	got, err := Certify(Release{Blocks: []Block{{9, g}}, Shift: g * math.Sqrt2 / 2, Noise: uint64(n * b), Bias: 0.25,
		TailDelta: 1e-9})
	if err != nil {
		t.Fatal(err)
	}
	if e := got.Epsilon(delta); e > 0.01 {
		t.Errorf("epsilon %v of the theory profile, expected far below 1", e)
	}
}

// TestCertificateIsBetweenItsNeighbours places the certificate above the exact Gaussian of the same variance and below
// Renyi and cpSGD wherever they apply, and checks monotonicity in noise bits, cohort and releases.
func TestCertificateIsBetweenItsNeighbours(t *testing.T) {
	const delta = 1e-6
	last := math.Inf(1)
	for _, n := range []uint64{1000, 2000, 5000, 20000, 100000} {
		for _, p := range []float64{0.5, 0.25} {
			b := binomialTable(t, n, p)
			for _, D := range []int{1, 6, 15} {
				for _, g := range []float64{1, 4, 8} {
					bound, err := Certify(Release{Blocks: []Block{{D, math.Inf(1)}}, Shift: g, Noise: n, Bias: p,
						TailDelta: 0.02 * delta / float64(D)})
					if err != nil {
						t.Fatal(err)
					}
					e := bound.Epsilon(delta)
					gauss := Guarantee{Mu: g / b.Sigma()}
					if lower := gauss.Epsilon(delta); e < lower {
						t.Errorf("N=%d p=%v D=%d g=%v: epsilon %v below the Gaussian's %v", n, p, D, g, e, lower)
					}
					r := IntegerRelease{b, D, g + math.Sqrt(float64(D)), int(g) + 1, 1}
					renyi, err := Renyi([]IntegerRelease{r}, 0.98*delta, 8.5)
					if err != nil || renyi.Epsilon < e {
						t.Errorf("N=%d p=%v D=%d g=%v: Renyi %v (%v) below the certificate's %v",
							n, p, D, g, renyi.Epsilon, err, e)
					}
					if closed, err := cpsgd(r, delta); err == nil && closed < renyi.Epsilon {
						t.Errorf("N=%d p=%v D=%d g=%v: cpSGD %v below Renyi %v", n, p, D, g, closed, renyi.Epsilon)
					}
				}
			}
		}
		one, err := Certify(Release{Blocks: []Block{{6, math.Inf(1)}}, Shift: 4, Noise: n, Bias: 0.5, TailDelta: 1e-9})
		if err != nil {
			t.Fatal(err)
		}
		e1, e2, e3 := one.Epsilon(delta), Compose(one, one).Epsilon(delta), Compose(one, one, one).Epsilon(delta)
		if !(e1 < last && e1 < e2 && e2 < e3) {
			t.Errorf("N=%d: epsilon %v, %v, %v for one to three releases, %v with less noise", n, e1, e2, e3, last)
		}
		last = e1
	}
}

// TestDistinguisherStaysWithinTheCertificate plays the adversary: two cohorts that differ in one record's extreme
// opposite, one coordinate with 4 levels, 20 devices, 8 noise bits each; the best threshold's empirical advantage stays
// below what (epsilon, delta) allows. With 20000 runs a side the empirical advantage has a standard error below 0.005;
// the allowance of four of them keeps the false-alarm rate below 1e-4. Power: the same runs with no noise bits at all
// are caught, as their advantage is about 0.9 where less than 0.6 is allowed.
func TestDistinguisherStaysWithinTheCertificate(t *testing.T) {
	const runs, devices, levels, bits = 20000, 20, 4, 8
	g, err := Certify(Release{Blocks: []Block{{1, levels}}, Shift: levels, Noise: devices * bits, Bias: 0.5,
		TailDelta: 1e-4})
	if err != nil {
		t.Fatal(err)
	}
	rng := rand.New(rand.NewPCG(5, 6))
	advantage := func(noise int) float64 {
		counts := [2][]int{make([]int, devices*(levels+bits)+1), make([]int, devices*(levels+bits)+1)}
		for world := range counts {
			for range runs {
				count := world * levels // the record in question
				for range devices - 1 {
					if rng.Float64() < 0.4 { // others hold 1.4 levels: one plus a rounding bit
						count++
					}
					count++
				}
				for range devices * noise {
					count += int(rng.Uint64() & 1)
				}
				counts[world][count]++
			}
		}
		best, sum := 0, 0
		for i := range counts[0] {
			sum += counts[0][i] - counts[1][i]
			best = max(best, sum)
		}
		return float64(best) / runs
	}
	allowed := math.Inf(1)
	for e := 0.0; e < 5; e += 0.01 {
		allowed = math.Min(allowed, (math.Expm1(e)+2*g.Delta(e))/(math.Exp(e)+1))
	}
	if got := advantage(bits); got > allowed+0.02 {
		t.Errorf("advantage %v, allowed %v", got, allowed)
	} else {
		t.Logf("advantage %.4f, allowed %.4f", got, allowed)
	}
	if got := advantage(0); got <= allowed+0.02 {
		t.Errorf("without noise bits the test sees an advantage of only %v (allowed %v): it has no power", got, allowed)
	}
}
