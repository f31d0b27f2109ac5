package learner

import (
	"gonum.org/v1/gonum/mat"
)

// tempered is what a cohort's observation of theta* adds to the information W of what was known before it, if the
// slopes that its Hessian takes for granted are wrong by a share of up to c. a is the information that it would add if
// they were right.
//
// The observation is then off by about c times the distance of theta from theta*, whose covariance is W^-1. Its own
// covariance is a^-1 + c^2 W^-1, and what it adds is
//
//	(a^-1 + c^2 W^-1)^-1 = a - a (a + W/c^2)^-1 a = T a,   T = I - a (a + W/c^2)^-1.
//
// So no cohort makes the covariance smaller than c^2/(1+c^2) times itself: where the model bends, the first cohorts,
// which look at theta* from afar, do not outweigh the later ones, which look at it from nearby. Where
// noise is small that has a price: a later cohort that plays an arm only where it is good outweighs the first one's
// knowledge of the arm elsewhere (lab/docs/results.md, Shuttle). The second result is T.
func tempered(a, w *mat.SymDense, c float64) (*mat.SymDense, *mat.Dense, error) {
	d := a.SymmetricDim()
	trusted := mat.NewDense(d, d, nil)
	for i := range d {
		trusted.Set(i, i, 1)
	}
	if c == 0 {
		return a, trusted, nil
	}
	sum := mat.NewSymDense(d, nil)
	sum.ScaleSym(1/(c*c), w)
	sum.AddSym(sum, a)
	inverted, err := inverse(sum)
	if err != nil {
		return nil, nil, err
	}
	var share, product mat.Dense
	share.Mul(a, inverted)
	trusted.Sub(trusted, &share)
	product.Mul(trusted, a)
	added := mat.NewSymDense(d, nil)
	for i := range d {
		for j := i; j < d; j++ {
			added.SetSym(i, j, (product.At(i, j)+product.At(j, i))/2)
		}
	}
	return added, trusted, nil
}
