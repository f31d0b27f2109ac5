package load

import (
	"fmt"
	"iter"
	"math"

	"gonum.org/v1/gonum/stat/distuv"

	"github.com/riffle-dp/riffle/pkg/convex"
	"github.com/riffle-dp/riffle/pkg/glm"
	"github.com/riffle-dp/riffle/pkg/glm/family"
	"github.com/riffle-dp/riffle/pkg/glm/statistic"
	"github.com/riffle-dp/riffle/pkg/plan"
	"github.com/riffle-dp/riffle/pkg/protocol"
	"github.com/riffle-dp/riffle/pkg/wire"
)

// FalseAlarm is the probability, in each tail, with which the chi-square test calls a sound deployment's release
// unsound.
const FalseAlarm = 1e-6

// Release is one released sum compared with the true sum.
//
// The error of a coordinate is the sum of n*b noise bits of known bias and of n roundings, whose variances are known
// exactly once the records are. Coordinates are independent, so the sum of their squared standardised errors is
// chi-square with as many degrees of freedom as coordinates. (Each is a sum of some hundred bounded terms with a
// kurtosis below the normal one's, which makes the test slightly more cautious than stated, not less.) Too large an
// error means that records were lost, doubled or altered; too small a one means that noise is missing, and with it
// privacy.
type Release struct {
	Epoch     uint64 `json:"epoch"`
	Round     uint32 `json:"round"`
	Statistic string `json:"statistic"`
	Enrolled  uint32 `json:"enrolled"`
	Reports   uint32 `json:"reports"`

	Compared bool   `json:"compared"`
	Why      string `json:"why,omitempty"` // it could not be compared

	Coordinates int     `json:"coordinates,omitempty"`
	Error       float64 `json:"rms_error,omitempty"` // root mean square over coordinates, in data units
	Bound       float64 `json:"rms_bound,omitempty"` // the worst case over all records, which the learner assumes
	MaxZ        float64 `json:"max_z,omitempty"`     // largest standardised error of a coordinate
	ChiSquare   float64 `json:"chi_square,omitempty"`
	TooLarge    float64 `json:"p_too_large,omitempty"` // probability of a chi-square at least as large, if all is well
	TooSmall    float64 `json:"p_too_small,omitempty"` // and at most as large
}

// Sound reports whether the error is what noise and rounding explain.
func (r Release) Sound() bool { return !r.Compared || min(r.TooLarge, r.TooSmall) >= FalseAlarm }

// deviation is the error of one released sum, coordinate by coordinate.
type deviation struct {
	errors   []float64
	variance []float64 // known, given the records
	bound    []float64 // worst case
}

// compare decodes one release's counts, with the noise bits that servers added to each, and subtracts the sum over the
// known records; the other reports are null records.
func compare(
	s statistic.Statistic, e protocol.Encoding, ones []uint64, reports int, serverBits uint64,
	records iter.Seq[statistic.Record],
) (*deviation, error) {
	sums, err := e.Decode(ones, uint64(reports), serverBits)
	if err != nil {
		return nil, err
	}
	d := &deviation{errors: sums, variance: make([]float64, len(sums)), bound: e.Variance(uint64(reports), serverBits)}
	p := e.Bias.Float()
	noise := (float64(reports)*float64(e.NoiseBits) + float64(serverBits)) * p * (1 - p)
	for j := range d.variance {
		d.variance[j] = noise
	}
	add := func(r statistic.Record, times float64) error {
		v, err := s.Vector(nil, r)
		if err != nil { // the device reported the null record instead
			if v, err = s.Vector(nil, statistic.Record{Null: true}); err != nil {
				return err
			}
		}
		for j, x := range v {
			c := e.Coordinates[j]
			level := math.Max(0, math.Min((x-c.Offset)*e.Scale, float64(c.Levels)))
			_, fraction := math.Modf(level)
			d.errors[j] -= times * x
			d.variance[j] += times * fraction * (1 - fraction)
		}
		return nil
	}
	null := reports
	for r := range records {
		if err := add(r, 1); err != nil {
			return nil, err
		}
		null--
	}
	if err := add(statistic.Record{Null: true}, float64(null)); err != nil {
		return nil, err
	}
	for j := range d.variance {
		d.variance[j] /= e.Scale * e.Scale
	}
	return d, nil
}

// chiSquare is the sum of squared standardised errors, and the largest of them.
func (d *deviation) chiSquare() (sum, largest float64) {
	for j, x := range d.errors {
		z := x / math.Sqrt(d.variance[j])
		sum += z * z
		largest = math.Max(largest, math.Abs(z))
	}
	return sum, largest
}

func rms(squares []float64) float64 {
	sum := 0.0
	for _, v := range squares {
		sum += v
	}
	return math.Sqrt(sum / float64(len(squares)))
}

// tails are the probabilities of a chi-square variable at least and at most as large.
func tails(x float64, freedom int) (larger, smaller float64) {
	d := distuv.ChiSquared{K: float64(freedom)}
	return d.Survival(x), d.CDF(x)
}

// round compares all releases of a counted round.
func (r *reader) round(a *plan.Announcement, m *wire.Manifest, c *wire.Counts, known cohort) ([]Release, error) {
	round, err := plan.CheckRound(a)
	if err != nil {
		return nil, err
	}
	why := comparable(m, c, known)
	if a.Plan.Curator != nil {
		why = "no sum is released of records that a curator reads"
	}
	if a.Plan.Pairs() {
		why = "no sum is released of pairs, each of which is counted by itself"
	}
	var out []Release
	for i, s := range round.Statistics {
		rel := Release{
			Epoch: a.Epoch, Round: a.Round, Statistic: string(s.Kind), Enrolled: m.Enrolled, Reports: m.Reports,
			Why: why,
		}
		if why == "" {
			records := weigh(&a.Policy, known.records.all)
			d, err := compare(s, round.Encodings[i], c.Releases[i].Ones, int(c.Reports), a.Releases()[i].ServerNoise(),
				records)
			if err != nil {
				return nil, fmt.Errorf("load: release of the %s, epoch %d: %w", s.Kind, a.Epoch, err)
			}
			squares := make([]float64, len(d.errors))
			for j, x := range d.errors {
				squares[j] = x * x
			}
			rel.Compared, rel.Coordinates, rel.Error, rel.Bound = true, len(d.errors), rms(squares), rms(d.bound)
			rel.ChiSquare, rel.MaxZ = d.chiSquare()
			rel.TooLarge, rel.TooSmall = tails(rel.ChiSquare, rel.Coordinates)
		}
		out = append(out, rel)
	}
	return out, nil
}

// comparable tells why the true sums of a round are not known, or nothing.
func comparable(m *wire.Manifest, c *wire.Counts, known cohort) string {
	enrolled := int(m.Enrolled)
	switch {
	case c.Destroyed:
		return "the cohort was destroyed"
	case known.unsure != "":
		return known.unsure
	case m.Reports != m.Enrolled:
		return fmt.Sprintf("%d of %d enrolled people did not report; which of them is not known",
			m.Enrolled-m.Reports, m.Enrolled)
	case enrolled < known.sampled:
		return fmt.Sprintf("%d people were told that they are sampled, but the manifest has %d",
			known.sampled, enrolled)
	case enrolled > known.sampled+known.silent:
		return fmt.Sprintf("%d people who are not this run's took part", enrolled-known.sampled-known.silent)
	}
	return ""
}

// weigh gives records the weight that the policy has for the arm that was played.
func weigh(policy *glm.Policy, records iter.Seq[statistic.Record]) iter.Seq[statistic.Record] {
	family, err := family.New(policy.Family, policy.MaxReward)
	if policy.Scaling == nil || err != nil {
		return records
	}
	return func(yield func(statistic.Record) bool) {
		for r := range records {
			arm, _ := convex.ToUnitBall(r.Arm)
			r.Weight = policy.Scaling.Weight(family, arm)
			if !yield(r) {
				return
			}
		}
	}
}
