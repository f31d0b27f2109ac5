package design

import (
	"cmp"
	"math"
	"slices"

	"github.com/riffle-dp/riffle/pkg/glm/symmetric"
)

// Steps over all of a thousand arms are costly, and nearly all of the arms get no weight. With many arms the search
// therefore works on a subset: it improves the design there, looks at the leverages of all arms, takes in those that
// are too large, and repeats (the cutting planes of Ahipasaoglu, Sun and Todd 2008). The certificate is that of all
// arms, as with few.
const (
	// heaviestFirst, takenIn: arms per dimension in the first subset, and most arms that are taken in at once.
	heaviestFirst, takenIn = 8, 4
	// A subset is left when its excess is subsetShare of the tolerance, or half of the excess over all arms.
	subsetShare = 0.8
	// dropped is the share of an average weight below which an arm of small leverage leaves the subset.
	dropped = 1e-3
	// settled: an arm whose leverage is within settled times the excess sought keeps its weight in a sweep.
	settled = 0.3
	// subsetRounds and subsetSweeps end a search that makes no progress: single steps over all arms go on from there.
	subsetRounds, subsetSweeps = 40, 100
)

// subset is a design over some of the arms of a search. points and weights belong to the arms in their order.
type subset struct {
	r       int
	arms    []int // in the search
	points  []float64
	weights []float64
	inverse []float64 // V^-1 of weights
	matrix  []float64 // scratch r x r
	y       []float64 // scratch r
}

// many improves the design on growing subsets until all arms are within the tolerance. Then run certifies it. If the
// subsets make no progress, run goes on from the last of them; if they do not span the space, from start.
func (s *search) many(opts Options) (Certificate, error) {
	p, excess := s.firstSubset(opts.Tolerance)
	steps, spans := 0, p != nil
	for round := 0; spans && excess > opts.Tolerance && round < subsetRounds && steps < opts.MaxSteps; round++ {
		target := max(subsetShare*opts.Tolerance, min(excess, 1)/2)
		if spans = p.evaluate(); !spans {
			break
		}
		for range min(subsetSweeps, opts.MaxSteps-steps) {
			steps++
			if p.sweep(settled*target) <= (1+target)*float64(s.r) {
				break
			}
		}
		if spans = p.evaluate(); !spans {
			break
		}
		clear(s.weights)
		for i, a := range p.arms {
			s.weights[a] = p.weights[i]
		}
		forms(s.q, s.points, p.inverse)
		if excess = slices.Max(s.q)/float64(s.r) - 1; excess > opts.Tolerance {
			p = p.exchange(s, excess, subsetShare*opts.Tolerance)
		}
	}
	if !slices.ContainsFunc(s.weights, func(w float64) bool { return w > 0 }) {
		s.start()
	}
	opts.MaxSteps -= steps
	cert, err := s.run(opts)
	cert.Steps += steps
	return cert, err
}

// firstSubset has the arms of the largest leverages in the uniform design, weighted by one multiplicative step (Silvey,
// Titterington and Torsney 1978) three times as long, and the excess of the uniform design; it is nil where the uniform
// design is enough, which is then the search's, or where it cannot be evaluated.
func (s *search) firstSubset(tolerance float64) (*subset, float64) {
	d := float64(s.r)
	all := &subset{r: s.r, arms: make([]int, s.n), points: s.points, weights: make([]float64, s.n),
		inverse: s.inverse, matrix: s.matrix, y: s.y}
	for i := range all.arms {
		all.arms[i], all.weights[i] = i, 1/float64(s.n)
	}
	if !all.evaluate() {
		return nil, math.Inf(1)
	}
	forms(s.q, s.points, s.inverse)
	excess := slices.Max(s.q)/d - 1
	if excess <= tolerance {
		copy(s.weights, all.weights)
		return nil, excess
	}
	for i, q := range s.q {
		all.weights[i] *= max(3*q/d-2, q/(8*d))
	}
	return all.keep(all.heaviest(heaviestFirst * s.r)), excess
}

// heaviest are the positions of the n largest weights, in order of position.
func (p *subset) heaviest(n int) []int {
	order := make([]int, len(p.arms))
	for i := range order {
		order[i] = i
	}
	slices.SortFunc(order, func(a, b int) int { return cmp.Or(cmp.Compare(p.weights[b], p.weights[a]), a-b) })
	order = order[:n]
	slices.Sort(order)
	return order
}

// exchange drops the arms that have next to no weight, and takes in those whose leverages, in s.q, are the largest in
// excess of margin, with half an average weight. excess is the largest of all arms.
func (p *subset) exchange(s *search, excess, margin float64) *subset {
	inside, kept := make([]bool, s.n), make([]int, 0, len(p.arms))
	for i, w := range p.weights {
		a := p.arms[i]
		if w > 0 && (w > dropped/float64(len(p.arms)) || s.q[a] > float64(p.r)*(1-excess)) {
			kept = append(kept, i)
			inside[a] = true
		}
	}
	next := p.keep(kept)
	var above []int
	for a, q := range s.q {
		if q > float64(p.r)*(1+margin) && !inside[a] {
			above = append(above, a)
		}
	}
	weight := 0.5 / float64(len(kept))
	slices.SortFunc(above, func(a, b int) int { return cmp.Or(cmp.Compare(s.q[b], s.q[a]), a-b) })
	for _, a := range above[:min(len(above), takenIn*p.r)] {
		next.arms = append(next.arms, a)
		next.points = append(next.points, s.point(a)...)
		next.weights = append(next.weights, weight)
	}
	return next
}

// keep is a copy of the subset with the arms at the positions given, and room for those that are taken in.
func (p *subset) keep(positions []int) *subset {
	room := len(positions) + takenIn*p.r
	n := &subset{r: p.r, inverse: p.inverse, matrix: p.matrix, y: p.y, arms: make([]int, 0, room),
		points: make([]float64, 0, room*p.r), weights: make([]float64, 0, room)}
	for _, i := range positions {
		n.arms = append(n.arms, p.arms[i])
		n.points = append(n.points, p.points[i*p.r:(i+1)*p.r]...)
		n.weights = append(n.weights, p.weights[i])
	}
	return n
}

// sweep maximises log det V - r * (sum of the weights) in one weight after the other, arms of little use left out: the
// maximum has leverage r wherever the weight is positive, and its weights sum to 1. It returns the largest leverage
// that it met, times the sum of the weights.
func (p *subset) sweep(skip float64) float64 {
	d, largest, total := float64(p.r), 0.0, 0.0
	for i, w := range p.weights {
		x := p.points[i*p.r : (i+1)*p.r]
		products(p.y, p.inverse, x)
		q := 0.0
		for j, v := range x {
			q += v * p.y[j]
		}
		largest = max(largest, q)
		if change := max(-w, 1/d-1/q); change != 0 && math.Abs(q/d-1) > skip {
			w += change
			p.weights[i] = w
			factor := change / (1 + change*q)
			for j, v := range p.y {
				f, row := factor*v, p.inverse[j*p.r:(j+1)*p.r]
				for k, u := range p.y {
					row[k] -= f * u
				}
			}
		}
		total += w
	}
	return largest * total
}

// evaluate makes the weights sum to 1 and computes V^-1 from them. It reports false when V is singular.
func (p *subset) evaluate() bool {
	total := 0.0
	for _, w := range p.weights {
		total += w
	}
	for i := range p.weights {
		p.weights[i] /= total
	}
	gram(p.matrix, p.points, p.weights)
	if !symmetric.Cholesky(p.matrix, p.r, 0) {
		return false
	}
	symmetric.InvertCholesky(p.inverse, p.matrix, p.r)
	return true
}
