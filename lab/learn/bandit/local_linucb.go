package bandit

import (
	"fmt"
	"math"

	"github.com/riffle-dp/riffle/pkg/learn"
	"github.com/riffle-dp/riffle/pkg/mechanism"
)

// LocalLinUCB is the local linear bandit of Zheng, Cai, Huang, Li and Wang, "Locally differentially private
// (contextual) bandits learning" (2020), the baseline LDP of "Improved rate for locally differentially private linear
// bandits": each person reports xx' and xy with their own noise.
//
// What differs: the upper triangle and the vector are one statistic with a joint sensitivity of sqrt(4.5)
// (linearRecord.moments) and the noise that this needs. Variant "literal" has the published deviation of each entry,
// 6 sqrt(2 ln(2.5/delta))/epsilon, as others quote it; "script" that
// of the public script of the shuffle paper, sqrt(ln(2.5/delta))/epsilon, which no proof covers. Shift and width are
// noisyLinUCB's.
//
// Options: those of noisyLinUCB; batch is 1 by default.
func LocalLinUCB(s learn.Setting) (*learn.Learner, error) {
	n, err := newNoisyLinUCB(s, []string{learn.Literal, variantScript}, 1)
	if err != nil {
		return nil, err
	}
	statistic := n.read.moments()
	if statistic.Noise, err = momentsNoise(s, statistic, 1); err != nil {
		return nil, err
	}
	switch s.Variant {
	case learn.Literal:
		statistic.Noise = literalGaussian(s, 6*math.Sqrt(2*math.Log(2.5/s.Delta))/s.Epsilon)
	case variantScript:
		statistic.Noise = literalGaussian(s, math.Sqrt(math.Log(2.5/s.Delta))/s.Epsilon)
	}
	return n.run(learn.Reports, statistic, statistic.Noise.Deviation()*statistic.Noise.Deviation())
}

// momentsNoise is the noise of releases of a statistic, of which so many contain a record.
func momentsNoise(s learn.Setting, of learn.Statistic, releases int) (mechanism.Noise, error) {
	rho, err := mechanism.Budget(s.Epsilon, s.Delta)
	if err != nil {
		return nil, fmt.Errorf("bandit: %w", err)
	}
	return mechanism.ForRho(mechanism.Sensitivity{Dim: of.Dim() * releases,
		L2: of.Diameter * math.Sqrt(float64(releases))}, rho)
}

// literalGaussian is noise of the given deviation, none without privacy.
func literalGaussian(s learn.Setting, deviation float64) mechanism.Noise {
	if math.IsInf(s.Epsilon, 1) {
		return mechanism.None{}
	}
	return mechanism.Gaussian{Sigma: deviation}
}
