package load

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/riffle-dp/riffle/pkg/glm/family"
	"github.com/riffle-dp/riffle/pkg/glm/statistic"
	"github.com/riffle-dp/riffle/pkg/protocol"
)

// trial is a made-up release of a made-up cohort.
type trial struct {
	statistic statistic.Statistic
	encoding  protocol.Encoding
	records   []statistic.Record // of all who report; null ones included
}

const (
	people = 400
	dim    = 5
)

func newTrial(t *testing.T, src *rand.ChaCha8, gradient bool) trial {
	t.Helper()
	rng := rand.New(src)
	family, err := family.New("logistic", 1)
	if err != nil {
		t.Fatal(err)
	}
	theta := make([]float64, dim)
	for j := range theta {
		theta[j] = rng.NormFloat64() / 2
	}
	make := statistic.NewHessian
	if gradient {
		make = statistic.NewGradient
	}
	var out trial
	if out.statistic, err = make(family, theta); err != nil {
		t.Fatal(err)
	}
	bounds, err := out.statistic.Bounds()
	if err != nil {
		t.Fatal(err)
	}
	out.encoding = protocol.Encoding{Scale: 16, NoiseBits: 8, Bias: protocol.BiasHalf}
	for j := range bounds.Lower {
		c, err := protocol.NewCoordinate(bounds.Lower[j], bounds.Upper[j], out.encoding.Scale)
		if err != nil {
			t.Fatal(err)
		}
		out.encoding.Coordinates = append(out.encoding.Coordinates, c)
	}
	for i := range people {
		arm := []float64{0.6} // an arm that all have, so that a missing record shows
		for range dim - 1 {
			arm = append(arm, rng.NormFloat64()/4)
		}
		record := statistic.Record{Arm: arm, Reward: float64(rng.IntN(2)), Weight: 1, Null: i%20 == 0}
		out.records = append(out.records, record)
	}
	return out
}

// counts are the ones that the cohort's reports hold.
func (tr trial) counts(t *testing.T, e protocol.Encoding, records []statistic.Record, src protocol.Source) []uint64 {
	t.Helper()
	total := make([]uint64, len(e.Coordinates))
	for _, r := range records {
		v, err := tr.statistic.Vector(nil, r)
		if err != nil {
			t.Fatal(err)
		}
		ones, err := e.Encode(nil, v, src)
		if err != nil {
			t.Fatal(err)
		}
		for j, n := range ones {
			total[j] += uint64(n)
		}
	}
	return total
}

func (tr trial) known() (out []statistic.Record) {
	for _, r := range tr.records {
		if !r.Null {
			out = append(out, r)
		}
	}
	return out
}

// run sums the chi-squares of some releases, made by a deployment with a defect or none.
func run(
	t *testing.T, seed byte, releases int, make func(tr trial, src protocol.Source) []uint64,
) (sum float64, freedom int) {
	t.Helper()
	src := rand.NewChaCha8([32]byte{seed})
	for i := range releases {
		tr := newTrial(t, src, i%2 == 1)
		d, err := compare(tr.statistic, tr.encoding, make(tr, src), people, 0, slices.Values(tr.known()))
		if err != nil {
			t.Fatal(err)
		}
		x, largest := d.chiSquare()
		if math.IsNaN(x) || largest*largest > x*(1+1e-12) {
			t.Fatalf("chi-square %v, largest %v", x, largest)
		}
		sum, freedom = sum+x, freedom+len(d.errors)
	}
	return sum, freedom
}

// Sound deployments pass, with false-alarm probability 2e-6 for each of the 20 runs of 20 releases; the tails they land
// in are spread evenly: the mean of 20 uniform numbers leaves [0.25, 0.75] with probability 1e-4.
func TestSoundReleasesPass(t *testing.T) {
	mean := 0.0
	for seed := range byte(20) {
		x, k := run(t, seed+1, 20, func(tr trial, src protocol.Source) []uint64 {
			return tr.counts(t, tr.encoding, tr.records, src)
		})
		large, small := tails(x, k)
		if min(large, small) < FalseAlarm {
			t.Errorf("seed %d: chi-square %.1f of %d", seed, x, k)
		}
		mean += small / 20
	}
	if mean < 0.25 || mean > 0.75 {
		t.Errorf("mean tail %.3f", mean)
	}
}

// Each defect is found from 60 releases of 400 reports, 600 coordinates. With 600 the verdict "too small" begins at
// 0.74 times the expected chi-square, six standard deviations above the 0.54 that half the noise gives with its
// roundings, so that it is missed with probability 1e-9; the defects that shift sums shift them by several standard
// errors in every release. The scale is the finest that plans allow (16 levels per unit): at coarser ones a third of
// such a small cohort can be lost unseen, as privacy demands.
func TestDefectsAreFound(t *testing.T) {
	for _, test := range []struct {
		name  string
		small bool
		make  func(tr trial, src protocol.Source) []uint64
	}{
		{"half the noise", true, func(tr trial, src protocol.Source) []uint64 {
			less := tr.encoding
			less.NoiseBits /= 2
			ones := tr.counts(t, less, tr.records, src)
			for j := range ones { // the missing bits are alternately one and zero
				ones[j] += people * uint64(tr.encoding.NoiseBits-less.NoiseBits) / 2
			}
			return ones
		}},
		{"no noise", true, func(tr trial, src protocol.Source) []uint64 {
			less := tr.encoding
			less.NoiseBits = 0
			ones := tr.counts(t, less, tr.records, src)
			for j := range ones {
				ones[j] += people * uint64(tr.encoding.NoiseBits) / 2
			}
			return ones
		}},
		{"noise of another bias", false, func(tr trial, src protocol.Source) []uint64 {
			other := tr.encoding
			other.Bias = protocol.BiasHalf + protocol.BiasHalf/10
			return tr.counts(t, other, tr.records, src)
		}},
		{"every third record null", false, func(tr trial, src protocol.Source) []uint64 {
			lost := append([]statistic.Record(nil), tr.records...)
			for i := range lost {
				lost[i].Null = lost[i].Null || i%3 == 0
			}
			return tr.counts(t, tr.encoding, lost, src)
		}},
		{"every first coordinate negated", false, func(tr trial, src protocol.Source) []uint64 {
			turned := append([]statistic.Record(nil), tr.records...)
			for i, r := range turned {
				turned[i].Arm = append([]float64{-r.Arm[0]}, r.Arm[1:]...)
			}
			return tr.counts(t, tr.encoding, turned, src)
		}},
	} {
		t.Run(test.name, func(t *testing.T) {
			x, k := run(t, 99, 60, test.make)
			large, small := tails(x, k)
			t.Logf("chi-square %.1f of %d, tails %.2g %.2g", x, k, large, small)
			if found := min(large, small) < FalseAlarm; !found || (small < large) != test.small {
				t.Errorf("not found: chi-square %.1f of %d, tails %.2g %.2g", x, k, large, small)
			}
		})
	}
}

// The records of a run come back as they were kept, over the bounds of blocks, and are copies.
func TestRecords(t *testing.T) {
	var kept records
	arm := make([]float64, 3)
	for i := range 2*recordBlock + 1 {
		arm[0], arm[2] = float64(i), float64(-i)
		kept.add(arm, float64(i)/2)
	}
	n := 0
	for r := range kept.all {
		want := statistic.Record{Arm: []float64{float64(n), 0, float64(-n)}, Reward: float64(n) / 2, Weight: 1}
		if !slices.Equal(r.Arm, want.Arm) || r.Reward != want.Reward || r.Weight != 1 || r.Null {
			t.Fatalf("record %d: %+v", n, r)
		}
		n++
	}
	if n != 2*recordBlock+1 || n != kept.n {
		t.Errorf("%d records, want %d", n, kept.n)
	}
}
