package design

import (
	"fmt"
	"math"

	"github.com/riffle-dp/riffle/pkg/convex"
	"github.com/riffle-dp/riffle/pkg/glm/symmetric"
)

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

func (s *search) point(i int) []float64 { return s.points[i*s.r : (i+1)*s.r] }

// run takes steps until the certificate holds on freshly computed leverages.
func (s *search) run(opts Options) (Certificate, error) {
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
	if !symmetric.Cholesky(s.matrix, s.r, 0) {
		return fmt.Errorf("%w: the design lost rank %d", ErrNotCertified, s.r)
	}
	symmetric.InvertCholesky(s.inverse, s.matrix, s.r)
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
