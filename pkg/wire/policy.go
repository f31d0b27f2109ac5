package wire

import (
	"fmt"
	"math"

	rifflev1 "github.com/riffle-dp/riffle/messages/riffle/v1"
	"github.com/riffle-dp/riffle/pkg/glm"
)

var profiles = map[rifflev1.Profile]glm.Profile{
	rifflev1.Profile_PROFILE_PRACTICAL: glm.Practical,
	rifflev1.Profile_PROFILE_PAPER:     glm.Paper,
}

var plays = map[rifflev1.Play]glm.Play{
	rifflev1.Play_PLAY_DESIGN:  glm.PlayDesign,
	rifflev1.Play_PLAY_GREEDY:  glm.PlayGreedy,
	rifflev1.Play_PLAY_UNIFORM: glm.PlayUniform,
}

// policyMessage converts a policy. Every number is carried exactly.
func policyMessage(p *glm.Policy) (*rifflev1.Policy, error) {
	out := &rifflev1.Policy{
		Family:          &rifflev1.Family{Name: p.Family, MaxReward: p.MaxReward},
		NormBound:       p.Radius,
		Theta:           p.Theta,
		DesignTolerance: p.DesignTolerance,
		Pairwise:        p.Pairwise,
		Explore:         p.Explore,
	}
	for proto, profile := range profiles {
		if profile == p.Profile {
			out.Profile = proto
		}
	}
	for proto, play := range plays {
		if play == p.Play {
			out.Play = proto
		}
	}
	if p.Epoch < 0 || int64(p.Epoch) > math.MaxUint32 {
		return nil, field("cohorts", "is %d, must be 0 to 2^32-1", p.Epoch)
	}
	out.Cohorts = uint32(p.Epoch)
	if p.Dimension < 0 || p.Dimension > glm.MaxDimension {
		return nil, field("dim", "is %d, must be 1 to %d", p.Dimension, glm.MaxDimension)
	}
	out.Dim = uint32(p.Dimension)
	for _, s := range p.Stages {
		out.Stages = append(out.Stages, stageToProto(s))
	}
	if s := p.Scaling; s != nil {
		if s.Diameter != 2*p.Radius {
			return nil, field("scaling", "has diameter %v, which must be twice norm_bound %v", s.Diameter, p.Radius)
		}
		out.Scaling = &rifflev1.Scaling{Stage: stageToProto(s.Stage), SelfConcordance: s.SelfConcordance, MaxWeight: s.MaxWeight}
	}
	return out, nil
}

func checkPolicy(p *rifflev1.Policy) error {
	_, err := policyOf(p)
	return err
}

// policyOf checks a policy and converts it. The result passes glm.Policy.Validate. It shares no memory with p.
func policyOf(p *rifflev1.Policy) (*glm.Policy, error) {
	if err := checkPolicyShape(p); err != nil {
		return nil, err
	}
	out := &glm.Policy{
		Profile:         profiles[p.Profile],
		Epoch:           int(p.Cohorts),
		Family:          p.Family.Name,
		MaxReward:       p.Family.MaxReward,
		Dimension:       int(p.Dim),
		Radius:          p.NormBound,
		Theta:           append([]float64(nil), p.Theta...),
		Play:            plays[p.Play],
		DesignTolerance: p.DesignTolerance,
		Pairwise:        p.Pairwise,
		Explore:         p.Explore,
	}
	for _, s := range p.Stages {
		out.Stages = append(out.Stages, stageFromProto(s))
	}
	if s := p.Scaling; s != nil {
		out.Scaling = &glm.Scaling{Stage: stageFromProto(s.Stage), Diameter: 2 * p.NormBound, SelfConcordance: s.SelfConcordance, MaxWeight: s.MaxWeight}
	}
	if err := out.Validate(); err != nil { // what glm knows better: families, positive semidefinite covariances
		return nil, field("content", "is refused: %v", err)
	}
	return out, nil
}

func checkPolicyShape(p *rifflev1.Policy) error {
	if profiles[p.GetProfile()] == "" {
		return field("profile", "is %d, which is not known", p.GetProfile())
	}
	if plays[p.Play] == "" {
		return field("play", "is %d, which is not known", p.Play)
	}
	if p.Family == nil {
		return field("family", "is missing")
	}
	if _, err := glm.NewFamily(p.Family.Name, p.Family.MaxReward); err != nil {
		return field("family", "is refused: %v", err)
	}
	if p.Dim == 0 || p.Dim > glm.MaxDimension {
		return field("dim", "is %d, must be 1 to %d", p.Dim, glm.MaxDimension)
	}
	if err := checkPositive("norm_bound", p.NormBound); err != nil {
		return err
	}
	if err := checkTheta("theta", p.Theta, p.Dim, p.NormBound); err != nil {
		return err
	}
	if !(p.DesignTolerance >= 0 && p.DesignTolerance <= 1) {
		return field("design_tolerance", "is %v, must be 0 to 1", p.DesignTolerance)
	}
	if !(p.Explore >= 0 && p.Explore <= 1) {
		return field("explore", "is %v, must be 0 to 1", p.Explore)
	}
	if len(p.Stages) > MaxStages {
		return field("stages", "has %d entries, at most %d", len(p.Stages), MaxStages)
	}
	for i, s := range p.Stages {
		if err := checkStage(s, p); err != nil {
			return inside(fmt.Sprintf("stages[%d].", i), err)
		}
	}
	if s := p.Scaling; s != nil {
		if err := checkStage(s.Stage, p); err != nil {
			return inside("scaling.stage.", err)
		}
		if err := checkPositive("scaling.self_concordance", s.SelfConcordance); err != nil {
			return err
		}
		return checkPositive("scaling.max_weight", s.MaxWeight)
	}
	return nil
}

func checkStage(s *rifflev1.Stage, p *rifflev1.Policy) error {
	if err := checkTheta("theta", s.GetTheta(), p.Dim, p.NormBound); err != nil {
		return err
	}
	if want := glm.TriangleDim(int(p.Dim)); len(s.Covariance) != want {
		return field("covariance", "has %d entries, the upper triangle of dimension %d has %d", len(s.Covariance), p.Dim, want)
	}
	for i, x := range s.Covariance {
		if !finite(x) {
			return field("covariance", "has entry %d = %v, must be finite", i, x)
		}
	}
	if !(s.Width >= 0) || !finite(s.Width) {
		return field("width", "is %v, must be finite and not negative", s.Width)
	}
	return nil
}

func stageToProto(s glm.Stage) *rifflev1.Stage {
	return &rifflev1.Stage{Theta: s.Theta, Covariance: s.Covariance, Width: s.Width}
}

func stageFromProto(s *rifflev1.Stage) glm.Stage {
	return glm.Stage{Theta: append([]float64(nil), s.Theta...), Covariance: append(glm.Symmetric(nil), s.Covariance...), Width: s.Width}
}
