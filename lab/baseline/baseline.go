// Package baseline holds the algorithms that Riffle is compared with, one file each, named for it. Each is a
// simulate.Algorithm. None protects anyone. Riffle's own learner with other noise or none is not here: simulate.Batched
// with another simulate.Trust is that.
//
// Constants are those of the authors' public experiments, as far as they are known; each file says which. An algorithm
// that needs kappa = max 1/mu' is told it, an advantage that Riffle does not have.
package baseline

import (
	"errors"
	"fmt"
	"math"

	"github.com/riffle-dp/riffle/pkg/glm/family"
	"github.com/riffle-dp/riffle/pkg/protocol"
)

// ErrSetting wraps every reason to refuse a Setting.
var ErrSetting = errors.New("baseline: bad setting")

// Setting is what the algorithms are told.
type Setting struct {
	Family    family.Family
	Dimension int
	Radius    float64 // S >= the norm of the true parameter
	Horizon   int     // T
	Failure   float64 // delta of confidence sets, in (0, 1)
	Kappa     float64 // largest 1/mu' over all arms, at least 1
	Source    protocol.Source
}

func (s Setting) check() error {
	if s.Family == nil || s.Dimension < 1 || s.Horizon < 1 || !(s.Radius > 0) || math.IsInf(s.Radius, 0) ||
		!(s.Failure > 0 && s.Failure < 1) {
		return fmt.Errorf("%w: dimension %d, horizon %d, radius %v, failure probability %v", ErrSetting, s.Dimension,
			s.Horizon, s.Radius, s.Failure)
	}
	return nil
}

func (s Setting) checkKappa() error {
	if err := s.check(); err != nil {
		return err
	}
	if !(s.Kappa > 0) || math.IsInf(s.Kappa, 0) {
		return fmt.Errorf("%w: kappa %v", ErrSetting, s.Kappa)
	}
	return nil
}

// inTheClear is embedded by the algorithms that see every record.
type inTheClear struct{}

// MessagesPerPerson implements simulate.Sender: one record per person.
func (inTheClear) MessagesPerPerson() float64 { return 1 }

// slope is L_mu, the largest mu'.
func (s Setting) slope() float64 { return s.Family.MaxVariance(s.Radius) }

// best is the first arm with the largest score.
func best(arms [][]float64, score func(x []float64) float64) int {
	pick, top := 0, math.Inf(-1)
	for a, x := range arms {
		if v := score(x); v > top {
			pick, top = a, v
		}
	}
	return pick
}
