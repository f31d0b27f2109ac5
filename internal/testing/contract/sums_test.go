package contract

import (
	"fmt"
	"iter"
	"math"
	"net/http"
	"testing"
	"time"

	"github.com/riffle-dp/riffle/internal/testing/testbed"
	"github.com/riffle-dp/riffle/pkg/channel/simulated"
	"github.com/riffle-dp/riffle/pkg/glm"
	"github.com/riffle-dp/riffle/pkg/glm/family"
	"github.com/riffle-dp/riffle/pkg/glm/statistic"
	"github.com/riffle-dp/riffle/pkg/plan"
	"github.com/riffle-dp/riffle/pkg/protocol"
)

// What three roles release through broker and encryption is distributed as the protocol says: each sum minus the true
// sum, in units of its exact standard deviation, has mean 0 and variance 1, independently over coordinates. And an
// in-process run of the protocol with the same records and encodings passes the same test.
//
// Three cohorts of twelve in each profile, 5 coordinates and (paper) 2 + 5 of further ones: 36 standardised errors z.
// Their sum of squares is close to chi-square with 36 degrees of freedom; it leaves [9, 87] with probability below
// 1e-5. Their sum over sqrt(36) passes 5 with probability 6e-7. Power: a bias of one standard deviation on every
// coordinate moves the sum to 6; noise bits of probability 1/4, or forgotten, or added twice, move the chi-square
// outside or the sum by far more.
func TestReleasedSums(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("twelve people in each of six cohorts")
	}
	var through, inside []float64
	for _, profile := range []glm.Profile{glm.Practical, glm.Paper} {
		a, b := errorsOf(t, profile, testbed.Terms())
		through, inside = append(through, a...), append(inside, b...)
	}
	for name, z := range map[string][]float64{"three roles": through, "in process": inside} {
		sum, squares := 0.0, 0.0
		for _, v := range z {
			sum, squares = sum+v, squares+v*v
		}
		n := float64(len(z))
		t.Logf("%s: %d errors, sum/sqrt(n) %.2f, chi-square %.1f", name, len(z), sum/math.Sqrt(n), squares)
		if math.Abs(sum)/math.Sqrt(n) > 5 {
			t.Errorf("%s: biased: the sum of %d standardised errors is %.1f standard deviations off", name, len(z),
				sum/math.Sqrt(n))
		}
		if squares < n/4 || squares > n+8.5*math.Sqrt(n) {
			t.Errorf("%s: the squares of %d standardised errors sum to %.1f", name, len(z), squares)
		}
	}
}

// errorsOf runs a deployment and returns the standardised errors of everything released, and those of an in-process
// channel.
func errorsOf(t *testing.T, profile glm.Profile, terms plan.Terms) (through, inside []float64) {
	const cohort = 12
	timing := testbed.Timing()
	timing.RewardWindow, timing.Grace, timing.RoundWindow = testbed.Long, time.Minute, 20*time.Second
	learner := testbed.Learner(profile, cohort)
	d := start(t, learner, timing, terms)
	person := 0
	for epoch := uint64(1); ; epoch++ {
		a, policy := d.announcement(epoch, 0)
		if a.Final {
			break
		}
		family, err := family.New(policy.Family, policy.MaxReward)
		d.must(err)
		var records []statistic.Record
		for range a.Cohort.Size {
			x := float64(person)
			arms := [][]float64{{0.9 * math.Cos(x), 0.3 * math.Sin(x)}, {-0.2, 0.7 * math.Cos(2*x)}}
			reward := float64(person % 3 / 2)
			status, answer := d.post(fmt.Sprintf("/v1/devices/p%d/decisions", person),
				fmt.Sprintf(`{"arms": [[%v, %v], [%v, %v]]}`, arms[0][0], arms[0][1], arms[1][0], arms[1][1]))
			if status != http.StatusOK || answer["sampled"] != true {
				t.Fatalf("person %d: %v", person, answer)
			}
			arm := arms[int(answer["arm"].(float64))]
			if status, answer := d.post("/v1/rewards", fmt.Sprintf(`{"token": %q, "reward": %v}`, answer["token"],
				reward)); status != http.StatusOK {
				t.Fatalf("person %d: %v", person, answer)
			}
			weight := 1.0
			if policy.Scaling != nil {
				weight = policy.Scaling.Weight(family, arm)
			}
			records = append(records, statistic.Record{Arm: arm, Reward: reward, Weight: weight})
			person++
		}
		d.due(a)
		for r := range uint32(len(a.Plan.Rounds)) {
			a, _ := d.announcement(epoch, r)
			round, err := plan.CheckRound(a)
			d.must(err)
			c := d.counts(epoch, r)
			if c.Destroyed || c.Reports != a.Cohort.Size {
				t.Fatalf("counts %v", c)
			}
			again, err := simulated.Integer{Encodings: round.Encodings, MinCohort: cohort}.Aggregate(
				reports(d, round, records), testbed.Source())
			d.must(err)
			for i, e := range round.Encodings {
				noise := a.Releases()[i].ServerNoise()
				sums, err := e.Decode(c.Releases[i].Ones, uint64(c.Reports), noise)
				d.must(err)
				truth, variance := exactly(d, round.Statistics[i], e, records)
				for j, p := 0, e.Bias.Float(); j < len(variance); j++ {
					variance[j] += float64(noise) * p * (1 - p) / (e.Scale * e.Scale)
				}
				for j := range sums {
					through = append(through, (sums[j]-truth[j])/math.Sqrt(variance[j]))
					inside = append(inside, (again[i].Sum[j]-truth[j])/math.Sqrt(variance[j]))
				}
			}
		}
	}
	d.stop()
	return through, inside
}

// exactly is the true sum of a statistic over some records, and the exact variance of its release: the rounding of
// each record and the noise bits.
func exactly(d *deployment, s statistic.Statistic, e protocol.Encoding, records []statistic.Record) (truth,
	variance []float64) {
	truth, variance = make([]float64, s.Dim()), make([]float64, s.Dim())
	p := e.Bias.Float()
	for _, r := range records {
		v, err := s.Vector(nil, r)
		d.must(err)
		for j, x := range v {
			truth[j] += x
			level := math.Min(math.Max((x-e.Coordinates[j].Offset)*e.Scale, 0), float64(e.Coordinates[j].Levels))
			f := level - math.Floor(level)
			variance[j] += (f*(1-f) + float64(e.NoiseBits)*p*(1-p)) / (e.Scale * e.Scale)
		}
	}
	return truth, variance
}

func reports(d *deployment, round *plan.Encoder, records []statistic.Record) iter.Seq[simulated.Report] {
	return func(yield func(simulated.Report) bool) {
		for _, r := range records {
			report := make(simulated.Report, len(round.Statistics))
			for i, s := range round.Statistics {
				var err error
				report[i], err = s.Vector(nil, r)
				d.must(err)
			}
			if !yield(report) {
				return
			}
		}
	}
}
