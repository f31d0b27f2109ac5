package bandit

import (
	"fmt"
	"math"

	"gonum.org/v1/gonum/mat"

	"github.com/riffle-dp/riffle/pkg/convex"
	"github.com/riffle-dp/riffle/pkg/glm"
	"github.com/riffle-dp/riffle/pkg/glm/public"
	"github.com/riffle-dp/riffle/pkg/glm/symmetric"
	"github.com/riffle-dp/riffle/pkg/learn"
	"github.com/riffle-dp/riffle/pkg/learn/online"
	"github.com/riffle-dp/riffle/pkg/mechanism"
)

// OnlineLinUCB is Algorithm 1 of "Improved rate for locally differentially private linear bandits", Private
// (Contextual) Online LinUCB. Each person reports arm and reward with their own noise; an online learner predicts from
// the reports (Maler, or online gradient descent), and the confidence set is built of its predictions. With an infinite
// epsilon it is Algorithm 4, Online LinUCB without privacy.
//
// What differs from the paper:
//   - Arm and reward are one vector whose noise has the joint sensitivity (statistic.Pair). The paper calibrates each
//     by itself with sigma = 2 sqrt(2 ln(1.25/delta))/epsilon and claims (epsilon, delta) for both together, which is
//     (2 epsilon, 2 delta) by composition; the formula holds for epsilon below 1 only, and the paper uses it at 10.
//     That is Variant "literal", of simulations only.
//   - The paper's noise is Gaussian with one deviation. What the gradient takes out is here the variance that the
//     answer states for each coordinate: in a deployment that of binomial noise.
//   - The paper's policy changes after each person. Here a batch of people can decide with one, and their reports are
//     taken one after the other.
//   - The curator computes the gradient, of reports and its own state. The paper has the device do it; it is the same.
//   - The noise zeta that makes the loss strongly convex (Delta^2 > 0) is added by the curator to the report. Its law
//     is the same, no guarantee counts it, and it is public (package public), so that an auditor adds the same.
//   - A report that no honest device's noise explains is brought back to what it can explain (plausible).
//   - The center of the confidence set is brought into the ball of the parameter, in the norm of the set: the set loses
//     no parameter of the ball that it had.
//   - The radius of Lemma 3.3 is 1e4 to 1e9 at the paper's own settings (OnlineRadius), where no arm is ever told from
//     another. The option width stands for its root; theory uses the lemma's.
//   - The paper leaves the prediction of the learner biased where Delta^2 > 0: its stationary point is then that of
//     ridge regression, not theta*.
//
// Options: width (default 1); domain (D, default 1); clip (G, default 4(1 + sigma^2), where gradients are rarely
// clipped; sigma is that of Gaussian noise for the budget); ogd (0: Maler, the default; otherwise online gradient
// descent with this strong convexity); lambda_min (of E[xx'], default 1: no zeta); threshold (lambda bar, default
// T^(-1/4)); batch (people who decide with the same policy, default 1); theory (1: the radius of Lemma 3.3 instead of
// width); debiased (1: the center is least squares less the noise's share of the second moments, which is no part of
// the paper); lowest_reward (default the family's; a larger one cannot be announced).
func OnlineLinUCB(s learn.Setting) (*learn.Learner, error) {
	p, err := newOnlineParameters(s, "lambda_min", "threshold")
	if err != nil {
		return nil, err
	}
	p.lambdaMin = s.Option("lambda_min", p.lambdaMin)
	zeta := p.zeta(p.lambdaMin, s.Option("threshold", p.threshold(0.25)))
	base, err := p.base(s.Horizon, zeta)
	if err != nil {
		return nil, err
	}
	return p.start(base)
}

// onlineOptions are those of all algorithms made of Algorithm 1.
var onlineOptions = []string{"width", "domain", "clip", "ogd", "batch", "theory", "debiased", optionLowest}

// onlineParameters are what all algorithms made of Algorithm 1 share.
type onlineParameters struct {
	setting      learn.Setting
	profile      glm.Profile
	statistic    learn.Statistic
	span         float64 // of rewards
	sigma        float64 // of each coordinate of a report with Gaussian noise for the budget
	width        float64
	domain, clip float64
	ogd          float64
	lambdaMin    float64
	theory       bool
	debiased     bool
	batch        int
	public       *public.Source // of the batch whose reports are taken
}

// zetaPurpose is that of the public noise zeta.
const zetaPurpose = "zeta of online-linucb"

func newOnlineParameters(s learn.Setting, more ...string) (*onlineParameters, error) {
	if err := s.Check([]string{learn.Literal}, append(more, onlineOptions...)); err != nil {
		return nil, err
	}
	p := &onlineParameters{setting: s, profile: glm.OnlineLinUCB, width: s.Option("width", 1),
		domain: s.Option("domain", 1), ogd: s.Option("ogd", 0), lambdaMin: 1, theory: s.Option("theory", 0) != 0,
		debiased: s.Option("debiased", 0) != 0}
	batch := s.Option("batch", 1)
	if !(batch >= 1 && batch <= 1<<31) || !(p.domain > 0) || !(p.width >= 0) {
		return nil, fmt.Errorf("bandit: batch %v and domain %v must be positive, width %v not negative", batch,
			p.domain, p.width)
	}
	p.batch = int(batch)
	lowest := s.Option(optionLowest, s.Family.MinReward())
	var err error
	if p.statistic, err = pair(s, lowest); err != nil {
		return nil, err
	}
	p.span = p.statistic.Upper[s.Dimension] - p.statistic.Lower[s.Dimension]
	noise, err := pairNoise(s, p.statistic)
	if err != nil {
		return nil, err
	}
	if s.Variant == learn.Literal {
		p.statistic.Noise = noise
	}
	p.sigma = noise.Deviation()
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
	// absorb takes a report, and the variance of the noise on each of its numbers.
	absorb(report, variance []float64) error
}

// start runs a base.
func (p *onlineParameters) start(base onlineBase) (*learn.Learner, error) {
	return learn.StartState(&onlineRun{onlineParameters: p, base: base, left: p.setting.Horizon})
}

// onlineRun is a run of a base, batch by batch.
type onlineRun struct {
	*onlineParameters
	base  onlineBase
	epoch int
	left  int // people who were not asked yet
}

// Next implements learn.State.
func (r *onlineRun) Next() (learn.Step, error) {
	policy, err := r.base.policy()
	return learn.Step{Policy: policy, Done: r.left == 0, Question: learn.Question{Form: learn.Reports,
		People: r.people(), Statistics: []learn.Statistic{r.statistic}}}, err
}

// people is the size of the next batch.
func (r *onlineRun) people() int { return min(r.batch, r.left) }

// Absorb implements learn.State.
func (r *onlineRun) Absorb(a learn.Answer) error {
	r.public = public.NewSource(zetaPurpose, r.epoch)
	r.epoch, r.left = r.epoch+1, r.left-r.people()
	for _, report := range a.Reports {
		if err := r.base.absorb(r.plausible(report[0], a.Variance[0]), a.Variance[0]); err != nil {
			return err
		}
	}
	return nil
}

// plausible is a report with each number brought to where noise of this variance takes it from the range of records: a
// dishonest device can report numbers dozens of deviations away, whose squares would outweigh a cohort's. Noise with
// the tails of a Gaussian of its variance, as the sum of bits of bias 1/2 has them (protocol.Encoding.Variance holds a
// quarter for rounding), changes none of the honest reports of the whole run, except with the probability Failure.
func (p *onlineParameters) plausible(report, variance []float64) []float64 {
	numbers := float64(p.setting.Horizon * p.statistic.Dim())
	deviations := math.Sqrt(2 * math.Log(2*numbers/p.setting.Failure))
	out := make([]float64, len(report))
	for i, v := range report {
		reach := deviations * math.Sqrt(variance[i])
		out[i] = math.Max(p.statistic.Lower[i]-reach, math.Min(p.statistic.Upper[i]+reach, v))
	}
	return out
}

// onlineLinUCB is the curator of one run of Algorithm 1.
type onlineLinUCB struct {
	*onlineParameters
	zeta     float64 // Delta^2
	width    float64
	learner  online.Learner
	design   *mat.SymDense // V
	absorbed int           // reports
	u        []float64     // sum of <theta_t, x_t> x_t
	cross    []float64     // sum of x_t y_t
	noise    []float64     // sum of the variances of the noise on the coordinates of x_t, zeta's among it
}

// base starts a run of Algorithm 1 for so many people.
func (p *onlineParameters) base(people int, zeta float64) (*onlineLinUCB, error) {
	d := p.setting.Dimension
	b := &onlineLinUCB{onlineParameters: p, zeta: zeta, width: p.width, design: mat.NewSymDense(d, nil),
		u: make([]float64, d), cross: make([]float64, d), noise: make([]float64, d)}
	for i := range d {
		b.design.SetSym(i, i, 1)
	}
	if p.theory {
		b.width = math.Sqrt(p.radius(people, zeta))
	}
	domain := online.Domain{Dimension: d, Radius: p.domain, Gradient: p.clip}
	var err error
	if p.ogd != 0 {
		b.learner, err = online.NewOGD(domain, p.ogd)
	} else {
		b.learner, err = online.NewMaler(domain, people)
	}
	return b, err
}

// policy is optimistic play over the confidence set |theta - V^-1 u|_V <= width.
func (b *onlineLinUCB) policy() (learn.Policy, error) {
	moments, cross, radius := b.design, b.u, b.setting.Radius
	if b.debiased {
		radius = math.Min(radius, b.domain)
		var err error
		if moments, err = b.unbiased(); err != nil {
			return nil, err
		}
		cross = b.cross
	}
	center, err := convex.MinimizeQuadratic(moments, cross, radius)
	if err != nil {
		return nil, fmt.Errorf("bandit: %w", err)
	}
	inverse, err := convex.Inverse(b.design)
	if err != nil {
		return nil, fmt.Errorf("bandit: %w", err)
	}
	p := b.setting.Policy(b.profile, glm.PlayOptimistic)
	p.Theta = center
	p.Optimism = &glm.Stage{Theta: center, Covariance: symmetric.Pack(inverse), Width: b.width}
	return learn.Data{Policy: p}, nil
}

// absorb is steps 11 to 19: the report's gradient goes to the learner, its arm into the design.
func (b *onlineLinUCB) absorb(report, variance []float64) error {
	d := b.setting.Dimension
	x, y := append([]float64(nil), report[:d]...), report[d]
	if b.zeta > 0 {
		mechanism.Gaussian{Sigma: math.Sqrt(b.zeta)}.Add(x, b.public)
	}
	theta := b.learner.Point()
	if err := b.learner.Update(onlineGradient(x, y, theta, variance[:d])); err != nil {
		return fmt.Errorf("bandit: %w", err)
	}
	predicted := convex.Dot(x, theta)
	for i, v := range x {
		b.u[i] += predicted * v
		b.cross[i] += y * v
		b.noise[i] += variance[i] + b.zeta
	}
	b.design.SymRankOne(b.design, 1, mat.NewVecDense(d, x))
	b.absorbed++
	return nil
}

// onlineGradient is g_t, the gradient at theta of the loss (<x, theta> - y)^2 - theta' S theta, where S is the diagonal
// matrix of the variances of the noise on the coordinates of x. If these noises have mean 0 and are independent of each
// other and of the noise of y, E[xx'] is S and the outer product without noise, so that the expectation of the loss is
// that without noise, up to a constant: theta* minimises it.
//
// Variances are bounds where a coordinate is rounded (protocol.Encoding.Variance): too large by at most a quarter of
// the square of a level, which with b noise bits of bias 1/2 is 1/b of them.
func onlineGradient(x []float64, y float64, theta, variance []float64) []float64 {
	residual, g := convex.Dot(x, theta)-y, make([]float64, len(x))
	for i, v := range x {
		g[i] = 2*v*residual - 2*variance[i]*theta[i]
	}
	return g
}

// unbiased is the second moments with the noise's share taken out. What noise left below its own size counts as this
// size.
func (b *onlineLinUCB) unbiased() (*mat.SymDense, error) {
	moments := mat.NewSymDense(b.setting.Dimension, nil)
	moments.CopySym(b.design)
	for i, noise := range b.noise {
		moments.SetSym(i, i, moments.At(i, i)-noise)
	}
	floor := 1 + math.Sqrt2*b.sigma*math.Sqrt(1+b.sigma*b.sigma)*math.Sqrt(float64(b.absorbed))
	values, basis, err := convex.Spectrum(moments)
	if err != nil {
		return nil, fmt.Errorf("bandit: %w", err)
	}
	for i, v := range values {
		values[i] = math.Max(v, floor)
	}
	return convex.FromSpectrum(values, basis), nil
}
