package joint_test

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/riffle-dp/riffle/pkg/convex"
	"github.com/riffle-dp/riffle/pkg/glm/family"
	"github.com/riffle-dp/riffle/pkg/glm/statistic"
	"github.com/riffle-dp/riffle/pkg/learn"
	"github.com/riffle-dp/riffle/pkg/learn/joint"
	"github.com/riffle-dp/riffle/pkg/mechanism"
	"github.com/riffle-dp/riffle/pkg/privacy"
)

// small is a setting whose calls are triggered by noise, more often than they are allowed: lambda is tiny.
func small(seed byte) learn.Setting {
	return learn.Setting{Family: family.Logistic{}, Dimension: 2, Horizon: 64, Radius: 2, Epsilon: 2, Delta: 1e-5,
		Failure: 0.02, Noise: rand.NewChaCha8([32]byte{seed}), Options: map[string]float64{"ridge": 0.3,
			"explore_calls": 2, "calls": 1, "iterations": 4}}
}

func records(rng *rand.Rand, n, d int, size float64) []learn.Record {
	out := make([]learn.Record, n)
	for i := range out {
		out[i] = learn.Record{Arm: make([]float64, d), Reward: float64(rng.IntN(2)), Tag: rng.IntN(2)}
		for j := range d {
			out[i].Arm[j] = rng.NormFloat64()
		}
		length := convex.Norm(out[i].Arm)
		for j := range d {
			out[i].Arm[j] *= size / length
		}
	}
	return out
}

func cost(t *testing.T, n mechanism.Noise, dim int, distance float64) float64 {
	t.Helper()
	g := n.Guarantee(mechanism.Sensitivity{Dim: dim, L2: distance})
	if !g.Promises() {
		t.Fatal("noise that promises nothing")
	}
	return g.Rho
}

// The books of a whole run, kept from the noise that was really added: for every record, what all nodes and gradients
// reveal when it is replaced by one of its kind, or by one of the other. None passes what Guarantee says, and Guarantee
// keeps the budget. Half of the noise, a node noised twice, or a call too many breaks it.
func TestNoRecordSpendsMoreThanTheBudget(t *testing.T) {
	for _, variant := range []string{joint.Sound, joint.Proof} {
		for _, batch := range []int{1, 3} {
			s := small(3)
			s.Variant = variant
			c := resolve(t, s, batch)
			curator := joint.NewCurator(c, s.Noise)
			var draws []joint.Draw
			curator.Watch(func(d joint.Draw) { draws = append(draws, d) })
			rng := rand.New(rand.NewPCG(1, 2))
			for range c.Leaves() {
				if _, err := curator.Absorb(records(rng, batch, 2, 0.7)); err != nil {
					t.Fatal(err)
				}
			}
			limit, worst := c.Guarantee().Rho, 0.0
			for leaf := 1; leaf <= c.Leaves(); leaf++ {
				var stayV, stayH, leave float64
				for _, d := range draws {
					switch d.What {
					case "V", "H":
						if leaf > d.Leaf || leaf <= d.Leaf-d.Leaf&-d.Leaf {
							continue
						}
						weight := map[string]float64{"V": 1, "H": 0.25 / math.E}[d.What]
						leave += cost(t, d.Noise, 3, weight)
						if d.What == "V" {
							stayV += cost(t, d.Noise, 3, math.Sqrt2)
						} else {
							stayH += cost(t, d.Noise, 3, math.Sqrt2*weight)
						}
					default:
						if leaf > d.Leaf {
							continue
						}
						_, radius := statistic.EnclosingBall(s.Family, convex.Norm(d.Theta))
						leave += cost(t, d.Noise, 2, s.Family.Mean(convex.Norm(d.Theta)))
						if d.What == "first" {
							stayV += cost(t, d.Noise, 2, 2*radius)
						} else {
							stayH += cost(t, d.Noise, 2, 2*radius)
						}
					}
				}
				worst = max(worst, stayV, stayH, leave)
			}
			if worst > limit || worst < 0.5*limit && variant == joint.Sound {
				t.Errorf("%s, micro-batches of %d: a record spends rho %v, said %v", variant, batch, worst, limit)
			}
			if delta := privacy.DeltaOfRho(limit, s.Epsilon); delta > s.Delta || delta < 0.8*s.Delta {
				t.Errorf("rho %v is delta %v, want %v", limit, delta, s.Delta)
			}
		}
	}
}

// No two records are further apart than the trees and the gradients count on; the bounds are nearly attained.
func TestSensitivitiesAgainstPairsOfRecords(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 4))
	distance := func(x, y []float64) float64 {
		sum := 0.0
		for i := range x {
			sum += (x[i] - y[i]) * (x[i] - y[i])
		}
		return math.Sqrt(sum)
	}
	s := setting("")
	s.Dimension = 2
	c := resolve(t, s, 1)
	boundV, boundH := c.LeafDistances()
	var worstV, worstH float64
	for range 20000 {
		x, y := records(rng, 1, 2, 1)[0].Arm, records(rng, 1, 2, 1)[0].Arm
		worstV = max(worstV, distance(joint.Leaf(1, x), joint.Leaf(1, y)))
		worstH = max(worstH, distance(joint.Leaf(c.MaxWeight, x), joint.Leaf(c.MaxWeight*rng.Float64(), y)))
	}
	if worstV > boundV || worstV < 0.99*boundV || worstH > boundH || worstH < 0.9*boundH {
		t.Errorf("leaves are %v and %v apart, bounds %v and %v", worstV, worstH, boundV, boundH)
	}
	for _, theta := range [][]float64{{0, 0}, {1, 0}, {0, -3}} {
		bound, worst, longest := joint.GradientSensitivity(s.Family, theta).L2, 0.0, 0.0
		gradient := func() []float64 {
			r := records(rng, 1, 2, 1)[0]
			factor := s.Family.Mean(convex.Dot(r.Arm, theta)) - r.Reward
			return []float64{factor * r.Arm[0], factor * r.Arm[1]}
		}
		for range 20000 {
			x, y := gradient(), gradient()
			worst, longest = max(worst, distance(x, y)), max(longest, convex.Norm(x))
		}
		if max(worst, math.Sqrt2*longest) > bound || worst < 0.95*bound {
			t.Errorf("at %v gradients are %v apart and up to %v long, bound %v", theta, worst, longest, bound)
		}
	}
}

// The noise of a node and of a step is what the configuration says. 6000 first nodes of zero records have 18000
// coordinates: the standard error of their variance is 1.1 %, and 6 % is 5.5 of them; half the noise is off by 75 %.
// The steps of one iteration on no rows are the noise itself.
func TestTheNoiseIsReallyAdded(t *testing.T) {
	if testing.Short() {
		t.Skip("nothing of it runs at the same time as anything else")
	}
	s := small(5)
	s.Options = nil // no calls
	c := resolve(t, s, 1)
	var v, h float64
	const runs = 6000
	for range runs {
		r, err := joint.NewCurator(c, s.Noise).Absorb(nil)
		if err != nil {
			t.Fatal(err)
		}
		for i := range r.V {
			x := float64(r.V[i]) * c.NodeV.(mechanism.Gaussian).Grid() / c.NodeV.Deviation()
			y := float64(r.H[i]) * c.NodeH.(mechanism.Gaussian).Grid() / c.NodeH.Deviation()
			v, h = v+x*x/(3*runs), h+y*y/(3*runs)
		}
	}
	steps, deviation := 0.0, 7.0
	descent := joint.Descent{Family: s.Family, Start: []float64{0}, Iterations: 1, Step: func(int) float64 { return 1 },
		Noise: func([]float64) (mechanism.Noise, error) { return mechanism.Gaussian{Sigma: deviation}, nil }}
	for range 3 * runs {
		theta, err := descent.Run(nil, s.Noise)
		if err != nil {
			t.Fatal(err)
		}
		steps += theta[0] * theta[0] / (3 * runs * deviation * deviation)
	}
	for _, ratio := range []float64{v, h, steps} {
		if math.Abs(ratio-1) > 0.06 {
			t.Errorf("variances over those of the configuration: V %v, H %v, a step %v", v, h, steps)
			break
		}
	}
}

// C1 = 2 and C2 = 1 calls are made where noise would trigger more, whatever the records are.
func TestCallsStopAtTheirCaps(t *testing.T) {
	for _, size := range []float64{1e-9, 1} {
		s := small(7)
		c := resolve(t, s, 1)
		curator, rng := joint.NewCurator(c, s.Noise), rand.New(rand.NewPCG(5, 6))
		iterations := map[string]int{}
		curator.Watch(func(d joint.Draw) { iterations[d.What]++ })
		for range s.Horizon {
			if _, err := curator.Absorb(records(rng, 1, 2, size)); err != nil {
				t.Fatal(err)
			}
		}
		if iterations["first"] != 2*4 || iterations["second"] != 4 || iterations["V"] != 64 || iterations["H"] != 64 {
			t.Errorf("draws %v, want two calls and one of four iterations, and 64 nodes of each tree", iterations)
		}
		if st := curator.State(); st.ExploreCalls != 2 || st.SwitchCalls != 1 {
			t.Errorf("%d and %d calls", st.ExploreCalls, st.SwitchCalls)
		}
		if _, err := curator.Absorb(nil); err == nil {
			t.Error("a micro-batch after the last one")
		}
	}
}
