// Package design finds arms that show what an arm set can show: the G-optimal design (Lemma 4.3 of Riffle's seed paper)
// with a certificate, by Frank-Wolfe with away steps, and a barycentric spanner.
//
//	design.go       options, certificate and errors
//	optimal.go      Optimal
//	search.go       the steps over all arms
//	many_arms.go    a search on subsets of many arms
//	spanner.go      Spanner
//	rank.go         arms that do not span the space
//	blocks.go       products of many vectors at once
package design

import (
	"errors"
	"fmt"

	"github.com/riffle-dp/riffle/pkg/convex"
)

const (
	// DefaultTolerance is the relative excess over the optimal worst-case leverage that the paper profile
	// accepts: max_x ||x||^2_{V^-1} <= (1+tol) * rank. An exact design has tolerance 0; Lemma 4.3 of Riffle's seed
	// paper needs only tolerance 1 (the "2d relaxation"), so 0.01 is generous and costs about a hundred O(K d) steps.
	DefaultTolerance = 0.01
	// DefaultSteps caps the steps. Random full-rank sets with d = 5 and K = 20 take about 100 at
	// tolerance 0.01; the cap exists so that a hostile arm set cannot occupy a device for long.
	DefaultSteps = 10000
	// rankTolerance is the share of the largest column of the arm matrix up to which the rest of another counts as 0.
	rankTolerance = 1e-9
	// refactorEvery is the number of rank-one updates of the inverse after which it is rebuilt from the weights.
	refactorEvery = 50
	// uniformStartLimit is the largest number of arms per dimension with which the search starts from the uniform
	// distribution; above it, it starts from a small spanning subset (Kumar and Yildirim 2005).
	uniformStartLimit = 50
)

// Errors of Optimal. A device that gets one reports the null record; it never stays silent.
var (
	// ErrNoArms is returned for an empty arm set.
	ErrNoArms = errors.New("glm: the arm set is empty")
	// ErrBadArm is returned for an arm of the wrong dimension or with a coordinate that is not finite.
	ErrBadArm = errors.New("glm: bad arm")
	// ErrNotCertified is returned when no distribution within twice the optimal leverage was found in the allowed
	// steps. An uncertified design is never played.
	ErrNotCertified = errors.New("glm: optimal design not certified")
)

// Options tunes Optimal and Spanner. The zero value means the defaults.
type Options struct {
	// Tolerance is the relative excess accepted, in [1e-12, 1]: the certificate of Optimal is max q <=
	// (1+Tolerance)*Rank, and the coefficients of Spanner are at most 1+Tolerance. Zero means DefaultTolerance and
	// SpannerTolerance.
	Tolerance float64
	// MaxSteps caps the steps; zero means DefaultSteps.
	MaxSteps int
}

// resolve fills in the cap on the steps and refuses what is out of range.
func (o Options) resolve() (Options, error) {
	if o.MaxSteps == 0 {
		o.MaxSteps = DefaultSteps
	}
	if !(o.Tolerance >= 1e-12 && o.Tolerance <= 1) || o.MaxSteps < 0 {
		return o, fmt.Errorf("glm: design tolerance %v must be in [1e-12, 1], step cap %d positive", o.Tolerance,
			o.MaxSteps)
	}
	return o, nil
}

// Certificate says how good a design is. With V = sum_i pi_i x_i x_i', q_i = ||x_i||^2_{V^-1} in the span of the arms.
// By the equivalence theorem of Kiefer and Wolfowitz, max q >= Rank for every pi, with equality exactly at the optimum.
type Certificate struct {
	Rank        int     // dimension of the span of the arms
	MaxLeverage float64 // max_i q_i, recomputed from the returned weights
	Steps       int     // Frank-Wolfe and away steps over all arms, and sweeps over a subset
	Relaxed     bool    // MaxSteps did not reach the tolerance, but MaxLeverage <= 2*Rank, enough for Lemma 4.3
}

func CheckArms(arms [][]float64) error {
	if len(arms) == 0 {
		return ErrNoArms
	}
	d := len(arms[0])
	for i, x := range arms {
		if len(x) != d || d == 0 {
			return fmt.Errorf("%w: arm %d has dimension %d, arm 0 has %d", ErrBadArm, i, len(x), d)
		}
		if j := convex.FirstNotFinite(x); j >= 0 {
			return fmt.Errorf("%w: coordinate %d of arm %d is %v", ErrBadArm, j, i, x[j])
		}
	}
	return nil
}
