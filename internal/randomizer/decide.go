package randomizer

import (
	"context"
	"crypto/rand"
	"encoding/base64"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/riffle-dp/riffle/internal/role/outcome"
)

// Errors of decisions and rewards.
var (
	// ErrNoPolicy says that the analyzer has announced nothing yet that this host accepts. Nothing happened; ask again.
	ErrNoPolicy = errors.New("no policy has been announced yet")
	// ErrArms says that no decision could be made from the arms. The device is enrolled all the same, if it would have been with
	// other arms, and will report the null record: who takes part must not depend on what is decided about.
	ErrArms = errors.New("no decision can be made from these arms")
	// ErrHostFull says that the host's credential covers no further device. Nothing happened.
	ErrHostFull = errors.New("this host's credential covers no further device")
	// ErrToken says that a token is unknown, or that its reward window is over and its report has left.
	ErrToken = errors.New("the token is unknown or its reward window is over")
	// ErrReward says that a reward is not a finite number, or differs from the one given before.
	ErrReward = errors.New("bad reward")
)

// Decision is the answer to an app.
type Decision struct {
	Arm        int            `json:"arm"`        // index into the arms given
	Token      string         `json:"token"`      // to report the reward with
	Epoch      uint64         `json:"epoch"`      // whose policy decided
	Propensity float64        `json:"propensity"` // with which the policy plays this arm here; for the app's own evaluation
	Sampled    bool           `json:"sampled"`    // whether the device will report
	Reason     outcome.Reason `json:"reason"`     // sampled, or why not
	Detail     string         `json:"detail,omitempty"`
	RewardBy   *time.Time     `json:"reward_by,omitempty"` // end of the reward window
}

// unsampledToken begins the token of a decision that nobody will report: its reward is accepted and forgotten. It is no letter of
// the alphabet of tokens: a sampled person's token must never begin with it.
const unsampledToken = "."

func newToken() string {
	var b [18]byte
	rand.Read(b[:])
	return base64.RawURLEncoding.EncodeToString(b[:])
}

// Decide makes a decision for a device. arms is called with the policy's dimension after the device was enrolled, so that nothing about
// the arms, not even whether they can be read, has a part in enrolment. The decision is made with the policy that was in force at the
// beginning. One that takes until the report is due comes too late for it: the report is made of the null record, in time.
func (h *Host) Decide(ctx context.Context, name string, arms func(dimension int) ([][]float64, error)) (Decision, error) {
	seat, err := h.seat(name)
	if err != nil {
		return Decision{}, err
	}
	if !h.bodies.enrolling.TryAcquire(1) {
		return Decision{}, ErrBusy
	}
	a, s, why, err := h.enrol(ctx, seat)
	h.bodies.enrolling.Release(1)
	if err != nil {
		return Decision{}, err
	}
	d := Decision{Epoch: a.Epoch, Sampled: s != nil, Reason: Sampled, Token: unsampledToken + newToken()}
	if s != nil {
		d.Token, d.RewardBy = s.token, &s.expires
	} else {
		d.Reason, d.Detail = reasonOf(why), why.Error()
	}
	set, err := arms(a.Policy.Dimension)
	if err != nil {
		return d, fmt.Errorf("%w: %w", ErrArms, err)
	}
	made, err := a.Policy.Decide(set, h.c.Source())
	if err != nil {
		return d, fmt.Errorf("%w: %w", ErrArms, err)
	}
	d.Arm, d.Propensity = made.Arm, made.Propensity
	if s != nil {
		s.remember(set[made.Arm], made.Weight)
	}
	return d, nil
}

// Acceptance is the answer to a reward that came in time.
type Acceptance struct {
	Accepted bool `json:"accepted"`
	// Clipped says that the reward is outside what the policy's family of rewards allows, so that Used, the nearest that it allows, goes
	// into the record in its place.
	Clipped bool        `json:"clipped,omitempty"`
	Used    *float64    `json:"used,omitempty"`
	Range   *[2]float64 `json:"range,omitempty"` // smallest and largest reward
}

// accept is the answer to a reward where rewards may be at most so large.
func accept(reward, most float64) Acceptance {
	used := max(0, min(reward, most))
	if used == reward {
		return Acceptance{Accepted: true}
	}
	return Acceptance{Accepted: true, Clipped: true, Used: &used, Range: &[2]float64{0, most}}
}

// Reward takes the reward of a sampled decision. Until it comes the device's record is null. The same reward may be given again.
func (h *Host) Reward(token string, reward float64) (Acceptance, error) {
	if math.IsNaN(reward) || math.IsInf(reward, 0) {
		return Acceptance{}, fmt.Errorf("%w: not a finite number", ErrReward)
	}
	h.mu.Lock()
	s, a := h.sessions[token], h.current
	h.mu.Unlock()
	if a != nil && len(token) > 0 && token[:1] == unsampledToken {
		return accept(reward, a.Policy.MaxReward), nil
	}
	if s == nil {
		return Acceptance{}, ErrToken
	}
	s.seat.mu.Lock()
	defer s.seat.mu.Unlock()
	switch {
	case s.reported > 0 || !time.Now().Before(s.expires):
		return Acceptance{}, ErrToken
	case s.rewarded && s.record.Reward != reward:
		return Acceptance{}, fmt.Errorf("%w: this token's reward was given before, with another value", ErrReward)
	case s.record.Arm == nil: // no arm was played: the record stays null
	default:
		s.record.Reward, s.record.Null, s.rewarded = reward, false, true
	}
	return accept(reward, s.maxReward), nil
}

// seat finds or creates a device's place on this host.
func (h *Host) seat(name string) (*seat, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if s := h.devices[name]; s != nil {
		return s, nil
	}
	if int(h.numbers) >= h.c.Devices {
		return nil, fmt.Errorf("%w: it covers %d", ErrHostFull, h.c.Devices)
	}
	s := &seat{device: device{Name: name, Number: h.numbers, Ledger: h.newLedger()}}
	h.numbers++
	h.devices[name] = s
	return s, nil
}

// because is a reason with its explanation.
func because(r outcome.Reason, format string, v ...any) error {
	return fmt.Errorf("%w: %s", r, fmt.Sprintf(format, v...))
}

func reasonOf(err error) outcome.Reason {
	var r outcome.Reason
	errors.As(err, &r)
	return r
}
