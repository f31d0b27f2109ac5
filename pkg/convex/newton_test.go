package convex_test

import (
	"errors"
	"math"
	"testing"

	"gonum.org/v1/gonum/mat"
	"pgregory.net/rapid"

	"github.com/riffle-dp/riffle/pkg/convex"
	"github.com/riffle-dp/riffle/pkg/glm/family"
)

// For every family, no random point of the ball is better, and the projected gradient is 0.
func TestMinimizeFindsTheMinimum(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		f := rapid.SampledFrom(families).Draw(rt, "family")
		d := rapid.IntRange(1, 4).Draw(rt, "d")
		n := rapid.IntRange(0, 30).Draw(rt, "n") // often fewer records than it takes, often separable
		S := rapid.Float64Range(0.1, 8).Draw(rt, "S")
		ridge := rapid.SampledFrom([]float64{0, 1e-6, 1}).Draw(rt, "ridge")
		p := newProblem(t, f.name, f.r, d, n, 2, rapid.Uint64().Draw(rt, "seed"))
		loss := p.loss(t, ridge)
		got, err := convex.Minimize(loss, convex.NewtonConfig{Radius: S, Start: vector(d, 5).Draw(rt, "start")})
		if err != nil {
			rt.Fatal(err)
		}
		if norm2(got.Theta) > S*(1+1e-15) {
			rt.Fatalf("norm %v above %v", norm2(got.Theta), S)
		}
		for range 20 {
			other, err := convex.Ball{Radius: S}.Project(nil, vector(d, S).Draw(rt, "other"))
			if err != nil {
				rt.Fatal(err)
			}
			if v := loss.Evaluate(other, nil, nil); v < got.Value-1e-9*math.Max(1, math.Abs(got.Value)) {
				rt.Fatalf("%v has %v, the result %v has %v", other, v, got.Theta, got.Value)
			}
		}
	})
}

// The estimate's error is a few standard errors (n mu' per coordinate gives about 0.1).
func TestMinimizeRecoversTheta(t *testing.T) {
	for _, f := range families {
		p := newProblem(t, f.name, f.r, 3, 20000, 1.5, 11)
		got, err := convex.Minimize(p.loss(t, 1), convex.NewtonConfig{Radius: 10})
		if err != nil {
			t.Fatal(err)
		}
		if norm2(minus(got.Theta, p.theta)) > 0.25 || got.Iterations > 20 {
			t.Errorf("%s: %v after %d steps, the truth is %v", f.name, got.Theta, got.Iterations, p.theta)
		}
	}
}

func TestMinimizeOfSeparableRecordsNeedsABallOrARidge(t *testing.T) {
	arms, rewards := [][]float64{{1, 0}, {0.5, 0.1}, {-1, 0}, {-0.2, 0.1}}, []float64{1, 1, 0, 0}
	for _, name := range []string{"logistic", "probit"} {
		f, err := family.New(name, 1)
		if err != nil {
			t.Fatal(err)
		}
		loss, err := convex.NewGLMLoss(f, 2, arms, rewards, 0)
		if err != nil {
			t.Fatal(err)
		}
		got, err := convex.Minimize(loss, convex.NewtonConfig{Radius: 5})
		if err != nil || math.Abs(norm2(got.Theta)-5) > 1e-9 || got.Theta[0] < 4 {
			t.Errorf("%s in a ball: %+v, %v", name, got, err)
		}
		// Without ball and ridge there is no minimum: an error, or a point so far out that the gradient has vanished.
		got, err = convex.Minimize(loss, convex.NewtonConfig{})
		if err == nil && norm2(got.Theta) < 10 || err != nil && !errors.Is(err, convex.ErrNotConverged) {
			t.Errorf("%s without a ball: %+v, %v", name, got, err)
		}
		for _, v := range got.Theta {
			if math.IsNaN(v) || math.IsInf(v, 0) {
				t.Errorf("%s: %v", name, got.Theta)
			}
		}
		ridged, err := convex.NewGLMLoss(f, 2, arms, rewards, 0.1)
		if err != nil {
			t.Fatal(err)
		}
		if got, err := convex.Minimize(ridged, convex.NewtonConfig{}); err != nil || got.Residual > 1e-8 {
			t.Errorf("%s with a ridge: %+v, %v", name, got, err)
		}
	}
}

// There may be no records, or one.
func TestMinimizeOfFewRecords(t *testing.T) {
	f, err := family.New("poisson", 5)
	if err != nil {
		t.Fatal(err)
	}
	for _, ridge := range []float64{0, 1} {
		empty, err := convex.NewGLMLoss(f, 3, nil, nil, ridge)
		if err != nil {
			t.Fatal(err)
		}
		got, err := convex.Minimize(empty, convex.NewtonConfig{Radius: 2})
		if err != nil || norm2(got.Theta) != 0 {
			t.Errorf("no records: %+v, %v", got, err)
		}
		one, err := convex.NewGLMLoss(f, 3, [][]float64{{0, 1, 0}}, []float64{5}, ridge)
		if err != nil {
			t.Fatal(err)
		}
		got, err = convex.Minimize(one, convex.NewtonConfig{Radius: 2})
		if err != nil || got.Theta[0] != 0 || got.Theta[2] != 0 || got.Theta[1] < 0.5 {
			t.Errorf("one record: %+v, %v", got, err)
		}
	}
}

func TestMinimizeRefusesBadParameters(t *testing.T) {
	p := newProblem(t, "logistic", 1, 2, 10, 1, 1)
	loss := p.loss(t, 1)
	for name, cfg := range map[string]convex.NewtonConfig{
		"radius": {Radius: -1}, "NaN radius": {Radius: math.NaN()}, "start": {Start: []float64{1}},
		"NaN start": {Start: []float64{1, math.NaN()}}, "tolerance": {Tolerance: -1}, "iterations": {Iterations: -1},
	} {
		if _, err := convex.Minimize(loss, cfg); err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
	for name, build := range map[string]func() (*convex.GLMLoss, error){
		"arm": func() (*convex.GLMLoss, error) {
			return convex.NewGLMLoss(p.family, 2, [][]float64{{1}}, []float64{0}, 0)
		},
		"NaN arm": func() (*convex.GLMLoss, error) {
			return convex.NewGLMLoss(p.family, 1, [][]float64{{math.NaN()}}, []float64{0}, 0)
		},
		"rewards": func() (*convex.GLMLoss, error) { return convex.NewGLMLoss(p.family, 1, [][]float64{{1}}, nil, 0) },
		"ridge":   func() (*convex.GLMLoss, error) { return convex.NewGLMLoss(p.family, 1, nil, nil, math.NaN()) },
		"no link": func() (*convex.GLMLoss, error) { return convex.NewGLMLoss(nil, 1, nil, nil, 0) },
		"no dims": func() (*convex.GLMLoss, error) { return convex.NewGLMLoss(p.family, 0, nil, nil, 0) },
	} {
		if _, err := build(); err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
}

// Gradient and Hessian agree with central differences.
func TestGLMLossDerivativesAgreeWithDifferences(t *testing.T) {
	for _, f := range families {
		p := newProblem(t, f.name, f.r, 3, 15, 1, 5)
		loss := p.loss(t, 0.7)
		theta, gradient, hessian := []float64{0.3, -0.5, 0.2}, make([]float64, 3), mat.NewSymDense(3, nil)
		loss.Evaluate(theta, gradient, hessian)
		const h = 1e-5
		for j := range theta {
			up, down := append([]float64(nil), theta...), append([]float64(nil), theta...)
			up[j] += h
			down[j] -= h
			gu, gd := make([]float64, 3), make([]float64, 3)
			slope := (loss.Evaluate(up, gu, nil) - loss.Evaluate(down, gd, nil)) / (2 * h)
			if math.Abs(slope-gradient[j]) > 1e-6*math.Max(1, f.r*f.r) {
				t.Errorf("%s: gradient %v, differences give %v", f.name, gradient[j], slope)
			}
			for k := range theta {
				if v := (gu[k] - gd[k]) / (2 * h); math.Abs(v-hessian.At(j, k)) > 1e-6*math.Max(1, f.r*f.r) {
					t.Errorf("%s: Hessian (%d, %d) %v, differences give %v", f.name, j, k, hessian.At(j, k), v)
				}
			}
		}
	}
}

func BenchmarkMinimize(b *testing.B) {
	p := newProblem(b, "logistic", 1, 5, 10000, 2, 1)
	loss := p.loss(b, 1)
	for b.Loop() {
		if _, err := convex.Minimize(loss, convex.NewtonConfig{Radius: 3}); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkMinimizeQuadratic(b *testing.B) {
	p := newProblem(b, "logistic", 1, 10, 1000, 2, 1)
	h := p.covariance()
	linear := make([]float64, 10)
	linear[0] = 1000
	for b.Loop() {
		if _, err := convex.MinimizeQuadratic(h, linear, 1); err != nil {
			b.Fatal(err)
		}
	}
}
