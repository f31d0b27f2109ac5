package randomizer

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/base64"
	"errors"
	"fmt"

	"github.com/riffle-dp/riffle/internal/randomizer/api"
	"github.com/riffle-dp/riffle/internal/role/outcome"
	"github.com/riffle-dp/riffle/pkg/device"
	"github.com/riffle-dp/riffle/pkg/glm/family"
)

// unsampledToken begins the token of a decision that no device will report: its reward is accepted and forgotten. It is
// no letter of the alphabet of tokens: a sampled person's token must never begin with it.
const unsampledToken = "."

func newToken() string {
	var b [18]byte
	rand.Read(b[:])
	return base64.RawURLEncoding.EncodeToString(b[:])
}

// Decide makes a decision for a device between vectors, as DecideAmong does. arms is called with the policy's
// dimension.
func (h *Host) Decide(ctx context.Context, name string, arms func(dimension int) ([][]float64, error)) (api.Decision,
	error) {
	return h.DecideAmong(ctx, name, func(a *device.Announced) (api.Arms, error) {
		vectors, err := arms(a.Policy.Dimension)
		return api.Arms{Vectors: vectors}, err
	})
}

// DecideAmong makes a decision for a device. arms is called after the device was enrolled, so that nothing about the
// arms, not even whether they can be read, has a part in enrolment. The decision is made with the policy that was in
// force at the beginning. One that takes until the report is due comes too late for it: the report is made of the null
// record, in time.
//
// Where panels are drawn nobody is asked, and the device is in the epoch's panel or not, whatever is decided.
func (h *Host) DecideAmong(ctx context.Context, name string, arms func(a *device.Announced) (api.Arms, error)) (api.Decision,
	error) {
	if h.c.DryRun || h.drawsPanels() {
		return h.decide(name, arms)
	}
	if !h.waiting.TryAcquire(1) {
		return api.Decision{}, api.ErrBusy
	}
	a, s, why, err := h.enrol(ctx, name)
	h.waiting.Release(1)
	if err != nil {
		return api.Decision{}, err
	}
	d := api.Decision{Epoch: a.Epoch, Sampled: s != nil, Reason: Sampled, Token: unsampledToken + newToken()}
	if s != nil {
		d.Token, d.RewardBy = s.token, &s.due
	} else {
		d.Reason, d.Detail = reasonOf(why), why.Error()
	}
	set, err := arms(a)
	if err != nil {
		return d, fmt.Errorf("%w: %w", api.ErrArms, err)
	}
	made, err := h.played.decide(name, a, set, h.c.Source())
	if err != nil {
		return d, fmt.Errorf("%w: %w", api.ErrArms, err)
	}
	d.Arm, d.ID, d.Propensity, d.Scaled = made.Arm, set.ID(made.Arm), made.Propensity, made.Shortened
	if s != nil {
		s.seat.mu.Lock()
		s.record.Remember(set.Vectors[made.Arm], made) // a report that was made meanwhile needs it no more
		s.seat.mu.Unlock()
	}
	return d, nil
}

// decide makes a decision where panels are drawn, or in dry run. It asks nobody. If the device is in the panel and its
// report has room, the decision is kept for it.
func (h *Host) decide(name string, arms func(a *device.Announced) (api.Arms, error)) (api.Decision, error) {
	a, why, err := h.enrolling()
	if err != nil {
		return api.Decision{}, err
	}
	var s *seat
	if h.c.DryRun {
		why = rehearsed(why)
	} else {
		var none error
		if s, none, err = h.named(name, a, why); err != nil {
			return api.Decision{}, err
		}
		why = cmp.Or(why, none)
	}
	d := api.Decision{DryRun: h.c.DryRun, Epoch: a.Epoch, Reason: Sampled, Token: unsampledToken + newToken()}
	set, err := arms(a)
	if err != nil {
		return d, fmt.Errorf("%w: %w", api.ErrArms, err)
	}
	if why == nil {
		_, why = h.room(a, s)
	}
	// A decision that nobody learns from explores nothing, and is not kept even if there is room for it by then.
	set.Choice.Unrecorded = why != nil && h.drawsPanels()
	made, err := h.played.decide(name, a, set, h.c.Source())
	if err != nil {
		return d, fmt.Errorf("%w: %w", api.ErrArms, err)
	}
	d.Arm, d.ID, d.Propensity, d.Scaled = made.Arm, set.ID(made.Arm), made.Propensity, made.Shortened
	if why == nil {
		s.mu.Lock()
		defer s.mu.Unlock()
		var open *session
		if open, why = h.hasRoom(a, s); why == nil {
			n, _ := open.record.Remember(set.Vectors[made.Arm], made)
			d.Token, d.Sampled, d.RewardBy = newToken(), true, &open.due
			h.tell(open, d.Token, n)
			return d, nil
		}
	}
	d.Reason, d.Detail = reasonOf(why), why.Error()
	return d, nil
}

// room is hasRoom of a seat that is not locked.
func (h *Host) room(a *device.Announced, s *seat) (*session, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return h.hasRoom(a, s)
}

// hasRoom is the session under an announcement that has room for one more decision; why says that there is none. The
// seat's lock is held.
func (h *Host) hasRoom(a *device.Announced, s *seat) (open *session, why error) {
	h.mu.Lock()
	open = h.open[s.state.Number]
	h.mu.Unlock()
	switch {
	case (open == nil || open.epoch != a.Epoch) && s.why != nil:
		return nil, s.why
	case open == nil || open.epoch != a.Epoch:
		return nil, because(NotDrawn, "it is not known yet whether the device is in the panel of epoch %d", a.Epoch)
	case !h.c.Clock.Now().Before(open.due):
		return nil, because(WindowOver, "the report of epoch %d is due", a.Epoch)
	case open.record.Full():
		return nil, because(ReportFull, "the report of epoch %d holds %d decisions already", a.Epoch, a.Plan.PerReport())
	}
	return open, nil
}

// Reward takes the reward of a sampled decision. Until it comes the device's record is null. The same reward may be
// given again.
func (h *Host) Reward(token string, reward float64) (api.Acceptance, error) {
	h.mu.Lock()
	of, a := h.sessions[token], h.current
	h.mu.Unlock()
	if a != nil && len(token) > 0 && token[:1] == unsampledToken {
		least, most := family.RewardRange(a.Policy.Family, a.Policy.MaxReward)
		accepted, err := device.Accept(reward, least, most)
		return api.Acceptance{Acceptance: accepted, DryRun: h.c.DryRun}, err
	}
	s := of.session
	if s == nil {
		return api.Acceptance{}, api.ErrToken
	}
	s.seat.mu.Lock()
	defer s.seat.mu.Unlock()
	accepted, err := s.record.Reward(of.decision, reward, h.c.Clock.Now())
	if errors.Is(err, device.ErrLate) {
		return api.Acceptance{}, api.ErrToken
	}
	return api.Acceptance{Acceptance: accepted}, err
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
