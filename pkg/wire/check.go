package wire

import (
	"math"
)

// CheckDeployment refuses names that cannot be part of a NATS subject or a file name: 1 to MaxDeployment of a-z, 0-9 and "-", not starting with "-".
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
	if epoch == 0 {
		return field("epoch", "is 0, epochs count from 1")
	}
	if round >= MaxRounds {
		return field("round", "is %d, must be below %d", round, MaxRounds)
	}
	return nil
}

func finite(x float64) bool { return !math.IsNaN(x) && !math.IsInf(x, 0) }

// checkPositive refuses zero, negatives, NaN and infinities.
func checkPositive(path string, x float64) error {
	if !(x > 0) || math.IsInf(x, 0) {
		return field(path, "is %v, must be positive and finite", x)
	}
	return nil
}

// checkTheta refuses a parameter of the wrong length, with an entry that is not finite, or of a norm above the bound. The slack is that of glm.
func checkTheta(path string, theta []float64, dim uint32, bound float64) error {
	if uint64(len(theta)) != uint64(dim) {
		return field(path, "has %d entries, the policy's dim is %d", len(theta), dim)
	}
	norm := 0.0
	for i, x := range theta {
		if !finite(x) {
			return field(path, "has entry %d = %v, must be finite", i, x)
		}
		norm = math.Hypot(norm, x)
	}
	if !(norm <= bound*(1+1e-12)) {
		return field(path, "has norm %v, above policy.norm_bound %v", norm, bound)
	}
	return nil
}
