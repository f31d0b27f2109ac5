package plan

import (
	"testing"
	"time"

	"github.com/riffle-dp/riffle/pkg/glm"
	"github.com/riffle-dp/riffle/pkg/glm/family"
	"github.com/riffle-dp/riffle/pkg/glm/learner"
	"github.com/riffle-dp/riffle/pkg/glm/statistic"
	"github.com/riffle-dp/riffle/pkg/glm/symmetric"
)

// programStep asks a cohort for one statistic of the kind, of arms of dimension d.
func programStep(kind statistic.Kind, d, cohort int) learner.Step {
	s := statistic.Statistic{Kind: kind, Family: family.Linear{}, ArmDim: d, Theta: make([]float64, d),
		Normalization: make(symmetric.Packed, symmetric.Dim(d))}
	if s.Theta[0] = 0.75; kind == statistic.ClippedGradient {
		s.Theta[0] = 300
	}
	at := 0
	for i := range d {
		s.Normalization[at] = 1 + float64(i)
		at += d - i
	}
	return learner.Step{Cohort: cohort, Statistics: [][]statistic.Statistic{{s}}, Shares: [][]float64{{1}},
		Policy: glm.Policy{Profile: glm.LinUCB, Family: family.NameLinear, MaxReward: 1, Dimension: d, Radius: 1,
			Theta: make([]float64, d), Play: glm.PlayUniform}}
}

// Each kind is planned over every channel with the guarantee that was asked for; a device rebuilds the statistic from
// the announcement, and refuses a scale under which one record could move the vector further, and a reference beyond
// the ball where predictions are not clipped.
func TestReweightedStatisticsArePlannedAndChecked(t *testing.T) {
	for _, kind := range []statistic.Kind{statistic.Normalization, statistic.ReweightedGradient,
		statistic.ReweightedLinear, statistic.ClippedGradient} {
		for _, channel := range Channels() {
			step := programStep(kind, 3, 500)
			terms := Terms{Channel: channel, Epsilon: 1, Delta: 1e-6, DropOut: 0.05, MaxMessages: ByCoordinates}
			p, err := Propose(step, terms)
			if err != nil {
				t.Fatalf("%s over %s: %v", kind, channel, err)
			}
			a := p.Announced(step)
			g, err := Guarantee(a, 0)
			if err != nil || !(g.Epsilon(1e-6) <= 1) {
				t.Errorf("%s over %s: epsilon %v, %v", kind, channel, g.Epsilon(1e-6), err)
			}
			round, err := CheckRound(a)
			if err != nil {
				t.Fatalf("%s over %s: %v", kind, channel, err)
			}
			r := statistic.Record{Arm: []float64{0.6, -0.5, 0.1}, Reward: -0.5}
			want, err := step.Statistics[0][0].Vector(nil, r)
			if err != nil {
				t.Fatal(err)
			}
			got, err := round.Statistics[0].Vector(nil, r)
			if err != nil || len(got) != len(want) {
				t.Fatalf("%s: %v", kind, err)
			}
			for j, v := range got {
				if v != want[j] {
					t.Errorf("%s: number %d is %v on a device, and %v was planned", kind, j, v, want[j])
				}
			}
			further := *a
			further.Encodings = append(further.Encodings[:0:0], a.Encodings...)
			further.Encodings[0].Scale *= 1.01
			if _, err := CheckRound(&further); err == nil {
				t.Errorf("%s: a larger scale is not refused", kind)
			}
			if kind.Pointed() {
				further.Encodings[0].Scale *= 0.5 // which is small enough for the reference
				further.Reference = []float64{0, 1.1, 0}
				if _, err := CheckRound(&further); (err == nil) != (kind == statistic.ClippedGradient) {
					t.Errorf("%s: a reference beyond the ball: %v", kind, err)
				}
			}
			if kind.Normalized() {
				a.Reference, a.Normalization = step.Statistics[0][0].Theta, nil
				if _, err := CheckRound(a); err == nil {
					t.Errorf("%s: a missing normalization is not refused", kind)
				}
			}
		}
	}
}

// What a malicious analyzer announces costs a device no more than its size: the largest announcement of each kind is
// judged within a second, however the matrix is conditioned.
func TestALargeNormalizationIsJudgedSoon(t *testing.T) {
	for kind, d := range map[statistic.Kind]int{statistic.Normalization: 360, statistic.ReweightedGradient: 512,
		statistic.ReweightedLinear: 208, statistic.ClippedGradient: 512} {
		step := programStep(kind, d, 100)
		s := step.Statistics[0][0]
		for i := range s.Normalization {
			s.Normalization[i] = symmetric.MaxEntry
		}
		began := time.Now()
		b, err := s.Bounds()
		if err != nil {
			t.Fatal(err)
		}
		r := statistic.Record{Arm: make([]float64, d), Reward: 1}
		r.Arm[d-1] = 1
		if _, err := s.Vector(nil, r); err != nil {
			t.Fatal(err)
		}
		took := time.Since(began)
		t.Logf("%s of dimension %d, %d numbers: %v", kind, d, len(b.Lower), took)
		if took > time.Second {
			t.Errorf("%s of dimension %d takes %v", kind, d, took)
		}
	}
}
