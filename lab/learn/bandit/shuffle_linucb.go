package bandit

import (
	"math"

	"github.com/riffle-dp/riffle/pkg/learn"
	"github.com/riffle-dp/riffle/pkg/mechanism"
	"github.com/riffle-dp/riffle/pkg/privacy"
	"github.com/riffle-dp/riffle/pkg/protocol"
)

// The variants of ShuffleLinUCB.
const (
	variantAmplified = "amplified" // P_Amp
	variantScript    = "script"    // the numbers of the authors' public script, for all baselines that have it
)

// ShuffleLinUCB is the shuffle linear bandit of Chowdhury and Zhou, "Shuffle private linear contextual bandits" (2022),
// the baseline SDP of "Improved rate for locally differentially private linear bandits": batches of people, whose sums
// of xx' and xy go through a shuffler, and a policy that stays the same within a batch.
//
// By default the noise of the sums is the channel's, which plans and proves it. The variants have the paper's:
//   - "amplified" is its P_Amp: every person adds Gaussian noise of deviation
//     4 sqrt(2 ln(2.5B/delta) ln(2/delta))/(epsilon sqrt B) to each entry. The amplification that it counts on holds
//     for epsilon below about sqrt(ln(2/delta)/B) only.
//   - "literal" is its P_Vec (vectorSumNoise) with the constants of the proof. At epsilon 1, delta 0.1 and batches of
//     20 the noise is that of 5e7 bits for each coordinate of each person, far above local noise.
//   - "script" is P_Vec with the numbers of the public script, which no proof covers: they are 1e5 times less.
//
// Options: those of noisyLinUCB; batch is T^(3/5) by default, as in the paper's theorems; the script has 20.
func ShuffleLinUCB(s learn.Setting) (*learn.Learner, error) {
	batch := math.Max(1, math.Round(math.Pow(float64(s.Horizon), 0.6)))
	n, err := newNoisyLinUCB(s, []string{learn.Literal, variantScript, variantAmplified}, int(batch))
	if err != nil {
		return nil, err
	}
	statistic, b := n.read.moments(), float64(n.batch)
	if !math.IsInf(s.Epsilon, 1) {
		switch s.Variant {
		case variantAmplified:
			each := 4 * math.Sqrt(2*math.Log(2.5*b/s.Delta)*math.Log(2/s.Delta)) / (s.Epsilon * math.Sqrt(b))
			statistic.Noise = mechanism.Gaussian{Sigma: each * math.Sqrt(b)}
		case learn.Literal:
			statistic.Noise = newVectorSumNoise(s, n.batch, vectorSumConstant,
				4*float64(s.Dimension*s.Dimension+1)/s.Delta)
		case variantScript:
			constant := 10.
			if s.Epsilon < 0.5 {
				constant = 1
			}
			statistic.Noise = newVectorSumNoise(s, n.batch, constant, float64(s.Dimension)/s.Delta)
		}
	}
	return n.run(learn.Sums, statistic, 0)
}

// vectorSumConstant is c_v of the proof of P_Vec.
const vectorSumConstant = 24e4

// vectorSumNoise is the noise of a batch's sum in P_Vec of "Shuffle private linear contextual bandits": each person
// turns a coordinate of [-1, 1] into a count of up to 2g ones and adds b coins of probability 1/4, and the shuffler
// mixes the bits of a coordinate. The sum of so many coins is one binomial draw. The sum is rounded at random once,
// where the protocol rounds each person's: that variance is at most a part 4/(3b) of the noise's.
type vectorSumNoise struct {
	batch, bits int // B, b
	levels      int // g
}

// newVectorSumNoise has g = max(2 sqrt B, d, 4), rounded up, and b = c_v g^2 ln(inside)^2/(epsilon^2 B), rounded up.
func newVectorSumNoise(s learn.Setting, batch int, constant, inside float64) vectorSumNoise {
	g := math.Ceil(max(2*math.Sqrt(float64(batch)), float64(s.Dimension), 4))
	b := constant * g * g * math.Pow(math.Log(inside), 2) / (s.Epsilon * s.Epsilon * float64(batch))
	return vectorSumNoise{batch: batch, bits: int(math.Ceil(b)), levels: int(g)}
}

const (
	// coins is the probability of a noise bit.
	coins = 0.25
	// mostCoins is how many are tossed one by one. The proof's constants ask for a billion in each coordinate, of which
	// the normal law with the same variance is closer than a simulation can see.
	mostCoins = 1 << 17
)

// Add implements mechanism.Noise.
func (v vectorSumNoise) Add(x []float64, src protocol.Source) {
	g, trials := float64(v.levels), v.batch*v.bits
	for i := range x {
		steps := x[i] * g
		whole := math.Floor(steps)
		if coin := protocol.Uniform(src); coin < steps-whole {
			whole++
		}
		if trials <= mostCoins {
			whole += float64(protocol.Binomial(uint64(trials), protocol.BiasQuarter, src)) - coins*float64(trials)
		}
		x[i] = whole / g
	}
	if trials > mostCoins {
		mechanism.Gaussian{Sigma: v.Deviation()}.Add(x, src)
	}
}

// Deviation implements mechanism.Noise.
func (v vectorSumNoise) Deviation() float64 {
	return math.Sqrt(float64(v.batch*v.bits)*coins*(1-coins)) / float64(v.levels)
}

// Guarantee implements mechanism.Noise. What the paper proves for its own constants depends on the shuffler, and
// nothing is proved for others.
func (v vectorSumNoise) Guarantee(mechanism.Sensitivity) privacy.Guarantee {
	return privacy.NoGuarantee()
}
