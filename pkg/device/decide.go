package device

import (
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
	// Handle names the decision to RewardOf, where panels are drawn and it is sampled: 1 to 2^53-1, at random, so that
	// a reward that comes too late is not taken for another decision's.
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
	n, kept := d.record.Remember(arms[made.Arm], made)
	out.Sampled = kept
	if kept && d.last.Panels() {
		for out.Handle == 0 || d.decisions[out.Handle] != 0 {
			out.Handle = src.Uint64() >> 11
		}
		d.decisions[out.Handle] = n + 1
	}
	return out, nil
}

// Reward takes the reward of the decision that the device reports on. Until it comes the record is null. Where panels
// are drawn it is ErrLate: RewardOf takes the rewards.
func (d *Device) Reward(reward float64, now time.Time) (Acceptance, error) {
	if d.record == nil || d.last.Panels() {
		return Acceptance{}, ErrLate
	}
	return d.record.Reward(0, reward, now)
}

// RewardOf takes the reward of the decision with that handle. A decision whose reward does not come in time is left out
// of the report. ErrLate says that the reward window is over, or that the device reports on no such decision.
func (d *Device) RewardOf(handle uint64, reward float64, now time.Time) (Acceptance, error) {
	n := d.decisions[handle]
	if d.record == nil || n == 0 {
		return Acceptance{}, ErrLate
	}
	return d.record.Reward(n-1, reward, now)
}
