package joint_test

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/riffle-dp/riffle/pkg/glm/family"
	"github.com/riffle-dp/riffle/pkg/learn"
	"github.com/riffle-dp/riffle/pkg/learn/joint"
	"github.com/riffle-dp/riffle/pkg/privacy"
)

func setting(variant string) learn.Setting {
	return learn.Setting{Family: family.Probit{}, Dimension: 3, Arms: 20, Horizon: 5000, Radius: 2, Epsilon: 4,
		Delta:   1e-5,
		Failure: 0.02, Kappa: 18.393669911, Noise: rand.NewChaCha8([32]byte{9}), Variant: variant}
}

func resolve(t testing.TB, s learn.Setting, batch int) joint.Config {
	t.Helper()
	c, err := joint.Resolve(s, batch)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func near(t *testing.T, what string, got, want float64) {
	t.Helper()
	if !(math.Abs(got/want-1) < 3e-6) {
		t.Errorf("%s is %.9g, want %.9g", what, got, want)
	}
}

// The numbers were computed apart from this code, from the public experiments' formulas.
func TestLiteralConstants(t *testing.T) {
	for i, epsilon := range []float64{4, 6, 8} {
		s := setting(joint.Literal)
		s.Epsilon, s.Delta = epsilon, 0.02
		c := resolve(t, s, 1)
		near(t, "sg_V", c.NodeV.Deviation(), []float64{9.4397135, 6.4638420, 4.9699505}[i])
		near(t, "sg_H", c.NodeH.Deviation(), []float64{3.7659008, 2.5786999, 1.9827234}[i])
		near(t, "lambda", c.LambdaH, []float64{232.8062725, 165.5658146, 131.9455856}[i])
		near(t, "beta", c.Beta, 24.4254453)
		if c.SwitchCall != []int{8, 9, 9}[i] || c.Iterations != 25 {
			t.Errorf("C2 = %d with %d iterations", c.SwitchCall, c.Iterations)
		}
		if c.Guarantee().Promises() {
			t.Error("the literal variant promises something")
		}
	}
	near(t, "c_sw", resolve(t, setting(joint.Literal), 1).GrowthH, 1.4108439)
	for i, kappa := range []float64{18.393669911, 56.436005746, 222.147513395} {
		s := setting(joint.Literal)
		s.Delta, s.Kappa, s.Radius = 0.02, kappa, []float64{2, 2.5, 3}[i]
		c := resolve(t, s, 1)
		near(t, "gamma", c.Gamma, []float64{12.2127226, 15.2659033, 18.3190840}[i])
		near(t, "threshold", c.Threshold, []float64{0.4530544, 0.0945023, 0.0166723}[i])
		if c.ExploreCalls != []int{3, 16, 95}[i] {
			t.Errorf("C1 = %d", c.ExploreCalls)
		}
	}
	for i, epsilon := range []float64{1, 2, 4, 8} {
		s := setting(joint.Literal)
		s.Family, s.Dimension, s.Horizon, s.Radius, s.Kappa = family.Logistic{}, 5, 15000, 3.5, 33.76
		s.Epsilon, s.Delta = epsilon, 0.02
		c := resolve(t, s, 1)
		near(t, "lambda of the logistic figure", c.LambdaH, []float64{645.18314, 350.55555, 203.24175, 129.58486}[i])
		if c.ExploreCalls != 67 || c.SwitchCall != []int{7, 7, 7, 6}[i] {
			t.Errorf("logistic figure: C1 = %d, C2 = %d", c.ExploreCalls, c.SwitchCall)
		}
		s.Family, s.Horizon, s.Radius, s.Kappa = family.Probit{}, 5000, 3, 193.18
		c = resolve(t, s, 1)
		near(t, "lambda of the probit figure", c.LambdaH, []float64{858.69366, 455.25091, 253.52954, 152.66887}[i])
		if c.ExploreCalls != 230 || c.SwitchCall != []int{8, 7, 7, 6}[i] {
			t.Errorf("probit figure: C1 = %d, C2 = %d", c.ExploreCalls, c.SwitchCall)
		}
	}
}

func TestBudgetsOfTheListing(t *testing.T) {
	for _, c := range [][3]float64{{4, 0.02, 0.6971388}, {4.0 / 3, 0.02 / 3, 0.0785562}, {1, 1e-5, 0.0208199}} {
		near(t, "rho", joint.SimpleRho(c[0], c[1]), c[2])
		near(t, "its inverse", c[2]+2*math.Sqrt(c[2]*math.Log(1/c[1])), c[0])
		if tight, err := privacy.RhoFor(c[0], c[1]); err != nil || tight < c[2] {
			t.Errorf("the tighter conversion gives %v, %v", tight, err)
		}
	}
	for _, c := range []struct {
		epsilon        float64
		calls          int
		each, eachTail float64
	}{{4, 8, 0.1666667, 8.3333e-4}, {6, 9, 0.2222222, 7.4074e-4}, {4, 95, 0.0365713, 3.50877e-5}} {
		e, d := joint.PerCall(c.epsilon/3, 0.02/3, c.calls)
		if math.Abs(e-c.each) > 1e-7 || math.Abs(d/c.eachTail-1) > 1e-4 {
			t.Errorf("%d calls of epsilon %v: %v, %v", c.calls, c.epsilon, e, d)
		}
	}
}

// The constants of the proof, where they are known, and that they are as useless as they are said to be: Criterion I
// fires at the first person, and for ever.
func TestProofConstants(t *testing.T) {
	near(t, "G", joint.SelfNormalised(50, 1, 3, 5000, 0.25, 0.01), 6.3738605)
	sigma := 2 * math.Sqrt(50/(2*0.1))
	near(t, "the noise of a sum of gradients", sigma, 31.622777)
	nu, _ := joint.DescentError(1000, 3, 50, 1, 0, 1, 2, sigma, 1e-3)
	near(t, "nu", nu, 440.388)
	c := resolve(t, setting(joint.Proof), 1)
	if !(c.Guarantee().Promises()) || 1/(c.LambdaV+5000) < c.Threshold || !c.Ellipsoid {
		t.Errorf("lambda %v, threshold %v", c.LambdaV, c.Threshold)
	}
}

func TestBadSettingsAreRefused(t *testing.T) {
	for name, change := range map[string]func(*learn.Setting){
		"variant": func(s *learn.Setting) { s.Variant = "best" }, "kappa": func(s *learn.Setting) { s.Kappa = -1 },
		"option":  func(s *learn.Setting) { s.Options = map[string]float64{"lambda": 1} },
		"share":   func(s *learn.Setting) { s.Options = map[string]float64{"tree_share": 1} },
		"growth":  func(s *learn.Setting) { s.Options = map[string]float64{"growth": 1} },
		"calls":   func(s *learn.Setting) { s.Options = map[string]float64{"calls": 0} },
		"ridge":   func(s *learn.Setting) { s.Options = map[string]float64{"ridge": -1} },
		"delta":   func(s *learn.Setting) { s.Delta = 0 },
		"literal": func(s *learn.Setting) { s.Variant, s.Epsilon = joint.Literal, math.Inf(1) },
	} {
		s := setting("")
		change(&s)
		if _, err := joint.Resolve(s, 1); err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
	if _, err := joint.Resolve(setting(""), 0); err == nil {
		t.Error("micro-batches of nobody")
	}
}
