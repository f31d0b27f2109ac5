package baseline

import (
	"fmt"
	"math"

	"github.com/riffle-dp/riffle/internal/population"
	"github.com/riffle-dp/riffle/pkg/glm/design"
	"github.com/riffle-dp/riffle/pkg/protocol"
)

// DistributionalDesign is the optimal design for a distribution of arm sets of Ruan, Yang and Zhou, "Linear bandits
// with limited adaptivity and learning distributional optimal design" (2021): with probability 1/2 the person's own
// G-optimal design, else one of several softmax policies that were learnt from the sets of other people. A softmax
// policy draws arm x with probability proportional to (x'Mx)^alpha, alpha = ln(number of arms), and so favours the
// directions that other people's sets do not cover. The own design alone spends its draws on each direction that a set
// has, however often other people draw it: its expected largest leverage grows like d^2, that of this one like d ln d.
//
// What differs: the paper was not at hand, so that its numbers are rebuilt. The core drops the sets of leverage above
// coreLeverage d^2 (of which Markov's inequality allows a quarter), again until none is left to drop, where the paper
// has thresholds of its proof. The ridge is one average arm, as the arms' lengths are the caller's.
type DistributionalDesign struct {
	options design.Options
	softmax []softmax // none: only the G-optimal design
}

// softmax is a policy by the metric M, which played for a share of the sets it was learnt from.
type softmax struct {
	metric *growing
	share  float64
}

const (
	coreLeverage = 4        // of d^2, above which a set is not in the core
	coreRounds   = 20       // most times that the core is cut
	softmaxGrow  = math.Ln2 // a new softmax policy when ln det has grown by this
)

// LearnDesign learns the design from arm sets in the given order, which must be independent of each other. Each set has
// at least one arm, all of the same dimension. Without sets the design is G-optimal. tolerance is that of
// design.Options.
func LearnDesign(sets [][][]float64, tolerance float64) (*DistributionalDesign, error) {
	d := &DistributionalDesign{options: design.Options{Tolerance: tolerance}}
	core, ridge, err := d.core(sets)
	if err != nil || len(core) == 0 || ridge == 0 {
		return d, err
	}
	u := newGrowing(len(core[0][0]), ridge)
	current := softmax{metric: u.clone()}
	for _, arms := range core {
		if u.log > current.metric.log+softmaxGrow {
			d.softmax = append(d.softmax, current)
			current = softmax{metric: u.clone()}
		}
		for i, p := range current.weights(arms) {
			u.add(p, arms[i])
		}
		current.share += 1 / float64(len(core))
	}
	d.softmax = append(d.softmax, current)
	return d, nil
}

// core are the sets whose arms the sets' G-optimal designs cover on average, and the mean squared length of their arms.
func (d *DistributionalDesign) core(sets [][][]float64) ([][][]float64, float64, error) {
	designs, ridge := make([][]float64, len(sets)), 0.0
	for i, arms := range sets {
		weights, err := d.own(arms)
		if err != nil {
			return nil, 0, err
		}
		designs[i] = weights
		for a, w := range weights {
			ridge += w * population.Dot(arms[a], arms[a]) / float64(len(sets))
		}
	}
	kept := sets
	for range coreRounds {
		if len(kept) == 0 || ridge == 0 {
			break
		}
		dim := len(kept[0][0])
		total := newGrowing(dim, ridge)
		for i, arms := range kept {
			for a, w := range designs[i] {
				total.add(w, arms[a])
			}
		}
		var sets, weights = kept[:0:0], designs[:0:0]
		for i, arms := range kept {
			if float64(len(kept))*largest(total, arms) <= coreLeverage*float64(dim*dim) {
				sets, weights = append(sets, arms), append(weights, designs[i])
			}
		}
		if len(sets) == len(kept) {
			break
		}
		kept, designs = sets, weights
	}
	return kept, ridge, nil
}

func largest(m *growing, arms [][]float64) float64 {
	most := 0.0
	for _, x := range arms {
		most = math.Max(most, m.square(x))
	}
	return most
}

// weights are the probabilities of the arms.
func (s softmax) weights(arms [][]float64) []float64 {
	weights, most := make([]float64, len(arms)), 0.0
	for i, x := range arms {
		weights[i] = s.metric.square(x)
		most = math.Max(most, weights[i])
	}
	alpha, sum := math.Log(float64(len(arms))), 0.0
	for i, q := range weights {
		weights[i] = 1
		if most > 0 {
			weights[i] = math.Pow(q/most, alpha)
		}
		sum += weights[i]
	}
	for i := range weights {
		weights[i] /= sum
	}
	return weights
}

func (d *DistributionalDesign) own(arms [][]float64) ([]float64, error) {
	weights, _, err := design.Optimal(arms, d.options)
	if err != nil {
		return nil, fmt.Errorf("baseline: a person's own design: %w", err)
	}
	return weights, nil
}

// Weights are the probabilities of the arms of a set, which sum to 1.
func (d *DistributionalDesign) Weights(arms [][]float64) ([]float64, error) {
	weights, err := d.own(arms)
	if err != nil || len(d.softmax) == 0 {
		return weights, err
	}
	for i := range weights {
		weights[i] /= 2
	}
	for _, s := range d.softmax {
		for i, w := range s.weights(arms) {
			weights[i] += s.share / 2 * w
		}
	}
	return weights, nil
}

// Draw draws an arm: first which of the policies plays, and then its arm, so that only one is computed.
func (d *DistributionalDesign) Draw(arms [][]float64, src protocol.Source) (int, error) {
	if len(arms) == 1 {
		return 0, nil
	}
	if u := 2 * protocol.Uniform(src); len(d.softmax) > 0 && u < 1 {
		for i, s := range d.softmax {
			if u -= s.share; u < 0 || i == len(d.softmax)-1 {
				return drawn(s.weights(arms), src), nil
			}
		}
	}
	weights, err := d.own(arms)
	if err != nil {
		return 0, err
	}
	return drawn(weights, src), nil
}

// drawn is an index with its probability.
func drawn(weights []float64, src protocol.Source) int {
	u, last := protocol.Uniform(src), 0
	for i, w := range weights {
		if w == 0 {
			continue
		}
		if last = i; u < w {
			break
		}
		u -= w
	}
	return last
}
