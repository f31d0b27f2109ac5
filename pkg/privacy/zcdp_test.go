package privacy

import (
	"encoding/json"
	"errors"
	"math"
	"strings"
	"testing"
	"time"
)

// outcome is one result of a release under two records: its probability under the first, and under the second.
type outcome struct{ p, q float64 }

// together are the outcomes of independent releases.
func together(releases ...[]outcome) []outcome {
	all := []outcome{{1, 1}}
	for _, r := range releases {
		var next []outcome
		for _, a := range all {
			for _, b := range r {
				next = append(next, outcome{a.p * b.p, a.q * b.q})
			}
		}
		all = next
	}
	return all
}

// hockeyStick is the smallest delta with which the outcomes are (epsilon, delta)-DP in one direction.
func hockeyStick(all []outcome, epsilon float64) (delta float64) {
	for _, o := range all {
		delta += math.Max(0, o.p-math.Exp(epsilon)*o.q)
	}
	return delta
}

// discreteGaussian is the release of an integer that moves by shift, with noise of deviation sigma.
func discreteGaussian(sigma, shift int) []outcome {
	reach, total := 14*sigma+shift, 0.0
	mass := func(x int) float64 { return math.Exp(-float64(x*x) / float64(2*sigma*sigma)) }
	for x := -reach; x <= reach; x++ {
		total += mass(x)
	}
	var all []outcome
	for x := -reach; x <= reach; x++ {
		all = append(all, outcome{mass(x) / total, mass(x-shift) / total})
	}
	return all
}

// cells is a release of a Gaussian of mean 0 or mu, cut into cells, which reveal no more than the Gaussian itself.
func cells(mu float64) (all []outcome) {
	const step = 0.05
	for x := -9.0; x < 9; x += step {
		all = append(all, outcome{lowerTail(x+step) - lowerTail(x), lowerTail(x+step-mu) - lowerTail(x-mu)})
	}
	return all
}

func randomisedResponse(pure float64) []outcome {
	yes := math.Exp(pure) / (1 + math.Exp(pure))
	return []outcome{{yes, 1 - yes}, {1 - yes, yes}}
}

// reveal shows the record with the given probability.
func reveal(probability float64) []outcome {
	return []outcome{{1 - probability, 1 - probability}, {probability, 0}, {0, probability}}
}

// below reports whether the exact delta is at most the guarantee's at many epsilons.
func below(all []outcome, g Guarantee) bool {
	for _, epsilon := range []float64{0, 0.1, 0.3, 0.7, 1, 1.5, 2, 2.5, 3, 4, 5, 6, 8, 10, 15, 20} {
		if !(hockeyStick(all, epsilon) <= g.Delta(epsilon)*(1+1e-9)+1e-14) {
			return false
		}
	}
	return true
}

// Discrete Gaussian noise in one and two dimensions: the exact divergence is never above that of its zCDP, and half of
// the zCDP is not enough.
func TestRhoAgainstBruteForce(t *testing.T) {
	for _, c := range []struct{ sigma, x, y int }{{1, 1, 0}, {2, 1, 0}, {2, 3, 0}, {7, 2, 0}, {1, 1, 1}, {3, 2, 1},
		{2, 2, 2}, {4, 5, 3}} {
		all := together(discreteGaussian(c.sigma, c.x), discreteGaussian(c.sigma, c.y))
		rho := float64(c.x*c.x+c.y*c.y) / float64(2*c.sigma*c.sigma)
		if !below(all, Guarantee{Rho: rho}) {
			t.Errorf("sigma %d, moved by (%d, %d): the divergence is above that of rho %v", c.sigma, c.x, c.y, rho)
		}
		if below(all, Guarantee{Rho: rho / 2}) {
			t.Errorf("sigma %d, moved by (%d, %d): half of rho %v is not noticed", c.sigma, c.x, c.y, rho)
		}
	}
}

// Releases of all kinds in one view: the composed guarantee bounds the exact divergence, and stops doing so if a part
// is forgotten or halved.
func TestAllKindsComposeAgainstBruteForce(t *testing.T) {
	const sigma, shift, mu, pure, tail = 2, 3, 1.4, 0.6, 1e-4
	const rho = float64(shift*shift) / (2 * sigma * sigma)
	all := together(discreteGaussian(sigma, shift), cells(mu), randomisedResponse(pure), reveal(tail))
	parts := []Guarantee{{Rho: rho}, {Mu: mu, TailDelta: tail}, {Pure: pure}}
	g := Compose(parts...)
	if g.Rho < rho || g.Mu < mu || g.Pure < pure || g.TailDelta < tail {
		t.Fatalf("composed %+v", g)
	}
	if !below(all, g) {
		t.Errorf("the divergence is above that of %+v", g)
	}
	for name, broken := range map[string]Guarantee{
		"half of rho": {Rho: rho / 2, Mu: mu, TailDelta: tail, Pure: pure},
		"no rho":      {Mu: mu, TailDelta: tail, Pure: pure},
		"half of mu":  {Rho: rho, Mu: mu / 2, TailDelta: tail, Pure: pure},
		"no mu":       {Rho: rho, TailDelta: tail, Pure: pure},
		"no tail":     {Rho: rho, Mu: mu, Pure: pure},
		"no pure":     {Rho: rho, Mu: mu, TailDelta: tail},
	} {
		if name != "no pure" && below(all, broken) {
			t.Errorf("%s: not noticed", name)
		}
		if broken.Epsilon(1e-3) >= g.Epsilon(1e-3) {
			t.Errorf("%s: epsilon %v, with everything %v", name, broken.Epsilon(1e-3), g.Epsilon(1e-3))
		}
	}
	two := together(discreteGaussian(sigma, shift), randomisedResponse(pure))
	if !below(two, Compose(Guarantee{Rho: rho}, Guarantee{Pure: pure})) {
		t.Error("the divergence of a rho and a pure epsilon is above their guarantee")
	}
	// Without other parts, nothing is lost of a pure epsilon.
	less := Guarantee{Pure: pure * 0.99}
	if !(hockeyStick(randomisedResponse(pure), less.Pure) > less.Delta(less.Pure)) {
		t.Error("less than the pure epsilon is not noticed")
	}
	for _, delta := range []float64{1e-12, 1e-9, 1e-5, 1e-3, 0.1} {
		with := Guarantee{Rho: rho, Mu: mu, Pure: pure}
		if e := with.Epsilon(delta); !(with.Delta(e) <= delta*(1+1e-9)) {
			t.Errorf("epsilon %v has delta %v, want %v", e, with.Delta(e), delta)
		} else if rest := (Guarantee{Rho: rho + mu*mu/2}).Epsilon(delta); math.Abs(e-pure-rest) > 1e-9 {
			t.Errorf("delta %v: epsilon %v, want %v and %v", delta, e, rest, pure)
		}
	}
	if e := g.Epsilon(tail / 2); !math.IsInf(e, 1) {
		t.Errorf("a delta below the tail: epsilon %v", e)
	}
}

// The conversion against the formula on a fine grid, at sizes from tiny to huge: it is near the least, and its Gaussian
// is never worse than zCDP says.
func TestDeltaOfRho(t *testing.T) {
	for _, c := range []struct{ rho, epsilon float64 }{{1e-300, 1}, {1e-12, 1e-6}, {1e-6, 0.01}, {0.02, 1}, {0.1, 0},
		{0.1, 0.05}, {0.5, 3}, {2, 10}, {50, 120}, {1e6, 1.01e6}, {1e12, 1e12 + 1e7}, {0.02, 1e9}} {
		got, exact, least := DeltaOfRho(c.rho, c.epsilon), gaussianDelta(c.epsilon, math.Sqrt(2*c.rho)), math.Inf(1)
		for log := -20.0; log < 40; log += 0.001 {
			a := math.Exp(log)
			least = math.Min(least, a*((1+a)*c.rho-c.epsilon)-(1+a)*math.Log1p(1/a)-log)
		}
		least = math.Min(1, math.Exp(least))
		if !(got >= exact*(1-1e-12)) {
			t.Errorf("rho %v, epsilon %v: delta %v, that of the Gaussian is %v", c.rho, c.epsilon, got, exact)
		}
		if got > least*(1+1e-4)+1e-300 || got <= 0 || got > 1 {
			t.Errorf("rho %v, epsilon %v: delta %v, the formula has %v", c.rho, c.epsilon, got, least)
		}
	}
	for _, bad := range [][2]float64{{-1, 1}, {math.NaN(), 1}, {math.Inf(1), 1}, {1, -1}, {1, math.NaN()}} {
		if d := DeltaOfRho(bad[0], bad[1]); d != 1 {
			t.Errorf("rho %v, epsilon %v: delta %v", bad[0], bad[1], d)
		}
	}
	if d := DeltaOfRho(0, 0); d != 0 {
		t.Errorf("rho 0: delta %v", d)
	}
	if d := DeltaOfRho(1, math.Inf(1)); !(d > 0 && d < 1e-300) {
		t.Errorf("epsilon +Inf: delta %v", d)
	}
}

// RhoFor is the largest rho of its target.
func TestRhoFor(t *testing.T) {
	for _, c := range []struct{ epsilon, delta float64 }{{4, 0.02}, {4.0 / 3, 0.02 / 3}, {2, 0.02 / 3},
		{8.0 / 3, 0.02 / 3}, {1, 1e-5}, {0.1, 1e-6}, {1e-3, 1e-9}, {20, 1e-9}, {300, 0.5}} {
		rho, err := RhoFor(c.epsilon, c.delta)
		if err != nil || !(DeltaOfRho(rho, c.epsilon) <= c.delta) || !(DeltaOfRho(rho*(1+1e-9), c.epsilon) > c.delta) {
			t.Errorf("epsilon %v, delta %v: rho %v, %v", c.epsilon, c.delta, rho, err)
		}
		if e := (Guarantee{Rho: rho}).Epsilon(c.delta); !(e <= c.epsilon*(1+1e-12)) || e < c.epsilon*(1-1e-6) {
			t.Errorf("rho %v has epsilon %v, want %v", rho, e, c.epsilon)
		}
		if mu, err := MuFor(c.epsilon, c.delta); err != nil || rho > mu*mu/2 {
			t.Errorf("epsilon %v, delta %v: rho %v is above that of a Gaussian, %v", c.epsilon, c.delta, rho, mu*mu/2)
		}
	}
	for _, q := range [][2]float64{{-1, 1e-6}, {math.NaN(), 1e-6}, {math.Inf(1), 1e-6}, {1, 0}, {1, 1},
		{1, math.NaN()}} {
		if rho, err := RhoFor(q[0], q[1]); !errors.Is(err, ErrTarget) || rho != 0 {
			t.Errorf("RhoFor(%v, %v) = %v, %v", q[0], q[1], rho, err)
		}
	}
}

// A ledger counts zCDP beside everything else, keeps it on the disk, and tells people of it.
func TestLedgerCountsRho(t *testing.T) {
	l, g := budgeted(t, 1)
	l.Records = 3
	rho, err := RhoFor(1, 1e-6)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := l.Ask(1, time.Time{}, 1, Guarantee{Rho: rho * 1.01}, NoGuarantee()); !errors.Is(err, ErrBudget) {
		t.Errorf("a rho past the budget: %v", err)
	}
	half, err := l.Ask(1, time.Time{}, 1, Guarantee{Rho: rho / 2}, Guarantee{Rho: rho})
	if err != nil {
		t.Fatal(err)
	}
	stored, err := json.Marshal(half)
	if err != nil {
		t.Fatal(err)
	}
	var back Ledger
	if err := json.Unmarshal(stored, &back); err != nil || back.Total() != half.Total() ||
		back.TotalAlone() != half.TotalAlone() || back.Explain() != half.Explain() || back.Total().Rho != rho/2 {
		t.Fatalf("stored as %s: %v", stored, err)
	}
	for name, more := range map[string]Guarantee{"rho": {Rho: rho * 0.51}, "mu": {Mu: math.Sqrt(rho * 1.02)},
		"the whole mu": {Mu: g.Mu}, "pure": {Pure: 0.5}} {
		if _, err := back.Ask(2, time.Time{}, 1, more, NoGuarantee()); !errors.Is(err, ErrBudget) {
			t.Errorf("%s past the budget: %v", name, err)
		}
	}
	left := back.Left()
	second, err := RhoFor(left, 1e-6)
	if err != nil || !(left > 0.6 && left < 0.75) {
		t.Fatalf("epsilon %v is left, %v", left, err)
	}
	if _, err := back.Ask(2, time.Time{}, 1, Guarantee{Rho: second}, NoGuarantee()); err != nil {
		t.Errorf("what is left, epsilon %v, is refused: %v", left, err)
	}
	// Of the two roundings, the one of the entry is up.
	if want := "Epoch 1: epsilon " + Spell(Guarantee{Rho: rho / 2}.Epsilon(1e-6)); !strings.Contains(back.Explain(),
		want) {
		t.Errorf("%q is not in:\n%s", want, back.Explain())
	}
	for name, none := range map[string]Guarantee{"NaN": {Rho: math.NaN()}, "infinite": {Rho: math.Inf(1)},
		"negative": {Rho: -1e-9}, "too large with mu": {Rho: math.MaxFloat64, Mu: 1e160}} {
		if e := none.Epsilon(1e-6); !math.IsInf(e, 1) || none.Delta(1) != 1 {
			t.Errorf("%s: epsilon %v, delta %v", name, e, none.Delta(1))
		}
		if _, err := l.Ask(1, time.Time{}, 1, none, NoGuarantee()); !errors.Is(err, ErrBudget) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if c := Compose(Guarantee{Rho: math.MaxFloat64}, Guarantee{Rho: math.MaxFloat64}); c != NoGuarantee() {
		t.Errorf("an overflow composes to %+v", c)
	}
}
