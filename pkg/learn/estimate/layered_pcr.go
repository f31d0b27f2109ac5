package estimate

import (
	"fmt"
	"math"

	"gonum.org/v1/gonum/mat"

	"github.com/riffle-dp/riffle/pkg/convex"
	"github.com/riffle-dp/riffle/pkg/glm/layered"
)

// regress is LPLR-PCR, Algorithm 4 of "On the optimal regret of locally private linear contextual bandit": it finds the
// principal direction of a bin's people, orthogonal to those above, and regresses on it alone. A bin of too few people
// stays inactive: it gets no direction. All of it is a function of noised sums.
//
// What differs: the paper projects the noised matrix onto the positive matrices on the complement of the directions
// above, in operator norm, and takes its largest eigenpair. Here the matrix is compressed to that complement, which
// moves it no farther than the noise does, and has the same largest eigenpair where that is positive. The eigenvalue is
// kept in [gamma^(-2k-2)/(2d), gamma^(-2k)], as Lemma 2 proves of it. The estimate along the direction is kept in
// [-Radius, Radius], where the truth is: without this a bin of small moment can ruin all others. The direction's first
// coordinate that is not 0 is positive.
//
// above are the bins above, of which b is below the last.
func (l *layeredRun) regress(b *layered.Bin, above []layered.Bin, m moments) (known regressed, err error) {
	if !(m.share > l.least(m)) {
		return known, nil
	}
	complement := l.complement(above)
	var half, compressed mat.Dense
	half.Mul(complement.T(), m.second)
	compressed.Mul(&half, complement)
	free, _ := compressed.Dims()
	symmetric := mat.NewSymDense(free, nil)
	for i := range free {
		for j := i; j < free; j++ {
			symmetric.SetSym(i, j, (compressed.At(i, j)+compressed.At(j, i))/2/m.share)
		}
	}
	values, vectors, err := convex.Spectrum(symmetric)
	if err != nil {
		return known, fmt.Errorf("estimate: layered regression, the second moments of a bin: %w", err)
	}
	direction := mat.NewVecDense(l.dim, nil)
	direction.MulVec(complement, vectors.ColView(free-1))
	b.Direction = oriented(direction.RawVector().Data)
	square := m.radius * m.radius
	moment := min(square, max(values[free-1], square/(l.gamma*l.gamma*2*float64(l.dim))))
	b.Value = between(convex.Dot(b.Direction, m.first)/m.share/moment, l.value)
	return regressed{share: m.share, moment: moment, firstDeviation: m.firstDeviation / m.share,
		shareDeviation: m.shareDeviation / m.share, secondDeviation: m.secondDeviation / m.share,
		sampling: m.radius / math.Sqrt(m.share*m.people)}, nil
}

// regressed is what the curator knows of an active bin beside its tree: its share of the people, psi, the second moment
// s along its direction, and the standard deviations of what the regression is made of.
type regressed struct {
	share, moment                                             float64
	shareDeviation, firstDeviation, secondDeviation, sampling float64
}

// least is the share of people below which a bin is not used: so many standard deviations of the share's error. The
// paper's is kappa_1 gamma^2 (d+1)^3/sqrt(n), and at least that of Algorithm 5.
func (l *layeredRun) least(m moments) float64 {
	if l.theory != nil {
		return max(l.theory.threshold, l.theory.widthThreshold) / math.Sqrt(m.people)
	}
	sampling := max(0, m.share) / m.people
	return l.threshold * math.Sqrt(m.shareDeviation*m.shareDeviation+sampling)
}

// complement is an orthonormal basis, in columns, of what is orthogonal to the directions of bins.
func (l *layeredRun) complement(bins []layered.Bin) *mat.Dense {
	out := mat.NewDense(l.dim, l.dim, nil)
	if len(bins) == 0 {
		for i := range l.dim {
			out.Set(i, i, 1)
		}
		return out
	}
	above := mat.NewDense(l.dim, len(bins), nil)
	for j, a := range bins {
		above.SetCol(j, a.Direction)
	}
	var qr mat.QR
	qr.Factorize(above)
	qr.QTo(out)
	return mat.DenseCopyOf(out.Slice(0, l.dim, len(bins), l.dim))
}

// oriented scales a vector to norm 1, with its first coordinate that is not 0 positive.
func oriented(v []float64) []float64 {
	const negligible = 1e-9
	scale := 1 / convex.Norm(v)
	for _, x := range v {
		if math.Abs(x*scale) > negligible {
			scale = math.Copysign(scale, x)
			break
		}
	}
	for j := range v {
		v[j] *= scale
	}
	return v
}
