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

// paperRun is Algorithm 1 of Riffle's seed paper. A batch has 1 + Rounds releases, in Rounds round trips: the
// covariance of line 4 or 23 travels with the first gradient, which is taken at the previous batch's estimate and needs
// no step size. Round i+1 is evaluated at the iterate that the sums of round i gave. Each device keeps its record until
// its batch's rounds are over.
type paperRun struct {
	cfg      Config
	family   family.Family
	schedule []int
	stages   []glm.Stage  // of finished batches
	scaling  *glm.Scaling // from the warm-up
	theta    []float64
	step     float64 // smoothness step of the warm-up's covariance, for all batches
	current  paperBatch
}

// paperBatch is the state of one batch between its rounds.
type paperBatch struct {
	inverse   symmetric.Packed // of lambda I + released covariance, eigenvalues floored: V^-1 or H_k^-1
	lambda    float64
	step      float64
	optimizer *convex.Optimizer
	proxy     float64 // largest variance proxy of a gradient coordinate
}

func newPaperRun(cfg Config) (*paperRun, error) {
	family, err := family.New(cfg.Family, cfg.MaxReward)
	if err != nil {
		return nil, err
	}
	r := &paperRun{cfg: cfg, family: family, theta: make([]float64, cfg.Dimension)}
	sizes := PaperSchedule(cfg.Horizon, float64(cfg.Paper.Warmup), float64(cfg.Paper.Second), cfg.Paper.Alpha)
	r.schedule = mergeRemainder(sizes, cfg.MinCohort)
	return r, nil
}

func (r *paperRun) cohorts() []int { return r.schedule }

func (r *paperRun) proof() ProofInputs {
	return ProofInputs{Dimension: r.cfg.Dimension, MaxReward: family.RewardSpan(r.family), Radius: r.cfg.Radius,
		SelfConcordance: r.family.SelfConcordance(r.cfg.Radius), Failure: r.cfg.Paper.Failure, Eta: r.cfg.Paper.Eta}
}

func (r *paperRun) policy(epoch, _, _ int) glm.Policy {
	p := glm.Policy{Profile: glm.Paper, Epoch: epoch, Family: r.cfg.Family, MaxReward: r.cfg.MaxReward,
		Dimension: r.cfg.Dimension, Structure: slices.Clone(r.cfg.Structure), Radius: r.cfg.Radius,
		Theta: slices.Clone(r.theta), Play: glm.PlayDesign,
		DesignTolerance: r.cfg.Paper.DesignTolerance}
	for _, s := range r.stages {
		p.Stages = append(p.Stages, s.Clone())
	}
	if r.scaling != nil {
		s := *r.scaling
		s.Stage = s.Clone()
		p.Scaling = &s
	}
	return p
}

func (r *paperRun) final(epoch int) glm.Policy {
	p := r.policy(epoch, 0, 0)
	p.Play = glm.PlayGreedy
	return p
}

func (r *paperRun) statistics(p glm.Policy) ([][]statistic.Statistic, [][]float64, error) {
	bound := 1.0
	if p.Scaling != nil {
		bound = p.Scaling.MaxWeight
	}
	covariance, err := statistic.NewCovariance(r.cfg.Dimension, bound)
	if err != nil {
		return nil, nil, err
	}
	iterate := r.theta
	if r.current.optimizer != nil {
		iterate = r.current.optimizer.Iterate()
	}
	gradient, err := statistic.NewGradient(r.family, slices.Clone(iterate))
	if err != nil {
		return nil, nil, err
	}
	covariance.Structure, gradient.Structure = r.cfg.Structure, r.cfg.Structure
	share := r.cfg.Paper.CovarianceShare
	each := (1 - share) / float64(r.cfg.Paper.Rounds)
	statistics, shares := [][]statistic.Statistic{{covariance, gradient}}, [][]float64{{share, each}}
	for range r.cfg.Paper.Rounds - 1 {
		statistics, shares = append(statistics, []statistic.Statistic{gradient}), append(shares, []float64{each})
	}
	return statistics, shares, nil
}

func (r *paperRun) extend(int, int) error {
	return fmt.Errorf("%w: the paper profile is made for one horizon", ErrExtend)
}

func (r *paperRun) known(int) symmetric.Packed { return nil }

func (r *paperRun) likely() float64 { return 0 }

func (r *paperRun) rollback(int) error {
	return fmt.Errorf("%w: the profile %q keeps none", ErrRollback, glm.Paper)
}

func (r *paperRun) restart() { r.current = paperBatch{} }

func (r *paperRun) absorb(epoch, round int, sums []Aggregate) error {
	batch, gradient := r.current, sums[len(sums)-1]
	if round == 0 {
		var err error
		if batch, err = r.open(epoch, sums[0], gradient); err != nil {
			return err
		}
	}
	// The optimiser changes nothing when it refuses, so a failed round leaves the batch as it was.
	if err := batch.optimizer.Absorb(gradient.Sum, gradient.Reports); err != nil {
		return fmt.Errorf("%w: %w", ErrAggregate, err)
	}
	batch.proxy = math.Max(batch.proxy, r.cfg.Paper.ProxyRatio*slices.Max(gradient.Variance))
	if !batch.optimizer.Done() {
		r.current = batch
		return nil
	}
	return r.close(epoch, batch, gradient.Reports)
}

// open takes the covariance release (lines 6 and 25) and starts the optimiser (lines 7 and 26).
func (r *paperRun) open(epoch int, covariance, gradient Aggregate) (paperBatch, error) {
	d := r.cfg.Dimension
	layout := statistic.Statistic{Kind: statistic.Covariance, ArmDim: d, Structure: r.cfg.Structure}
	released := layout.Matrix(covariance.Sum)
	var err error
	proxy := r.cfg.Paper.ProxyRatio * slices.Max(covariance.Variance)
	batch := paperBatch{lambda: TunedRidge(proxy, d, len(r.schedule)), step: r.step}
	floor, ridge, averaging := batch.lambda/2, r.cfg.Paper.EstimationRidge, convex.AverageSecondHalf
	if r.cfg.Paper.Constants == ProofConstants {
		batch.lambda = r.proof().Ridge(proxy)
		floor, ridge, averaging = (1-r.cfg.Paper.Eta)*batch.lambda, batch.lambda, convex.AverageAll
		// The bound's step must be known before the first round. All rounds are planned alike, so the first one's noise
		// is that of all.
		bound, err := r.error(batch.lambda, r.cfg.Paper.ProxyRatio*slices.Max(gradient.Variance), gradient.Reports)
		if err != nil {
			return paperBatch{}, err
		}
		batch.step = bound.Step
	} else if epoch == 0 {
		batch.step, err = convex.SmoothnessStep(r.family.MaxVariance(r.cfg.Radius), released, ridge, covariance.Reports)
		if err != nil {
			return paperBatch{}, fmt.Errorf("%w: %w", ErrAggregate, err)
		}
	}
	regularised := mat.NewSymDense(d, nil)
	regularised.CopySym(released)
	for i := range d {
		regularised.SetSym(i, i, regularised.At(i, i)+batch.lambda)
	}
	if regularised, err = floored(regularised, floor); err != nil {
		return paperBatch{}, err
	}
	if regularised, err = inverse(regularised); err != nil {
		return paperBatch{}, err
	}
	batch.inverse = symmetric.Pack(regularised)
	batch.optimizer, err = convex.NewOptimizer(convex.OptimizerConfig{
		Start: r.theta, Rounds: r.cfg.Paper.Rounds, Radius: r.cfg.Radius, Step: batch.step, Averaging: averaging,
		Ridge: ridge})
	if err != nil {
		return paperBatch{}, fmt.Errorf("%w: %w", ErrAggregate, err)
	}
	return batch, nil
}

// close turns a finished batch into the estimate and the elimination stage of the next ones (lines 8 and 27).
func (r *paperRun) close(epoch int, batch paperBatch, reports int) error {
	theta, err := convex.Ball{Radius: r.cfg.Radius}.Project(nil, batch.optimizer.Result())
	if err != nil {
		return fmt.Errorf("%w: %w", ErrAggregate, err)
	}
	kappa := 1.0
	if epoch == 0 {
		kappa = r.cfg.Paper.Kappa
	}
	width, err := r.width(batch, kappa, reports)
	if err != nil {
		return err
	}
	stage := glm.Stage{Theta: theta, Covariance: batch.inverse, Width: width}
	if epoch == 0 {
		r.scaling = glm.NewScaling(r.family, r.cfg.Radius, stage)
	}
	r.stages = append(r.stages, stage)
	r.theta, r.step, r.current = theta, batch.step, paperBatch{}
	return nil
}

// width is the width of the batch's confidence set. kappa bounds 1/mu' for the unweighted matrix of the warm-up, and is
// 1 for the other batches.
func (r *paperRun) width(batch paperBatch, kappa float64, reports int) (float64, error) {
	if r.cfg.Paper.Constants == ProofConstants {
		bound, err := r.error(batch.lambda, batch.proxy, reports)
		return math.Sqrt(kappa) * r.proof().Gamma(batch.lambda, bound.Nu), err
	}
	start, err := r.startError()
	if err != nil {
		return 0, err
	}
	nu, err := convex.SmoothError(convex.SmoothInputs{Reports: reports, Dimension: r.cfg.Dimension,
		Rounds: r.cfg.Paper.Rounds, Step: batch.step, Start: start, SumVariance: batch.proxy})
	if err != nil {
		return 0, fmt.Errorf("%w: %w", ErrAggregate, err)
	}
	return TunedWidth{Constant: r.cfg.Paper.Width, MaxReward: family.RewardSpan(r.family), Dimension: r.cfg.Dimension,
		Horizon: r.cfg.Horizon, Radius: r.cfg.Radius, Lambda: batch.lambda, Nu: nu, Kappa: kappa}.Gamma(), nil
}

// startError bounds the distance of the batch's first iterate from theta*, which stands for its distance from the
// batch's minimum. The warm-up starts at zero; later batches start at an estimate of norm at most S, in whose
// confidence set theta* lies.
func (r *paperRun) startError() (float64, error) {
	if len(r.stages) == 0 {
		return r.cfg.Radius, nil
	}
	last := r.stages[len(r.stages)-1]
	values, _, err := convex.Spectrum(last.Covariance.Dense(r.cfg.Dimension))
	if err != nil {
		return 0, fmt.Errorf("%w: %w", ErrAggregate, err)
	}
	return math.Min(2*r.cfg.Radius, last.Width*math.Sqrt(math.Max(0, values[len(values)-1]))), nil
}

// error is the optimiser's certificate for a batch.
func (r *paperRun) error(lambda, proxy float64, reports int) (convex.ErrorBound, error) {
	bound, err := convex.OptimizerError(convex.ErrorInputs{
		Reports: reports, Dimension: r.cfg.Dimension, Rounds: r.cfg.Paper.Rounds, Radius: r.cfg.Radius,
		MaxGradient: family.MaxResidual(r.family, r.cfg.Radius), Ridge: lambda, SumProxy: proxy,
		Failure: r.cfg.Paper.Failure})
	if err != nil {
		return bound, fmt.Errorf("%w: %w", ErrAggregate, err)
	}
	return bound, nil
}
