package bandit

import (
	"fmt"
	"math"

	"gonum.org/v1/gonum/mat"

	"github.com/riffle-dp/riffle/lab/learn/online"
	"github.com/riffle-dp/riffle/pkg/convex"
	"github.com/riffle-dp/riffle/pkg/learn"
	"github.com/riffle-dp/riffle/pkg/mechanism"
)

// OnlineLinUCB is Algorithm 1 of "Improved rate for locally differentially private linear bandits", Private
// (Contextual) Online LinUCB. Each person reports arm and reward with their own noise; an online learner predicts from
// the reports (Maler, or online gradient descent), and the confidence set is built of its predictions. With an infinite
// epsilon it is Algorithm 4, Online LinUCB without privacy.
//
// What differs from the paper:
//   - Arm and reward are one vector whose noise has the joint sensitivity (linearRecord.pair). The paper calibrates
//     each by itself with sigma = 2 sqrt(2 ln(1.25/delta))/epsilon and claims (epsilon, delta) for both together, which
//     is (2 epsilon, 2 delta) by composition; the formula holds for epsilon below 1 only, and the paper uses it at 10.
//     That is Variant "literal".
//   - The curator computes the gradient, of reports and its own state. The paper has the device do it; it is the same.
//   - The noise zeta that makes the loss strongly convex (Delta^2 > 0) is added by the curator to the report. Its law
//     is the same and no guarantee counts it.
//   - The radius of Lemma 3.3 is 1e4 to 1e9 at the paper's own settings (OnlineRadius), where no arm is ever told from
//     another. The option width stands for its root; theory uses the lemma's.
//   - The paper leaves the prediction of the learner biased where Delta^2 > 0: its stationary point is then that of
//     ridge regression, not theta*.
//
// Options: width (default 1); domain (D, default 1); clip (G, default 4(1 + sigma^2), where gradients are rarely
// clipped); ogd (0: Maler, the default; otherwise online gradient descent with this strong convexity); lambda_min (of
// E[xx'], default 1: no zeta); threshold (lambda bar, default T^(-1/4)); batch (people who decide with the same policy,
// default 1); theory (1: the radius of Lemma 3.3 instead of width); debiased (1: the center is least squares less the
// noise's share of the second moments, which is no part of the paper); lowest_reward.
func OnlineLinUCB(s learn.Setting) (*learn.Learner, error) {
	p, err := newOnlineParameters(s)
	if err != nil {
		return nil, err
	}
	return p.start(func() (onlineBase, error) {
		return p.base(s.Horizon, p.zeta(s.Option("lambda_min", 1), s.Option("threshold", p.threshold(0.25))))
	})
}

// onlineOptions are those of all algorithms made of Algorithm 1.
var onlineOptions = []string{"width", "domain", "clip", "ogd", "lambda_min", "threshold", "batch", "theory", "debiased",
	optionLowest}

// onlineParameters are what all algorithms made of Algorithm 1 share.
type onlineParameters struct {
	setting      learn.Setting
	statistic    learn.Statistic
	sigma        float64 // of each coordinate of a report
	domain, clip float64
	batch        int
	read         linearRecord
}

func newOnlineParameters(s learn.Setting, more ...string) (*onlineParameters, error) {
	if err := s.Check([]string{learn.Literal}, append(more, onlineOptions...)); err != nil {
		return nil, err
	}
	p := &onlineParameters{setting: s, read: newLinearRecord(s), domain: s.Option("domain", 1),
		batch: int(s.Option("batch", 1))}
	if p.batch < 1 || !(p.domain > 0) {
		return nil, fmt.Errorf("bandit: batch %d and domain %v must be positive", p.batch, p.domain)
	}
	p.statistic = p.read.pair()
	noise, err := pairNoise(s, p.statistic)
	if err != nil {
		return nil, err
	}
	p.statistic.Noise, p.sigma = noise, noise.Deviation()
	p.clip = s.Option("clip", 4*(1+p.sigma*p.sigma))
	return p, nil
}

// pairNoise is the noise of a report of arm and reward.
func pairNoise(s learn.Setting, of learn.Statistic) (mechanism.Noise, error) {
	if s.Variant == learn.Literal && !math.IsInf(s.Epsilon, 1) {
		return mechanism.Gaussian{Sigma: 2 * math.Sqrt(2*math.Log(1.25/s.Delta)) / s.Epsilon}, nil
	}
	rho, err := mechanism.Budget(s.Epsilon, s.Delta)
	if err != nil {
		return nil, fmt.Errorf("bandit: %w", err)
	}
	return mechanism.ForRho(mechanism.Sensitivity{Dim: of.Dim(), L2: of.Diameter}, rho)
}

// threshold is T^(-power).
func (p *onlineParameters) threshold(power float64) float64 {
	return math.Pow(float64(p.setting.Horizon), -power)
}

// zeta is Delta^2, the variance of the noise that makes the loss strongly convex.
func (p *onlineParameters) zeta(lambdaMin, threshold float64) float64 {
	if lambdaMin <= threshold {
		return threshold
	}
	return 0
}

// onlineBase is a bandit that learns from the reports of the people who played its policy.
type onlineBase interface {
	policy() (learn.Policy, error)
	absorb(report []float64) error
}

// start runs one base.
func (p *onlineParameters) start(base func() (onlineBase, error)) (*learn.Learner, error) {
	return learn.Start(func(ask func(learn.Policy, learn.Question) (learn.Answer, error)) (learn.Policy, error) {
		b, err := base()
		if err != nil {
			return nil, err
		}
		for left := p.setting.Horizon; left > 0; left -= p.batch {
			policy, err := b.policy()
			if err != nil {
				return nil, err
			}
			a, err := ask(policy, p.question(left))
			if err != nil {
				return nil, err
			}
			for _, report := range a.Reports {
				if err := b.absorb(report[0]); err != nil {
					return nil, err
				}
			}
		}
		return b.policy()
	})
}

// question asks the next batch for their reports.
func (p *onlineParameters) question(left int) learn.Question {
	return learn.Question{Form: learn.Reports, People: min(p.batch, left), Statistics: []learn.Statistic{p.statistic}}
}

// onlineLinUCB is the curator of one run of Algorithm 1.
type onlineLinUCB struct {
	*onlineParameters
	zeta    float64 // Delta^2
	width   float64
	learner online.Learner
	design  *growing  // V
	u       []float64 // sum of <theta_t, x_t> x_t
	cross   []float64 // sum of x_t y_t
}

// base starts a run of Algorithm 1 for so many people.
func (p *onlineParameters) base(people int, zeta float64) (*onlineLinUCB, error) {
	d := p.setting.Dimension
	b := &onlineLinUCB{onlineParameters: p, zeta: zeta, width: p.setting.Option("width", 1), design: newGrowing(d, 1),
		u: make([]float64, d), cross: make([]float64, d)}
	if zeta > 0 && p.setting.Noise == nil {
		return nil, fmt.Errorf("bandit: Online LinUCB needs a source for the noise that makes its loss convex")
	}
	if p.setting.Option("theory", 0) != 0 {
		b.width = math.Sqrt(p.radius(people, zeta))
	}
	domain := online.Domain{Dimension: d, Radius: p.domain, Gradient: p.clip}
	var err error
	if mu := p.setting.Option("ogd", 0); mu != 0 {
		b.learner, err = online.NewOGD(domain, mu)
	} else {
		b.learner, err = online.NewMaler(domain, people)
	}
	return b, err
}

func (b *onlineLinUCB) policy() (learn.Policy, error) {
	set := b.design.around(b.u, b.width)
	if b.setting.Option("debiased", 0) != 0 {
		theta, err := b.leastSquares()
		if err != nil {
			return nil, err
		}
		set.Theta = theta
	}
	return optimistic(b.setting, set), nil
}

// absorb is steps 11 to 19: the report's gradient goes to the learner, its arm into the design.
func (b *onlineLinUCB) absorb(report []float64) error {
	x, y := append([]float64(nil), report[:len(report)-1]...), report[len(report)-1]
	if b.zeta > 0 {
		mechanism.Gaussian{Sigma: math.Sqrt(b.zeta)}.Add(x, b.setting.Noise)
	}
	theta := b.learner.Point()
	if err := b.learner.Update(onlineGradient(x, y, theta, b.sigma)); err != nil {
		return fmt.Errorf("bandit: %w", err)
	}
	predicted := convex.Dot(x, theta)
	for i, v := range x {
		b.u[i] += predicted * v
		b.cross[i] += y * v
	}
	return b.design.add(x)
}

// onlineGradient is g_t, the gradient at theta of the loss (<x, theta> - y)^2 - sigma^2 |theta|^2, whose expectation
// over the noise of a report is that of the loss without noise: theta* minimises it.
func onlineGradient(x []float64, y float64, theta []float64, sigma float64) []float64 {
	residual, g := convex.Dot(x, theta)-y, make([]float64, len(x))
	for i, v := range x {
		g[i] = 2*v*residual - 2*sigma*sigma*theta[i]
	}
	return g
}

// leastSquares is least squares with the noise's share taken out of the second moments, in the ball of the domain.
func (b *onlineLinUCB) leastSquares() ([]float64, error) {
	moments := mat.NewSymDense(b.design.d, nil)
	moments.CopySym(b.design.matrix)
	noise := float64(b.design.added) * (b.sigma*b.sigma + b.zeta)
	for i := range b.design.d {
		moments.SetSym(i, i, moments.At(i, i)-noise)
	}
	// What noise left below its own size counts as this size.
	floor := 1 + math.Sqrt2*b.sigma*math.Sqrt(1+b.sigma*b.sigma)*math.Sqrt(float64(b.design.added))
	floored, err := flooredSpectrum(moments, floor)
	if err != nil {
		return nil, err
	}
	return convex.MinimizeQuadratic(floored, b.cross, b.domain)
}

// flooredSpectrum is the matrix with eigenvalues below the floor raised to it.
func flooredSpectrum(m *mat.SymDense, floor float64) (*mat.SymDense, error) {
	values, basis, err := convex.Spectrum(m)
	if err != nil {
		return nil, fmt.Errorf("bandit: %w", err)
	}
	out := mat.NewSymDense(len(values), nil)
	for i, v := range values {
		out.SymRankOne(out, max(v, floor), basis.ColView(i))
	}
	return out, nil
}
