package glm_test

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/riffle-dp/riffle/pkg/glm"
	"gonum.org/v1/gonum/floats/scalar"
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
				weights, cert, err := glm.Design(arms, glm.DesignOptions{Tolerance: tolerance})
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
				if !scalar.EqualWithinAbs(sum, 1, 1e-12) || cert.Rank != want || cert.Relaxed || cert.MaxLeverage > bound ||
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
		_, cert, err := glm.Design(arms, glm.DesignOptions{Tolerance: 1e-12, MaxSteps: most})
		if cert.Steps != most || err == nil && !cert.Relaxed {
			t.Errorf("%d steps allowed: %+v, %v", most, cert, err)
		}
	}
}
