package design_test

import (
	"errors"
	"math"
	"math/rand/v2"
	"testing"

	"gonum.org/v1/gonum/floats/scalar"
	"gonum.org/v1/gonum/mat"
	"pgregory.net/rapid"

	_ "github.com/riffle-dp/riffle/internal/testing/fixedseed"
	"github.com/riffle-dp/riffle/pkg/glm/design"
)

// Designs known in closed form are found.
func TestDesignClosedForms(t *testing.T) {
	third, sin := 1.0/3, math.Sqrt(3)/2
	for _, c := range []struct {
		name    string
		arms    [][]float64
		weights []float64
		rank    int
		steps   int // at most; -1: any
	}{
		{"axes", [][]float64{{1, 0}, {0, 1}}, []float64{.5, .5}, 2, 0},
		{"axes and sum", [][]float64{{1, 0}, {0, 1}, {1, 1}}, []float64{third, third, third}, 2, 0},
		{"axes, sum and an inner arm", [][]float64{{1, 0}, {0, 1}, {1, 1}, {.5, .5}},
			[]float64{third, third, third, 0}, 2, 1},
		{"axes and a short arm", [][]float64{{1, 0}, {0, 1}, {.1, .1}}, []float64{.5, .5, 0}, 2, 1},
		{"120 degrees", [][]float64{{1, 0}, {-.5, sin}, {-.5, -sin}}, []float64{third, third, third}, 2, 0},
		{"one arm repeated", [][]float64{{.3, .4}, {.3, .4}, {.3, .4}}, []float64{third, third, third}, 1, 0},
		{"one arm", [][]float64{{.3, .4}}, []float64{1}, 1, 0},
		{"zero arms", [][]float64{{0, 0}, {0, 0}}, []float64{.5, .5}, 0, 0},
		{"a zero arm among others", [][]float64{{1, 0}, {0, 0}, {0, 1}}, []float64{.5, 0, .5}, 2, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			weights, cert, err := design.Optimal(c.arms, design.Options{Tolerance: 1e-9})
			if err != nil {
				t.Fatal(err)
			}
			if cert.Rank != c.rank || !scalar.EqualWithinAbs(cert.MaxLeverage, float64(c.rank), 1e-8) || cert.Relaxed {
				t.Errorf("certificate %+v, want rank and leverage %d", cert, c.rank)
			}
			if cert.Steps > c.steps {
				t.Errorf("%d steps, want at most %d", cert.Steps, c.steps)
			}
			for i, w := range c.weights {
				if !scalar.EqualWithinAbs(weights[i], w, 1e-9) {
					t.Errorf("weights %v, want %v", weights, c.weights)
					break
				}
			}
		})
	}
}

// leverages recomputes ||x||^2 in the norm of the pseudo-inverse of V(pi), independently of the package.
func leverages(t testing.TB, arms [][]float64, pi []float64) []float64 {
	t.Helper()
	d := len(arms[0])
	v := mat.NewSymDense(d, nil)
	for i, x := range arms {
		v.SymRankOne(v, pi[i], mat.NewVecDense(d, x))
	}
	var eigen mat.EigenSym
	if !eigen.Factorize(v, true) {
		t.Fatal("eigenvalues")
	}
	values := eigen.Values(nil)
	var u mat.Dense
	eigen.VectorsTo(&u)
	out := make([]float64, len(arms))
	for i, x := range arms {
		for k, value := range values {
			if value < 1e-10*values[d-1] {
				continue
			}
			z := 0.0
			for j := range x {
				z += u.At(j, k) * x[j]
			}
			out[i] += z * z / value
		}
	}
	return out
}

// The certificate holds on random sets, some of rank 2, checked by an independent computation.
func TestDesignCertificateOnRandomSets(t *testing.T) {
	src := rand.New(rand.NewPCG(5, 5))
	most := 0
	for trial := range 1000 {
		d, k := 5, 20
		arms := make([][]float64, k)
		for i := range arms {
			arms[i] = make([]float64, d)
			low := d
			if trial%4 == 0 {
				low = 2
			}
			z := make([]float64, low)
			for j := range z {
				z[j] = src.NormFloat64()
			}
			for j := range arms[i] {
				if low == 2 { // a fixed plane
					arms[i][j] = (z[0]*float64(j+1) + z[1]*float64(j*j-3)) / 100
				} else {
					arms[i][j] = z[j] / 4
				}
			}
		}
		weights, cert, err := design.Optimal(arms, design.Options{})
		if err != nil {
			t.Fatal(err)
		}
		sum, largest := 0.0, 0.0
		for i, q := range leverages(t, arms, weights) {
			sum += weights[i]
			largest = math.Max(largest, q)
			if weights[i] < 0 {
				t.Fatalf("trial %d: weight %v", trial, weights[i])
			}
		}
		rank := float64(cert.Rank)
		if !scalar.EqualWithinAbs(sum, 1, 1e-12) || largest > 1.01*rank*(1+1e-6) || cert.Relaxed ||
			(trial%4 == 0) != (cert.Rank == 2) {
			t.Fatalf("trial %d: weights sum to %v, leverage %v, certificate %+v", trial, sum, largest, cert)
		}
		if cert.Rank == d {
			most = max(most, cert.Steps)
		}
	}
	if most > 150 { // 110 were measured over 2000 sets
		t.Errorf("full-rank sets took up to %d steps", most)
	}
}

// The returned designs of arbitrary sets satisfy sum pi(x) ||x||^2 = rank, as every pi of full support does.
func TestDesignTraceIsTheRank(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		d, k := rapid.IntRange(1, 6).Draw(r, "d"), rapid.IntRange(1, 30).Draw(r, "k")
		scale := math.Pow(10, rapid.Float64Range(-150, 150).Draw(r, "scale"))
		arms := make([][]float64, k)
		for i := range arms {
			arms[i] = rapid.SliceOfN(rapid.Float64Range(-1, 1), d, d).Draw(r, "arm")
			for j, v := range arms[i] {
				arms[i][j] = math.Round(v*4) / 4 // many ties, zero arms, dependent arms
			}
		}
		scaled := make([][]float64, k)
		for i := range arms {
			scaled[i] = make([]float64, d)
			for j := range arms[i] {
				scaled[i][j] = arms[i][j] * scale
			}
		}
		weights, cert, err := design.Optimal(scaled, design.Options{})
		if err != nil {
			r.Fatal(err)
		}
		sum, trace := 0.0, 0.0
		for i, q := range leverages(t, arms, weights) {
			sum += weights[i]
			trace += weights[i] * q
		}
		if !scalar.EqualWithinAbs(sum, 1, 1e-12) || cert.Rank > 0 && !scalar.EqualWithinAbs(trace, float64(cert.Rank),
			1e-7) {
			r.Fatalf("weights sum to %v, trace %v, rank %d", sum, trace, cert.Rank)
		}
		if cert.MaxLeverage > 1.01*float64(cert.Rank)+1e-9 {
			r.Fatalf("certificate %+v", cert)
		}
	})
}

// The design must not depend on units or on the basis: leverages are invariant under linear maps.
func TestDesignIsInvariantUnderLinearMaps(t *testing.T) {
	src := rand.New(rand.NewPCG(1, 2))
	arms, mapped := make([][]float64, 12), make([][]float64, 12)
	for i := range arms {
		x := []float64{src.NormFloat64(), src.NormFloat64(), src.NormFloat64()}
		arms[i] = x
		mapped[i] = []float64{x[0] + 1e3*x[1], 1e-3 * x[1], x[2] - x[0]}
	}
	a, _, err := design.Optimal(arms, design.Options{Tolerance: 1e-8})
	if err != nil {
		t.Fatal(err)
	}
	b, _, err := design.Optimal(mapped, design.Options{Tolerance: 1e-8})
	if err != nil {
		t.Fatal(err)
	}
	for i := range a {
		if !scalar.EqualWithinAbs(a[i], b[i], 1e-5) {
			t.Fatalf("weights %v and %v", a, b)
		}
	}
}

// With many arms the search starts from a spanning subset; the certificate is the same.
func TestDesignOfManyArmsIsCertified(t *testing.T) {
	src := rand.New(rand.NewPCG(3, 4))
	arms := make([][]float64, 5000)
	for i := range arms {
		arms[i] = []float64{src.NormFloat64(), src.NormFloat64(), src.NormFloat64(), src.NormFloat64()}
	}
	weights, cert, err := design.Optimal(arms, design.Options{})
	if err != nil {
		t.Fatal(err)
	}
	support := 0
	for _, w := range weights {
		if w > 0 {
			support++
		}
	}
	if cert.MaxLeverage > 1.01*4 || support > 200 {
		t.Errorf("certificate %+v with %d arms in the support", cert, support)
	}
}

func TestDesignRefusesBadArmsAndOptions(t *testing.T) {
	good := [][]float64{{1, 0}, {0, 1}, {.6, .7}, {.9, -.3}}
	for _, c := range []struct {
		name string
		arms [][]float64
		opts design.Options
		want error
	}{
		{"no arms", nil, design.Options{}, design.ErrNoArms},
		{"no coordinates", [][]float64{{}}, design.Options{}, design.ErrBadArm},
		{"ragged", [][]float64{{1, 0}, {1}}, design.Options{}, design.ErrBadArm},
		{"NaN", [][]float64{{1, math.NaN()}}, design.Options{}, design.ErrBadArm},
		{"Inf", [][]float64{{1, math.Inf(-1)}}, design.Options{}, design.ErrBadArm},
		{"tolerance", good, design.Options{Tolerance: 2}, nil},
		{"NaN tolerance", good, design.Options{Tolerance: math.NaN()}, nil},
	} {
		_, _, err := design.Optimal(c.arms, c.opts)
		if err == nil || c.want != nil && !errors.Is(err, c.want) {
			t.Errorf("%s: %v", c.name, err)
		}
	}
	// One step is not enough for the tolerance: the design is flagged as relaxed, or refused if it is not even that.
	_, cert, err := design.Optimal(good, design.Options{Tolerance: 1e-12, MaxSteps: 1})
	if err != nil || !cert.Relaxed || cert.MaxLeverage > 4 {
		t.Errorf("one step: %+v, %v", cert, err)
	}
	skewed := make([][]float64, 60) // a uniform start is far from the optimum
	for i := range skewed {
		skewed[i] = []float64{1, 1e-3 * float64(i%3)}
	}
	skewed[0] = []float64{0, 1}
	_, _, err = design.Optimal(skewed, design.Options{MaxSteps: 1})
	if !errors.Is(err, design.ErrNotCertified) && err != nil {
		t.Errorf("skewed: %v", err)
	}
}

// Coordinates of all magnitudes, down to denormals, give a certified design of the directions above rank noise, or an
// error, and never a panic.
func TestDesignOfExtremeMagnitudesNeverPanics(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		d, k := rapid.IntRange(1, 5).Draw(r, "d"), rapid.IntRange(1, 8).Draw(r, "k")
		arms := make([][]float64, k)
		for i := range arms {
			arms[i] = make([]float64, d)
			for j := range arms[i] {
				if rapid.Bool().Draw(r, "nonzero") {
					arms[i][j] = rapid.Float64Range(-1, 1).Draw(r, "v")
					arms[i][j] *= math.Pow(10, rapid.Float64Range(-320, 300).Draw(r, "exponent"))
				}
			}
		}
		weights, cert, err := design.Optimal(arms, design.Options{})
		if err != nil {
			if !errors.Is(err, design.ErrNotCertified) {
				r.Fatal(err)
			}
			return
		}
		total := 0.0
		for _, w := range weights {
			if !(w >= 0) {
				r.Fatalf("weights %v", weights)
			}
			total += w
		}
		if !scalar.EqualWithinAbs(total, 1, 1e-12) || cert.MaxLeverage > 1.01*float64(cert.Rank)+1e-9 {
			r.Fatalf("weights %v, certificate %+v", weights, cert)
		}
	})
}
