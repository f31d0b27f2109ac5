package privacy

import (
	"errors"
	"math"
	"math/big"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

func TestPromisesNothing(t *testing.T) {
	nan, inf := math.NaN(), math.Inf(1)
	for _, g := range []Guarantee{NoGuarantee(), {Mu: nan}, {TailDelta: nan}, {Mu: -1}, {Mu: inf},
		{Mu: 1, TailDelta: -1e-9}, {Mu: 1, TailDelta: 1.5}, {Mu: 1, TailDelta: inf}, {Mu: math.Inf(-1)}, {Pure: nan},
		{Pure: -1e-9}, {Pure: inf}, {Mu: 1, Pure: math.Inf(-1)}} {
		if e := g.Epsilon(1e-6); !math.IsInf(e, 1) {
			t.Errorf("%+v: epsilon %v", g, e)
		}
		if d := g.Delta(1); d != 1 {
			t.Errorf("%+v: delta %v", g, d)
		}
		if c := Compose(Guarantee{Mu: 0.1, TailDelta: 1e-9}, g); c != NoGuarantee() {
			t.Errorf("%+v composes to %+v", g, c)
		}
		if c := Compose(g); c != NoGuarantee() {
			t.Errorf("%+v alone composes to %+v", g, c)
		}
	}
	fine := Guarantee{Mu: 0.2, TailDelta: 1e-8}
	for _, d := range []float64{nan, 0, -1, 1e-8, 1e-9} {
		if e := fine.Epsilon(d); !math.IsInf(e, 1) {
			t.Errorf("delta %v: epsilon %v", d, e)
		}
	}
	if d := fine.Delta(nan); d != 1 {
		t.Errorf("epsilon NaN: delta %v", d)
	}
	if fine.Delta(-3) != fine.Delta(0) {
		t.Error("a negative epsilon is not answered for epsilon 0")
	}
	if e := fine.Epsilon(1); e != 0 {
		t.Errorf("delta 1: epsilon %v", e)
	}
	if g := (Guarantee{}); g.Epsilon(1e-12) != 0 || g.Delta(0) > 1e-300 {
		t.Errorf("nothing released: epsilon %v, delta %v", g.Epsilon(1e-12), g.Delta(0))
	}
	if g := Compose(); g != (Guarantee{}) {
		t.Errorf("empty composition %+v", g)
	}
}

func TestMuForRefuses(t *testing.T) {
	for _, q := range [][2]float64{{-1, 1e-6}, {math.NaN(), 1e-6}, {math.Inf(1), 1e-6}, {1, 0}, {1, 1}, {1, -1},
		{1, math.NaN()}, {1, 2}} {
		if mu, err := MuFor(q[0], q[1]); !errors.Is(err, ErrTarget) || mu != 0 {
			t.Errorf("MuFor(%v,%v) = %v, %v", q[0], q[1], mu, err)
		}
	}
}

func drawGuarantee(t *rapid.T) Guarantee {
	return Guarantee{
		Mu:        math.Pow(10, rapid.Float64Range(-6, 1.3).Draw(t, "log mu")),
		TailDelta: math.Pow(10, -rapid.Float64Range(4, 30).Draw(t, "-log tail")),
	}
}

func TestDeltaFallsWithEpsilon(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		g := drawGuarantee(t)
		a := rapid.Float64Range(0, 20).Draw(t, "epsilon")
		b := a + rapid.Float64Range(1e-3, 5).Draw(t, "more")
		da, db := g.Delta(a), g.Delta(b)
		if !(db <= da*(1+1e-9)) || db < g.TailDelta {
			t.Fatalf("delta(%v) = %v, delta(%v) = %v", a, da, b, db)
		}
	})
}

// TestEpsilonAndMuAreSafeInverses: the epsilon for a delta really has that delta, and hardly less would do; likewise
// mu.
func TestEpsilonAndMuAreSafeInverses(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		g := drawGuarantee(t)
		delta := g.TailDelta + math.Pow(10, -rapid.Float64Range(1, 14).Draw(t, "-log delta"))
		e := g.Epsilon(delta)
		if !(g.Delta(e) <= delta) {
			t.Fatalf("epsilon %v has delta %v > %v", e, g.Delta(e), delta)
		}
		if less := e - 1e-9*math.Max(e, g.Mu); less > 0 && g.Delta(less) <= delta { // delta falls on the scale of mu
			t.Fatalf("epsilon %v is not the smallest", e)
		}
		epsilon := rapid.Float64Range(0, 20).Draw(t, "epsilon")
		mu, err := MuFor(epsilon, delta)
		if err != nil {
			t.Fatal(err)
		}
		if d := (Guarantee{Mu: mu}).Delta(epsilon); d > delta*(1+1e-12) {
			t.Fatalf("mu %v has delta %v > %v", mu, d, delta)
		}
		if d := (Guarantee{Mu: mu * (1 + 1e-6)}).Delta(epsilon); d <= delta && mu > 0 {
			t.Fatalf("mu %v is not the largest", mu)
		}
	})
}

func TestComposeIsOrderFree(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		gs := []Guarantee{drawGuarantee(t), drawGuarantee(t), drawGuarantee(t)}
		a, b := Compose(gs...), Compose(gs[2], Compose(gs[1], gs[0]))
		if math.Abs(a.Mu/b.Mu-1) > 1e-14 || math.Abs(a.TailDelta/b.TailDelta-1) > 1e-14 {
			t.Fatalf("%+v and %+v", a, b)
		}
		if exact := gs[0].Mu*gs[0].Mu + gs[1].Mu*gs[1].Mu + gs[2].Mu*gs[2].Mu; a.Mu*a.Mu < exact {
			t.Fatalf("mu^2 %v below the sum %v", a.Mu*a.Mu, exact)
		}
	})
}

// Repeat is never below the exact composition, and at most a rounding above it.
func TestRepeatIsComposition(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		g, n := drawGuarantee(t), rapid.IntRange(1, 60).Draw(t, "times")
		got, composed := Repeat(g, n), Compose(slices.Repeat([]Guarantee{g}, n)...)
		squares := new(big.Float).SetPrec(200).SetFloat64(g.Mu)
		squares.Mul(squares, squares).Mul(squares, big.NewFloat(float64(n)))
		mu := new(big.Float).SetPrec(200).SetFloat64(got.Mu)
		if mu.Mul(mu, mu).Cmp(squares) < 0 {
			t.Fatalf("%d times %+v: mu %v is rounded down", n, g, got.Mu)
		}
		tail := new(big.Float).SetPrec(200).SetFloat64(g.TailDelta)
		if tail.Mul(tail, big.NewFloat(float64(n))); got.TailDelta < 1 && big.NewFloat(got.TailDelta).Cmp(tail) < 0 {
			t.Fatalf("%d times %+v: tail %v is rounded down", n, g, got.TailDelta)
		}
		for _, x := range [][2]float64{{got.Mu, composed.Mu}, {got.TailDelta, composed.TailDelta},
			{got.Pure, composed.Pure},
			{got.Rho, composed.Rho}} {
			if math.Abs(x[0]-x[1]) > 1e-13*x[1] {
				t.Fatalf("%d times %+v: %+v, composed %+v", n, g, got, composed)
			}
		}
	})
	for _, n := range []int{0, -1} {
		if Repeat(Guarantee{}, n).Promises() {
			t.Errorf("%d times promise something", n)
		}
	}
	if Repeat(NoGuarantee(), 2).Promises() || Repeat(Guarantee{Mu: 1e308}, 1<<40).Promises() {
		t.Error("what promises nothing does so when it is repeated")
	}
}

// TestDeltaNeverRoundsDown compares with 300-bit arithmetic: a Taylor series of the normal distribution function.
func TestDeltaNeverRoundsDown(t *testing.T) {
	const precision = 700
	number := func(x float64) *big.Float { return new(big.Float).SetPrec(precision).SetFloat64(x) }
	op := func() *big.Float { return new(big.Float).SetPrec(precision) }
	exp := func(x *big.Float) *big.Float { // exp(x) = exp(x/2^k)^(2^k)
		const k = 12
		small := op().Quo(x, number(1<<k))
		sum, term := number(1), number(1)
		for i := 1; i < 120; i++ {
			term = op().Quo(op().Mul(term, small), number(float64(i)))
			sum = op().Add(sum, term)
		}
		for range k {
			sum = op().Mul(sum, sum)
		}
		return sum
	}
	// pi by Machin's formula.
	arctan := func(inverse float64) *big.Float {
		sum, power := number(0), op().Quo(number(1), number(inverse))
		for i := 0; i < 600; i++ {
			term := op().Quo(power, number(float64(2*i+1)))
			if i%2 == 1 {
				term.Neg(term)
			}
			sum = op().Add(sum, term)
			power = op().Quo(power, number(inverse*inverse))
		}
		return sum
	}
	pi := op().Sub(op().Mul(number(16), arctan(5)), op().Mul(number(4), arctan(239)))
	root := op().Sqrt(op().Mul(number(2), pi))
	half := op().Quo(number(1), number(2))
	phi := func(x *big.Float) *big.Float { // 1/2 + phi(x) sum x^(2k+1)/(2k+1)!!
		sq := op().Mul(x, x)
		sum, term := number(0), op().Set(x)
		for k := 1; k < 900; k++ {
			sum = op().Add(sum, term)
			term = op().Quo(op().Mul(term, sq), number(float64(2*k+1)))
		}
		density := op().Quo(exp(op().Neg(op().Mul(half, sq))), root)
		return op().Add(half, op().Mul(sum, density))
	}
	for _, mu := range []float64{1e-12, 1e-9, 1e-7, 1e-5, 1e-3, 0.01, 0.1, 0.2367, 0.8, 3, 8} {
		for _, epsilon := range []float64{0, mu / 3, mu, 3 * mu, 1e-3, 0.1, 0.5, 1, 4, 9} {
			if epsilon/mu > 15 {
				continue
			}
			q := op().Quo(number(epsilon), number(mu))
			h := op().Mul(half, number(mu))
			x, y := op().Sub(h, q), op().Neg(op().Add(h, q))
			want, _ := op().Sub(phi(x), op().Mul(exp(number(epsilon)), phi(y))).Float64()
			got := Guarantee{Mu: mu}.Delta(epsilon)
			if got < want || got > want*(1+1e-7) {
				t.Errorf("mu %v, epsilon %v: delta %v, exact %v", mu, epsilon, got, want)
			}
		}
	}
}

func FuzzGuarantee(f *testing.F) {
	f.Add(0.2, 1e-9, 1.0, 1e-6)
	f.Add(1e-300, 0.0, 1e300, 1e-300)
	f.Add(1e200, 0.5, 0.0, 0.9)
	f.Fuzz(func(t *testing.T, mu, tail, epsilon, delta float64) {
		g := Guarantee{Mu: mu, TailDelta: tail}
		if d := g.Delta(epsilon); !(d >= 0 && d <= 1) || g.promises() && d < tail {
			t.Errorf("%+v.Delta(%v) = %v", g, epsilon, d)
		}
		e := g.Epsilon(delta)
		if !(e >= 0) {
			t.Errorf("%+v.Epsilon(%v) = %v", g, delta, e)
		}
		if !math.IsInf(e, 1) && !(g.Delta(e) <= delta) {
			t.Errorf("%+v.Epsilon(%v) = %v, whose delta is %v", g, delta, e, g.Delta(e))
		}
		if m, err := MuFor(epsilon, delta); err == nil {
			if !(m >= 0) || math.IsInf(m, 1) || gaussianDelta(epsilon, m) > delta {
				t.Errorf("MuFor(%v,%v) = %v, delta %v", epsilon, delta, m, gaussianDelta(epsilon, m))
			}
		}
	})
}
