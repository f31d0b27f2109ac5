package wire

import (
	"math"
	"slices"
	"time"

	"github.com/riffle-dp/riffle/pkg/convex"
	"github.com/riffle-dp/riffle/pkg/glm"
	"github.com/riffle-dp/riffle/pkg/glm/statistic"
	"github.com/riffle-dp/riffle/pkg/plan"
)

// CheckDeployment refuses names that cannot be part of a NATS subject or a file name: 1 to MaxDeployment of a-z, 0-9
// and "-", not starting with "-".
func CheckDeployment(name string) error {
	if name == "" || len(name) > MaxDeployment || name[0] == '-' {
		return field("deployment", "%q must be 1 to %d characters, not starting with \"-\"", clip(name), MaxDeployment)
	}
	for i := range len(name) {
		if c := name[i]; !(c >= 'a' && c <= 'z' || c >= '0' && c <= '9' || c == '-') {
			return field("deployment", "%q may hold a-z, 0-9 and \"-\" only", clip(name))
		}
	}
	return nil
}

func clip(s string) string {
	if len(s) > MaxDeployment+1 {
		return s[:MaxDeployment+1]
	}
	return s
}

func checkLength(path string, b []byte, want int) error {
	if len(b) != want {
		return field(path, "has %d bytes, must have %d", len(b), want)
	}
	return nil
}

func checkPlace(deployment string, epoch uint64, round uint32) error {
	if err := CheckDeployment(deployment); err != nil {
		return err
	}
	return checkRound(epoch, round)
}

func checkRound(epoch uint64, round uint32) error {
	if epoch == 0 {
		return field("epoch", "is 0, epochs count from 1")
	}
	if round >= MaxRounds {
		return field("round", "is %d, must be below %d", round, MaxRounds)
	}
	return nil
}

// checkPositive refuses zero, negatives, NaN and infinities.
func checkPositive(path string, x float64) error {
	if !(x > 0) || math.IsInf(x, 0) {
		return field(path, "is %v, must be positive and finite", x)
	}
	return nil
}

// checkTime refuses a duration that a message cannot carry: the field has at most this many milliseconds.
func checkTime(path string, d time.Duration, most int64) error {
	if d < 0 || d%time.Millisecond != 0 {
		return field(path, "is %v, must be whole milliseconds", d)
	}
	if ms := d.Milliseconds(); ms > most {
		return field(path, "is %d, at most %d", ms, most)
	}
	return nil
}

// checkEstimate refuses a vector that is not of the policy's dimension or not finite.
func checkEstimate(path string, theta []float64, p *glm.Policy) error {
	if len(theta) != p.Dimension {
		return field(path, "has %d entries, the policy's dim is %d", len(theta), p.Dimension)
	}
	if i := convex.FirstNotFinite(theta); i >= 0 {
		return field(path, "has entry %d = %v, must be finite", i, theta[i])
	}
	return nil
}

// checkReference refuses a reference that is not a parameter of the policy, with the slack of glm for its norm, which
// is not held to the bound where a statistic of the round clips its predictions.
func checkReference(a *plan.Announcement) error {
	p := &a.Policy
	if err := checkEstimate("reference", a.Reference, p); err != nil {
		return err
	}
	clips := func(r plan.Release) bool { return r.Statistic == statistic.ClippedGradient }
	norm := convex.Norm(a.Reference)
	if !(norm <= p.Radius*(1+1e-12)) && !slices.ContainsFunc(announcedReleases(a), clips) {
		return field("reference", "has norm %v, above policy.norm_bound %v", norm, p.Radius)
	}
	return nil
}

// checkPolicy refuses a policy that a message cannot carry or that glm refuses.
func checkPolicy(p *glm.Policy) error {
	if int64(p.Epoch) > math.MaxUint32 {
		return field("policy.cohorts", "is %d, must be 0 to 2^32-1", p.Epoch)
	}
	if len(p.Stages) > MaxStages {
		return field("policy.stages", "has %d entries, at most %d", len(p.Stages), MaxStages)
	}
	if err := p.Validate(); err != nil {
		if p.Radius > 0 && len(p.Theta) == p.Dimension { // only then the field can be named
			if named := checkEstimate("policy.theta", p.Theta, p); named != nil {
				return named
			}
		}
		return field("policy", "is refused: %v", err)
	}
	if s := p.Scaling; s != nil && s.Diameter != 2*p.Radius {
		return field("policy.scaling", "has diameter %v, which must be twice norm_bound %v", s.Diameter, p.Radius)
	}
	return nil
}
