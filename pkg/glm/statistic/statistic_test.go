package statistic_test

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/riffle-dp/riffle/pkg/glm/family"
	"github.com/riffle-dp/riffle/pkg/glm/statistic"
)

func TestVectorRefusesRecordsThatAreNotFinite(t *testing.T) {
	f := familyCase{"logistic", 1}.build(t)
	for _, s := range statistics(t, f, []float64{1, -1}) {
		for _, bad := range []float64{math.NaN(), math.Inf(1), math.Inf(-1)} {
			for _, r := range []statistic.Record{
				{Arm: []float64{0, bad}, Reward: 1, Weight: 1}, {Arm: []float64{0, 1}, Reward: bad, Weight: 1},
				{Arm: []float64{0, 1}, Reward: 1, Weight: bad},
			} {
				if _, err := s.Vector(nil, r); !errors.Is(err, statistic.ErrNotFinite) {
					t.Errorf("%s %v: got %v", s.Kind, r, err)
				}
			}
		}
		for _, arm := range [][]float64{nil, {1}, {1, 0, 0}} {
			if _, err := s.Vector(nil, statistic.Record{Arm: arm}); !errors.Is(err, statistic.ErrDimension) {
				t.Errorf("%s arm %v: got %v", s.Kind, arm, err)
			}
		}
		zero, err := s.Vector([]float64{9, 9, 9, 9}, statistic.Record{Null: true, Arm: []float64{math.NaN()},
			Reward: math.Inf(1)})
		if err != nil || len(zero) != s.Dim() {
			t.Fatalf("%s null record: %v, %v", s.Kind, zero, err)
		}
		for _, v := range zero {
			if v != 0 {
				t.Errorf("%s null record: %v", s.Kind, zero)
			}
		}
	}
}

func TestStatisticRefusesBadDefinitions(t *testing.T) {
	f := familyCase{"logistic", 1}.build(t)
	for _, s := range []statistic.Statistic{
		{}, {Kind: "median", ArmDim: 2}, {Kind: statistic.Gradient, ArmDim: 2, Theta: []float64{1, 1}},
		{Kind: statistic.Gradient, Family: f, ArmDim: 2, Theta: []float64{1}}, {Kind: statistic.Hessian, Family: f},
		{Kind: statistic.Hessian, Family: f, ArmDim: 1, Theta: []float64{math.NaN()}},
		{Kind: statistic.Hessian, Family: f, ArmDim: 1, Theta: []float64{math.Inf(1)}},
		{Kind: statistic.Hessian, Family: f, ArmDim: 1, Theta: []float64{statistic.MaxParameterNorm + 1}},
		{Kind: statistic.Covariance, ArmDim: 2}, {Kind: statistic.Covariance, ArmDim: 2, WeightBound: math.NaN()},
		{Kind: statistic.Covariance, ArmDim: 2, WeightBound: math.Inf(1)},
		{Kind: statistic.Covariance, WeightBound: 1}, {Kind: statistic.Row, ArmDim: 2},
		{Kind: statistic.Row, Family: f}, {Kind: statistic.Pair, ArmDim: 2}, {Kind: statistic.Pair, Family: f},
	} {
		if err := s.Validate(); !errors.Is(err, statistic.ErrInvalid) {
			t.Errorf("%+v: got %v", s, err)
		}
		if _, err := s.Bounds(); !errors.Is(err, statistic.ErrInvalid) {
			t.Errorf("%+v: Bounds gave %v", s, err)
		}
		if _, err := s.Vector(nil, statistic.Record{Null: true}); !errors.Is(err, statistic.ErrInvalid) {
			t.Errorf("%+v: Vector gave %v", s, err)
		}
	}
}

// A record out of range has the vectors of its nearest record in range.
func TestRecordsAreClipped(t *testing.T) {
	g, err := statistic.NewGradient(familyCase{"poisson", 5}.build(t), []float64{0.3, -0.2})
	if err != nil {
		t.Fatal(err)
	}
	c, err := statistic.NewCovariance(2, 1)
	if err != nil {
		t.Fatal(err)
	}
	l, err := statistic.NewGradient(family.Linear{}, []float64{0.3, -0.2})
	if err != nil {
		t.Fatal(err)
	}
	for reward, residual := range map[float64]float64{-3: 1.12, -.5: .62, 7: -.88} { // linear rewards may be negative
		got, err := l.Vector(nil, statistic.Record{Arm: []float64{0.6, 0.3}, Reward: reward})
		if want := []float64{0.6 * residual, 0.3 * residual}; err != nil || distance(got, want) > 1e-15 {
			t.Errorf("linear reward %v: %v, %v; want %v", reward, got, err, want)
		}
	}
	diagonal := []float64{math.Sqrt2 / 2, math.Sqrt2 / 2}
	for _, r := range []struct{ in, out statistic.Record }{
		{statistic.Record{Arm: []float64{3, 4}, Reward: 2, Weight: 0.5},
			statistic.Record{Arm: []float64{0.6, 0.8}, Reward: 2, Weight: 0.5}},
		{statistic.Record{Arm: []float64{0, 1e300}, Reward: 7, Weight: 9},
			statistic.Record{Arm: []float64{0, 1}, Reward: 5, Weight: 1}},
		{statistic.Record{Arm: []float64{math.MaxFloat64, math.MaxFloat64}, Reward: -1, Weight: -1},
			statistic.Record{Arm: diagonal}},
		{statistic.Record{Null: true, Reward: 9}, statistic.Record{Arm: []float64{0, 0}}},
	} {
		for _, s := range []statistic.Statistic{g, c} {
			got, err := s.Vector(nil, r.in)
			if err != nil {
				t.Fatal(err)
			}
			want, err := s.Vector(nil, r.out)
			if err != nil {
				t.Fatal(err)
			}
			if distance(got, want) > 1e-15 {
				t.Errorf("%s of %+v is %v, want %v", s.Kind, r.in, got, want)
			}
		}
	}
}

// The vectors of one record have values worked out by hand.
func TestVectorsHaveTheirStatedValues(t *testing.T) {
	f := familyCase{"logistic", 1}.build(t)
	th := []float64{1, 2}
	r := statistic.Record{Arm: []float64{0.6, 0.2}, Reward: 1, Weight: 0.5}
	h, _ := statistic.NewHessian(f, th)
	g, _ := statistic.NewGradient(f, th)
	c, _ := statistic.NewCovariance(2, 1)
	row, _ := statistic.NewRow(f, 2)
	pair, _ := statistic.NewPair(f, 2)
	mu, w := 0.7310585786300049, 0.2310585786300049 // at z = 1: w = mu(1) - mu(0)
	for _, k := range []struct {
		s    statistic.Statistic
		want []float64
	}{
		{h, []float64{0.36 * w, math.Sqrt2 * 0.12 * w, 0.04 * w}},
		{g, []float64{0.6 * (mu - 1), 0.2 * (mu - 1)}},
		{c, []float64{0.18, math.Sqrt2 * 0.06, 0.02}},
		{row, []float64{0.6, 0.2, 1, 0}},
		{pair, []float64{0.6, 0.2, 1}},
	} {
		got, err := k.s.Vector(nil, r)
		if err != nil || len(got) != len(k.want) || distance(got, k.want) > 1e-15 {
			t.Errorf("%s: %v, %v; want %v", k.s.Kind, got, err, k.want)
		}
	}
}

// Any bytes read as numbers give an error or a vector inside the bounds.
func FuzzVector(f *testing.F) {
	f.Add(uint8(0), 1.0, -0.5, 0.3, 0.9, 1.0, 0.2)
	f.Add(uint8(7), 1e300, math.Inf(1), 0.0, math.NaN(), -1.0, 3.0)
	f.Fuzz(func(t *testing.T, pick uint8, t0, t1, x0, x1, reward, weight float64) {
		c := boundedFamilies[int(pick)%len(boundedFamilies)]
		fam := c.build(t)
		th := []float64{t0, t1}
		hessian, err := statistic.NewHessian(fam, th)
		if err != nil {
			return
		}
		for _, s := range append(statistics(t, fam, th), hessian) {
			v, err := s.Vector(nil, statistic.Record{Arm: []float64{x0, x1}, Reward: reward, Weight: weight})
			if err != nil {
				continue
			}
			zero, _ := s.Vector(nil, statistic.Record{Null: true})
			if msg := violation(bounds(t, s), v, zero); msg != "" {
				t.Errorf("%v %s: %s", c, s.Kind, msg)
			}
		}
	})
}

func BenchmarkBounds(b *testing.B) {
	for _, c := range boundedFamilies {
		for _, d := range []int{5, 20} {
			for _, s := range statistics(b, c.build(b), scaled(randomDirection(rand.New(rand.NewPCG(1, 1)), d), 3)) {
				b.Run(fmt.Sprintf("%s/%v/%v/d%d", s.Kind, c.name, c.r, d), func(b *testing.B) {
					for b.Loop() {
						if _, err := s.Bounds(); err != nil {
							b.Fatal(err)
						}
					}
				})
			}
		}
	}
}

func BenchmarkVector(b *testing.B) {
	rng := rand.New(rand.NewPCG(1, 1))
	for _, s := range statistics(b, familyCase{"logistic", 1}.build(b), theta(rng, 5, 3)) {
		r := randomRecord(rng, 5, 0, 1)
		var dst []float64
		b.Run(string(s.Kind), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				dst, _ = s.Vector(dst, r)
			}
		})
	}
}
