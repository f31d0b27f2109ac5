// Package plan turns what a learner wants to know into the releases of an announcement, and recomputes from an announcement what
// those releases can reveal about one record.
//
// Propose is the analyzer's side. Guarantee and CheckRound are everybody else's: a device, the shuffler and an auditor compute the
// guarantee from the announced numbers and their own formulas and believe no claim.
package plan

import (
	"errors"
	"fmt"
	"math"
	"slices"

	rifflev1 "github.com/riffle-dp/riffle/messages/riffle/v1"
	"github.com/riffle-dp/riffle/pkg/glm"
	"github.com/riffle-dp/riffle/pkg/privacy"
	"github.com/riffle-dp/riffle/pkg/protocol"
	"github.com/riffle-dp/riffle/pkg/wire"
)

// ErrPlan wraps every reason why an announcement's plan does not hold together.
var ErrPlan = errors.New("plan")

// shiftSlack is the relative excess of a recomputed shift over the planned one that rounding explains.
const shiftSlack = 1e-9

// Guarantee is what the announced plan can reveal about one record over all rounds of its epoch, when only honest devices' noise is
// counted. dishonest is the caller's own bound on dishonest reports; the larger of it and the announced one counts.
//
// The planned shift fixes the privacy of a release whatever public iterate it will be evaluated at; CheckRound is what holds each
// round to it. Releases that are made in the announced round, at its public point, are certified together: no pair of records is
// far apart in all of them (glm.JointSpread, privacy.CertifyJoint).
func Guarantee(a *rifflev1.Announcement, dishonest int) (privacy.Guarantee, error) {
	honest := int(a.Cohort.GetMinimum()) - max(dishonest, int(a.Cohort.GetMaxDishonest()))
	if honest < 1 {
		return privacy.NoGuarantee(), fmt.Errorf("%w: a minimum cohort of %d with up to %d dishonest reports leaves no noise to count on",
			ErrPlan, a.Cohort.GetMinimum(), max(dishonest, int(a.Cohort.GetMaxDishonest())))
	}
	rounds := a.Plan.GetRounds()
	if len(rounds) == 0 {
		return privacy.NoGuarantee(), fmt.Errorf("%w: no releases", ErrPlan)
	}
	all := make([]privacy.Guarantee, len(rounds))
	var before []privacy.Release
	for i, round := range rounds {
		var releases []privacy.Release
		for j, r := range round.GetReleases() {
			release, err := planned(r, int(a.Policy.GetDim()), honest, a.Plan.GetTailDelta())
			if err != nil {
				return privacy.NoGuarantee(), fmt.Errorf("%w: round %d, release %d: %w", ErrPlan, i, j, err)
			}
			releases = append(releases, release)
		}
		var err error
		// Only a plan of one round is certified jointly: the points of later rounds are not known when the epoch begins.
		switch {
		case len(rounds) == 1 && len(releases) == 2:
			all[i], err = together(a, releases)
		case i > 0 && slices.EqualFunc(releases, before, same):
			all[i] = all[i-1]
		default:
			all[i], err = apart(releases)
		}
		if err != nil {
			return privacy.NoGuarantee(), fmt.Errorf("%w: round %d: %w", ErrPlan, i, err)
		}
		before = releases
	}
	return privacy.Compose(all...), nil
}

// apart adds up what each release reveals by itself.
func apart(releases []privacy.Release) (privacy.Guarantee, error) {
	if len(releases) == 0 {
		return privacy.NoGuarantee(), errors.New("no releases")
	}
	all := make([]privacy.Guarantee, len(releases))
	for i, r := range releases {
		var err error
		if all[i], err = privacy.Certify(r); err != nil {
			return privacy.NoGuarantee(), err
		}
	}
	return privacy.Compose(all...), nil
}

// same says whether two releases have the same certificate.
func same(a, b privacy.Release) bool {
	return a.Shift == b.Shift && a.Noise == b.Noise && a.Bias == b.Bias && a.TailDelta == b.TailDelta && slices.Equal(a.Blocks, b.Blocks)
}

// together certifies an outer product and a gradient of one round.
func together(a *rifflev1.Announcement, releases []privacy.Release) (privacy.Guarantee, error) {
	policy, err := wire.PolicyFromProto(a.Policy)
	if err != nil {
		return privacy.NoGuarantee(), err
	}
	round, err := CheckRound(a, policy)
	if err != nil {
		return privacy.NoGuarantee(), err
	}
	if len(round.Statistics) != 2 || round.Statistics[0].Kind == glm.Gradient || round.Statistics[1].Kind != glm.Gradient {
		return apart(releases)
	}
	spread, err := glm.JointSpread(round.Statistics[0], round.Statistics[1])
	if err != nil {
		return privacy.NoGuarantee(), err
	}
	scales := []float64{round.Encodings[0].Scale * (1 + shiftSlack), round.Encodings[1].Scale * (1 + shiftSlack)}
	return privacy.CertifyJoint(releases, scales, spread)
}

// planned describes a release by its shift alone: the ranges of its coordinates follow the public point of its round.
func planned(r *rifflev1.PlannedRelease, dim, honest int, tailDelta float64) (privacy.Release, error) {
	kind := wire.StatisticFromProto(r.GetStatistic())
	if kind == "" {
		return privacy.Release{}, fmt.Errorf("statistic %v is not known", r.GetStatistic())
	}
	if dim < 1 || dim > glm.MaxDimension {
		return privacy.Release{}, fmt.Errorf("dimension %d is outside [1, %d]", dim, glm.MaxDimension)
	}
	return privacy.Release{
		Name: string(kind), Shift: r.GetShift() * (1 + shiftSlack), Noise: uint64(honest) * uint64(r.GetNoiseBits()),
		Bias: protocol.Bias(r.GetBias()).Float(), TailDelta: tailDelta,
		Blocks: shiftOnly(glm.Statistic{Kind: kind, ArmDim: dim}.Dim()),
	}, nil
}

// Round is one announced round, ready for a device to encode its record with.
type Round struct {
	Statistics []glm.Statistic
	Encodings  []protocol.Encoding
	Messages   int // bit messages of one report
}

// CheckRound derives the round's statistics and encodings from an announcement that is in range, and refuses an encoding under
// which replacing one record could move the vector further than planned. The policy is the announcement's own, validated.
func CheckRound(a *rifflev1.Announcement, policy *glm.Policy) (*Round, error) {
	encodings, err := wire.Encodings(a)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrPlan, err)
	}
	r := new(Round)
	for i, e := range encodings {
		p := a.Plan.Rounds[a.Round].Releases[i]
		s, err := statistic(p, a.Reference, policy)
		if err != nil {
			return nil, fmt.Errorf("%w: release %d: %w", ErrPlan, i, err)
		}
		if len(e.Coordinates) != s.Dim() {
			return nil, fmt.Errorf("%w: release %d encodes %d coordinates, the %s has %d", ErrPlan, i, len(e.Coordinates), s.Kind, s.Dim())
		}
		bounds, err := s.Bounds()
		if err != nil {
			return nil, fmt.Errorf("%w: release %d: %w", ErrPlan, i, err)
		}
		if shift := bounds.Diameter * e.Scale; !(shift <= p.GetShift()*(1+shiftSlack)) {
			return nil, fmt.Errorf("%w: release %d: at scale %g one record can move the %s by %.6g levels, planned are %.6g", ErrPlan, i, e.Scale, s.Kind, shift, p.GetShift())
		}
		r.Statistics = append(r.Statistics, s)
		r.Encodings = append(r.Encodings, e)
		r.Messages += e.Messages()
	}
	return r, nil
}

// statistic is the announced statistic at the announced reference.
func statistic(p *rifflev1.PlannedRelease, reference []float64, policy *glm.Policy) (glm.Statistic, error) {
	kind := wire.StatisticFromProto(p.GetStatistic())
	if kind == glm.Covariance {
		bound := 1.0
		if policy.Scaling != nil {
			bound = policy.Scaling.MaxWeight
		}
		return glm.NewCovariance(policy.Dimension, bound)
	}
	family, err := glm.NewFamily(policy.Family, policy.MaxReward)
	if err != nil {
		return glm.Statistic{}, err
	}
	if len(reference) != policy.Dimension {
		return glm.Statistic{}, fmt.Errorf("the reference has %d coordinates, the policy %d", len(reference), policy.Dimension)
	}
	var square float64
	for _, v := range reference {
		square += v * v
	}
	if norm := math.Sqrt(square); !(norm <= policy.Radius*(1+1e-12)) {
		return glm.Statistic{}, fmt.Errorf("the reference has norm %v above the bound %v", norm, policy.Radius)
	}
	if kind == glm.Hessian {
		return glm.NewHessian(family, reference)
	}
	return glm.NewGradient(family, reference)
}
