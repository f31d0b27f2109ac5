// Package plan holds the announcement of a round as Go structs, turns what a learner wants to know into the releases of
// an announcement, and recomputes from an announcement what those releases can reveal about one record.
//
// Propose is the analyzer's side. Guarantee and CheckRound are the side of a device, the shuffler and an auditor: they
// compute the guarantee from the announced numbers and their own formulas and use no claim of the analyzer.
//
// The guarantee holds for announcements whose fields are in range, which pkg/wire checks. This package has no clock, no
// network and no randomness: the same input gives the same plan and the same guarantee.
package plan

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/riffle-dp/riffle/pkg/convex"
	"github.com/riffle-dp/riffle/pkg/glm"
	"github.com/riffle-dp/riffle/pkg/glm/family"
	"github.com/riffle-dp/riffle/pkg/glm/statistic"
	"github.com/riffle-dp/riffle/pkg/privacy"
	"github.com/riffle-dp/riffle/pkg/protocol"
)

// ErrPlan wraps every reason why an announcement's plan does not hold together.
var ErrPlan = errors.New("plan")

// shiftSlack is the relative excess of a recomputed shift over the planned one that rounding explains.
const shiftSlack = 1e-9

// Guarantee is what the announced plan can reveal about one record over all rounds of its epoch to the worst placed
// observer that its channel protects from (Observers), if only the noise of honest devices is counted, and that of
// servers which the observer is not. dishonest is the caller's own bound on dishonest reports; the larger of it and the
// announced one counts. Where no honest devices can be counted on, every release needs noise of servers, and only the
// person's own device counts beside it. Errors wrap ErrPlan and come with a guarantee of nothing.
//
// The planned shift fixes the privacy of a release at every public iterate; CheckRound holds each round to it. Releases
// that are made in the announced round, at its public point, are certified together, because no pair of records is far
// apart in all of them (statistic.JointSpread, privacy.CertifyJoint).
//
// Where the cohort is a panel, a record is everything that a person did in the epoch, the announced share of dishonest
// devices counts as well, and the guarantee gives up Panel.Tail. It is of one epoch; Lifetime is of all that one device
// may report in.
//
// Where the analyzer reads records (Plan.Curator) it is what all its releases reveal over the whole run; no device's
// noise counts.
func Guarantee(a *Announcement, dishonest int) (privacy.Guarantee, error) {
	if err := a.checkPanel(); err != nil {
		return privacy.NoGuarantee(), err
	}
	if a.Plan.Curator != nil {
		return a.curated()
	}
	honest, err := a.honest(dishonest)
	if err != nil {
		return privacy.NoGuarantee(), err
	}
	g, err := guarantee(a, func(r Release) uint64 { return counted(a.Plan.Channel, r, honest) })
	return a.drawn(g), err
}

// Alone bounds the same if no other device is honest: the person's own noise is left, and that of servers. Where that
// bounds nothing it is privacy.NoGuarantee, which is no error. Errors wrap ErrPlan.
func Alone(a *Announcement) (privacy.Guarantee, error) {
	if err := a.checkPanel(); err != nil {
		return privacy.NoGuarantee(), err
	}
	if a.Plan.Curator != nil {
		return a.curated()
	}
	return guaranteeOrNone(a, func(r Release) uint64 { return counted(a.Plan.Channel, r, 1) })
}

// honest is the number of devices whose noise is in every release, the person's own among them.
func (a *Announcement) honest(dishonest int) (int, error) {
	m := a.borne(dishonest)
	honest := int(a.Cohort.Minimum) - m
	if honest >= 1 || a.Plan.Channel == Local {
		return max(1, honest), nil
	}
	for _, round := range a.Plan.Rounds {
		for _, r := range round.Releases {
			if counted(a.Plan.Channel, r, 0) == 0 {
				return 0, fmt.Errorf("%w: a minimum cohort of %d with up to %d dishonest reports leaves no noise to "+
					"count on",
					ErrPlan, a.Cohort.Minimum, m)
			}
		}
	}
	return 1, nil // the person's own device
}

// counted is how many noise bits of each coordinate of a release the worst placed observer does not know, if this many
// devices are honest, the person's own among them. Whoever adds noise knows it, so that it protects from everyone else,
// and noise that the channel has no place for counts for nothing. In Shares either server may be malicious while the
// other is honest, so that the smaller noise of the two counts. The table is that of Observers.
func counted(c Channel, r Release, honest int) uint64 {
	least := uint64(math.MaxUint64)
	for _, of := range rows(c) {
		if of.promised {
			least = min(least, of.unknown(r, honest))
		}
	}
	if least == math.MaxUint64 { // no such channel
		return 0
	}
	return least
}

// guaranteeOrNone is guarantee, with no guarantee in place of an error where the noise is too little for one.
func guaranteeOrNone(a *Announcement, noise func(Release) uint64) (privacy.Guarantee, error) {
	g, err := guarantee(a, noise)
	if errors.Is(err, privacy.ErrUncertified) {
		return privacy.NoGuarantee(), nil
	}
	return g, err
}

// guarantee bounds what the plan reveals to an observer who does not know so many noise bits on each coordinate of a
// release.
func guarantee(a *Announcement, noise func(Release) uint64) (privacy.Guarantee, error) {
	if err := cmp.Or(a.CheckPairs(), a.CheckQuestion()); err != nil {
		return privacy.NoGuarantee(), err
	}
	rounds := a.Plan.Rounds
	if len(rounds) == 0 {
		return privacy.NoGuarantee(), fmt.Errorf("%w: no releases", ErrPlan)
	}
	all := make([]privacy.Guarantee, len(rounds))
	numbers := map[statistic.Kind]int{}
	var known certificates
	for i, round := range rounds {
		var releases []privacy.Release
		for j, r := range round.Releases {
			release, err := planned(a, r, noise(r), numbers)
			if err != nil {
				return privacy.NoGuarantee(), fmt.Errorf("%w: round %d, release %d: %w", ErrPlan, i, j, err)
			}
			releases = append(releases, release)
		}
		var err error
		// Only a plan of one round is certified jointly: the points of later rounds are not known when the epoch
		// begins.
		if n := len(releases); len(rounds) == 1 && n >= 2 && n <= MaxDifferent {
			all[i], err = together(a, releases)
		} else {
			all[i], err = known.apart(releases)
		}
		if err != nil {
			return privacy.NoGuarantee(), fmt.Errorf("%w: round %d: %w", ErrPlan, i, err)
		}
	}
	return privacy.Compose(all...), nil
}

// GuaranteeWith is the guarantee of a release that held the given number of reports. The announced number of dishonest
// reports is not counted.
func GuaranteeWith(a *Announcement, reports uint32) (privacy.Guarantee, error) {
	live := *a
	live.Cohort.Minimum = reports
	return Guarantee(&live, 0)
}

// MaxDifferent bounds the releases of a plan that differ in noise, shift or coordinates: each takes a certificate of
// its own, of up to a second, so that an analyzer could keep devices busy for days. Plans of this package have a few.
const MaxDifferent = 16

// certificates are the releases that were certified before, each with its guarantee.
type certificates []certificate

type certificate struct {
	of privacy.Release
	g  privacy.Guarantee
}

// apart adds up what each release reveals by itself.
func (c *certificates) apart(releases []privacy.Release) (privacy.Guarantee, error) {
	if len(releases) == 0 {
		return privacy.NoGuarantee(), errors.New("no releases")
	}
	all := make([]privacy.Guarantee, len(releases))
	for i, r := range releases {
		at := slices.IndexFunc(*c, func(o certificate) bool { return same(o.of, r) })
		if at < 0 {
			if at = len(*c); at == MaxDifferent {
				return privacy.NoGuarantee(), fmt.Errorf("more than %d releases with different noise, shifts or "+
					"numbers of coordinates", MaxDifferent)
			}
			g, err := privacy.Certify(r)
			if err != nil {
				return privacy.NoGuarantee(), err
			}
			*c = append(*c, certificate{r, g})
		}
		all[i] = (*c)[at].g
	}
	return privacy.Compose(all...), nil
}

// same reports whether two releases have the same certificate.
func same(a, b privacy.Release) bool {
	return a.Shift == b.Shift && a.Noise == b.Noise && a.Bias == b.Bias && a.TailDelta == b.TailDelta &&
		slices.Equal(a.Blocks, b.Blocks)
}

// together certifies an outer product and a gradient of one round, with what is released beside them.
func together(a *Announcement, releases []privacy.Release) (privacy.Guarantee, error) {
	round, err := CheckRound(a)
	if err != nil {
		return privacy.NoGuarantee(), err
	}
	if !pair(round.Statistics) {
		return new(certificates).apart(releases)
	}
	two, err := statistic.JointSpread(round.Statistics[0], round.Statistics[1])
	if err != nil {
		return privacy.NoGuarantee(), err
	}
	spread, err := beside(two, round.Statistics)
	if err != nil {
		return privacy.NoGuarantee(), err
	}
	scales := make([]float64, len(releases))
	for i, e := range round.Encodings {
		scales[i] = e.Scale * (1 + shiftSlack)
	}
	return privacy.CertifyJoint(releases, scales, spread)
}

// planned describes a release by its shift alone: the ranges of its coordinates follow the public point of its round.
// numbers keeps how many a vector of each statistic has, which takes long to count where a structure has many groups.
func planned(a *Announcement, r Release, noise uint64, numbers map[statistic.Kind]int) (privacy.Release, error) {
	dim := a.Policy.Dimension
	if !r.Statistic.Summed() {
		return privacy.Release{}, fmt.Errorf("statistic %q is not known", r.Statistic)
	}
	if dim < 1 || dim > glm.MaxDimension {
		return privacy.Release{}, fmt.Errorf("dimension %d is outside [1, %d]", dim, glm.MaxDimension)
	}
	if r.Statistic.Binned() && (a.Tree == nil || len(a.Plan.Rounds) > 1) { // later rounds' trees are not known yet
		return privacy.Release{}, fmt.Errorf("a %s needs a tree, and a plan of one round", r.Statistic)
	}
	if numbers[r.Statistic] == 0 {
		if err := a.Policy.Structure.Validate(dim); err != nil {
			return privacy.Release{}, err
		}
		numbers[r.Statistic] = statistic.Statistic{
			Kind: r.Statistic, ArmDim: dim, Structure: a.Policy.Structure, Tree: a.Tree,
			Question: a.Question,
		}.Dim()
	}
	if n := max(r.ShufflerNoise, r.AnalyzerNoise); n > MaxServerNoise {
		return privacy.Release{}, fmt.Errorf("a server's noise of %d bits is more than %d", n, uint64(MaxServerNoise))
	}
	if noise == 0 {
		return privacy.Release{}, fmt.Errorf("%w: there is no noise to count on", privacy.ErrUncertified)
	}
	return privacy.Release{
		Name: string(r.Statistic), Shift: r.Shift * (1 + shiftSlack), Noise: noise,
		Bias: r.Bias.Float(), TailDelta: a.Plan.TailDelta,
		Blocks: shiftOnly(numbers[r.Statistic]),
	}, nil
}

// Encoder is one announced round, ready for a device to encode its record with.
type Encoder struct {
	Statistics []statistic.Statistic
	Encodings  []protocol.Encoding
	Messages   int // of one report: bit messages in Shuffle, elsewhere one
}

// CheckRound derives the round's statistics and encodings from an announcement that is in range, and refuses an
// encoding under which replacing one record could move the vector further than planned.
func CheckRound(a *Announcement) (*Encoder, error) {
	if uint64(a.Round) >= uint64(len(a.Plan.Rounds)) || len(a.Plan.Rounds[a.Round].Releases) != len(a.Encodings) {
		return nil, fmt.Errorf("%w: the encodings do not fit the plan", ErrPlan)
	}
	if err := cmp.Or(a.CheckPairs(), a.CheckQuestion()); err != nil {
		return nil, err
	}
	r := new(Encoder)
	vectors := map[statistic.Kind]privacy.Vector{} // a kind is one statistic here, and its bounds can take a second
	for i, e := range a.Encodings {
		p := a.Plan.Rounds[a.Round].Releases[i]
		if err := e.Validate(); err != nil {
			return nil, fmt.Errorf("%w: release %d: %w", ErrPlan, i, err)
		}
		// The guarantee counts the planned noise, so that is the noise to encode with.
		if e.NoiseBits != p.NoiseBits || e.Bias != p.Bias {
			return nil, fmt.Errorf("%w: release %d is encoded with %d noise bits of bias %v, planned are %d of bias %v",
				ErrPlan, i, e.NoiseBits, e.Bias, p.NoiseBits, p.Bias)
		}
		if p.Statistic == statistic.Row {
			if err := a.Plan.CheckCurator(); err != nil {
				return nil, fmt.Errorf("release %d: %w", i, err)
			}
		}
		s, err := a.statistic(p.Statistic)
		if err != nil {
			return nil, fmt.Errorf("%w: release %d: %w", ErrPlan, i, err)
		}
		of, known := vectors[s.Kind]
		if !known {
			if of, err = vector(s); err != nil {
				return nil, fmt.Errorf("%w: release %d: %w", ErrPlan, i, err)
			}
			vectors[s.Kind] = of
		}
		if n := len(of.Lower); len(e.Coordinates) != n {
			return nil, fmt.Errorf("%w: release %d encodes %d coordinates, the %s has %d", ErrPlan,
				i, len(e.Coordinates), s.Kind, n)
		}
		// What a sum of records would reveal does not matter: there is none.
		if shift := of.Diameter * e.Scale; p.Statistic != statistic.Row && !(shift <= p.Shift*(1+shiftSlack)) {
			return nil, fmt.Errorf("%w: release %d: at scale %g one record can move the %s by %.6g levels, planned "+
				"are %.6g",
				ErrPlan, i, e.Scale, s.Kind, shift, p.Shift)
		}
		r.Statistics = append(r.Statistics, s)
		r.Encodings = append(r.Encodings, e)
	}
	r.Messages = a.ReportMessages()
	if most := MaxEntryBits(a.Plan.Channel); a.Plan.Channel != Shuffle && a.EntryBits() > most {
		return nil, fmt.Errorf("%w: an entry of a report needs %d bits, at most %d are allowed", ErrPlan,
			a.EntryBits(), most)
	}
	return r, nil
}

// statistic is the announced statistic at the announced reference, under the announced normalization or over the bins
// of the announced tree, of arms of the announced structure.
func (a *Announcement) statistic(kind statistic.Kind) (statistic.Statistic, error) {
	policy := &a.Policy
	s := statistic.Statistic{Kind: kind, ArmDim: policy.Dimension, Structure: policy.Structure, WeightBound: 1}
	if policy.Scaling != nil {
		s.WeightBound = policy.Scaling.MaxWeight
	}
	rewards, err := family.New(policy.Family, policy.MaxReward)
	if err != nil {
		return s, err
	}
	if s.Family = rewards; kind.Pointed() {
		norm := convex.Norm(a.Reference)
		near := norm <= policy.Radius*(1+1e-12) || kind == statistic.ClippedGradient // which bounds it
		if len(a.Reference) != policy.Dimension || !near {
			return s, fmt.Errorf("the reference has %d coordinates and norm %v, the policy %d and the bound %v",
				len(a.Reference), norm, policy.Dimension, policy.Radius)
		}
		s.Theta, s.Family = a.Reference, glm.Score(rewards, policy.Profile)
	}
	if kind.Normalized() {
		s.Normalization = a.Normalization
	}
	if kind.Binned() {
		s.Tree = a.Tree
	}
	if kind.Asked() {
		s.Question = a.Question
	}
	return s, s.Validate()
}
