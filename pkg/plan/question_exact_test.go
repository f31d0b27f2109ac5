package plan

import (
	"fmt"
	"math"
	"testing"

	"github.com/riffle-dp/riffle/pkg/glm/learner"
	"github.com/riffle-dp/riffle/pkg/glm/statistic"
	"github.com/riffle-dp/riffle/pkg/privacy"
)

// lossGrid is the grid of losses, which are rounded down: what is computed is no more than the truth, and no less than
// the truth at an epsilon that is larger by lossGrid for each number that differs. Losses beyond lossFurthest steps
// count as that.
const (
	lossGrid     = 0.01
	lossFurthest = 2000
)

// losses is the law of ln(p/q) under p, from lossGrid times first on, and what q cannot give.
type losses struct {
	first int
	mass  []float64
	never float64
}

func lossesOf(p, q []float64) (l losses) {
	at := func(k int) int {
		return max(-lossFurthest, min(int(math.Floor(math.Log(p[k]/q[k])/lossGrid)), lossFurthest))
	}
	first, last := math.MaxInt, math.MinInt
	for k := range p {
		if p[k] > 1e-14 && q[k] > 0 {
			first, last = min(first, at(k)), max(last, at(k))
		}
	}
	l.first = first
	l.mass = make([]float64, last-first+1)
	for k := range p {
		switch {
		case !(p[k] > 1e-14):
		case q[k] == 0:
			l.never += p[k]
		default:
			l.mass[at(k)-first] += p[k]
		}
	}
	return l
}

// with is the law of the sum of two independent losses.
func (l losses) with(m losses) losses {
	out := losses{l.first + m.first, make([]float64, len(l.mass)+len(m.mass)-1), 1 - (1-l.never)*(1-m.never)}
	for i, x := range l.mass {
		if x > 1e-13 {
			for j, y := range m.mass {
				out.mass[i+j] += x * y
			}
		}
	}
	return out
}

func (l losses) delta(epsilon float64) float64 {
	sum := l.never
	for i, x := range l.mass {
		if loss := float64(l.first+i) * lossGrid; loss > epsilon {
			sum += x * -math.Expm1(epsilon-loss)
		}
	}
	return sum
}

// unknown is how many noise bits the worst placed observer that a channel protects from does not know, by the channel's
// own description, if so many devices are honest.
func unknown(c Channel, r Release, honest int) uint64 {
	devices := uint64(honest) * uint64(r.NoiseBits)
	switch c {
	case Shuffle:
		return devices + r.ShufflerNoise
	case Shares:
		return devices + min(r.ShufflerNoise, r.AnalyzerNoise)
	case Central:
		return r.AnalyzerNoise
	}
	return uint64(r.NoiseBits)
}

// What an answer reveals, by the exact law of all its numbers, is within what devices compute of its announcement, for
// every pair of extreme people and who has nothing to report, in each channel; the count of decisions is part of it.
// The certificate is not idle: some pair comes near it, and half of the noise breaks it.
func TestAnAnswerIsWithinItsCertificate(t *testing.T) {
	if testing.Short() { // nothing of it runs at the same time as anything else
		t.Skip("without a second goroutine")
	}
	const registered, size, decisions = 240, 60, 2
	number := statistic.Quantity{Entries: []int{0}, Low: -0.5, High: 1}
	reward := statistic.Quantity{Low: 0, High: 1}
	for kind, q := range map[statistic.Kind]*statistic.Question{
		statistic.Mean:      {Name: "a", Of: []statistic.Quantity{number, reward}},
		statistic.Histogram: {Name: "a", Of: []statistic.Quantity{number}, Edges: []float64{0.2}},
		statistic.Fit:       {Name: "a", Of: []statistic.Quantity{number, reward}},
	} {
		for _, c := range Channels() {
			t.Run(fmt.Sprint(c, "/", kind), func(t *testing.T) {
				t.Parallel()
				terms := Terms{Channel: c, Epsilon: 2, Delta: 1e-3, DropOut: 0.05, MaxMessages: 200, MaxShift: 16,
					Registered: registered, Dishonest: 0.05, Tail: 1e-4, Decisions: decisions}
				if c == Central {
					terms.NoDeviceNoise, terms.ServerNoise = true, 1
				}
				step := stepAt(t, learner.Config{Dimension: 1, Horizon: 5000}, size, 0.7)
				s := statistic.Statistic{Kind: kind, Family: step.Statistics[0][0].Family, ArmDim: 1, Question: q}
				step.Statistics, step.Shares = [][]statistic.Statistic{{s}}, [][]float64{{1}}
				proposal, err := Propose(step, terms)
				if err != nil {
					t.Fatal(err)
				}
				a := proposal.Announced(step)
				claimed, _, err := Lifetime(a)
				if err != nil {
					t.Fatal(err)
				}
				vectors := [][]float64{make([]float64, s.Dim())} // the null record's
				for _, arm := range []float64{-1, 0.25, 1} {
					for _, r := range []float64{0, 1} {
						one := statistic.Record{Arm: []float64{arm}, Reward: r}
						for n := 1; n <= decisions; n++ {
							v, err := s.Report(nil, []statistic.Record{one, one}[:n], decisions)
							if err != nil {
								t.Fatal(err)
							}
							vectors = append(vectors, v)
						}
					}
				}
				closest, broken := 0.0, false
				for _, x := range vectors {
					for _, y := range vectors {
						for i, exact := range exactly(t, a, x, y, 1) {
							bound := claimed.Delta(epsilons[i])
							closest = max(closest, exact/bound)
							if !(exact <= bound) {
								t.Fatalf("epsilon %v: delta is %v, the certificate says %v, of %v and %v", epsilons[i],
									exact, bound, x, y)
							}
						}
						if !broken {
							broken = exactly(t, a, x, y, 0.5)[1] > claimed.Delta(epsilons[1])
						}
					}
				}
				if t.Logf("at most %.2g of the certified delta", closest); closest < 0.5 || !broken {
					t.Errorf("delta never comes near the certificate (%v of it), or half of the noise keeps it: %v",
						closest, !broken)
				}
			})
		}
	}
}

// epsilons are where deltas are compared.
var epsilons = []float64{0.5, 1, 2}

// exactly are the deltas at epsilons of one answer for two people's reports, with this share of the noise, and with as
// many liars in the panel as chance puts there.
func exactly(t *testing.T, a *Announcement, x, y []float64, share float64) []float64 {
	deltas := make([]float64, len(epsilons))
	registered, size := int(a.Plan.Panel.Registered), int(a.Cohort.Size)
	liars := int(a.Plan.Panel.Dishonest * float64(registered))
	e, release := a.Encodings[0], a.Releases()[0]
	for m := range liars + 1 {
		p := privacy.PanelTail(registered-1, liars, size-1, m-1) - privacy.PanelTail(registered-1, liars, size-1, m)
		others := a.Plan.Channel == Shuffle || a.Plan.Channel == Shares // have noise that counts
		if others && p < 1e-4 {
			continue
		}
		bits := unknown(a.Plan.Channel, release, int(a.Cohort.Minimum)-m)
		noise, err := privacy.NewBinomial(max(1, uint64(share*float64(bits))), e.Bias.Float())
		if err != nil {
			t.Fatal(err)
		}
		all := losses{mass: []float64{1}}
		for j, c := range e.Coordinates {
			if x[j] != y[j] {
				all = all.with(lossesOf(ones(noise, e, c, x[j], int(bits)), ones(noise, e, c, y[j], int(bits))))
			}
		}
		if !others {
			p = 1
		}
		for i, epsilon := range epsilons {
			deltas[i] += p * all.delta(epsilon)
		}
		if !others {
			break
		}
	}
	return deltas
}
