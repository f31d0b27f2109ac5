package randomizer

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	"github.com/riffle-dp/riffle/internal/randomizer/api"
	"github.com/riffle-dp/riffle/pkg/device"
	"github.com/riffle-dp/riffle/pkg/glm/family"
)

// decisions is what apps ask the host for.
type decisions struct {
	*core
	places     *places
	promises   *promises
	enrolments *enrolments
	panels     *panels
	played     played // how often, where arms have limits
}

// Decide makes a decision for a device between vectors, as DecideAmong does. arms is called with the policy's
// dimension.
func (m *decisions) Decide(
	ctx context.Context, name string, arms func(dimension int) ([][]float64, error),
) (api.Decision, error) {
	return m.DecideAmong(ctx, name, func(a *device.Announced) (api.Arms, error) {
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
func (m *decisions) DecideAmong(
	ctx context.Context, name string, arms func(a *device.Announced) (api.Arms, error),
) (api.Decision, error) {
	if m.c.DryRun || m.drawsPanels() {
		return m.decide(name, arms)
	}
	if !m.enrolments.waiting.TryAcquire(1) {
		return api.Decision{}, api.ErrBusy
	}
	a, s, why, err := m.enrolments.enrol(ctx, name)
	m.enrolments.waiting.Release(1)
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
	set.Choice.Unrecorded = d.Reason == OptedOut
	made, err := m.played.decide(name, a, set, m.c.Source())
	if err != nil {
		return d, fmt.Errorf("%w: %w", api.ErrArms, err)
	}
	d.Arm, d.ID, d.Propensity, d.Scaled = made.Arm, set.ID(made.Arm), made.Propensity, made.Shortened
	if s != nil {
		s.dev.mu.Lock()
		s.record.Remember(set.Vectors[made.Arm], made) // a report that was made meanwhile needs it no more
		s.dev.mu.Unlock()
	}
	return d, nil
}

// decide makes a decision where panels are drawn, or in dry run. It asks nobody. If the device is in the panel and its
// report has room, the decision is kept for it.
func (m *decisions) decide(name string, arms func(a *device.Announced) (api.Arms, error)) (api.Decision, error) {
	a, why, err := m.enrolling()
	if err != nil {
		return api.Decision{}, err
	}
	var dev *localDevice
	if m.c.DryRun {
		why = notInDryRun(why)
	} else {
		var none error
		if dev, none, err = m.take(name, a, why); err != nil {
			return api.Decision{}, err
		}
		why = cmp.Or(why, none)
	}
	d := api.Decision{DryRun: m.c.DryRun, Epoch: a.Epoch, Reason: Sampled, Token: unsampledToken + newToken()}
	set, err := arms(a)
	if err != nil {
		return d, fmt.Errorf("%w: %w", api.ErrArms, err)
	}
	if why == nil {
		_, why = m.room(a, dev)
	}
	// A decision that nobody learns from explores nothing, and is not kept even if there is room for it by then.
	set.Choice.Unrecorded = why != nil && m.drawsPanels()
	made, err := m.played.decide(name, a, set, m.c.Source())
	if err != nil {
		return d, fmt.Errorf("%w: %w", api.ErrArms, err)
	}
	d.Arm, d.ID, d.Propensity, d.Scaled = made.Arm, set.ID(made.Arm), made.Propensity, made.Shortened
	if why == nil {
		dev.mu.Lock()
		defer dev.mu.Unlock()
		var open *session
		if open, why = m.openWithRoom(a, dev); why == nil {
			n, _ := open.record.Remember(set.Vectors[made.Arm], made)
			d.Token, d.Sampled, d.RewardBy = newToken(), true, &open.due
			m.promises.name(open, d.Token, n)
			return d, nil
		}
	}
	d.Reason, d.Detail = reasonOf(why), why.Error()
	return d, nil
}

// room is openWithRoom of a device that is not locked.
func (m *decisions) room(a *device.Announced, dev *localDevice) (*session, error) {
	dev.mu.Lock()
	defer dev.mu.Unlock()
	return m.openWithRoom(a, dev)
}

// openWithRoom is the session under an announcement that has room for one more decision; why says that there is none.
// The device's lock is held.
func (m *decisions) openWithRoom(a *device.Announced, dev *localDevice) (open *session, why error) {
	open = m.promises.of(dev.state.Number)
	switch {
	case m.places.isOut(dev.name):
		return nil, optedOut
	case (open == nil || open.epoch != a.Epoch) && dev.why != nil:
		return nil, dev.why
	case open == nil || open.epoch != a.Epoch:
		return nil, because(NotDrawn, "it is not known yet whether the device is in the panel of epoch %d", a.Epoch)
	case !m.c.Clock.Now().Before(open.due):
		return nil, because(WindowOver, "the report of epoch %d is due", a.Epoch)
	case open.record.Full():
		return nil, because(ReportFull, "the report of epoch %d holds %d decisions already", a.Epoch,
			a.Plan.PerReport())
	}
	return open, nil
}

// Reward takes the reward of a sampled decision. Until it comes the device's record is null. The same reward may be
// given again.
func (m *decisions) Reward(token string, reward float64) (api.Acceptance, error) {
	of, a := m.promises.decisionOf(token), m.inForce()
	if a != nil && len(token) > 0 && token[:1] == unsampledToken {
		least, most := family.RewardRange(a.Policy.Family, a.Policy.MaxReward)
		accepted, err := device.Accept(reward, least, most)
		return api.Acceptance{Acceptance: accepted, DryRun: m.c.DryRun}, err
	}
	s := of.session
	if s == nil {
		return api.Acceptance{}, api.ErrToken
	}
	s.dev.mu.Lock()
	defer s.dev.mu.Unlock()
	accepted, err := s.record.Reward(of.number, reward, m.c.Clock.Now())
	if errors.Is(err, device.ErrLate) {
		return api.Acceptance{}, api.ErrToken
	}
	return api.Acceptance{Acceptance: accepted}, err
}
