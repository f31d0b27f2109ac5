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
	// mostGroups bounds the groups of a fit: each has a block of sums, of some thousand numbers with 100 features.
	mostGroups = 1000
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

// momentsVector is what a row adds. With groups the entry that is 1 for everyone is there as well, first: it counts the
// rows of a group.
//
// It moves as far as without: rows of one group have that entry in common, and those of two groups are where their
// vectors are orthogonal, at sqrt(|a|^4 + |b|^4), which is at most sqrt 2 times the length of u, too.
func (f Fit) momentsVector() rowVector {
	v := rowVector{name: "second moments", moved: momentsMove(len(f.Features))}
	if f.Groups > 0 {
		v.moved.Dim++
		v.lower, v.upper = []float64{0}, []float64{1}
	}
	n := len(f.Features) + 2
	for i := range n {
		if i > 0 {
			v.lower, v.upper = append(v.lower, 0), append(v.upper, 1)
		}
		for range n - 1 - i {
			v.lower, v.upper = append(v.lower, -math.Sqrt2), append(v.upper, math.Sqrt2)
		}
	}
	return v
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
	f.Groups = 0
	all, guarantee, err := f.moments(rows, target, nil)
	if err != nil {
		return Fitted{}, err
	}
	out, err := f.solve(all[0])
	out.Guarantee = guarantee
	return out, err
}

// moments are the noised second moments of the target and the features, of each group.
func (f Fit) moments(rows [][]float64, target []float64, group []int) ([]noisedMoments, privacy.Guarantee, error) {
	v := f.momentsVector()
	planned, err := f.plan(v, []float64{1}, len(rows))
	if err != nil {
		return nil, privacy.NoGuarantee(), err
	}
	if err := f.spend(planned); err != nil {
		return nil, privacy.NoGuarantee(), err
	}
	sums, err := f.release(planned, 0, len(rows), groupOf(group), f.momentsOf(rows, target))
	if err != nil {
		return nil, privacy.NoGuarantee(), err
	}
	variance, out := f.variance(planned, 0, len(rows)), make([]noisedMoments, planned.blocks)
	for g := range out {
		out[g] = f.unpack(sums[g*planned.block:][:planned.block], len(rows), variance)
	}
	return out, planned.guarantee, nil
}

// momentsOf makes the vector of a row.
func (f Fit) momentsOf(rows [][]float64, target []float64) func(dst []float64, row int) []float64 {
	u := make([]float64, len(f.Features)+2)
	return func(dst []float64, row int) []float64 {
		u[0], u[len(u)-1] = 1, f.Target.unit(target[row])
		for j, v := range rows[row] {
			u[j+1] = f.Features[j].unit(v)
		}
		if f.Groups > 0 {
			return append(append(dst, 1), secondMoments(dst[1:1], u)...)
		}
		return secondMoments(dst, u)
	}
}

// groupOf tells the group of a row; nil stands for one group.
func groupOf(group []int) func(row int) int {
	if group == nil {
		return func(int) int { return 0 }
	}
	return func(row int) int { return group[row] }
}

// checkSetting refuses what no data can be fitted with.
func (f Fit) checkSetting(rows int) error {
	if !math.IsInf(f.Epsilon, 1) {
		if err := privacy.CheckTarget(f.Epsilon, f.Delta); err != nil {
			return fmt.Errorf("%w: %w", ErrFit, err)
		}
	}
	switch {
	case len(f.Features) == 0 && f.Groups == 0 || len(f.Features) > 100:
		return fmt.Errorf("%w: %d features, want 1 to 100", ErrFit, len(f.Features))
	case f.Groups < 0 || f.Groups > mostGroups:
		return fmt.Errorf("%w: %d groups, want at most %d", ErrFit, f.Groups, mostGroups)
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

// noisedMoments are noised sums of second moments, as a matrix M of (1, z), a vector s and a number.
type noisedMoments struct {
	m        *mat.SymDense
	s        []float64
	square   float64 // of the target
	variance float64 // of the noise on M's diagonal; elsewhere half of it
	counted  bool    // M's first entry is noised, too: nobody knows how many rows there are
	rows     int
}

// unpack reads a block of sums.
func (f Fit) unpack(sums []float64, rows int, variance float64) noisedMoments {
	d, at := len(f.Features)+1, 0
	out := noisedMoments{m: mat.NewSymDense(d, nil), s: make([]float64, d), variance: variance, counted: f.Groups > 0,
		rows: rows}
	out.m.SetSym(0, 0, float64(rows))
	if out.counted {
		out.m.SetSym(0, 0, sums[0])
		out.rows, at = int(math.Max(0, math.Round(sums[0]))), 1
	}
	for i := range d {
		if i > 0 {
			out.m.SetSym(i, i, sums[at])
			at++
		}
		for j := i + 1; j < d; j++ {
			out.m.SetSym(i, j, sums[at]/math.Sqrt2)
			at++
		}
		out.s[i] = sums[at] / math.Sqrt2
		at++
	}
	out.square = sums[at]
	return out
}

// solve is least squares on noised sums.
func (f Fit) solve(o noisedMoments) (out Fitted, err error) {
	m, s, variance, d := o.m, o.s, o.variance, len(o.s)
	out.Rows = o.rows
	inverse, reliable, err := ridged(m, variance)
	if err != nil {
		return out, err
	}
	out.Reliable = reliable
	theta := product(inverse, s)
	residual := o.residual(theta)
	if !reliable {
		if out.Weak, err = weakColumns(m, variance); err != nil {
			return out, err
		}
		set, err := newFieller(m, s, residual, variance, f.quantile())
		if err != nil {
			return out, fmt.Errorf("%w: %w", ErrFit, err)
		}
		if out.Bounded = set.bounded; set.bounded {
			residual = o.residual(set.estimate())
			f.describeSet(&out, make([]float64, d), set)
			out.Residual = math.Sqrt(residual) * f.Target.half()
			return out, nil
		}
	}
	out.Residual = math.Sqrt(residual) * f.Target.half()
	sampling, noise := sandwich(inverse, m, residual), sandwich(inverse, noiseCovariance(theta, variance, o.counted), 1)
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

// residual is the variance of the residuals, plus two deviations of the noise in it; at most 1, that of any target in
// [-1, 1] around its mean.
func (o noisedMoments) residual(theta []float64) float64 {
	sum, noise := o.square, o.variance
	for i, a := range theta {
		sum -= 2 * a * o.s[i]
		noise += 2 * o.variance * a * a
		for j, b := range theta {
			sum += a * b * o.m.At(i, j)
			if i != 0 || j != 0 || o.counted { // both halves of the triangle have the same noise
				noise += o.variance * a * a * b * b
			}
		}
	}
	rows := math.Max(1, o.m.At(0, 0)-float64(len(theta)))
	return math.Max(0, math.Min(1, (sum+2*math.Sqrt(noise))/rows))
}

// noiseCovariance is that of e - E theta, for the noise e of the vector and E of the matrix. Entries of E have the
// variance on the diagonal, but for the first, which has none unless it is counted, and half of it elsewhere, as those
// of e have.
func noiseCovariance(theta []float64, variance float64, counted bool) *mat.SymDense {
	c := mat.NewSymDense(len(theta), nil)
	for i, a := range theta {
		own := variance / 2
		for j, b := range theta {
			switch {
			case i != j:
				own += variance / 2 * b * b
				c.SetSym(i, j, variance/2*a*b)
			case i > 0 || counted:
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
