package learner

import (
	"math"
	"testing"

	"gonum.org/v1/gonum/mat"
	"pgregory.net/rapid"

	_ "github.com/riffle-dp/riffle/internal/testing/fixedseed"
	"github.com/riffle-dp/riffle/pkg/convex"
)

// drawMatrix is B B' + I/10 for a random B.
func drawMatrix(r *rapid.T, d int, name string) *mat.SymDense {
	b := mat.NewDense(d, d, rapid.SliceOfN(rapid.Float64Range(-1, 1), d*d, d*d).Draw(r, name))
	m := mat.NewSymDense(d, nil)
	m.SymOuterK(1, b)
	for i := range d {
		m.SetSym(i, i, m.At(i, i)+0.1)
	}
	return m
}

func sameMatrix(a, b mat.Matrix, tolerance float64) bool { return mat.EqualApprox(a, b, tolerance) }

// runsOf cuts d = n p coordinates into n runs.
func runsOf(n, p int) (runs [][]int) {
	for b := range n {
		var run []int
		for i := range p {
			run = append(run, b*p+i)
		}
		runs = append(runs, run)
	}
	return runs
}

// blocks puts matrices on the diagonal.
func blocks(all ...*mat.SymDense) *mat.SymDense {
	p := all[0].SymmetricDim()
	h := mat.NewSymDense(p*len(all), nil)
	for b, m := range all {
		for i := range p {
			for j := i; j < p; j++ {
				h.SetSym(b*p+i, b*p+j, m.At(i, j))
			}
		}
	}
	return h
}

// Without noise an estimate by runs is the release as it was, all of its deviation is kept, and its eigenvectors lie in
// one run each.
func TestEstimateWithoutNoiseIsTheRelease(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		n, p := rapid.IntRange(2, 4).Draw(r, "runs"), rapid.IntRange(1, 3).Draw(r, "size")
		var all []*mat.SymDense
		for range n {
			all = append(all, drawMatrix(r, p, "run"))
		}
		h := blocks(all...)
		e, err := estimate(h, n*p*(p+1)/2, runsOf(n, p), 0, 1e6)
		if err != nil {
			r.Fatal(err)
		}
		if back := convex.FromSpectrum(e.values, e.vectors); !sameMatrix(back, h, 1e-9) {
			r.Fatalf("%v became %v", mat.Formatted(h), mat.Formatted(back))
		}
		whole, err := estimate(h, n*p*(n*p+1)/2, nil, 0, 1e6)
		if err != nil || !sameMatrix(convex.FromSpectrum(whole.values, whole.vectors), h, 1e-9) {
			r.Fatalf("without runs %v became %+v, %v", mat.Formatted(h), whole, err)
		}
		for j := range n * p {
			for i := range n * p {
				if i/p != j/p && e.vectors.At(i, j) != 0 {
					r.Fatalf("eigenvector %d of run %d has coordinate %d", j, j/p, i)
				}
			}
		}
	})
}

// With noise that explains all, every run gets the shape of their sum, each with its own trace; with less noise the
// share that is kept is that of the deviation that noise does not explain.
func TestEstimateByRunsSharesTheirShape(t *testing.T) {
	one, two := mat.NewSymDense(2, []float64{40, 4, 4, 20}), mat.NewSymDense(2, []float64{80, -4, -4, 60})
	h := blocks(one, two)
	// The sum is diagonal, 120 and 80. Its squared deviation from a multiple of I is 800, of which noise explains some.
	const noise = 8.0
	sumKept := 1 - 2*noise*2/800
	shape := mat.NewSymDense(2, []float64{0.5 + 0.1*sumKept, 0, 0, 0.5 - 0.1*sumKept})
	targets := blocks(scaled(shape, 60), scaled(shape, 140))
	want := 1 - noise*4/squared(h, targets)
	e, err := estimate(h, 6, runsOf(2, 2), noise, 1e6)
	if err != nil || !(want > 0.1 && want < 0.95) || math.Abs(e.kept-want) > 1e-9 {
		t.Fatalf("kept %v, want %v, %v", e.kept, want, err)
	}
	mixed := mat.NewSymDense(4, nil)
	for i := range 4 {
		for j := i; j < 4; j++ {
			mixed.SetSym(i, j, want*h.At(i, j)+(1-want)*targets.At(i, j))
		}
	}
	if got := convex.FromSpectrum(e.values, e.vectors); !sameMatrix(got, mixed, 1e-9) {
		t.Errorf("%v, want %v", mat.Formatted(got), mat.Formatted(mixed))
	}
	// All is noise: multiples of I, as the sum's shape is no more than that either.
	e, err = estimate(h, 6, runsOf(2, 2), 1000, 1e6)
	if err != nil || e.kept != 0 {
		t.Fatalf("kept %v, %v", e.kept, err)
	}
	if e.values[0] != e.values[1] || e.values[2] != e.values[3] || e.values[2] <= e.values[0] {
		t.Errorf("eigenvalues %v, want one for each run", e.values)
	}
}

// Where the coordinates of a run do not stand together, as those of tied groups, the estimate is that of the same
// matrix with its coordinates in another order.
func TestEstimateByRunsThatDoNotStandTogether(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		n, p := rapid.IntRange(2, 3).Draw(r, "runs"), rapid.IntRange(1, 3).Draw(r, "size")
		var all []*mat.SymDense
		for range n {
			all = append(all, scaled(drawMatrix(r, p, "run"), 20))
		}
		h, d := blocks(all...), n*p
		places := rapid.Permutation(ordered(d)).Draw(r, "places")
		runs, moved := runsOf(n, p), mat.NewSymDense(d, nil)
		for b := range runs {
			for i, at := range runs[b] {
				runs[b][i] = places[at]
			}
		}
		for i := range d {
			for j := i; j < d; j++ {
				moved.SetSym(places[i], places[j], h.At(i, j))
			}
		}
		variance := rapid.SampledFrom([]float64{0, 1, 30}).Draw(r, "variance")
		want, err := estimate(h, n*p*(p+1)/2, runsOf(n, p), variance, 1e6)
		if err != nil {
			r.Fatal(err)
		}
		got, err := estimate(moved, n*p*(p+1)/2, runs, variance, 1e6)
		if err != nil || math.Abs(got.kept-want.kept) > 1e-9 {
			r.Fatalf("kept %v, want %v, %v", got.kept, want.kept, err)
		}
		a, b := convex.FromSpectrum(want.values, want.vectors), convex.FromSpectrum(got.values, got.vectors)
		for i := range d {
			for j := range d {
				if math.Abs(a.At(i, j)-b.At(places[i], places[j])) > 1e-9*(1+math.Abs(a.At(i, j))) {
					r.Fatalf("%v, and of %v: %v", mat.Formatted(a), places, mat.Formatted(b))
				}
			}
		}
	})
}

func ordered(n int) (all []int) {
	for i := range n {
		all = append(all, i)
	}
	return all
}

func scaled(m *mat.SymDense, by float64) *mat.SymDense {
	out := mat.NewSymDense(m.SymmetricDim(), nil)
	out.ScaleSym(by, m)
	return out
}

// A release of zeros without noise, as of a cohort that reported nothing, is an estimate of zero.
func TestEstimateOfNothingIsNothing(t *testing.T) {
	for _, runs := range [][][]int{nil, runsOf(2, 2)} {
		e, err := estimate(mat.NewSymDense(4, nil), 6, runs, 0, 100)
		if err != nil || mat.Norm(convex.FromSpectrum(e.values, e.vectors), 2) != 0 {
			t.Errorf("runs %v: %+v, %v", runs, e, err)
		}
	}
}

// Whatever is released, the estimate has eigenvalues in [0, ceiling], orthonormal eigenvectors and a share in [0, 1].
func TestEstimatesAreCovariances(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		n, p := rapid.IntRange(1, 3).Draw(r, "runs"), rapid.IntRange(1, 3).Draw(r, "size")
		var all []*mat.SymDense
		for range n {
			m := mat.NewSymDense(p, nil)
			for i := range p {
				for j := i; j < p; j++ {
					m.SetSym(i, j, rapid.Float64Range(-100, 100).Draw(r, "entry"))
				}
			}
			all = append(all, m)
		}
		runs := runsOf(n, p)
		if n == 1 {
			runs = nil
		}
		variance := rapid.SampledFrom([]float64{0, 1, 100, 1e6}).Draw(r, "variance")
		const ceiling = 50
		e, err := estimate(blocks(all...), n*p*(p+1)/2, runs, variance, ceiling)
		if err != nil || !(e.kept >= 0 && e.kept <= 1) {
			r.Fatalf("%+v, %v", e, err)
		}
		for _, v := range e.values {
			if !(v >= 0 && v <= ceiling) {
				r.Fatalf("eigenvalues %v", e.values)
			}
		}
		var product mat.Dense
		product.Mul(e.vectors.T(), e.vectors)
		if !sameMatrix(&product, eye(n*p), 1e-9) {
			r.Fatalf("eigenvectors %v", mat.Formatted(e.vectors))
		}
	})
}

func eye(d int) *mat.SymDense {
	m := mat.NewSymDense(d, nil)
	for i := range d {
		m.SetSym(i, i, 1)
	}
	return m
}

// What is added is (a^-1 + c^2 W^-1)^-1, computed here by inverses, and T a is it; a cohort that says nothing adds
// nothing; no cohort makes the covariance smaller than c^2/(1+c^2) times itself in any direction.
func TestTemperedIsTheInverseOfBothErrors(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		d, c := rapid.IntRange(1, 4).Draw(r, "d"), rapid.Float64Range(0.05, 1).Draw(r, "c")
		a, w := drawMatrix(r, d, "a"), drawMatrix(r, d, "w")
		a.ScaleSym(rapid.SampledFrom([]float64{1e-3, 1, 1e3}).Draw(r, "scale"), a)
		added, trusted, err := tempered(a, w, c)
		if err != nil {
			r.Fatal(err)
		}
		var ai, wi, sum, want, product mat.Dense
		if ai.Inverse(a) != nil || wi.Inverse(w) != nil {
			r.Fatal("singular")
		}
		wi.Scale(c*c, &wi)
		sum.Add(&ai, &wi)
		if want.Inverse(&sum) != nil {
			r.Fatal("singular")
		}
		size := mat.Norm(&want, 2)
		if !sameMatrix(added, &want, 1e-6*(1+size)) {
			r.Fatalf("%v, want %v", mat.Formatted(added), mat.Formatted(&want))
		}
		if product.Mul(trusted, a); !sameMatrix(&product, added, 1e-6*(1+size)) {
			r.Fatalf("T a is %v, added %v", mat.Formatted(&product), mat.Formatted(added))
		}
		most := mat.NewSymDense(d, nil) // W/c^2 - added
		most.ScaleSym(1/(c*c), w)
		for i := range d {
			for j := i; j < d; j++ {
				most.SetSym(i, j, most.At(i, j)-added.At(i, j))
			}
		}
		values, _, err := convex.Spectrum(most)
		if err != nil || values[0] < -1e-6*(1+size) || values[len(values)-1] < -1e-6*(1+size) {
			r.Fatalf("it adds more than W/c^2: %v, %v", values, err)
		}
	})
	w := mat.NewSymDense(2, []float64{2, 0.5, 0.5, 1})
	if added, trusted, err := tempered(mat.NewSymDense(2, nil), w, 0.5); err != nil || mat.Norm(added, 2) != 0 ||
		!sameMatrix(trusted, eye(2), 0) {
		t.Errorf("of nothing: %v, %v, %v", added, trusted, err)
	}
	if added, trusted, err := tempered(w, w, 0); err != nil || !mat.Equal(added, w) || !sameMatrix(trusted, eye(2), 0) {
		t.Errorf("with slopes that are right: %v, %v, %v", added, trusted, err)
	}
}
