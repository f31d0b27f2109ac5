package plan

import (
	"math"
	"slices"
	"testing"

	"github.com/riffle-dp/riffle/pkg/glm/learner"
	"github.com/riffle-dp/riffle/pkg/glm/statistic"
	"github.com/riffle-dp/riffle/pkg/privacy"
	"github.com/riffle-dp/riffle/pkg/protocol"
)

// atom is one outcome with its probabilities in two worlds.
type atom struct{ p, q float64 }

// seen is all that an observer sees of one epoch in two worlds, if so many devices are honest: the product over all
// coordinates of both releases, by falling likelihood ratio.
func seen(t *testing.T, a *Announcement, x, y [][]float64, honest int) (out []atom) {
	out = []atom{{1, 1}}
	for i, e := range a.Encodings {
		bits := honest * int(e.NoiseBits)
		noise, err := privacy.NewBinomial(uint64(bits), e.Bias.Float())
		if err != nil {
			t.Fatal(err)
		}
		for j, c := range e.Coordinates {
			p, q := ones(noise, e, c, x[i][j], bits), ones(noise, e, c, y[i][j], bits)
			var next []atom
			for _, o := range out {
				for k := range p {
					if n := (atom{o.p * p[k], o.q * q[k]}); n.p+n.q > 1e-13 {
						next = append(next, n)
					}
				}
			}
			out = next
		}
	}
	slices.SortFunc(out, func(a, b atom) int {
		switch l, r := a.p*b.q, b.p*a.q; {
		case l > r:
			return -1
		case l < r:
			return 1
		}
		return 0
	})
	return out
}

// ones is the law of a coordinate's count for a value: its levels, rounded at random, and so many noise bits.
func ones(noise *privacy.Binomial, e protocol.Encoding, c protocol.Coordinate, value float64, bits int) []float64 {
	v := math.Max(0, math.Min((value-c.Offset)*e.Scale, float64(c.Levels)))
	whole := math.Floor(v)
	out := make([]float64, int(c.Levels)+2+bits)
	for k := range out {
		out[k] = (1-(v-whole))*noise.Probability(k-int(whole)) + (v-whole)*noise.Probability(k-int(whole)-1)
	}
	return out
}

// twoEpochs is the exact delta at an epsilon of two epochs together.
func twoEpochs(first, second []atom, epsilon float64) (delta float64) {
	p, q := make([]float64, len(second)+1), make([]float64, len(second)+1)
	for i, o := range second {
		p[i+1], q[i+1] = p[i]+o.p, q[i]+o.q
	}
	e, n := math.Exp(epsilon), len(second)
	for _, o := range first { // the likelihood ratio falls, so that ever fewer of the second are above e^epsilon
		for n > 0 && !(o.p*second[n-1].p > e*o.q*second[n-1].q) {
			n--
		}
		delta += o.p*p[n] - e*o.q*q[n]
	}
	return delta
}

// A plan of two epochs of a small panel, end to end: Terms to releases, people's decisions to reports, and the
// certificate of a device against the exact laws of everything that an observer sees in both epochs, with as many
// dishonest devices in either panel as chance puts there; outcomes that are left out as too rare would only add to
// delta. The certificate is never exceeded, and a certificate of one epoch is.
func TestACertificateOfPanelsIsNeverExceeded(t *testing.T) {
	const registered, size, decisions = 240, 60, 3
	terms := Terms{Epsilon: 2, Delta: 1e-3, DropOut: 0.05, MaxMessages: 60, MaxShift: 16, Registered: registered,
		Dishonest: 0.05, Tail: 1e-4, Records: 2, Decisions: decisions}
	step := stepAt(t, learner.Config{Dimension: 1, Horizon: 5000}, size, 0.7)
	proposal, err := Propose(step, terms)
	if err != nil {
		t.Fatal(err)
	}
	a := proposal.Announced(step)
	claimed, _, err := Lifetime(a)
	if err != nil {
		t.Fatal(err)
	}
	one, err := Guarantee(a, 0)
	if err != nil {
		t.Fatal(err)
	}
	liars := int(terms.Dishonest * registered)
	// Beside a person in the panel there are this many liars, with this probability.
	var meets []float64
	for m := range liars + 1 {
		meets = append(meets, math.Max(0, privacy.PanelTail(registered-1, liars, size-1, m-1)-
			privacy.PanelTail(registered-1, liars, size-1, m)))
	}
	person := func(arm, reward float64) [][]float64 {
		var out [][]float64
		for _, s := range step.Statistics[0] {
			r := statistic.Record{Arm: []float64{arm}, Reward: reward}
			v, err := s.Report(nil, slices.Repeat([]statistic.Record{r}, decisions), decisions)
			if err != nil {
				t.Fatal(err)
			}
			out = append(out, v)
		}
		return out
	}
	exceeded, closest := false, 0.0
	for _, pair := range [][2][][]float64{
		{person(1, 0), person(-1, 0)}, {person(1, 0), person(0, 0)}, {person(1, 0), person(1, 1)},
	} {
		views := make([][]atom, len(meets))
		for m := range meets {
			views[m] = seen(t, a, pair[0], pair[1], int(a.Cohort.Minimum)-m)
		}
		for _, epsilon := range []float64{1, 2} {
			exact := 0.0
			for m, p := range meets {
				for n, q := range meets {
					if p*q > 1e-7 && n <= m { // the epochs are alike
						both := p * q * twoEpochs(views[m], views[n], epsilon)
						exact += both
						if n < m {
							exact += both
						}
					}
				}
			}
			if bound := claimed.Delta(epsilon); !(exact <= bound) {
				t.Errorf("epsilon %v: delta is %v, the certificate says %v", epsilon, exact, bound)
			} else {
				closest = math.Max(closest, exact/bound)
			}
			exceeded = exceeded || exact > one.Delta(epsilon)
		}
	}
	if !exceeded || closest < 0.25 {
		t.Errorf("the certificate of one epoch is never exceeded by two, or delta never comes near the certificate: %v",
			closest)
	}
	t.Logf("%+v: at most %v of the certified delta", a.Cohort, closest)
}
