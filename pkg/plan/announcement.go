package plan

import (
	"slices"
	"time"

	"github.com/riffle-dp/riffle/pkg/glm"
	"github.com/riffle-dp/riffle/pkg/glm/layered"
	"github.com/riffle-dp/riffle/pkg/glm/statistic"
	"github.com/riffle-dp/riffle/pkg/glm/symmetric"
	"github.com/riffle-dp/riffle/pkg/privacy"
	"github.com/riffle-dp/riffle/pkg/protocol"
)

// Announcement is the analyzer's statement of one round of one epoch. pkg/wire signs it, opens it and checks that every
// field is in range. Its digest is bound into every report of the round.
//
// The last announcement of a deployment has Final set. It carries the last policy and nothing to report on: Reference,
// Normalization, Tree, Question, Plan, Encodings, Cohort, Timing and AnalyzerKey are zero.
type Announcement struct {
	Deployment string // 1 to 63 of a-z, 0-9 and "-"
	Epoch      uint64 // from 1
	Round      uint32 // from 0
	Previous   []byte // digest of the announcement before this one, 32 bytes; empty for the first
	Policy     glm.Policy
	// Reference is the point at which this round's statistics are evaluated. It has Policy.Dimension entries and at
	// most the norm Policy.Radius.
	Reference []float64
	// Normalization is statistic.Statistic.Normalization of the statistics of this round that need one; empty where
	// none does.
	Normalization symmetric.Packed
	// Tree is statistic.Statistic.Tree of the statistics of this round that are over the bins of one; nil where none
	// is.
	Tree *layered.Tree

	Plan        Plan
	Encodings   []protocol.Encoding // of this round's releases, in the plan's order; noise bits and bias are the plan's
	Cohort      Cohort
	Timing      Timing
	AnalyzerKey []byte // HPKE public key that bit messages are encrypted to, 32 bytes
	Final       bool
	// Commitment is panel.Commit of the analyzer's contribution to the seed of the epoch's panel, 32 bytes; empty where
	// Plan.Panel is nil.
	Commitment []byte
	// Schema is the JSON of a feature.Schema, which says how features become vectors of arms: the same in all epochs.
	// Empty where apps send vectors.
	Schema []byte
	// Question is what the epoch's panel is asked, in an epoch in which it teaches the learner nothing; nil in others.
	Question *statistic.Question
}

// Channel names how a cohort's sum reaches the analyzer, and whom a person must trust for it.
type Channel string

// The channels. Packages of these names under pkg/channel hold a device's side of each.
const (
	Shuffle Channel = "shuffle" // the default
	Shares  Channel = "shares"
	Local   Channel = "local"
	Central Channel = "central"
)

// Channels lists the channels, the default first.
func Channels() []Channel { return []Channel{Shuffle, Shares, Local, Central} }

// Plan lists every release that uses a record of the epoch, and what the analyzer claims that these reveal together. A
// device computes its own guarantee (Guarantee) and does not use the claim.
type Plan struct {
	Rounds    []Round // 1 to 1024
	Epsilon   float64 // claimed; positive
	Delta     float64 // claimed; in (0, 1)
	TailDelta float64 // part of Delta that each coordinate of each release spends on noise tails; in (0, Delta]
	Channel   Channel // one of Channels, the same in all epochs of a deployment
	// Curator is what the analyzer releases where devices send it their records: then there is one release, of
	// statistic.Row, and TailDelta is 0. Nil in every other plan.
	Curator *Curator
	// Panel says from whom the cohort is drawn; nil where devices enrol as they arrive. The rest is of panels only, and
	// 0 without one.
	Panel *Panel
	// Decisions is the most that one report holds, K_max: a report's vector is the sum of its decisions' vectors
	// divided by this number, so that it lies between the vectors of single records, and what is protected is
	// everything that a person did in the epoch.
	Decisions uint32
	// Records is how many epochs one device may report in, out of any Period that follow each other; Period 0 is all of
	// the deployment. Epsilon and Delta are for all of them together.
	Records, Period uint32
}

// Panel says from whom a cohort is drawn: Cohort.Size of the registered devices, by a seed to which shuffler and
// analyzer contribute.
type Panel struct {
	Registered uint32  // fewest devices to draw from
	Dishonest  float64 // share of the registered devices that may be dishonest, in [0, 1)
	// Tail is the part of Delta, of each epoch, that pays for a panel with more than Cohort.MaxDishonest of them; in
	// [0, Delta).
	Tail float64
}

// PerReport is the most decisions that one report holds.
func (p Plan) PerReport() int { return max(1, int(p.Decisions)) }

// PerPerson is how many epochs one device may report in.
func (p Plan) PerPerson() int { return max(1, int(p.Records)) }

// Round lists the releases of one round of reports, 1 to 256 of them.
type Round struct{ Releases []Release }

// Release fixes the privacy of one release before its epoch starts. Its scale may depend on the public iterate; its
// shift may not.
type Release struct {
	Statistic statistic.Kind
	Shift     float64 // largest l2 shift, in levels, that the replacement of one record can cause; positive
	// per device and coordinate; 0 only where a server's noise is announced that the channel's guarantee rests on
	NoiseBits uint32
	Bias      protocol.Bias // probability that a noise bit is one; positive
	// Noise bits of the same bias that the shuffler and the analyzer add once per coordinate: at most MaxServerNoise.
	// An observer's own noise does not count against that observer.
	ShufflerNoise, AnalyzerNoise uint64
}

// Cohort bounds the number of devices that take part in an epoch.
type Cohort struct {
	Size         uint32 // number of slots
	Minimum      uint32 // a release with fewer reports does not leave the shuffler; 1 to Size
	MaxDishonest uint32 // number of reports whose noise is not counted; below Minimum
}

// Timing is public and is fixed before any device enrols. Each duration is a whole number of milliseconds below 2^31.
type Timing struct {
	RewardWindow time.Duration // from enrolment to the report
	Jitter       time.Duration // public spread of report times over slots
	Grace        time.Duration // from the last report time to the deadline of the round
	RoundWindow  time.Duration // length of each round after the first; positive if the plan has more than one
	Enrolment    time.Duration // longest time for which the cohort stays open; 0: until it is full
	Every        time.Duration // least time from one epoch's announcement to the next one's
}

// ServerNoise is the number of noise bits that servers add to each coordinate.
func (r Release) ServerNoise() uint64 { return r.ShufflerNoise + r.AnalyzerNoise }

// MaxServerNoise bounds the noise bits that one server adds to one coordinate: more would protect no better.
const MaxServerNoise = privacy.MaxNoise

// MaxReportMessages bounds the bit messages of one report: 6.8 MB.
const MaxReportMessages = 1 << 17

// Releases are the planned releases of the announced round: one for each encoding. The announcement is in range.
func (a *Announcement) Releases() []Release {
	if a.Final {
		return nil
	}
	return a.Plan.Rounds[a.Round].Releases
}

// ReportMessages is the number of messages in every report of the announced round: bit messages in the channel Shuffle,
// and one in every other.
func (a *Announcement) ReportMessages() int {
	if a.Plan.Channel != Shuffle {
		return 1
	}
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
	out.Normalization, out.AnalyzerKey = slices.Clone(a.Normalization), slices.Clone(a.AnalyzerKey)
	out.Tree, out.Question = a.Tree.Clone(), a.Question.Clone()
	out.Commitment, out.Schema = slices.Clone(a.Commitment), slices.Clone(a.Schema)
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
	if p.Curator != nil {
		c := *p.Curator
		p.Curator = &c
	}
	if p.Panel != nil {
		q := *p.Panel
		p.Panel = &q
	}
	for i := range p.Rounds {
		p.Rounds[i].Releases = slices.Clone(p.Rounds[i].Releases)
	}
	return p
}

// Equal reports whether two panels are the same in every number; nil is the one of no panel.
func (p *Panel) Equal(q *Panel) bool {
	if p == nil || q == nil {
		return p == q
	}
	return *p == *q
}

// Equal reports whether two plans are the same in every number.
func (p Plan) Equal(q Plan) bool {
	return p.Channel == q.Channel && p.Epsilon == q.Epsilon && p.Delta == q.Delta && p.TailDelta == q.TailDelta &&
		p.Curator.Equal(q.Curator) && p.Panel.Equal(q.Panel) && p.Decisions == q.Decisions &&
		p.Records == q.Records && p.Period == q.Period &&
		slices.EqualFunc(p.Rounds, q.Rounds, func(a, b Round) bool { return slices.Equal(a.Releases, b.Releases) })
}
