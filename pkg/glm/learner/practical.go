package learner

import (
	"fmt"
	"math"
	"slices"

	"gonum.org/v1/gonum/mat"

	"github.com/riffle-dp/riffle/pkg/convex"
	"github.com/riffle-dp/riffle/pkg/glm"
	"github.com/riffle-dp/riffle/pkg/glm/family"
	"github.com/riffle-dp/riffle/pkg/glm/statistic"
	"github.com/riffle-dp/riffle/pkg/glm/symmetric"
)

func newPracticalRun(cfg Config) (*practicalRun, error) {
	model, err := family.New(cfg.Family, cfg.MaxReward)
	if err != nil {
		return nil, err
	}
	r := &practicalRun{cfg: cfg, family: model, score: family.Bounded(model), steep: steepness(model, cfg.Radius)}
	if panel := cfg.Practical.Panel; panel > 0 {
		r.schedule = panels(cfg.Horizon, panel)
	} else {
		p := cfg.Practical
		r.schedule = GeometricSchedule(cfg.Horizon, p.FirstCohort, p.Growth, p.MaxEpochs, cfg.MinCohort)
	}
	r.prior = vague(cfg)
	r.covariance = mat.NewSymDense(cfg.Dimension, nil)
	for i := range cfg.Dimension {
		r.covariance.SetSym(i, i, 1/r.prior.precision.At(i, i))
	}
	if p := cfg.Practical; len(p.PriorTheta) > 0 {
		r.prior = belief{slices.Clone(p.PriorTheta), p.PriorPrecision.Dense(cfg.Dimension), true}
		r.covariance, err = inverse(r.prior.precision)
	}
	r.theta, r.information = r.prior.theta, r.prior.precision
	return r, err
}

// vague is the belief of PracticalConfig.Prior.
func vague(c Config) belief {
	d := c.Dimension
	b := belief{theta: make([]float64, d), precision: mat.NewSymDense(d, nil)}
	for i := range d {
		b.precision.SetSym(i, i, c.Practical.Prior*float64(d)/(c.Radius*c.Radius))
	}
	return b
}

// informed reports whether the configuration brought knowledge that still counts.
func (r *practicalRun) known(epoch int) symmetric.Packed {
	if epoch == 0 && !r.prior.given {
		return nil
	}
	return symmetric.Pack(r.covariance)
}

func (r *practicalRun) cohorts() []int { return r.schedule }

func (r *practicalRun) policy(epoch, cohort, left int) glm.Policy {
	p := glm.Policy{Profile: glm.Practical, Epoch: epoch, Family: r.cfg.Family, MaxReward: r.cfg.MaxReward,
		Dimension: r.cfg.Dimension, Structure: slices.Clone(r.cfg.Structure), Radius: r.cfg.Radius,
		Theta: slices.Clone(r.theta), Play: glm.PlayDesign,
		DesignTolerance: r.cfg.Practical.DesignTolerance, Pairwise: !r.cfg.Practical.SingleWidths}
	p.Control, p.Caution = r.cfg.Practical.Control, r.cfg.Practical.Caution
	age := r.age
	if r.prior.given {
		age++
	}
	e := r.cfg.Exploration(age, cohort, left)
	if p.Caution > 0 && age > 0 { // Caution asks what is known now, whatever the stage is
		p.Scaling = glm.NewScaling(r.family, r.cfg.Radius, r.stage(r.covariance, 0))
	}
	switch {
	case e.Share == 0:
		p.Play = glm.PlayGreedy
		return p
	case e.Share < 1:
		p.Explore = e.Share
	}
	if age == 0 {
		return p
	}
	covariance := r.covariance
	if e.Ahead && r.age > 0 {
		covariance = r.ahead(cohort)
	}
	stage := r.stage(covariance, e.Width)
	p.Stages = []glm.Stage{stage}
	if p.Scaling == nil {
		p.Scaling = glm.NewScaling(r.family, r.cfg.Radius, stage)
	}
	return p
}

func (r *practicalRun) stage(covariance *mat.SymDense, width float64) glm.Stage {
	return glm.Stage{Theta: slices.Clone(r.theta), Covariance: symmetric.Pack(covariance), Width: width}
}

// ahead is the covariance of theta after a cohort of the given size that decides as the last one did.
func (r *practicalRun) ahead(people int) *mat.SymDense {
	information := mat.NewSymDense(r.cfg.Dimension, nil)
	information.AddSym(r.information, r.last.expected(people))
	covariance, err := inverse(information)
	if err != nil {
		return r.covariance // the present covariance is wider, so that more is explored
	}
	return covariance
}

func (r *practicalRun) final(epoch int) glm.Policy {
	p := r.policy(epoch, 1, 0)
	p.Play = glm.PlayGreedy
	return p
}

func (r *practicalRun) statistics(glm.Policy) ([][]statistic.Statistic, [][]float64, error) {
	h, err := statistic.NewHessian(r.score, slices.Clone(r.theta))
	if err != nil {
		return nil, nil, err
	}
	g, err := statistic.NewGradient(r.score, slices.Clone(r.theta))
	if err != nil {
		return nil, nil, err
	}
	h.Structure, g.Structure = r.cfg.Structure, r.cfg.Structure
	p := r.cfg.Practical
	if p.Control == 0 {
		return [][]statistic.Statistic{{h, g}}, [][]float64{{p.HessianShare, 1 - p.HessianShare}}, nil
	}
	rewards, err := statistic.NewRewards(r.family, r.cfg.Dimension)
	if err != nil {
		return nil, nil, err
	}
	rewards.Structure = r.cfg.Structure
	rest := 1 - p.ControlShare
	return [][]statistic.Statistic{{h, g, rewards}},
		[][]float64{{rest * p.HessianShare, rest * (1 - p.HessianShare), p.ControlShare}}, nil
}

// released says how the vector of a released Hessian is laid out.
func (r *practicalRun) released() statistic.Statistic {
	return statistic.Statistic{Kind: statistic.Hessian, ArmDim: r.cfg.Dimension, Structure: r.cfg.Structure}
}

func (r *practicalRun) likely() float64 { return r.unchanged }

func (r *practicalRun) rollback(epoch int) error {
	if len(r.before) < 2 {
		return fmt.Errorf("%w before that of epoch %d", ErrRollback, epoch-1)
	}
	r.knowledge, r.before = r.before[0], nil
	return nil
}

func (r *practicalRun) restart() {}

func (r *practicalRun) extend(epochs, people int) error {
	c := r.cfg
	if panel := c.Practical.Panel; panel > 0 {
		if most := mostPanels - epochs; people/panel > most {
			return fmt.Errorf("%w: %d more people are more than %d panels of %d", ErrExtend, people, most, panel)
		}
		r.schedule = append(r.schedule[:epochs:epochs], panels(people, panel)...)
		return nil
	}
	next := c.Practical.Growth * float64(slices.Max(r.schedule))
	next = math.Max(1, math.Min(next, float64(people)/2)) // leaves at least half for the cohorts after it
	sizes := GeometricSchedule(people, int(next), c.Practical.Growth, c.Practical.MaxEpochs, c.MinCohort)
	r.schedule = append(r.schedule[:epochs:epochs], sizes...)
	return nil
}

// absorb takes a cohort's Newton step. With a HalfLife what was known before fades towards the prior first: the
// posterior's precision W and its product with the mean become rho times themselves plus 1 - rho times the prior's,
// rho = 2^(-1 / HalfLife), as if every old observation counted rho times. With an Alarm, rho is 0 where the test says
// that the world has changed; a prior that the configuration brought is then forgotten too, because it is of the
// world before. A cohort that was destroyed lets nothing fade.
func (r *practicalRun) absorb(_, _ int, sums []Aggregate) error {
	d, p := r.cfg.Dimension, r.cfg.Practical
	ceiling := float64(sums[0].Reports) * float64(max(1, p.Decisions)) * r.score.MaxVariance(convex.Norm(r.theta))
	noiseH, noiseG := slices.Max(sums[0].Variance), slices.Max(sums[1].Variance)
	values, vectors, err := shrunk(r.released().Matrix(sums[0].Sum), len(sums[0].Sum), noiseH, ceiling)
	if err != nil {
		return err
	}
	next := r.knowledge
	next.age++
	if next.unchanged, next.spread, err = r.testUnchanged(values, vectors, sums[1].Sum, noiseG); err != nil {
		return err
	}
	kept := 1.0
	if p.HalfLife > 0 {
		kept = math.Exp2(-1 / p.HalfLife)
	}
	if next.unchanged > 0 && next.unchanged < p.Alarm {
		kept, next.age, next.prior = 0, 1, vague(r.cfg)
	}
	if kept < 1 {
		next.fade(kept)
		if next.covariance, err = inverse(next.information); err != nil {
			return err
		}
	}
	distance := math.Min(mat.Trace(next.covariance), 4*r.cfg.Radius*r.cfg.Radius)
	noise := noiseG + math.Max(0, p.HessianNoise)/2*noiseH*distance
	gain := make([]float64, d)
	for i, h := range values {
		if h > 0 {
			gain[i] = h / (h + noise)
		}
	}
	// A symmetric noise matrix with entries of variance noiseH/2 off the diagonal has its largest eigenvalue at about
	// sqrt(2 d noiseH) (Wigner).
	next.last = evidence{values, vectors, sums[0].Reports, noise, math.Sqrt(2 * float64(d) * noiseH)}
	information := mat.NewSymDense(d, nil)
	information.AddSym(next.information, next.last.information())
	before := next.information
	next.information = information
	if next.covariance, err = inverse(information); err != nil {
		return err
	}
	var weighted, step mat.VecDense
	weighted.MulVec(convex.FromSpectrum(gain, vectors), mat.NewVecDense(d, slices.Clone(sums[1].Sum)))
	if kept < 1 { // theta is no longer the mean of what is left: the prior pulls it
		var away, pull mat.VecDense
		away.SubVec(mat.NewVecDense(d, r.theta), mat.NewVecDense(d, next.prior.theta))
		pull.MulVec(next.prior.precision, &away)
		weighted.AddScaledVec(&weighted, 1-kept, &pull)
	}
	step.MulVec(next.covariance, &weighted)
	theta := make([]float64, d)
	for i := range theta {
		theta[i] = r.theta[i] - step.AtVec(i)
	}
	var ok bool
	if next.theta, ok = intoBall(theta, r.cfg.Radius); !ok {
		return fmt.Errorf("%w: the estimate is not finite", ErrAggregate)
	}
	next.bias = r.biased(next, before, kept)
	if r.before = append(r.before, r.knowledge); len(r.before) > 2 {
		r.before = r.before[1:]
	}
	r.knowledge = next
	return nil
}

// fade leaves a share of the information, and the prior's in place of the rest.
func (k *knowledge) fade(kept float64) {
	d := k.information.SymmetricDim()
	faded := mat.NewSymDense(d, nil)
	for i := range d {
		for j := i; j < d; j++ {
			faded.SetSym(i, j, kept*k.information.At(i, j)+(1-kept)*k.prior.precision.At(i, j))
		}
	}
	k.information = faded
}

// shrunk returns the eigenvalues and eigenvectors of an estimate of the true Hessian from its noisy release. variance
// is the noise variance of each of the released coordinates (diagonal entries; half of it off the diagonal; the other
// entries are 0 and not noisy), ceiling the largest possible trace.
//
// The mean eigenvalue m is known d times better than the rest. The deviation from m*I is multiplied by the share of its
// squared Frobenius norm that the noise does not explain (empirical Bayes, as James and Stein 1961). A noisy Hessian
// has negative eigenvalues; they are raised to the standard deviation of the noise, at most 5 % of m. Without noise the
// matrix comes back as it was.
func shrunk(h *mat.SymDense, released int, variance, ceiling float64) ([]float64, *mat.Dense, error) {
	d := h.SymmetricDim()
	deviation := math.Sqrt(variance)
	m := mat.Trace(h) / float64(d)
	m = math.Min(math.Max(m, deviation/math.Sqrt(float64(d))), ceiling/float64(d))
	spread := 0.0
	for i := range d {
		for j := i; j < d; j++ {
			weight, v := 2.0, h.At(i, j)
			if i == j {
				weight, v = 1, v-m
			}
			spread += weight * v * v
		}
	}
	kept := 0.0
	if noise := variance * float64(released-1); spread > noise {
		kept = 1 - noise/spread
	}
	estimate := mat.NewSymDense(d, nil)
	for i := range d {
		for j := i; j < d; j++ {
			v := kept * h.At(i, j)
			if i == j {
				v += (1 - kept) * m
			}
			estimate.SetSym(i, j, v)
		}
	}
	values, vectors, err := convex.Spectrum(estimate)
	if err != nil {
		return nil, nil, fmt.Errorf("%w: %w", ErrAggregate, err)
	}
	floor := math.Max(0, math.Min(deviation, 0.05*m))
	for i, v := range values {
		values[i] = math.Min(math.Max(v, floor), math.Max(ceiling, floor))
	}
	return values, vectors, nil
}

// intoBall projects theta onto the ball of the given radius; the result's norm is at most radius in floating point too.
// It reports false when theta is not finite.
func intoBall(theta []float64, radius float64) ([]float64, bool) {
	if convex.FirstNotFinite(theta) >= 0 {
		return nil, false
	}
	scaled := make([]float64, len(theta))
	for i, v := range theta {
		scaled[i] = v / radius
	}
	projected, long := convex.ToUnitBall(scaled)
	if !long {
		return theta, true
	}
	for i := range projected {
		projected[i] *= radius
	}
	for convex.Norm(projected) > radius { // a rounding above
		for i := range projected {
			projected[i] *= 1 - 0x1p-52
		}
	}
	return projected, true
}
