package plan

import (
	"fmt"
	"math"

	"github.com/riffle-dp/riffle/pkg/glm/statistic"
	"github.com/riffle-dp/riffle/pkg/protocol"
)

// Influence is how far dishonest devices of a cohort can move the sums of one release, whatever they report, in units
// of the sums: those of the statistic, over decisions (deployment.Sums). It follows from the announcement alone.
// Servers follow the protocol: a malicious one can set a sum as it likes.
//
// What a device adds to coordinate c of a sum is K_max ((e - b p) / scale + offset), where e is what the analyzer takes
// from it, b its noise bits and p their bias. Noise bits are as free as the others, so that a dishonest device may make
// all of them ones, or none. What the largest e of k devices together is, and who enforces it, depends on the channel.
// L is the coordinate's levels, and nobody can make e negative.
//
//	local    k (L + b): the analyzer refuses an envelope with a larger entry (envelope.Opener.Open)
//	central  k L, as b is 0: the same
//	shares   k (2^B - 1), where B is EntryBits, for all coordinates alike: the proof (shares.Helper.Verify)
//	shuffle  k (L + b): the shuffler refuses a report with other labels (shuffle.CheckLabels), and the analyzer a bit
//	         under another label than it was sealed with (seal.BitOpener)
//
// In every channel a count above what all reports and servers can make together is cut to that: n (L + b) + S.
//
// Proof of Least and Most: e and the sum over devices are independent of what others report, up to the cut, which moves
// a count towards what it was without the devices. Both ends are reached, the upper one as long as nothing is cut. In
// shuffle, message i of an admitted report has the label of place i, so that L + b messages of a device have that of
// the coordinate, and each adds 0 or 1 to it: 0 where it does not open. It adds to no other coordinate, since it opens
// under its own label only. So e is any number from 0 to L + b, on every coordinate independently of the others.
type Influence struct {
	Statistic statistic.Kind
	Devices   int // k
	// Least and Most are by coordinate what the devices together add to the sum.
	Least, Most []float64
	// Distance bounds how far apart, in the Euclidean norm, two sums can be that differ in what the devices report.
	// Without the cut it is reached.
	Distance float64
	// Honest is by coordinate the most by which as many honest devices can move the sum, apart from their noise: K_max
	// times the width of the range that their values are clamped to.
	Honest []float64
	// Deviation is the standard deviation of the error of each sum from noise and rounding
	// (protocol.Encoding.Variance).
	Deviation float64
}

// Moves is by coordinate the most by which the devices can move the sum: the difference between Most and Least.
func (i Influence) Moves() []float64 {
	moves := make([]float64, len(i.Most))
	for j := range moves {
		moves[j] = i.Most[j] - i.Least[j]
	}
	return moves
}

// Worst is the largest of Moves in standard deviations of the sum's error.
func (i Influence) Worst() float64 {
	worst := 0.0
	for _, moves := range i.Moves() {
		worst = max(worst, moves/i.Deviation)
	}
	return worst
}

// Influence is what so many dishonest devices can do to each release of the announced round, if so many reports are
// released. It is nil where nothing is summed: after the last round, and where the analyzer reads records. The error,
// which wraps ErrPlan, is of more devices than reports, or less than none.
func (a *Announcement) Influence(devices int, reports uint32) ([]Influence, error) {
	if devices < 0 || devices > int(reports) {
		return nil, fmt.Errorf("%w: %d dishonest devices of %d reports", ErrPlan, devices, reports)
	}
	if a.Final || a.Plan.Curator != nil {
		return nil, nil
	}
	k, decisions := float64(devices), float64(a.Plan.PerReport())
	all := make([]Influence, len(a.Encodings))
	for r, e := range a.Encodings {
		server := a.Releases()[r].ServerNoise()
		of := a.limits()
		unit := decisions / e.Scale
		i := Influence{Statistic: a.Releases()[r].Statistic, Devices: devices,
			Deviation: decisions * math.Sqrt(e.Variance(uint64(reports), server)[0])}
		mean := float64(e.NoiseBits) * e.Bias.Float()
		squares := 0.0
		for j, c := range e.Coordinates {
			most := min(of.entries(e, j, devices), float64(reports)*float64(e.MessagesAt(j))+float64(server))
			least := k * (decisions*c.Offset - mean*unit)
			i.Least, i.Most = append(i.Least, least), append(i.Most, least+most*unit)
			i.Honest = append(i.Honest, k*float64(c.Levels)*unit)
			squares += most * most
		}
		i.Distance = math.Sqrt(squares) * unit
		all[r] = i
	}
	return all, nil
}

// StatedInfluence is how far dishonest devices can move the sums of one statistic of a round, number by number, in the
// statistic's own units, as it is shown to people: Influence of one device, and of as many as the plan expects.
type StatedInfluence struct {
	Statistic string    `json:"statistic"`
	One       []float64 `json:"one_device"`        // the most by which one dishonest device can move each number
	Devices   int       `json:"dishonest_devices"` // that the plan expects among the reports at most
	All       []float64 `json:"all_devices"`       // the most by which so many can together
	Honest    []float64 `json:"honest_device"`     // the most by which one honest device can, apart from its noise
	Deviation float64   `json:"deviation"`         // standard deviation of each number's error from noise and rounding
}

// StateInfluence is the influence of dishonest devices on the announced round with so many reports, and the most by
// which one of them can move a number in standard deviations of its error (Influence.Worst). Both are zero where
// nothing is summed.
func (a *Announcement) StateInfluence(reports uint32) (all []StatedInfluence, worst float64) {
	expected := min(int(a.Cohort.MaxDishonest), int(reports))
	one, err := a.Influence(min(1, int(reports)), reports)
	many, err2 := a.Influence(expected, reports)
	if err != nil || err2 != nil { // not reached: neither has more devices than reports
		return nil, 0
	}
	for i, of := range one {
		worst = max(worst, of.Worst())
		all = append(all, StatedInfluence{Statistic: string(of.Statistic), One: of.Moves(), Devices: expected,
			All: many[i].Moves(), Honest: of.Honest, Deviation: of.Deviation})
	}
	return all, worst
}

// limits are what a channel enforces of a report.
type limits struct {
	channel   Channel
	entryBits int // of the round, where devices send numbers
}

// limits are those of the announced round.
func (a *Announcement) limits() limits {
	return limits{a.Plan.Channel, a.EntryBits()}
}

// entries is the most that so many devices together can make the analyzer count on coordinate j: see Influence.
func (l limits) entries(e protocol.Encoding, j, devices int) float64 {
	if l.channel == Shares {
		return float64(devices) * (math.Ldexp(1, l.entryBits) - 1)
	}
	return float64(devices) * float64(e.MessagesAt(j))
}
