package estimate

import (
	"fmt"
	"math"

	"gonum.org/v1/gonum/mat"

	"github.com/riffle-dp/riffle/pkg/convex"
	"github.com/riffle-dp/riffle/pkg/mechanism"
	"github.com/riffle-dp/riffle/pkg/privacy"
)

// Reliability and rounding.
const (
	// trusted is how often the smallest eigenvalue of the noised matrix must exceed the norm that its noise is expected
	// to have at most, for an interval to be given. At 5 the terms that the intervals leave out, of second order in the
	// noise, are a fifth of those they have; the coverage was measured there (TestIntervalsCover).
	trusted = 5
	// rowGrid is what each row's products are rounded to, so that their sums are exact (mechanism.Quantize), up to
	// mostRows.
	rowGrid  = 1.0 / (1 << 24)
	mostRows = 1 << 27
)

// secondMoments is the statistic of a linear fit with an intercept: the upper triangle of uu' for u = (1, z, y),
// without its first entry, which is 1 for everyone. Features z and target y are in [-1, 1]; entries off the diagonal
// are times sqrt 2. With k features it has (k+2)(k+3)/2 - 1 coordinates.
func secondMoments(dst, u []float64) []float64 {
	dst = dst[:0]
	for i, a := range u {
		if i > 0 {
			dst = append(dst, a*a)
		}
		for _, b := range u[i+1:] {
			dst = append(dst, math.Sqrt2*a*b)
		}
	}
	mechanism.Quantize(dst, rowGrid)
	return dst
}

// momentsMove is how far the replacement of one row can move secondMoments.
//
// Proof: the distance of aa' and bb' in the Frobenius norm is sqrt(|a|^4 + |b|^4 - 2<a,b>^2), at most sqrt 2 times the
// larger |a|^2, which is at most the length of u. The entry that is left out is the same for everyone. Rounding every
// coordinate to the grid adds at most sqrt(dim) of it.
func momentsMove(features int) mechanism.Sensitivity {
	length := float64(features + 2)
	dim := (features+2)*(features+3)/2 - 1
	return mechanism.Sensitivity{Dim: dim, L2: (math.Sqrt2*length + math.Sqrt(float64(dim))*rowGrid) * (1 + 1e-12)}
}

// Linear is least squares of a target on features with an intercept, from private second moments, with confidence
// intervals for the coefficients of the best linear prediction of clipped values. It is private sufficient statistics
// regression (Vu and Slavkovic, "Differential privacy for clinical trial data", 2009) with standard errors that count
// the noise, whose law is public.
//
// With S the exact matrix of (1, z), E its noise, s and e the vector and its noise, and M = S + E, the estimate solves
// M t = s + e. So M (t - t*) = r + e - E t*, where r is the sum of (1, z) times residuals. Given S the covariance of r
// is v S for residuals of one variance v, and that of e - E t* is known but for t*, for which t stands. The square
// roots of the diagonal of M^-1 (v S + C) M^-1 are the standard errors. For v stands the residual sum of squares plus
// two deviations of its own noise, for S stands M.
//
// What is assumed: rows are independent, residuals have one variance, there are so many rows that sums are normal, and
// the noise is smaller than what the data say in every direction (Reliable).
//
// Where the noise is larger than that, intervals come from the set of all theta that the noised equations do not rule
// out (fiellerSet): they are wide, and need neither a small noise nor one that leaves second orders out. Where that set
// has no end there are none, and Weak says whether columns are to blame.
//
// A row has one entry per feature. Errors wrap ErrFit and quote no value of a row.
func (f Fit) Linear(rows [][]float64, target []float64) (Fitted, error) {
	if err := f.check(rows, target); err != nil {
		return Fitted{}, err
	}
	moved, noise, err := f.momentsNoise()
	if err != nil {
		return Fitted{}, err
	}
	sums, variance := f.sums(rows, target, moved.Dim, noise)
	f.tell(sums)
	fitted, err := f.solve(sums, variance, len(rows))
	fitted.Guarantee = noise.Guarantee(moved)
	return fitted, err
}

// momentsNoise is the noise of Linear, and the move that it hides.
func (f Fit) momentsNoise() (mechanism.Sensitivity, mechanism.Noise, error) {
	moved := momentsMove(len(f.Features))
	rho, err := mechanism.Budget(f.Epsilon, f.Delta)
	if err != nil {
		return moved, nil, fmt.Errorf("%w: %w", ErrFit, err)
	}
	noise, err := mechanism.ForRho(moved, rho)
	if err != nil {
		return moved, nil, fmt.Errorf("%w: %w", ErrFit, err)
	}
	return moved, noise, nil
}

// checkSetting refuses what no data can be fitted with.
func (f Fit) checkSetting(rows int) error {
	if !math.IsInf(f.Epsilon, 1) {
		if err := privacy.CheckTarget(f.Epsilon, f.Delta); err != nil {
			return fmt.Errorf("%w: %w", ErrFit, err)
		}
	}
	switch {
	case len(f.Features) == 0 || len(f.Features) > 100:
		return fmt.Errorf("%w: %d features, want 1 to 100", ErrFit, len(f.Features))
	case rows < 2*len(f.Features)+10 || rows > mostRows:
		return fmt.Errorf("%w: %d rows, want %d to %d with %d features", ErrFit, rows, 2*len(f.Features)+10, mostRows,
			len(f.Features))
	case !(f.Level > 0 && f.Level < 1):
		return fmt.Errorf("%w: a confidence level of %v, want a number between 0 and 1", ErrFit, f.Level)
	}
	for i, r := range append([]Range{f.Target}, f.Features...) {
		if !r.Fits() {
			return fmt.Errorf("%w: the bounds of column %d (0 is the target) are %v and %v, want increasing ones "+
				"that can be told apart, of at most %g", ErrFit, i, r.Low, r.High, LargestBound)
		}
	}
	return nil
}

// check refuses what cannot be fitted.
func (f Fit) check(rows [][]float64, target []float64) error {
	if len(rows) != len(target) {
		return fmt.Errorf("%w: %d rows and %d targets, want equal numbers", ErrFit, len(rows), len(target))
	}
	if err := f.checkSetting(len(rows)); err != nil {
		return err
	}
	for i, row := range rows {
		if len(row) != len(f.Features) {
			return fmt.Errorf("%w: row %d has %d features, want %d", ErrFit, i+1, len(row), len(f.Features))
		}
		for _, v := range append([]float64{target[i]}, row...) {
			if math.IsNaN(v) || math.IsInf(v, 0) {
				return fmt.Errorf("%w: row %d has a value that is not a finite number", ErrFit, i+1)
			}
		}
	}
	return nil
}

// sums are the noised sums of all rows, and the variance of a coordinate's noise.
func (f Fit) sums(rows [][]float64, target []float64, dim int, noise mechanism.Noise) ([]float64, float64) {
	total, one, u := make([]float64, dim), make([]float64, 0, dim), make([]float64, len(f.Features)+2)
	for i, row := range rows {
		u[0], u[len(u)-1] = 1, f.Target.unit(target[i])
		for j, v := range row {
			u[j+1] = f.Features[j].unit(v)
		}
		one = secondMoments(one, u)
		if f.Local {
			noise.Add(one, f.Noise)
		}
		for j, v := range one {
			total[j] += v
		}
	}
	variance := noise.Deviation() * noise.Deviation()
	if f.Local {
		return total, variance * float64(len(rows))
	}
	noise.Add(total, f.Noise)
	return total, variance
}

// solve is least squares on noised sums.
func (f Fit) solve(sums []float64, variance float64, rows int) (out Fitted, err error) {
	d := len(f.Features) + 1
	n, m, s, square := float64(rows), mat.NewSymDense(d, nil), make([]float64, d), 0.0
	m.SetSym(0, 0, n)
	at := 0
	for i := range d {
		if i > 0 {
			m.SetSym(i, i, sums[at])
			at++
		}
		for j := i + 1; j < d; j++ {
			m.SetSym(i, j, sums[at]/math.Sqrt2)
			at++
		}
		s[i] = sums[at] / math.Sqrt2
		at++
	}
	square = sums[at]
	out.Rows = rows
	inverse, reliable, err := ridged(m, variance)
	if err != nil {
		return out, err
	}
	out.Reliable = reliable
	theta := product(inverse, s)
	residual := residualVariance(m, theta, s, square, variance, n)
	if !reliable {
		if out.Weak, err = weakColumns(m, variance); err != nil {
			return out, err
		}
		set, err := newFieller(m, s, residual, variance, f.quantile())
		if err != nil {
			return out, fmt.Errorf("%w: %w", ErrFit, err)
		}
		if out.Bounded = set.bounded; set.bounded {
			residual = residualVariance(m, set.estimate(), s, square, variance, n)
			f.describeSet(&out, make([]float64, d), set)
			out.Residual = math.Sqrt(residual) * f.Target.half()
			return out, nil
		}
	}
	out.Residual = math.Sqrt(residual) * f.Target.half()
	sampling, noise := sandwich(inverse, m, residual), sandwich(inverse, noiseCovariance(theta, variance), 1)
	f.describe(&out, theta, sampling, noise)
	return out, nil
}

// ridged is the inverse of a matrix whose entries have noise of the variance on the diagonal and of half of it
// elsewhere. If the noise is too large beside the smallest eigenvalue, the matrix is not reliable, and a ridge is added
// that brings the smallest eigenvalue to where it would be.
func ridged(m *mat.SymDense, variance float64) (inverse *mat.Dense, reliable bool, err error) {
	values, basis, err := convex.Spectrum(m)
	if err != nil {
		return nil, false, fmt.Errorf("%w: %w", ErrFit, err)
	}
	d, least := len(values), math.Inf(1)
	for _, v := range values {
		least = math.Min(least, v)
	}
	enough := math.Max(smallestRidge, trusted*math.Sqrt(2*float64(d)*variance))
	ridge := math.Max(0, enough-least)
	inverse = mat.NewDense(d, d, nil)
	for i := range d {
		for j := range d {
			for k, v := range values {
				inverse.Set(i, j, inverse.At(i, j)+basis.At(i, k)*basis.At(j, k)/(v+ridge))
			}
		}
	}
	return inverse, least >= enough, nil
}

// residualVariance is the variance of the residuals, plus two deviations of the noise in it; at most 1, that of any
// target in [-1, 1] around its mean.
func residualVariance(m *mat.SymDense, theta, s []float64, square, variance, n float64) float64 {
	sum, noise := square, variance
	for i, a := range theta {
		sum -= 2 * a * s[i]
		noise += 2 * variance * a * a
		for j, b := range theta {
			sum += a * b * m.At(i, j)
			if i != 0 || j != 0 { // both halves of the triangle have the same noise
				noise += variance * a * a * b * b
			}
		}
	}
	return math.Max(0, math.Min(1, (sum+2*math.Sqrt(noise))/(n-float64(len(theta)))))
}

// noiseCovariance is that of e - E theta, for the noise e of the vector and E of the matrix. Entries of E have the
// variance on the diagonal, but for the first, which has none, and half of it elsewhere, as those of e have.
func noiseCovariance(theta []float64, variance float64) *mat.SymDense {
	c := mat.NewSymDense(len(theta), nil)
	for i, a := range theta {
		own := variance / 2
		for j, b := range theta {
			switch {
			case i != j:
				own += variance / 2 * b * b
				c.SetSym(i, j, variance/2*a*b)
			case i > 0:
				own += variance * b * b
			}
		}
		c.SetSym(i, i, own)
	}
	return c
}

// sandwich is factor times inverse middle inverse.
func sandwich(inverse *mat.Dense, middle *mat.SymDense, factor float64) *mat.Dense {
	var out mat.Dense
	out.Product(inverse, middle, inverse)
	out.Scale(factor, &out)
	return &out
}

// product is m s.
func product(m *mat.Dense, s []float64) []float64 {
	out := make([]float64, len(s))
	for i := range out {
		for j, v := range s {
			out[i] += m.At(i, j) * v
		}
	}
	return out
}

// quantile is the normal quantile of the level, on both sides.
func (f Fit) quantile() float64 { return math.Sqrt2 * math.Erfinv(f.Level) }

// describe turns the coefficients of (1, z) for y into those of the data's own units.
func (f Fit) describe(out *Fitted, theta []float64, sampling, noise *mat.Dense) {
	quantile := f.quantile()
	coefficient := func(weights []float64, shift float64) Coefficient {
		c := Coefficient{Value: shift + convex.Dot(weights, theta)}
		w := mat.NewVecDense(len(weights), weights)
		first, second := math.Max(0, mat.Inner(w, sampling, w)), math.Max(0, mat.Inner(w, noise, w))
		c.Sampling, c.Noise = math.Sqrt(first), math.Sqrt(second)
		half := math.Inf(1)
		if out.Reliable {
			half = quantile * math.Sqrt(first+second)
		}
		c.Low, c.High = c.Value-half, c.Value+half
		return c
	}
	f.each(out, coefficient)
}

// describeSet is describe where a set takes the place of standard errors: of the steps from a point.
func (f Fit) describeSet(out *Fitted, from []float64, set fiellerSet) {
	step := set.estimate()
	f.each(out, func(weights []float64, shift float64) Coefficient {
		low, high := set.interval(weights)
		shift += convex.Dot(weights, from)
		return Coefficient{Value: shift + convex.Dot(weights, step), Low: shift + low, High: shift + high}
	})
}

// each makes every coefficient of the data's own units, as a linear function of those of (1, z) for y and a shift.
func (f Fit) each(out *Fitted, coefficient func(weights []float64, shift float64) Coefficient) {
	intercept := make([]float64, len(f.Features)+1)
	intercept[0] = f.Target.half()
	for j, r := range f.Features {
		weights := make([]float64, len(f.Features)+1)
		weights[j+1] = f.Target.half() / r.half()
		intercept[j+1] = -weights[j+1] * r.center()
		out.Coefficients = append(out.Coefficients, coefficient(weights, 0))
	}
	out.Intercept = coefficient(intercept, f.Target.center())
}
