package device

import (
	"slices"
	"time"

	"github.com/riffle-dp/riffle/pkg/glm"
	"github.com/riffle-dp/riffle/pkg/protocol"
)

// Decision is what to play.
type Decision struct {
	Arm        int     `json:"arm"`        // index into the arms given
	Epoch      uint64  `json:"epoch"`      // whose policy decided
	Propensity float64 `json:"propensity"` // with which the policy plays this arm here
	Sampled    bool    `json:"sampled"`    // whether the device will report on it
	// Handle names the decision to Reward, where it is sampled: 1 to 2^53-1, at random, so that a reward that comes too
	// late is not taken for another decision's. It holds after a restart.
	Handle uint64 `json:"handle,omitempty"`
}

// Decide is DecideFor without exclusions, with the first arm as the default.
func (d *Device) Decide(arms [][]float64, src protocol.Source) (Decision, error) {
	return d.DecideFor(arms, glm.Choice{}, src)
}

// DecideFor decides with the policy in force. The device reports on the first decision after it was enrolled; where
// panels are drawn, on the first Plan.Decisions of them, and decisions that it does not report on explore nothing
// (glm.Choice.Unrecorded, which is filled in). Limits of arms that the announced schema states are not counted here:
// exclude them.
func (d *Device) DecideFor(arms [][]float64, choice glm.Choice, src protocol.Source) (Decision, error) {
	if d.last == nil {
		return Decision{}, ErrNoPolicy
	}
	d.known()
	unseen := d.state.Registration != nil && (d.record == nil || d.record.Full())
	choice.Unrecorded = choice.Unrecorded || unseen
	made, err := d.last.Policy.DecideFor(arms, choice, src)
	if err != nil {
		return Decision{}, err
	}
	out := Decision{Arm: made.Arm, Epoch: d.last.Epoch, Propensity: made.Propensity}
	if d.record == nil || choice.Unrecorded {
		return out, nil
	}
	if _, out.Sampled = d.record.Remember(arms[made.Arm], made); !out.Sampled {
		return out, nil
	}
	for out.Handle == 0 || slices.Contains(d.handles, out.Handle) {
		out.Handle = src.Uint64() >> 11
	}
	d.handles = append(d.handles, out.Handle)
	return out, nil
}

// Reward takes the reward of the decision with that handle. Until it comes the decision counts as none, and one whose
// reward does not come in time is left out of the report. ErrLate says that the reward window is over, or that the
// device reports on no such decision.
func (d *Device) Reward(handle uint64, reward float64, now time.Time) (Acceptance, error) {
	d.expire(now)
	n := slices.Index(d.handles, handle)
	if d.record == nil || n < 0 {
		return Acceptance{}, ErrLate
	}
	return d.record.Reward(n, reward, now)
}
