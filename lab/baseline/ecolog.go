package baseline

import (
	"fmt"
	"math"

	"gonum.org/v1/gonum/mat"

	"github.com/riffle-dp/riffle/internal/population"
	"github.com/riffle-dp/riffle/pkg/convex"
	"github.com/riffle-dp/riffle/pkg/glm/family"
)

// ECOLog is (ada-)OFU-ECOLog of Faury, Abeille, Jun and Calauzenes, "Jointly efficient and optimal algorithms for
// logistic bandits" (2022), as in the seed paper's experiments, logistic rewards only. Its two small problems per round
// are solved to the end by Newton's method over the ball; the public code stops a projected gradient at a planned
// precision.
type ECOLog struct {
	inTheClear
	setting   Setting
	design    *growing      // W
	matrix    *mat.SymDense // W, for the problems
	theta     []float64
	rounds    float64 // the code's counter, from 1
	cumulated float64
	chosen    []float64
}

const ecologRidge = 10

// NewECOLog starts ECOLog.
func NewECOLog(s Setting) (*ECOLog, error) {
	if err := s.check(); err != nil {
		return nil, err
	}
	if s.Family.Name() != family.NameLogistic {
		return nil, fmt.Errorf("%w: ECOLog is for logistic rewards, not %s", ErrSetting, s.Family.Name())
	}
	e := &ECOLog{setting: s, design: newGrowing(s.Dimension, ecologRidge), matrix: mat.NewSymDense(s.Dimension, nil),
		theta: make([]float64, s.Dimension), rounds: 1}
	for i := range s.Dimension {
		e.matrix.SetSym(i, i, ecologRidge)
	}
	return e, nil
}

func (e *ECOLog) radius() float64 {
	S, delta := e.setting.Radius, e.setting.Failure
	root := math.Sqrt(ecologRidge)
	gain := root/2 + 2/root*math.Log(2/delta*math.Sqrt(1+e.rounds/(4*ecologRidge)))
	return math.Sqrt(math.Max(0, 2*ecologRidge*S*S+(1+S)*(1+S)*gain+e.cumulated))
}

// Choose implements simulate.Algorithm.
func (e *ECOLog) Choose(arms [][]float64) (int, error) {
	radius := e.radius()
	a := best(arms, func(x []float64) float64 {
		return e.setting.Family.Mean(population.Dot(x, e.theta)) + radius*e.design.norm(x)
	})
	e.chosen = arms[a]
	return a, nil
}

// Learn implements simulate.Algorithm.
func (e *ECOLog) Learn(reward float64) error {
	e.rounds++
	x, model := e.chosen, e.setting.Family
	next, err := e.solve(e.theta, func(z float64) (float64, float64, float64) {
		return family.Loss(model, z, reward), model.Mean(z) - reward, model.Variance(z)
	})
	if err != nil {
		return err
	}
	both, err := e.solve(next, func(z float64) (float64, float64, float64) {
		return family.Loss(model, z, 0) + family.Loss(model, z, 1), 2*model.Mean(z) - 1, 2 * model.Variance(z)
	})
	if err != nil {
		return err
	}
	difference := mat.NewVecDense(len(next), nil)
	for i := range next {
		difference.SetVec(i, next[i]-both[i])
	}
	length := math.Sqrt(math.Max(0, mat.Inner(difference, e.matrix, difference)))
	progress := family.Loss(model, population.Dot(x, both), reward) - family.Loss(model, population.Dot(x, next),
		reward)
	e.cumulated += 2*(1+e.setting.Radius)*progress - 0.5*length
	w := model.Variance(population.Dot(x, next))
	e.design.add(w, x)
	e.matrix.SymRankOne(e.matrix, w, mat.NewVecDense(len(x), append([]float64(nil), x...)))
	e.theta = next
	return nil
}

// solve minimises |theta - centre|_W^2/2 + loss(x.theta) over the ball.
func (e *ECOLog) solve(centre []float64, loss func(z float64) (value, first, second float64)) ([]float64, error) {
	result, err := convex.Minimize(&proximal{e, centre, loss},
		convex.NewtonConfig{Start: centre, Radius: e.setting.Radius, Tolerance: 1e-9})
	return result.Theta, err
}

type proximal struct {
	e      *ECOLog
	centre []float64
	loss   func(z float64) (value, first, second float64)
}

// Dim implements convex.Objective.
func (p *proximal) Dim() int { return len(p.centre) }

// Evaluate implements convex.Objective.
func (p *proximal) Evaluate(theta, gradient []float64, hessian *mat.SymDense) float64 {
	d := len(theta)
	away := make([]float64, d)
	for i := range theta {
		away[i] = theta[i] - p.centre[i]
	}
	value, first, second := p.loss(population.Dot(p.e.chosen, theta))
	for i := range d {
		sum := 0.0
		for j, v := range away {
			sum += p.e.matrix.At(i, j) * v
		}
		value += away[i] * sum / 2
		if gradient != nil {
			gradient[i] = sum + first*p.e.chosen[i]
		}
	}
	if hessian != nil {
		hessian.CopySym(p.e.matrix)
		hessian.SymRankOne(hessian, second, mat.NewVecDense(d, append([]float64(nil), p.e.chosen...)))
	}
	return value
}
