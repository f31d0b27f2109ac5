package online

import (
	"fmt"
	"math"
	"slices"

	"gonum.org/v1/gonum/mat"

	"github.com/riffle-dp/riffle/pkg/convex"
)

// Maler is Algorithm 5, with its experts of Algorithms 6 (convex), 7 (exp-concave) and 8 (strongly convex), of
// "Improved rate for locally differentially private linear bandits", after Wang, Lu and Zhang, "Adaptivity and
// optimality: a universal algorithm for online convex optimization" (2020). It plays a weighted mean of experts that
// learn at different rates, and does nearly as well as the best of them, whatever the losses are: regret O(sqrt T) if
// they are convex, O(log T) if they are strongly convex.
//
// The paper gives neither rates nor prior weights; they are those of Wang, Lu and Zhang with the diameter 2D of the
// ball. The paper prints the constant of Algorithm 7 as min(2/(Gl D), 1)/2, which is 1/2; with the diameter 2D it is
// min(1/(4 Gl 2D), 1)/2 at Gl = 7/(50 D), which is 25/56.
type Maler struct {
	domain Domain
	round  int
	convex expert
	strong []expert // one for each rate
	curved []expert // the exp-concave ones, one for each rate
	point  []float64
}

// expert is one learner of the mean.
type expert struct {
	rate  float64 // eta
	log   float64 // of its weight, normalised so that the weights sum to 1
	point []float64
	// Of an exp-concave expert: the metric of its steps, and its inverse, row by row.
	shape   *mat.SymDense
	inverse []float64
}

// curvature is the constant of the exp-concave experts; see Maler.
const curvature = 25. / 56

// NewMaler starts a learner for so many rounds; it may be told more gradients, with a weaker bound.
func NewMaler(d Domain, rounds int) (*Maler, error) {
	if err := d.check(); err != nil {
		return nil, err
	}
	if rounds < 1 {
		return nil, fmt.Errorf("%w: %d rounds", ErrParameter, rounds)
	}
	m := &Maler{domain: d, convex: start(d, 1/(4*d.Gradient*d.Radius*math.Sqrt(float64(rounds))), 1./3)}
	last := int(math.Ceil(math.Log2(float64(rounds)) / 2))
	norm := 1 + 1/float64(1+last) // so that all weights sum to 1
	for i := range last + 1 {
		rate := math.Ldexp(1, -i) / (10 * d.Gradient * d.Radius)
		prior := norm / (3 * float64(i+1) * float64(i+2))
		m.strong = append(m.strong, start(d, rate, prior))
		e := start(d, rate, prior)
		e.shape = mat.NewSymDense(d.Dimension, nil)
		e.inverse = make([]float64, d.Dimension*d.Dimension)
		for j := range d.Dimension {
			first := 1 / (4 * curvature * curvature * d.Radius * d.Radius)
			e.shape.SetSym(j, j, first)
			e.inverse[j*d.Dimension+j] = 1 / first
		}
		m.curved = append(m.curved, e)
	}
	m.mean()
	return m, nil
}

// start is an expert at 0.
func start(d Domain, rate, prior float64) expert {
	return expert{rate: rate, log: math.Log(prior), point: make([]float64, d.Dimension)}
}

// Point implements Learner.
func (m *Maler) Point() []float64 { return slices.Clone(m.point) }

// experts yields all experts.
func (m *Maler) experts(yield func(*expert)) {
	yield(&m.convex)
	for i := range m.strong {
		yield(&m.strong[i])
		yield(&m.curved[i])
	}
}

// mean sets the point to the mean of the experts by weight and rate.
func (m *Maler) mean() {
	point, total := make([]float64, m.domain.Dimension), 0.0
	m.experts(func(e *expert) {
		w := math.Exp(e.log) * e.rate
		total += w
		along(point, e.point, w)
	})
	for j := range point {
		point[j] /= total
	}
	m.point = point
}

// Update implements Learner.
func (m *Maler) Update(gradient []float64) error {
	g, err := m.domain.clip(gradient)
	if err != nil {
		return err
	}
	m.round++
	bound, t := m.domain.Gradient, float64(m.round)
	slope := func(e *expert) (v []float64, inner float64) { // of the point seen from an expert
		v = slices.Clone(m.point)
		along(v, e.point, -1)
		return v, convex.Dot(v, g)
	}

	// Algorithm 6. Its loss is linear: the step does not depend on the rate.
	_, inner := slope(&m.convex)
	m.convex.log -= -m.convex.rate*inner + square(2*m.convex.rate*bound*m.domain.Radius)
	along(m.convex.point, g, -2*m.domain.Radius/(bound*math.Sqrt(t)))
	if err := m.domain.project(m.convex.point); err != nil {
		return err
	}
	for i := range m.strong {
		// Algorithm 8: the loss is -eta <v, g> + eta^2 G^2 |v|^2 for v = point - expert.
		e := &m.strong[i]
		v, inner := slope(e)
		curve := square(e.rate * bound)
		e.log -= -e.rate*inner + curve*convex.Dot(v, v)
		step := 1 / (2 * curve * t)
		along(e.point, g, -step*e.rate)
		along(e.point, v, step*2*curve)
		if err := m.domain.project(e.point); err != nil {
			return err
		}

		// Algorithm 7: the loss is -eta <v, g> + eta^2 <v, g>^2.
		e = &m.curved[i]
		_, inner = slope(e)
		e.log -= -e.rate*inner + square(e.rate*inner)
		if e.point, err = newton(e, g, e.rate-2*square(e.rate)*inner, m.domain.Radius); err != nil {
			return err
		}
	}
	m.normalize()
	m.mean()
	return nil
}

// newton is the step of an exp-concave expert along q = factor g, projected on the ball in the metric of its shape,
// which grows by qq' first. Only the projection needs a decomposition, and only outside of the ball.
func newton(e *expert, g []float64, factor, radius float64) ([]float64, error) {
	d, q := len(g), make([]float64, len(g))
	along(q, g, factor)
	e.shape.SymRankOne(e.shape, 1, mat.NewVecDense(d, q))
	moved := make([]float64, d) // inverse times q, by Sherman and Morrison
	for i := range d {
		moved[i] = convex.Dot(e.inverse[i*d:(i+1)*d], q)
	}
	grown := 1 + convex.Dot(moved, q)
	for i := range d {
		for j := range d {
			e.inverse[i*d+j] -= moved[i] * moved[j] / grown
		}
	}
	next := slices.Clone(e.point)
	along(next, moved, -1/(curvature*grown))
	if convex.Norm(next) <= radius {
		return next, nil
	}
	at := mat.NewVecDense(d, nil)
	at.MulVec(e.shape, mat.NewVecDense(d, e.point))
	at.AddScaledVec(at, -1/curvature, mat.NewVecDense(d, q)) // shape times the point before the projection
	return convex.MinimizeQuadratic(e.shape, at.RawVector().Data, radius)
}

// normalize makes the weights sum to 1.
func (m *Maler) normalize() {
	largest, sum := math.Inf(-1), 0.0
	m.experts(func(e *expert) { largest = max(largest, e.log) })
	m.experts(func(e *expert) { sum += math.Exp(e.log - largest) })
	m.experts(func(e *expert) { e.log -= largest + math.Log(sum) })
}

func square(v float64) float64 { return v * v }
