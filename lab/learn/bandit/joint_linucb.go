package bandit

import (
	"errors"
	"math"

	"github.com/riffle-dp/riffle/pkg/learn"
	"github.com/riffle-dp/riffle/pkg/learn/joint"
	"github.com/riffle-dp/riffle/pkg/mechanism"
)

// JointLinUCB is the joint linear bandit of Shariff and Sheffet, "Differentially private contextual linear bandits"
// (2018), the baseline JDP of "Improved rate for locally differentially private linear bandits": a trusted curator
// reads records and releases the prefix sums of (xx', xy) through a binary tree. A leaf of T is in at most
// joint.Depth(T) nodes, whose noise is drawn once.
//
// What differs: the whole tree is one Gaussian mechanism, of sensitivity sqrt(4.5 Depth(T)), where the paper composes
// its nodes with logarithms, and y^2, which nothing reads, is not released. Variant "literal" has the published
// deviation of an entry, 8 sqrt(m) ln(4/delta)/epsilon for |x|^2 + y^2 <= 2 and m = ceil(log2 T) + 1; the paper has
// sqrt(2) of that on the diagonal. Variant "script" has that of the shuffle paper's public script, sqrt(ln T)
// ln(2.5/delta)/epsilon, which no proof covers. The other noise, of Wishart matrices, is left out: it needs 224 m
// ln(8m/delta) ln(2/delta)/epsilon^2 degrees of freedom, 7e4 at epsilon 1, delta 0.1 and T = 20 000, and so shifts V by
// more than T.
//
// Options: those of noisyLinUCB; batch, the people of a leaf, is 1 by default.
func JointLinUCB(s learn.Setting) (*learn.Learner, error) {
	n, err := newNoisyLinUCB(s, []string{learn.Literal, variantScript}, 1)
	if err != nil {
		return nil, err
	}
	if s.Noise == nil && !math.IsInf(s.Epsilon, 1) {
		return nil, errors.New("bandit: JointLinUCB reads records and needs a source of noise")
	}
	statistic := n.read.moments()
	noise, err := jointNoise(s, statistic, n.leaves())
	if err != nil {
		return nil, err
	}
	stream, err := joint.NewStream(statistic.Dim(), noise, s.Noise)
	if err != nil {
		return nil, err
	}
	return learn.Start(func(ask func(learn.Policy, learn.Question) (learn.Answer, error)) (learn.Policy, error) {
		for left := s.Horizon; ; left -= n.batch {
			policy, err := n.policy(stream.Sum(), noise.Deviation()*math.Sqrt(float64(stream.Nodes())))
			if err != nil || left <= 0 {
				return policy, err
			}
			a, err := ask(policy, learn.Question{Form: learn.Records, People: min(n.batch, left)})
			if err != nil {
				return nil, err
			}
			leaf, vector := make([]float64, statistic.Dim()), []float64(nil)
			for _, r := range a.Records {
				vector = statistic.Vector(vector[:0], r)
				for range r.Count() {
					addTo(leaf, vector)
				}
			}
			if err := stream.Add(leaf); err != nil {
				return nil, err
			}
		}
	})
}

// leaves is how many batches the horizon has.
func (n *noisyLinUCB) leaves() int { return (n.Setting.Horizon + n.batch - 1) / n.batch }

// jointNoise is the noise of each node of a tree of so many leaves.
func jointNoise(s learn.Setting, statistic learn.Statistic, leaves int) (mechanism.Noise, error) {
	switch s.Variant {
	case learn.Literal:
		m := math.Ceil(math.Log2(float64(leaves))) + 1
		return literalGaussian(s, 8*math.Sqrt(m)*math.Log(4/s.Delta)/s.Epsilon), nil
	case variantScript:
		return literalGaussian(s, math.Sqrt(math.Log(float64(leaves)))*math.Log(2.5/s.Delta)/s.Epsilon), nil
	}
	return momentsNoise(s, statistic, joint.Depth(leaves))
}
