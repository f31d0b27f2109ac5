package bandit

import (
	"fmt"
	"math"

	"gonum.org/v1/gonum/mat"

	"github.com/riffle-dp/riffle/pkg/convex"
	"github.com/riffle-dp/riffle/pkg/glm"
	"github.com/riffle-dp/riffle/pkg/glm/symmetric"
	"github.com/riffle-dp/riffle/pkg/learn"
)

// optimistic is the policy of all linear bandits here: it takes the arm with the largest <x, theta> over a confidence
// set, which is <x, center> + width |x|_{V^-1}.
func optimistic(s learn.Setting, set glm.Stage) learn.Data {
	p := s.Policy(glm.LinUCB, glm.PlayOptimistic)
	p.Theta, p.Optimism = set.Theta, &set
	return learn.Data{Policy: p}
}

// packed is the upper triangle of a matrix that rounding left a little asymmetric: the mean of both triangles, which
// has the same form.
func packed(rows []float64, d int) (out symmetric.Packed) {
	for i := range d {
		for j := i; j < d; j++ {
			out = append(out, (rows[i*d+j]+rows[j*d+i])/2)
		}
	}
	return out
}

// growing is a design matrix V = ridge I + sum xx' with its inverse, kept by the formula of Sherman and Morrison.
type growing struct {
	d       int
	matrix  *mat.SymDense
	inverse []float64 // row by row
	logDet  float64   // ln det V - d ln ridge
	added   int
}

// freshInverse is after how many additions the inverse is computed anew: rounding errors then stay below 1e-8.
const freshInverse = 1000

func newGrowing(d int, ridge float64) *growing {
	g := &growing{d: d, matrix: mat.NewSymDense(d, nil), inverse: make([]float64, d*d)}
	for i := range d {
		g.matrix.SetSym(i, i, ridge)
		g.inverse[i*d+i] = 1 / ridge
	}
	return g
}

// add adds xx'.
func (g *growing) add(x []float64) error {
	v := g.times(x)
	g.matrix.SymRankOne(g.matrix, 1, mat.NewVecDense(g.d, x))
	grown := 1 + convex.Dot(v, x)
	g.logDet += math.Log(grown)
	if g.added++; g.added%freshInverse == 0 {
		inverse, err := convex.Inverse(g.matrix)
		if err != nil {
			return fmt.Errorf("bandit: %w", err)
		}
		g.inverse = mat.DenseCopyOf(inverse).RawMatrix().Data
		return nil
	}
	for i := range g.d {
		for j := range g.d {
			g.inverse[i*g.d+j] -= v[i] * v[j] / grown
		}
	}
	return nil
}

// times is V^-1 x.
func (g *growing) times(x []float64) []float64 {
	out := make([]float64, g.d)
	for i := range out {
		out[i] = convex.Dot(g.inverse[i*g.d:(i+1)*g.d], x)
	}
	return out
}

// around is the confidence set with the center V^-1 u.
func (g *growing) around(u []float64, width float64) glm.Stage {
	return glm.Stage{Theta: g.times(u), Covariance: packed(g.inverse, g.d), Width: width}
}
