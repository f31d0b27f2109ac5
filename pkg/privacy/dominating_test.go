package privacy

import (
	"errors"
	"math"
	"testing"
)

// delta is what dp_accounting computes of a distribution of losses: the infinite ones, and of each loss above epsilon
// its probability times 1 - e^(epsilon-loss).
func (l Losses) delta(epsilon float64) float64 {
	delta := l.Infinite
	for i, p := range l.Mass {
		if loss := float64(l.First+i) * l.Step; loss > epsilon {
			delta -= p * math.Expm1(epsilon-loss)
		}
	}
	return delta
}

// At every epsilon the distribution gives at least the certificate's delta, and at most 1 % more. The certificate of a
// Rho is above what any mechanism with that Rho gives near epsilon 0, by up to 5 %: there the distribution is held
// against the Gaussian mechanism, which has this Rho.
func TestLossesDominateTheGuarantee(t *testing.T) {
	for _, g := range []Guarantee{
		{Mu: 0.24, TailDelta: 5e-8}, {Mu: 0.24}, {Mu: 1.3, TailDelta: 1e-5}, {Mu: 0.01, TailDelta: 1e-9}, {Mu: 4},
		{Rho: 0.02}, {Rho: 0.5, TailDelta: 1e-7}, {Rho: 1e-6}, {Mu: 0.2, Rho: 0.01, TailDelta: 1e-8},
		{Mu: 0.5, TailDelta: 1e-8, Pure: 0.25},
	} {
		l, err := DominatingLosses(g)
		if err != nil {
			t.Errorf("%+v: %v", g, err)
			continue
		}
		sum := l.Infinite
		for i, p := range l.Mass {
			if !(p >= 0) {
				t.Fatalf("%+v: mass %v at %d", g, p, i)
			}
			sum += p
		}
		if math.Abs(sum-1) > 1e-9 {
			t.Errorf("%+v: the masses add up to %v", g, sum)
		}
		deviation := math.Sqrt(g.Mu*g.Mu + 2*g.Rho)
		worst := 0.0
		for k := range 80 {
			epsilon := g.Pure + 0.1*float64(k)*deviation + float64(k%3)*l.Step/3
			want, got := g.Delta(epsilon), l.delta(epsilon)
			if want < 1e-16 {
				break
			}
			if g.Rho > 0 && epsilon < 0.5*deviation {
				if gauss := (Guarantee{Mu: deviation, TailDelta: g.TailDelta}).Delta(epsilon); got < gauss ||
					got < 0.95*want {
					t.Errorf("%+v: at epsilon %v delta %v, the Gaussian has %v", g, epsilon, got, gauss)
				}
			} else if got < want {
				t.Errorf("%+v: at epsilon %v delta %v, the certificate has %v", g, epsilon, got, want)
			}
			if worst = math.Max(worst, got/want-1); got > want*1.01 && epsilon > g.Pure+l.Step {
				t.Errorf("%+v: at epsilon %v delta %v is %.2g above the certificate", g, epsilon, got, got/want-1)
			}
		}
		t.Logf("%+v: %d losses of step %g, at most %.2g above", g, len(l.Mass), l.Step, worst)
	}
}

// Of several guarantees each is dominated, and the order and copies of them do not matter.
func TestLossesDominateEachGuarantee(t *testing.T) {
	gs := []Guarantee{{Mu: 0.3, TailDelta: 1e-9}, {Mu: 0.2, TailDelta: 1e-7}, {Mu: 0.3, TailDelta: 1e-9}, {Rho: 0.001}}
	l, err := DominatingLosses(gs...)
	if err != nil || gs[0].TailDelta != 1e-9 {
		t.Fatalf("%v, %v", err, gs)
	}
	turned, err := DominatingLosses(gs[3], gs[1], gs[0])
	if err != nil || turned.delta(0.5) != l.delta(0.5) {
		t.Errorf("%v and %v, %v", turned.delta(0.5), l.delta(0.5), err)
	}
	for _, g := range gs {
		for epsilon := 0.0; epsilon < 2; epsilon += 0.05 {
			if l.delta(epsilon) < g.Delta(epsilon) {
				t.Errorf("%+v: at epsilon %v delta %v, it has %v", g, epsilon, l.delta(epsilon), g.Delta(epsilon))
			}
		}
	}
}

func TestNoLossesOfNoGuarantee(t *testing.T) {
	for _, gs := range [][]Guarantee{{}, {NoGuarantee()}, {{Mu: 1}, {Mu: math.NaN()}}, {{Mu: 1e9}}} {
		if _, err := DominatingLosses(gs...); !errors.Is(err, ErrLosses) {
			t.Errorf("%+v: %v", gs, err)
		}
	}
	if l, err := DominatingLosses(Guarantee{}); err != nil || l.delta(0) > 1e-15 {
		t.Errorf("nothing was released: %+v, %v", l, err)
	}
}
