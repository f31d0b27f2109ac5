package learner

import (
	"gonum.org/v1/gonum/mat"

	"github.com/riffle-dp/riffle/pkg/convex"
	"github.com/riffle-dp/riffle/pkg/glm/family"
)

// practicalRun estimates theta by one noise-aware Newton step per cohort.
//
// Cohort k releases its Hessian H and gradient g, both at the public estimate theta of the cohorts before it, with
// known noise. To first order g = H (theta - theta*) + e, where e has the sampling covariance phi H (the information
// equality of a family of dispersion phi) plus the noise of the release. So -g observes H (theta* - theta), and the
// estimate is the Gaussian posterior mean: with R the covariance of e,
//
//	W <- W + H R^-1 H,   theta <- Proj_S( theta - W^-1 H R^-1 g ),
//
// from W = priorPrecision * I and theta = 0. This pools the cohorts by precision, needs no inverse of a noisy matrix,
// and gives what the next policies sample from: W^-1 is the covariance of theta.
//
// H itself is noisy. It is shrunk to the degree that its noise demands (see estimate), and the remaining error, times
// the expected distance from the truth, is added to R. Where mu bends, a single step from far away is wrong by up to a
// share of its length. Its slopes are those of family.Curvature, with which it does not overshoot, and what it adds is
// tempered; the next cohort, Growth times larger and linearised at the new estimate, goes on from there.
//
// Where the world may change, what was known fades: see PracticalConfig.HalfLife and Alarm, and absorb.
type practicalRun struct {
	cfg      Config
	family   family.Family
	score    family.Response // of the statistics
	schedule []int
	steep    float64 // see steepness
	knowledge
	// before holds what was known before the last two cohorts, the older first: at most two.
	before []knowledge
}

// knowledge is all that the learner knows at one time. Its slices and matrices are never changed.
type knowledge struct {
	theta       []float64
	information *mat.SymDense // W
	covariance  *mat.SymDense // W^-1
	last        evidence
	age         int    // cohorts since the beginning, or since the last alarm
	prior       belief // what is known where nothing was learnt
	unchanged   float64
	spread      spread
	bias        *mat.SymDense // see steepness; nil: none
}

// belief is a normal distribution of the parameter.
type belief struct {
	theta     []float64
	precision *mat.SymDense
	given     bool // by the configuration
}

// evidence is the information that a cohort's decisions gave, by direction.
type evidence struct {
	values     []float64  // eigenvalues of the Hessian
	vectors    *mat.Dense // its eigenvectors
	people     int
	dispersion float64 // the family's dispersion
	noise      float64 // variance of an observation's error in excess of sampling
	edge       float64 // the largest eigenvalue that noise alone produces
}

// information is H R^-1 H.
func (e evidence) information() *mat.SymDense { return e.compose(1, 0) }

// expected is the information of a cohort of the given size that decides alike, in the directions whose eigenvalue
// exceeds the noise.
func (e evidence) expected(people int) *mat.SymDense {
	return e.compose(float64(people)/float64(e.people), e.edge)
}

func (e evidence) compose(ratio, least float64) *mat.SymDense {
	added := make([]float64, len(e.values))
	for i, h := range e.values {
		if h > least {
			h *= ratio
			added[i] = h * h / (e.dispersion*h + e.noise)
		}
	}
	return convex.FromSpectrum(added, e.vectors)
}

// spread is what earlier tests said of how much more sums vary than the model of single decisions says. Recent tests
// count most: the one before the last by spreadKept of the last, and so on.
type spread struct {
	sum    float64 // of the tests' statistics
	weight float64 // of the tests
	square float64 // of the tests, of the squares of their weights
}

func (s spread) and(q float64) spread {
	return spread{spreadKept*s.sum + q, spreadKept*s.weight + 1, spreadKept*spreadKept*s.square + 1}
}

// spreadKept leaves the weight of five tests in all: of more, too many would be of the time when little was known.
const spreadKept = 0.8
