package glm

import (
	"errors"
	"fmt"
	"math"

	"github.com/riffle-dp/riffle/pkg/convex"
)

const (
	// DefaultDesignTolerance is the relative excess over the optimal worst-case leverage that the paper profile
	// accepts: max_x ||x||^2_{V^-1} <= (1+tol) * rank. An exact design has tolerance 0; Lemma 4.3 of Riffle's seed
	// paper needs only tolerance 1 (the "2d relaxation"), so 0.01 is generous and costs about a hundred O(K d) steps.
	DefaultDesignTolerance = 0.01
	// DefaultDesignSteps caps the steps. Random full-rank sets with d = 5 and K = 20 take about 100 at
	// tolerance 0.01; the cap exists so that a hostile arm set cannot occupy a device for long.
	DefaultDesignSteps = 10000
	// rankTolerance is the multiple of the largest singular value of the arm matrix below which the others count as 0.
	rankTolerance = 1e-9
	// refactorEvery is the number of rank-one updates of the inverse after which it is rebuilt from the weights.
	refactorEvery = 50
	// uniformStartLimit is the largest number of arms per dimension with which the search starts from the uniform
	// distribution; above it, it starts from a small spanning subset (Kumar and Yildirim 2005).
	uniformStartLimit = 50
)

// Errors of Design. A device that gets one reports the null record; it never stays silent.
var (
	// ErrNoArms is returned for an empty arm set.
	ErrNoArms = errors.New("glm: the arm set is empty")
	// ErrBadArm is returned for an arm of the wrong dimension or with a coordinate that is not finite.
	ErrBadArm = errors.New("glm: bad arm")
	// ErrNotCertified is returned when no distribution within twice the optimal leverage was found in the allowed
	// steps. An uncertified design is never played.
	ErrNotCertified = errors.New("glm: optimal design not certified")
)

// DesignOptions tunes Design. The zero value means the defaults.
type DesignOptions struct {
	// Tolerance is the relative excess accepted, in [1e-12, 1]: the certificate is max q <= (1+Tolerance)*Rank. Zero
	// means DefaultDesignTolerance.
	Tolerance float64
	// MaxSteps caps the steps; zero means DefaultDesignSteps.
	MaxSteps int
}

// Certificate says how good a design is. With V = sum_i pi_i x_i x_i', q_i = ||x_i||^2_{V^-1} in the span of the arms.
// By the equivalence theorem of Kiefer and Wolfowitz, max q >= Rank for every pi, with equality exactly at the optimum.
type Certificate struct {
	Rank        int     // dimension of the span of the arms
	MaxLeverage float64 // max_i q_i, recomputed from the returned weights
	Steps       int     // Frank-Wolfe and away steps over all arms, and sweeps over a subset
	Relaxed     bool    // MaxSteps did not reach the tolerance, but MaxLeverage <= 2*Rank, enough for Lemma 4.3
}

// Design returns a G-optimal design: a distribution over the arms that minimises the largest leverage
// max ||x||^2_{V^-1} (Lemma 4.3 of Riffle's seed paper), found by Frank-Wolfe with away steps on log det V (Wolfe 1970,
// Atwood 1973; the G- and D-optimal designs coincide by Kiefer and Wolfowitz 1960), with many arms after a search on
// subsets of them. The weights are non-negative, sum to 1, and belong to the arms in the order given; a repeated arm
// keeps its own index. Zero arms get weight zero, unless all arms are zero: then the design is uniform and has Rank 0.
//
// Every arm must have the same dimension, at least 1, and finite coordinates (ErrBadArm). The weights must be used to
// draw one arm at random; rounding them to counts would break Lemma I.1, which needs independent draws.
func Design(arms [][]float64, opts DesignOptions) ([]float64, Certificate, error) {
	if err := checkArms(arms); err != nil {
		return nil, Certificate{}, err
	}
	if opts.Tolerance == 0 {
		opts.Tolerance = DefaultDesignTolerance
	}
	if opts.MaxSteps == 0 {
		opts.MaxSteps = DefaultDesignSteps
	}
	if !(opts.Tolerance >= 1e-12 && opts.Tolerance <= 1) || opts.MaxSteps < 0 {
		return nil, Certificate{}, fmt.Errorf("glm: design tolerance %v must be in [1e-12, 1], step cap %d positive",
			opts.Tolerance, opts.MaxSteps)
	}
	points, index, rank := reduceRank(arms)
	if rank < 0 {
		return nil, Certificate{}, fmt.Errorf("%w: the arms' span could not be determined", ErrNotCertified)
	}
	weights := make([]float64, len(arms))
	if rank == 0 {
		for i := range weights {
			weights[i] = 1 / float64(len(arms))
		}
		return weights, Certificate{}, nil
	}
	w := newSearch(points, rank)
	cert, err := w.certified(opts)
	if err != nil {
		return nil, cert, err
	}
	for i, j := range index {
		weights[j] = w.weights[i]
	}
	return weights, cert, nil
}

func checkArms(arms [][]float64) error {
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

// search is the state of one design computation in reduced coordinates. points holds n rows of length r, row-major.
type search struct {
	n, r    int
	points  []float64
	weights []float64
	inverse []float64 // V^-1, r x r, row-major
	q       []float64 // leverages
	y       []float64 // V^-1 x of the step's arm
	dots    []float64 // inner products of all points with y
	matrix  []float64 // scratch r x r
}

func newSearch(points []float64, r int) *search {
	n := len(points) / r
	scratch := make([]float64, 3*n+2*r*r+r)
	s := &search{n: n, r: r, points: points,
		weights: scratch[:n], q: scratch[n : 2*n], dots: scratch[2*n : 3*n],
		inverse: scratch[3*n : 3*n+r*r], matrix: scratch[3*n+r*r : 3*n+2*r*r], y: scratch[3*n+2*r*r:]}
	return s
}

// start sets the weights from which run starts when nothing better is known.
func (s *search) start() {
	if s.n > uniformStartLimit*s.r {
		s.spanningStart()
		return
	}
	for i := range s.weights {
		s.weights[i] = 1 / float64(s.n)
	}
}

func (s *search) point(i int) []float64 { return s.points[i*s.r : (i+1)*s.r] }

// certified searches in the way that suits the number of arms.
func (s *search) certified(opts DesignOptions) (Certificate, error) {
	if isMany(s.n, s.r) {
		return s.many(opts)
	}
	s.start()
	if s.r == 1 {
		s.longest()
	}
	return s.run(opts)
}

// run takes steps until the certificate holds on freshly computed leverages.
func (s *search) run(opts DesignOptions) (Certificate, error) {
	d := float64(s.r)
	cert := Certificate{Rank: s.r}
	if err := s.refactor(); err != nil {
		return cert, err
	}
	fresh := true
	for {
		high, low := s.extremes()
		excess := s.q[high]/d - 1
		if excess <= opts.Tolerance {
			if fresh {
				cert.MaxLeverage = s.q[high]
				return cert, nil
			}
			if err := s.refactor(); err != nil {
				return cert, err
			}
			fresh = true
			continue
		}
		if cert.Steps >= opts.MaxSteps {
			break
		}
		slack := 1 - s.q[low]/d
		if excess >= slack {
			q := s.q[high]
			s.step(high, (q/d-1)/(q-1))
		} else {
			q, w := s.q[low], s.weights[low]
			a := math.Inf(1)
			if w < 1 {
				a = w / (1 - w)
			}
			if q > 1 {
				a = math.Min(a, (d-q)/(d*(q-1)))
			}
			s.step(low, -a)
		}
		cert.Steps++
		fresh = false
		if cert.Steps%refactorEvery == 0 {
			if err := s.refactor(); err != nil {
				return cert, err
			}
			fresh = true
		}
	}
	if err := s.refactor(); err != nil {
		return cert, err
	}
	high, _ := s.extremes()
	cert.MaxLeverage = s.q[high]
	if cert.MaxLeverage <= 2*d {
		cert.Relaxed = true
		return cert, nil
	}
	return cert, fmt.Errorf("%w: leverage %.4g after %d steps, optimum %d",
		ErrNotCertified, cert.MaxLeverage, cert.Steps, s.r)
}

// longest solves the one-dimensional case, where a Frank-Wolfe step would put all weight on one arm and V could not be
// updated: the design is uniform over the arms of the largest length.
func (s *search) longest() {
	largest := convex.MaxAbs(s.points)
	for i, v := range s.points {
		s.weights[i] = 0
		if math.Abs(v) >= largest*(1-1e-12) {
			s.weights[i] = 1
		}
	}
}

// extremes returns the arm of the largest leverage and, among the arms with weight, the arm of the smallest.
func (s *search) extremes() (high, low int) {
	low = -1
	for i, q := range s.q {
		if q > s.q[high] {
			high = i
		}
		if s.weights[i] > 0 && (low < 0 || q < s.q[low]) {
			low = i
		}
	}
	return high, max(low, 0)
}

// step moves the weights by pi <- (1-a) pi + a e_i and updates V^-1 and the leverages (Sherman-Morrison). a < 0 is an
// away step.
func (s *search) step(i int, a float64) {
	x := s.point(i)
	products(s.y, s.inverse, x)
	q := 0.0
	for j, v := range s.y {
		q += v * x[j]
	}
	scale, factor := 1/(1-a), a/(1-a+a*q)
	for j := range s.r {
		row := s.inverse[j*s.r : (j+1)*s.r]
		f := factor * s.y[j]
		for k := range row {
			row[k] = scale * (row[k] - f*s.y[k])
		}
	}
	products(s.dots, s.points, s.y)
	for k, dot := range s.dots {
		s.q[k] = scale * (s.q[k] - factor*dot*dot)
		s.weights[k] *= 1 - a
	}
	s.weights[i] += a
	if s.weights[i] < 1e-15 {
		s.weights[i] = 0
	}
}

// refactor cleans the weights (negatives to zero, sum to one) and rebuilds V^-1 and all leverages from them.
func (s *search) refactor() error {
	total := 0.0
	for i, w := range s.weights {
		if !(w > 0) {
			s.weights[i] = 0
			continue
		}
		total += w
	}
	for i := range s.weights {
		s.weights[i] /= total
	}
	clear(s.matrix)
	for i, w := range s.weights {
		if w == 0 {
			continue
		}
		p := s.point(i)
		for j, v := range p {
			row := s.matrix[j*s.r:]
			for k := 0; k <= j; k++ {
				row[k] += w * v * p[k]
			}
		}
	}
	if !choleskyInPlace(s.matrix, s.r, 0) {
		return fmt.Errorf("%w: the design lost rank %d", ErrNotCertified, s.r)
	}
	invertFromCholesky(s.inverse, s.matrix, s.r)
	if isMany(s.n, s.r) {
		forms(s.q, s.points, s.inverse)
		return nil
	}
	for i := range s.q {
		x, q := s.point(i), 0.0
		products(s.y, s.inverse, x)
		for j, v := range x {
			q += v * s.y[j]
		}
		s.q[i] = q
	}
	return nil
}

// quadratic is x'Mx for a square matrix in row-major order.
func quadratic(m, x []float64) float64 {
	r, sum := len(x), 0.0
	for j, v := range x {
		sum += v * convex.Dot(m[j*r:(j+1)*r], x)
	}
	return sum
}
