package design_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"gonum.org/v1/gonum/floats/scalar"
	"gonum.org/v1/gonum/mat"

	"github.com/riffle-dp/riffle/pkg/glm"
	"github.com/riffle-dp/riffle/pkg/glm/design"
	"github.com/riffle-dp/riffle/pkg/glm/learner"
	"github.com/riffle-dp/riffle/pkg/glm/symmetric"
)

// drawManyArms draws arm sets of one kind: directions in a ball, on a sphere, corners of a cube, coordinates of very
// different sizes, lengths with a heavy tail, or one category beside numbers.
func drawManyArms(kind string, count, d int, src *rand.Rand) [][]float64 {
	arms := make([][]float64, count)
	for i := range arms {
		x, squares := make([]float64, d), 0.0
		for j := range x {
			x[j] = src.NormFloat64()
			squares += x[j] * x[j]
		}
		length := 1.0
		switch kind {
		case "ball":
			length = math.Pow(src.Float64(), 1/float64(d))
		case "heavy tail":
			length = math.Min(1, math.Exp(src.NormFloat64())/20)
		case "corners":
			for j := range x {
				x[j] = math.Copysign(float64(src.IntN(2)), x[j])
			}
			squares = float64(d)
		case "scales":
			for j := range x {
				x[j] /= float64(1 + j*j)
			}
			squares = 25
		case "categories":
			clear(x[:d/2])
			x[src.IntN(d/2)] = 7
			squares = 100
		}
		for j := range x {
			x[j] *= length / math.Sqrt(squares)
		}
		arms[i] = x
	}
	return arms
}

var manyKinds = []string{"ball", "sphere", "corners", "scales", "heavy tail", "categories"}

// With many arms the design is searched on subsets. Its certificate holds for all arms, by an independent computation,
// at loose and tight tolerances, with arms that repeat and with a span smaller than the space; and it takes few steps,
// so that the search over all arms, which would need hundreds, has not run.
func TestDesignOfManyArmsOfEveryKindIsCertified(t *testing.T) {
	src := rand.New(rand.NewPCG(8, 9))
	for _, kind := range manyKinds {
		for _, size := range [][2]int{{70, 4}, {300, 6}, {1000, 20}} {
			for _, tolerance := range []float64{0.2, 0.01, 1e-6} {
				arms := drawManyArms(kind, size[0], size[1], src)
				for i := range size[0] / 10 {
					arms[i] = arms[i+size[0]/2]
				}
				want := size[1]
				if tolerance == 0.2 { // a plane
					want = size[1] - 1
					for _, x := range arms {
						x[0] = 2 * x[1]
					}
				}
				weights, cert, err := design.Optimal(arms, design.Options{Tolerance: tolerance})
				if err != nil {
					t.Fatalf("%s %v %v: %v", kind, size, tolerance, err)
				}
				sum, largest := 0.0, 0.0
				for i, q := range leverages(t, arms, weights) {
					if weights[i] < 0 {
						t.Fatalf("%s: weight %v", kind, weights[i])
					}
					sum += weights[i]
					largest = math.Max(largest, q)
				}
				bound := float64(want) * (1 + tolerance)
				if !scalar.EqualWithinAbs(sum, 1, 1e-12) || cert.Rank != want || cert.Relaxed ||
					cert.MaxLeverage > bound ||
					!scalar.EqualWithinAbs(largest, cert.MaxLeverage, 1e-7*bound) {
					t.Errorf("%s %v %v: weights sum to %v, leverage %v, certificate %+v", kind, size, tolerance, sum,
						largest, cert)
				}
				if tolerance >= 0.01 && cert.Steps > 80 { // at most 48 were measured
					t.Errorf("%s %v %v: %d steps", kind, size, tolerance, cert.Steps)
				}
			}
		}
	}
}

// A cap on the steps holds with many arms too.
func TestDesignOfManyArmsKeepsTheCapOnSteps(t *testing.T) {
	arms := drawManyArms("heavy tail", 500, 6, rand.New(rand.NewPCG(3, 3)))
	for _, most := range []int{1, 2, 3, 5} {
		_, cert, err := design.Optimal(arms, design.Options{Tolerance: 1e-12, MaxSteps: most})
		if cert.Steps != most || err == nil && !cert.Relaxed {
			t.Errorf("%d steps allowed: %+v, %v", most, cert, err)
		}
	}
}

// What a decision among many arms costs at the default tolerance of every profile: exploring, later with stages and
// scaling, and greedily, for somebody who is not sampled.
func BenchmarkDecideAmongMany(b *testing.B) {
	const d, count = 20, 1000
	src := rand.New(rand.NewPCG(4, 5))
	theta := make([]float64, d)
	theta[0] = 1
	ones := slices.Repeat([]float64{1}, d)
	stage := glm.Stage{Theta: theta, Covariance: symmetric.Pack(mat.NewDiagDense(d, ones)), Width: 1}
	stages := []glm.Stage{stage, stage, stage, stage, stage}
	scaling := &glm.Scaling{Stage: stage, Diameter: 6, SelfConcordance: 1, MaxWeight: .25}
	policies := map[string]glm.Policy{
		"practical": {Play: glm.PlayDesign, DesignTolerance: learner.DefaultPracticalTolerance,
			Stages: stages, Scaling: scaling},
		"paper": {Play: glm.PlayDesign, DesignTolerance: design.DefaultTolerance, Stages: stages, Scaling: scaling},
		"joint": {Play: glm.PlayOptimistic, Stages: stages, Optimism: &stage,
			Criterion: &glm.Criterion{Covariance: symmetric.Pack(mat.NewDiagDense(d, ones)), Threshold: 10}},
		"spanner": {Play: glm.PlaySpanner, Stages: stages},
	}
	for _, kind := range manyKinds {
		sets := make([][][]float64, 16)
		for i := range sets {
			sets[i] = drawManyArms(kind, count, d, src)
		}
		for _, name := range []string{"practical", "paper", "joint", "spanner"} {
			p := policies[name]
			p.Family, p.MaxReward, p.Dimension, p.Radius, p.Theta = "logistic", 1, d, 3, theta
			for _, choice := range []glm.Choice{{}, {Unrecorded: true}} {
				b.Run(fmt.Sprintf("%s/%s/sampled=%v", kind, name, !choice.Unrecorded), func(b *testing.B) {
					b.ReportAllocs()
					for i := 0; b.Loop(); i++ {
						if _, err := p.DecideFor(sets[i%len(sets)], choice, src); err != nil {
							b.Fatal(err)
						}
					}
				})
			}
		}
	}
}
