package contract

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/riffle-dp/riffle/internal/testing/testbed"
	"github.com/riffle-dp/riffle/pkg/glm"
	"github.com/riffle-dp/riffle/pkg/glm/learner"
	"github.com/riffle-dp/riffle/pkg/glm/statistic"
	"github.com/riffle-dp/riffle/pkg/plan"
	"github.com/riffle-dp/riffle/pkg/protocol"
)

// A cohort in which every device but one is dishonest: they tell the analyzer what they sent, and it subtracts that.
// What is left of a release is one person's encoded record and the shuffler's noise. Two worlds differ in that record.
//
// With the shuffler's noise no threshold on the score that tells the records apart best (their difference, weighted by
// the noise) shows more than the plan's second guarantee (plan.Alone): P(A > t) <= exp(epsilon) P(B > t) + delta at
// each of 61 thresholds fixed beforehand, and with the worlds exchanged, up to 5 standard errors and 5 events. If the
// guarantee were tight at all of them, one of the 122 would fail by chance with probability below 1e-4; the seeds are
// fixed. Power: without the shuffler's noise, as the test runs too, a person's own few noise bits are all there is, and
// one threshold finds a probability above 0.5 where the guarantee allows less than 0.1.
func TestAServersNoiseProtectsWhoIsAlone(t *testing.T) {
	t.Parallel()
	terms := testbed.Terms()
	terms.ServerNoise = 1
	bed := testbed.New(t)
	learner, err := learner.New(testbed.Learner(glm.Practical, 20))
	if err != nil {
		t.Fatal(err)
	}
	a := bed.Draw(learner.Next(), terms, 1, nil)
	alone, err := plan.Alone(a)
	if err != nil {
		t.Fatal(err)
	}
	const delta = 1e-3
	epsilon := alone.Epsilon(delta)
	if !(epsilon <= terms.Epsilon) {
		t.Fatalf("the plan promises epsilon %v to who is alone, asked were %v", epsilon, terms.Epsilon)
	}
	if excess := distinguish(t, a, epsilon, delta); excess > 0 {
		t.Errorf("with the shuffler's noise %.3f more than epsilon %.2f, delta %v allow", excess, epsilon, delta)
	}
	bare := a.Clone()
	for i := range bare.Plan.Rounds[0].Releases {
		bare.Plan.Rounds[0].Releases[i].ShufflerNoise = 0
	}
	if excess := distinguish(t, bare, epsilon, delta); excess < 0.1 {
		t.Errorf("no power: without the shuffler's noise %.3f more than epsilon %.2f, delta %v allow", excess, epsilon,
			delta)
	}
}

// distinguish plays both worlds, and returns by how much the best threshold exceeds what (epsilon, delta) allows,
// beyond chance.
func distinguish(t *testing.T, a *plan.Announcement, epsilon, delta float64) (excess float64) {
	t.Helper()
	const trials = 20_000
	round, err := plan.CheckRound(a)
	if err != nil {
		t.Fatal(err)
	}
	src := rand.NewChaCha8([32]byte{42})
	var vectors [2][][]float64
	for world, r := range []statistic.Record{
		{Arm: []float64{1, 0}, Reward: 1, Weight: 1}, {Arm: []float64{0, 1}, Reward: 0, Weight: 1},
	} {
		for _, s := range round.Statistics {
			v, err := s.Vector(nil, r)
			if err != nil {
				t.Fatal(err)
			}
			vectors[world] = append(vectors[world], v)
		}
	}
	var scores [2][]float64
	var spread float64 // between the worlds' mean scores
	for world := range scores {
		for range trials {
			score := 0.0
			for i, e := range round.Encodings {
				release := a.Releases()[i]
				ones, err := e.Encode(nil, vectors[world][i], src)
				if err != nil {
					t.Fatal(err)
				}
				p := e.Bias.Float()
				bits := float64(e.NoiseBits) + float64(release.ShufflerNoise)
				for j, n := range ones {
					left := float64(n) + float64(protocol.Binomial(release.ShufflerNoise, release.Bias, src)) - bits*p
					weight := (vectors[0][i][j] - vectors[1][i][j]) * e.Scale / (0.25 + bits*p*(1-p))
					score += weight * (left - ((vectors[0][i][j]+vectors[1][i][j])/2-e.Coordinates[j].Offset)*e.Scale)
				}
			}
			scores[world] = append(scores[world], score)
			spread += score * float64(1-2*world) / trials
		}
	}
	spread = max(spread, 1)
	for k := -30; k <= 30; k++ {
		threshold := float64(k) / 10 * spread
		above := func(world int) (share float64) {
			for _, s := range scores[world] {
				if s > threshold {
					share += 1.0 / trials
				}
			}
			return share
		}
		for world := range 2 {
			p, q := above(world), above(1-world)
			if world == 1 { // the other world is likelier below the threshold
				p, q = 1-p, 1-q
			}
			chance := 5*math.Sqrt((p*(1-p)+math.Exp(2*epsilon)*q*(1-q))/trials) + 5*math.Exp(epsilon)/trials
			excess = max(excess, p-math.Exp(epsilon)*q-delta-chance)
		}
	}
	return excess
}
