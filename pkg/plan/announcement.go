package plan

import (
	"slices"
	"time"

	"github.com/riffle-dp/riffle/pkg/glm"
	"github.com/riffle-dp/riffle/pkg/protocol"
)

// Announcement is the analyzer's statement of one round of one epoch. pkg/wire signs it, opens it and checks that every
// field is in range. Its digest is bound into every report of the round.
//
// The last announcement of a deployment has Final set. It carries the last policy and nothing to report on: Reference,
// Plan, Encodings, Cohort, Timing and AnalyzerKey are zero.
type Announcement struct {
	Deployment string
	Epoch      uint64 // from 1
	Round      uint32 // from 0
	Previous   []byte // digest of the announcement before this one, 32 bytes; empty for the first
	Policy     glm.Policy
	Reference  []float64 // the point at which this round's statistics are evaluated; length Policy.Dimension

	Plan        Plan
	Encodings   []protocol.Encoding // of this round's releases, in the plan's order; noise bits and bias are the plan's
	Cohort      Cohort
	Timing      Timing
	AnalyzerKey []byte // HPKE public key that bit messages are encrypted to, 32 bytes
	Final       bool
}

// Plan lists every release that will use a record of the epoch, and what the analyzer claims that these reveal
// together. A device computes its own guarantee (Guarantee) and believes no claim.
type Plan struct {
	Rounds    []Round
	Epsilon   float64
	Delta     float64
	TailDelta float64 // share of Delta that each coordinate of each release spends on the tails of its noise
}

// Round is the releases of one round of reports.
type Round struct{ Releases []Release }

// Release fixes the privacy of one release before its epoch starts. Its scale may follow the public iterate; its shift
// may not.
type Release struct {
	Statistic glm.StatisticKind
	Shift     float64       // largest l2 shift, in levels, that replacing one record can cause
	NoiseBits uint32        // per device and coordinate
	Bias      protocol.Bias // probability that a noise bit is one
}

// Cohort says how many devices may take part in an epoch.
type Cohort struct {
	Size         uint32 // slots
	Minimum      uint32 // a release with fewer reports does not leave the shuffler
	MaxDishonest uint32 // reports whose noise is not counted
}

// Timing is public and fixed before any device enrols. Each duration is a whole number of milliseconds.
type Timing struct {
	RewardWindow time.Duration // from enrolment to the report
	Jitter       time.Duration // public spread of report times over slots
	Grace        time.Duration // from the last report time to the deadline
	RoundWindow  time.Duration // for each round after the first
	Enrolment    time.Duration // longest time that the cohort stays open; 0: until it is full
}

// MaxReportMessages bounds the bit messages of one report: 6.8 MB.
const MaxReportMessages = 1 << 17

// ReportMessages is the number of bit messages in every report of the announced round.
func (a *Announcement) ReportMessages() int {
	total := 0
	for _, e := range a.Encodings {
		total += e.Messages()
	}
	return total
}

// Clone returns a copy that shares no memory with a.
func (a *Announcement) Clone() *Announcement {
	out := *a
	out.Previous, out.Reference = slices.Clone(a.Previous), slices.Clone(a.Reference)
	out.AnalyzerKey = slices.Clone(a.AnalyzerKey)
	out.Policy = *a.Policy.Clone()
	out.Plan = a.Plan.Clone()
	out.Encodings = slices.Clone(a.Encodings)
	for i := range out.Encodings {
		out.Encodings[i].Coordinates = slices.Clone(out.Encodings[i].Coordinates)
	}
	return &out
}

// Clone returns a copy that shares no memory with p.
func (p Plan) Clone() Plan {
	p.Rounds = slices.Clone(p.Rounds)
	for i := range p.Rounds {
		p.Rounds[i].Releases = slices.Clone(p.Rounds[i].Releases)
	}
	return p
}

// Equal says whether two plans are the same in every number.
func (p Plan) Equal(q Plan) bool {
	return p.Epsilon == q.Epsilon && p.Delta == q.Delta && p.TailDelta == q.TailDelta &&
		slices.EqualFunc(p.Rounds, q.Rounds, func(a, b Round) bool { return slices.Equal(a.Releases, b.Releases) })
}
