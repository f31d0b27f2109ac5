package estimate

import (
	"fmt"
	"math"

	"github.com/riffle-dp/riffle/pkg/convex"
	"github.com/riffle-dp/riffle/pkg/glm/family"
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
	// layeredSums.
	LayeredLiteral = learn.Literal
)

// LayeredDimensions is the most dimensions that layered regression takes: it was measured in 2 to 4, and each further
// one asks for some ten times as many people before a bound says anything (lab/docs/papers.md).
const LayeredDimensions = 4

// Options of Layered.
const (
	layeredGamma = "gamma" // ratio of the radii of neighbouring bins, above 1; default e, the paper's T^(1/ln T)
	// M, the bins of a layer below one parent; default ceil(ln n/(2 ln gamma)), for radii down to 1/sqrt(n),
	// or what keeps the bins of the last layer below 1e5.
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
// of people/(2d-1) each: sums (Algorithm 3) and a width (Algorithm 5) for each layer. Where the paper differs: it has
// 2d, though the widths of layer 1 need no data. Thresholds and widths are plug-in: from the noise that the sums have
// had, not the proof's constants, with which no bin is active below 1e10 people (option theory). It is for
// at most LayeredDimensions dimensions, because layer h has up to M^h bins.
func Layered(s learn.Setting, people int, ask learn.Asker) (learn.Model, error) {
	models, _, err := LayeredOracles(s, 1, people, ask)
	if err != nil {
		return nil, err
	}
	return models[0], nil
}

// LayeredOracles learns one model of Layered for each Record.Tag from 0 to oracles-1, from the same people: every
// report covers all of them, and is zero but for its record's own. Nothing is learned where no bin is active: every
// model is then 0, give or take Radius times the norm of the features.
func LayeredOracles(s learn.Setting, oracles, people int, ask learn.Asker) (m []learn.Model, learned bool, err error) {
	l, err := newLayered(s, oracles, people)
	if err != nil {
		return nil, false, err
	}
	for h := 1; h <= l.dim; h++ {
		bins := l.open(h)
		if len(bins) == 0 {
			break
		}
		answer, err := ask(l.question(l.layeredSums(h, bins)...))
		if err != nil {
			return nil, false, err
		}
		for _, b := range bins {
			if err := l.regress(b, l.unpack(answer, b)); err != nil {
				return nil, false, err
			}
		}
		bins = active(bins)
		if len(bins) == 0 {
			break
		}
		if h > 1 {
			if answer, err = ask(l.question(l.layeredErrors(h, bins))); err != nil {
				return nil, false, err
			}
		}
		learned = true
		for _, b := range bins {
			l.widen(b, h, answer)
		}
	}
	for _, root := range l.roots {
		m = append(m, layeredModel{l, root})
	}
	return m, learned, nil
}

// layered is a run: its numbers, and a tree for each oracle.
type layered struct {
	dim, levels, phase int // d, M, n
	people             int
	epsilon, radius    float64
	gamma              float64
	threshold, score   float64
	clip, firstClip    float64 // Y below layer 1, and there
	cap, value         float64
	shares             [3]float64 // of the budget: counts, vectors, matrices
	variant            string
	theory             *layeredConstants // nil: plug-in
	roots              []*bin
}

// layeredReward bounds a reward.
const layeredReward = 1

func newLayered(s learn.Setting, oracles, people int) (*layered, error) {
	if err := s.Check(LayeredVariants, LayeredOptions); err != nil {
		return nil, err
	}
	if s.Family.Name() != family.NameLinear {
		return nil, fmt.Errorf("estimate: layered regression is for the family %s, not %s", family.NameLinear,
			s.Family.Name())
	}
	if s.Dimension > LayeredDimensions {
		return nil, fmt.Errorf("estimate: layered regression is for at most %d dimensions, not %d; take ridge or "+
			"reweighted regression", LayeredDimensions, s.Dimension)
	}
	phases := 2*s.Dimension - 1
	l := &layered{dim: s.Dimension, phase: people / phases, people: people, epsilon: s.Epsilon, radius: s.Radius,
		variant: s.Variant, gamma: s.Option(layeredGamma, math.E), threshold: s.Option(layeredThreshold, 2.36),
		clip:      s.Option(layeredClip, 2),
		firstClip: s.Option(layeredClip, layeredReward), shares: [3]float64{1, 3, 2}}
	widest, steepest, score := 2.0, 1.0, 2.0
	if l.variant == LayeredLiteral || l.variant == LayeredThirds {
		l.firstClip, l.shares, steepest, score = l.clip, [3]float64{1, 1, 1}, 6, 3
	}
	if l.variant == LayeredLiteral {
		widest, steepest = 1, math.Inf(1)
	}
	l.score = s.Option(layeredScore, score)
	l.cap, l.value = s.Option(layeredCap, widest), s.Option(layeredValue, steepest)*s.Radius
	if l.phase < 1 || oracles < 1 {
		return nil, fmt.Errorf("estimate: layered regression asks %d questions of %d people in all for %d oracles: "+
			"too few", phases, people, oracles)
	}
	if !(l.gamma > 1) || !(l.threshold >= 0) || !(l.score >= 0) || !(l.clip >= layeredReward) || !(l.cap > 0) ||
		!(l.value > 0) {
		return nil, fmt.Errorf("estimate: layered regression needs gamma %v > 1, clip %v >= 1, cap %v and value %v > "+
			"0, threshold %v and z %v >= 0", l.gamma, l.clip, l.cap, l.value, l.threshold, l.score)
	}
	enough := math.Ceil(math.Log(float64(l.phase)) / (2 * math.Log(l.gamma)))
	room := math.Floor(math.Pow(maxBins/float64(oracles), 1/float64(l.dim)) * rounding)
	l.levels = int(s.Option(layeredBins, max(1, min(enough, room))))
	width := math.Pow(float64(l.levels), float64(l.dim)) * float64(oracles)
	if l.levels < 1 || !(width <= maxBins*rounding) {
		return nil, fmt.Errorf("estimate: layered regression with %d bins below each has %v on its last layer; there "+
			"must be at least 1 and at most %d: change the option %s", l.levels, width, int(maxBins), layeredBins)
	}
	if s.Option(layeredTheory, 0) != 0 {
		l.theory = newLayeredConstants(s, l.gamma)
	}
	for oracle := range oracles {
		l.roots = append(l.roots, &bin{oracle: oracle, active: true})
	}
	return l, nil
}

// most is Y of a layer.
func (l *layered) most(layer int) float64 {
	if layer == 1 {
		return l.firstClip
	}
	return l.clip
}

// maxBins bounds the bins of the last layer, all oracles together, and so the length of a report.
const maxBins = 1e5

// question is asked of the next n people.
func (l *layered) question(statistics ...learn.Statistic) learn.Question {
	return learn.Question{Form: learn.Sums, People: l.phase, Statistics: statistics, Pure: l.variant != LayeredGauss}
}

// bin is a node of the tree. All of it is public. A bin of layer h is reached by k_1, ..., k_h.
type bin struct {
	oracle   int
	above    []*bin // its ancestors from layer 1
	level    int    // k_h: what is left of its people's features has a norm of at most gamma^-k_h
	index    int    // in the reports of the question that was last asked of its layer
	active   bool
	children []*bin  // by level, below M; nil: not open
	share    float64 // psi: the part of the people who are in the bin
	// The direction u, its second moment s, and <u, theta_B>. The estimate theta_B of the bin is the latter times u.
	direction []float64
	moment    float64
	value     float64
	deviation layeredDeviation
	// flat and slope make up chi: a part of the width that all of the bin's people have, and one per |<u, phi>|.
	flat, slope float64
}

// layeredDeviation is the standard deviation of what a bin's regression is made of.
type layeredDeviation struct{ share, first, second, sampling float64 }

// open makes the bins of a layer below the active ones and returns them in order. The layout of reports
// follows from what was released, never from a record.
func (l *layered) open(layer int) (out []*bin) {
	parents := l.roots
	for range layer - 1 {
		var next []*bin
		for _, p := range parents {
			next = append(next, active(p.children)...)
		}
		parents = next
	}
	for _, p := range parents {
		p.children = make([]*bin, l.levels)
		for k := range p.children {
			b := &bin{oracle: p.oracle, level: k}
			if layer > 1 {
				b.above = append(append(b.above, p.above...), p)
			}
			p.children[k] = b
			out = append(out, b)
		}
	}
	return out
}

// active are those of the bins that are.
func active(bins []*bin) (out []*bin) {
	for _, b := range bins {
		if b.active {
			out = append(out, b)
		}
	}
	return out
}

// level is the largest k up to M with a norm of at most gamma^-k.
func (l *layered) level(norm float64) int {
	if !(norm > 0) {
		return l.levels
	}
	const guard = 1e-9 // a norm of gamma^-k is of level k, whatever its rounding
	return min(l.levels, max(0, int(math.Floor(-math.Log(norm)/math.Log(l.gamma)+guard))))
}

// walk is the paper's Figure 2, a device's way through its tree: visit is called with the bin of each layer and what is
// left of x, as long as it says yes and the bin is active. The bin is nil where the tree has none. left belongs to
// walk.
func (l *layered) walk(root *bin, x []float64, visit func(b *bin, left []float64) bool) {
	left := l.start(nil, x)
	for at := root; at.children != nil; {
		b := l.below(at, left)
		if !visit(b, left) || b == nil || !b.active {
			return
		}
		b.project(left)
		at = b
	}
}

// start appends x to dst with as many coordinates as there should be, and a norm of at most 1.
func (l *layered) start(dst, x []float64) []float64 {
	for j := range l.dim {
		if j < len(x) {
			dst = append(dst, x[j])
		} else {
			dst = append(dst, 0)
		}
	}
	if norm := convex.Norm(dst); norm > 1 {
		for j := range dst {
			dst[j] /= norm
		}
	}
	return dst
}

// below is the bin below an active one for what is left there; nil: none.
func (l *layered) below(at *bin, left []float64) *bin {
	if k := l.level(convex.Norm(left)); k < l.levels {
		return at.children[k]
	}
	return nil
}

// project takes the bin's direction off what is left, and returns how much there was of it.
func (b *bin) project(left []float64) (along float64) {
	along = convex.Dot(b.direction, left)
	for j, u := range b.direction {
		left[j] -= along * u
	}
	return along
}
