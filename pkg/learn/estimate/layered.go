package estimate

import (
	"fmt"
	"math"

	"github.com/riffle-dp/riffle/pkg/glm/family"
	"github.com/riffle-dp/riffle/pkg/glm/layered"
	"github.com/riffle-dp/riffle/pkg/glm/structure"
	"github.com/riffle-dp/riffle/pkg/learn"
)

// Variants of Layered. The default has noise of pure epsilon.
const (
	// LayeredGauss has Gaussian noise: (epsilon, delta), for channels without pure noise.
	LayeredGauss = "gauss"
	// LayeredThirds has noise of pure epsilon in the paper's split: a third each for counts, vectors and matrices,
	// rewards clipped to 2 on every layer, and a cap of 6 Radius on what a direction's estimate can be, in place of
	// none: the calibration of the design's reference runs, whose errors it has. The default has shares 1, 3 and 2, and
	// half the error.
	LayeredThirds = "thirds"
	// LayeredLiteral has the paper's noise. It is not private: see mechanism.Wishart, and the sensitivities at
	// layeredRun.sums.
	LayeredLiteral = learn.Literal
)

// Options of Layered.
const (
	layeredGamma = "gamma" // ratio of the radii of neighbouring bins, above 1; default e, the paper's T^(1/ln T)
	// M, the bins of a layer below one parent; default ceil(ln n/(2 ln gamma)), for radii down to 1/sqrt(n), or what
	// keeps the bins of the last layer at layered.MaxBins or less.
	layeredBins      = "bins"
	layeredThreshold = "threshold" // of a bin's share of people, in its standard deviations; default 2.36
	// Standard deviations in a width. At the default 2 all bounds held in each of 6000 runs of 60 settings, at 1 in
	// 99.9 %; 3 in the variants thirds and literal.
	layeredScore = "z"
	// Y, to which a device clips y_h; default 1 on layer 1, where it is a reward, and 2 below, for a parent's error of
	// 1.
	layeredClip = "clip"
	layeredCap  = "cap" // of a width; default 2, which always holds; the paper's 1 in the literal variant
	// Cap of an estimate along a direction, times Radius; default 1, where the truth is; none in literal.
	layeredValue  = "value"
	layeredTheory = "theory" // 1: the proof's constants for thresholds and widths, in the literal variant too
)

// LayeredVariants and LayeredOptions are what Layered takes, for those who build on it.
var (
	LayeredVariants = []string{LayeredGauss, LayeredThirds, LayeredLiteral}
	LayeredOptions  = []string{layeredGamma, layeredBins, layeredThreshold, layeredScore, layeredClip, layeredCap,
		layeredValue, layeredTheory}
)

// Layered is LPLR, Algorithm 2 of "On the optimal regret of locally private linear contextual bandit": layered private
// linear regression. Layer h of a tree of bins holds people by the norm of what is left of their features after
// projecting out one principal direction for each bin above. In each bin one direction is learned, from noisy sums of
// its people that are as small as its radius. So a direction of small amplitude has small noise, and one that few
// people have is left out. The error is small in mean absolute deviation, O(1/sqrt(n)), where the mean square cannot be
// O(1/n).
//
// Rewards are in [-1, 1], their mean is <x, theta*>, the norm of theta* is at most Radius. Layered asks 2d-1 questions
// of people/(2d-1) each, whatever the answers: sums (Algorithm 3) and a width (Algorithm 5) for each layer, and sums of
// a layer again as long as none of its bins is active, which then counts all of them. Where the paper differs: it asks
// 2d, though the widths of layer 1 need no data, and stops where no bin is active. Thresholds and widths are plug-in:
// from the noise that the sums have had, not the proof's constants, with which no bin is active below 1e10 people
// (option theory). It is for at most layered.MaxDimension dimensions, because layer h has up to M^h bins.
func Layered(s learn.Setting, people int, ask learn.Asker) (learn.Model, error) {
	trees, _, err := LayeredOracles(s, 1, people, ask)
	if err != nil {
		return nil, err
	}
	return TreeModel{Tree: trees[0], Radius: s.Radius}, nil
}

// TreeModel is what layered regression learns, as a model.
type TreeModel struct {
	Tree   *layered.Tree
	Radius float64 // a bound of the norm of theta*
}

// Predict implements learn.Model.
func (m TreeModel) Predict(x []float64) float64 {
	mean, _ := m.Tree.Predict(x, m.Radius)
	return mean
}

// Bound implements learn.Model.
func (m TreeModel) Bound(x []float64) float64 {
	_, bound := m.Tree.Predict(x, m.Radius)
	return bound
}

// LayeredQuestions is how many questions layered regression asks in so many dimensions.
func LayeredQuestions(dimension int) int { return 2*dimension - 1 }

// LayeredOracles learns one tree of Layered for each Record.Tag from 0 to oracles-1, from the same people: every
// report covers all of them, and is zero but for its record's own. The statistics of one oracle alone are data that can
// be announced. Nothing is learned where no bin is active: every prediction is then 0, give or take Radius times the
// norm of the features.
func LayeredOracles(s learn.Setting, oracles, people int, ask learn.Asker) (
	trees []*layered.Tree, learned bool, err error,
) {
	l, err := newLayered(s, oracles, people)
	if err != nil {
		return nil, false, err
	}
	layer, sums := 1, learn.Answer{}
	for left := LayeredQuestions(l.dim); left > 0; left-- {
		open := l.at(layer - 1)
		for _, o := range open {
			l.oracles[o].tree.Clip = l.most(layer)
		}
		statistics, err := l.sums(open)
		if err != nil {
			return nil, false, err
		}
		answer, err := ask(l.question(statistics...))
		if err != nil {
			return nil, false, err
		}
		sums = pooled(sums, answer)
		if err := l.grow(open, sums); err != nil {
			return nil, false, err
		}
		grown := l.at(layer)
		switch {
		case len(grown) == 0: // the next people answer the same
			continue
		case layer == 1:
			l.widen(grown, learn.Answer{})
		case left == 1: // nobody is left to say how wide it is
			l.prune(grown)
			continue
		default:
			errors, err := l.errors(grown)
			if err != nil {
				return nil, false, err
			}
			left--
			if answer, err = ask(l.question(errors)); err != nil {
				return nil, false, err
			}
			l.widen(grown, answer)
		}
		learned, sums = true, learn.Answer{}
		layer++
	}
	for _, o := range l.oracles {
		trees = append(trees, o.tree.Clone())
	}
	return trees, learned, nil
}

// layeredRun is a run: its numbers, and what each oracle has learned.
type layeredRun struct {
	family           family.Family
	structure        structure.Structure
	dim, phase       int // d, n
	people           int
	epsilon, radius  float64
	gamma            float64
	threshold, score float64
	clip, firstClip  float64 // Y below layer 1, and there
	value            float64
	shares           [3]float64 // of the budget: counts, vectors, matrices
	variant          string
	theory           *layeredConstants // nil: plug-in
	oracles          []*layeredOracle
}

// layeredOracle is a tree and what is known of its bins beside it, in their order. All of it is public.
type layeredOracle struct {
	tree layered.Tree
	of   []regressed
}

// layeredReward bounds a reward.
const layeredReward = 1

func newLayered(s learn.Setting, oracles, people int) (*layeredRun, error) {
	if err := s.Check(LayeredVariants, LayeredOptions); err != nil {
		return nil, err
	}
	if s.Family.Name() != family.NameLinear {
		return nil, fmt.Errorf("estimate: layered regression is for the family %s, not %s", family.NameLinear,
			s.Family.Name())
	}
	if s.Dimension > layered.MaxDimension {
		return nil, fmt.Errorf("estimate: layered regression is for at most %d dimensions, not %d; take ridge or "+
			"reweighted regression", layered.MaxDimension, s.Dimension)
	}
	questions := LayeredQuestions(s.Dimension)
	l := &layeredRun{family: s.Family, structure: s.Structure, dim: s.Dimension, phase: people / questions,
		people: people, epsilon: s.Epsilon, radius: s.Radius, variant: s.Variant, gamma: s.Option(layeredGamma, math.E),
		threshold: s.Option(layeredThreshold, 2.36), clip: s.Option(layeredClip, 2),
		firstClip: s.Option(layeredClip, layeredReward), shares: [3]float64{1, 3, 2}}
	widest, steepest, score := 2.0, 1.0, 2.0
	if l.variant == LayeredLiteral || l.variant == LayeredThirds {
		l.firstClip, l.shares, steepest, score = l.clip, [3]float64{1, 1, 1}, 6, 3
	}
	if l.variant == LayeredLiteral {
		widest, steepest = 1, layered.MaxValue
	}
	l.score = s.Option(layeredScore, score)
	widest, l.value = s.Option(layeredCap, widest), s.Option(layeredValue, steepest)*s.Radius
	if l.phase < 1 || oracles < 1 {
		return nil, fmt.Errorf("estimate: layered regression asks %d questions of %d people in all for %d oracles: "+
			"too few", questions, people, oracles)
	}
	if !(l.threshold >= 0) || !(l.score >= 0) || !(l.clip >= layeredReward) || !(l.value > 0) {
		return nil, fmt.Errorf("estimate: layered regression needs a clip %v >= 1, a value %v > 0, a threshold %v and "+
			"z %v >= 0", l.clip, l.value, l.threshold, l.score)
	}
	enough := math.Ceil(math.Log(float64(l.phase)) / (2 * math.Log(l.gamma)))
	room := math.Floor(math.Pow(layered.MaxBins, 1/float64(l.dim)) * rounding)
	levels := s.Option(layeredBins, max(1, min(enough, room)))
	if last := math.Pow(levels, float64(l.dim)); !(levels >= 1 && last <= layered.MaxBins*rounding) {
		return nil, fmt.Errorf("estimate: layered regression with %v bins below each has %v on its last layer; there "+
			"must be at least 1 and at most %d: change the option %s", levels, last, layered.MaxBins, layeredBins)
	}
	if s.Option(layeredTheory, 0) != 0 {
		l.theory = newLayeredConstants(s, l.gamma)
	}
	for range oracles {
		o := &layeredOracle{tree: layered.Tree{Levels: int(levels), Gamma: l.gamma, Cap: widest, Clip: l.most(1)}}
		if err := o.tree.Validate(l.dim); err != nil {
			return nil, err
		}
		l.oracles = append(l.oracles, o)
	}
	return l, nil
}

// rounding is what a root may be too small by.
const rounding = 1 + 1e-9

// most is Y of a layer.
func (l *layeredRun) most(layer int) float64 {
	if layer == 1 {
		return l.firstClip
	}
	return l.clip
}

// question is asked of the next n people.
func (l *layeredRun) question(statistics ...learn.Statistic) learn.Question {
	return learn.Question{Form: learn.Sums, People: l.phase, Statistics: statistics, Pure: l.variant != LayeredGauss}
}

// at are the oracles whose trees have so many layers. The layout of reports follows from what was released, never from
// a record.
func (l *layeredRun) at(layers int) (oracles []int) {
	for i, o := range l.oracles {
		if o.tree.Depth() == layers {
			oracles = append(oracles, i)
		}
	}
	return oracles
}

// grow adds the bins that are active by the sums of a layer to the trees whose last layer is the one above.
func (l *layeredRun) grow(open []int, sums learn.Answer) error {
	number := 0
	for _, i := range open {
		o := l.oracles[i]
		first, parents := o.tree.Last()
		if len(o.tree.Bins) == 0 {
			first, parents = -1, 1 // the root
		}
		for p := range parents {
			for k := range o.tree.Levels {
				b := layered.Bin{Parent: first + p + 1, Level: k}
				known, err := l.regress(&b, o.tree.Above(b), l.unpack(sums, number, k))
				if err != nil {
					return err
				}
				number++
				if b.Direction != nil {
					o.tree.Bins, o.of = append(o.tree.Bins, b), append(o.of, known)
				}
			}
		}
	}
	return nil
}

// prune takes the last layer off the trees of some oracles.
func (l *layeredRun) prune(oracles []int) {
	for _, i := range oracles {
		o := l.oracles[i]
		first, _ := o.tree.Last()
		o.tree.Bins, o.of = o.tree.Bins[:first], o.of[:first]
	}
}
