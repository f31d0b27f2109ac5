package learner

import (
	"fmt"
	"math"
	"slices"

	"gonum.org/v1/gonum/mat"

	"github.com/riffle-dp/riffle/pkg/convex"
	"github.com/riffle-dp/riffle/pkg/glm"
	"github.com/riffle-dp/riffle/pkg/glm/family"
	"github.com/riffle-dp/riffle/pkg/glm/posterior"
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
		b.precision.SetSym(i, i, c.priorPrecision())
	}
	return b
}

// priorPrecision is that of each direction without knowledge: see PracticalConfig.Prior.
func (c Config) priorPrecision() float64 {
	least := leastPrecision
	switch c.Family {
	case family.NameLinear:
		least = leastLinear
	case family.NameGaussian:
		least = leastGaussian
	}
	return c.Practical.Prior * math.Max(float64(c.Dimension)/(c.Radius*c.Radius), least)
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
		Theta: slices.Clone(r.theta), Play: glm.PlayDesign, DesignTolerance: r.cfg.Practical.DesignTolerance}
	p.Control, p.Caution = r.cfg.Practical.Control, r.cfg.Practical.Caution
	if r.age == 0 && !r.prior.given { // nothing is known: everybody explores, or only those whom caution lets
		if p.Caution > 0 {
			r.explore(&p, r.cfg.Practical.ExplorerShare)
		}
		return p
	}
	now := glm.Stage{Theta: slices.Clone(r.theta), Covariance: symmetric.Pack(r.covariance)}
	p.Scaling = glm.NewScaling(r.family, r.cfg.Radius, now) // what is known now: Caution asks for it
	p.Play = glm.PlayGreedy
	spread := r.cfg.Spread(cohort, left)
	if spread == 0 {
		return p
	}
	p.DesignTolerance = 0
	p.Play, p.Draws = glm.PlaySampled, r.draws(epoch, cohort, spread)
	if p.Caution > 0 {
		r.explore(&p, r.cfg.Practical.ExplorerShare)
	}
	return p
}

// explore lets a share of the decisions explore.
func (r *practicalRun) explore(p *glm.Policy, share float64) {
	if p.Explore = share; share <= 0 {
		p.Play, p.Explore, p.Draws = glm.PlayGreedy, 0, nil
	}
}

// draws are what the epoch's policy samples from: the estimate with the covariance that it will have after the cohort.
// Exploration is worth its cost only for what ordinary decisions never show, not for what they show in any case, for
// instance because contexts vary.
func (r *practicalRun) draws(epoch, cohort int, spread float64) [][]float64 {
	covariance := r.covariance
	if r.age > 0 {
		covariance = r.ahead(cohort)
	}
	draws, err := posterior.Draws(r.theta, symmetric.Pack(covariance), spread, r.cfg.Radius, DrawsPerPolicy, epoch)
	if err != nil { // not reached: the estimate is in the ball, and a covariance is positive semidefinite
		panic(fmt.Sprintf("glm: the learner's own estimate cannot be drawn from: %v", err))
	}
	return draws
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
	p.Play, p.Draws, p.Explore = glm.PlayGreedy, nil, 0
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
	runs := r.cfg.Structure.Disjoint(d)
	h, err := estimate(r.released().Matrix(sums[0].Sum), len(sums[0].Sum), runs, noiseH, ceiling)
	if err != nil {
		return err
	}
	values, vectors := h.values, h.vectors
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
	distance /= float64(max(1, len(runs))) // that of one run, which is all that the error of its part multiplies
	noise := noiseG + math.Max(0, p.HessianNoise)/2*h.kept*noiseH*distance
	gain, dispersion := make([]float64, d), r.score.Dispersion()
	for i, h := range values {
		if h > 0 {
			gain[i] = h / (dispersion*h + noise)
		}
	}
	// A symmetric noise matrix with entries of variance noiseH/2 off the diagonal has its largest eigenvalue at about
	// sqrt(2 d noiseH) (Wigner).
	width := float64(d) / float64(max(1, len(runs)))
	next.last = evidence{values, vectors, sums[0].Reports, dispersion, noise, math.Sqrt(2 * width * noiseH)}
	added, trusted, err := tempered(next.last.information(), next.information, math.Max(0, p.Bend))
	if err != nil {
		return err
	}
	information := mat.NewSymDense(d, nil)
	information.AddSym(next.information, added)
	before := next.information
	next.information = information
	if next.covariance, err = inverse(information); err != nil {
		return err
	}
	var weighted, step mat.VecDense
	weighted.MulVec(convex.FromSpectrum(gain, vectors), mat.NewVecDense(d, slices.Clone(sums[1].Sum)))
	weighted.MulVec(trusted, mat.VecDenseCopyOf(&weighted))
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
