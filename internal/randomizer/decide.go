package randomizer

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/base64"
	"errors"
	"fmt"
	"time"

	"github.com/riffle-dp/riffle/internal/role/outcome"
	"github.com/riffle-dp/riffle/pkg/device"
	"github.com/riffle-dp/riffle/pkg/glm/family"
)

// Errors of decisions and rewards.
var (
	// ErrNoPolicy says that the analyzer has announced nothing yet that this host accepts. Nothing happened; ask again.
	ErrNoPolicy = errors.New("no policy has been announced yet")
	// ErrArms says that no decision could be made from the arms. The device is enrolled all the same, if it would have
	// been with other arms, and will report the null record: who takes part must not depend on what is decided about.
	ErrArms = errors.New("no decision can be made from these arms")
	// ErrNotDryRun refuses to say whether a body can be decided about.
	ErrNotDryRun = errors.New("only a host in dry run (api.dry_run) answers this: an app that could ask so about a " +
		"person's arms, and then choose whether to ask for a decision, would make who takes part depend on the arms; " +
		"start a second host with api.dry_run and a state folder of its own")
	// ErrToken says that a token is unknown, or that its reward window is over and its report has left.
	ErrToken = errors.New("the token is unknown or its reward window is over")
)

// Decision is the answer to an app.
type Decision struct {
	Arm   int    `json:"arm"`          // index into the arms given
	ID    string `json:"id,omitempty"` // of the arm; empty where arms are vectors
	Token string `json:"token"`        // to report the reward with
	Epoch uint64 `json:"epoch"`        // whose policy decided
	// with which the policy plays this arm here; for the app's own evaluation
	Propensity float64        `json:"propensity"`
	Sampled    bool           `json:"sampled"` // whether the device will report
	Reason     outcome.Reason `json:"reason"`  // sampled, or why not
	Detail     string         `json:"detail,omitempty"`
	RewardBy   *time.Time     `json:"reward_by,omitempty"` // end of the reward window
	DryRun     bool           `json:"dry_run,omitempty"`   // the host enrols nobody
	// Scaled counts the arms that had norm above 1 and were scaled down to norm 1.
	Scaled int `json:"scaled_arms,omitempty"`
}

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
func (h *Host) Decide(ctx context.Context, name string, arms func(dimension int) ([][]float64, error)) (Decision,
	error) {
	return h.DecideAmong(ctx, name, func(a *device.Announced) (Arms, error) {
		vectors, err := arms(a.Policy.Dimension)
		return Arms{Vectors: vectors}, err
	})
}

// DecideAmong makes a decision for a device. arms is called after the device was enrolled, so that nothing about the
// arms, not even whether they can be read, has a part in enrolment. The decision is made with the policy that was in
// force at the beginning. One that takes until the report is due comes too late for it: the report is made of the null
// record, in time.
//
// Where panels are drawn nobody is asked, and the device is in the epoch's panel or not, whatever is decided.
func (h *Host) DecideAmong(ctx context.Context, name string, arms func(a *device.Announced) (Arms, error)) (Decision,
	error) {
	if h.c.DryRun || h.drawsPanels() {
		return h.decide(name, arms)
	}
	if !h.bodies.enrolling.TryAcquire(1) {
		return Decision{}, ErrBusy
	}
	a, s, why, err := h.enrol(ctx, name)
	h.bodies.enrolling.Release(1)
	if err != nil {
		return Decision{}, err
	}
	d := Decision{Epoch: a.Epoch, Sampled: s != nil, Reason: Sampled, Token: unsampledToken + newToken()}
	if s != nil {
		d.Token, d.RewardBy = s.token, &s.due
	} else {
		d.Reason, d.Detail = reasonOf(why), why.Error()
	}
	set, err := arms(a)
	if err != nil {
		return d, fmt.Errorf("%w: %w", ErrArms, err)
	}
	made, err := h.played.decide(name, a, set, h.c.Source())
	if err != nil {
		return d, fmt.Errorf("%w: %w", ErrArms, err)
	}
	d.Arm, d.ID, d.Propensity, d.Scaled = made.Arm, set.id(made.Arm), made.Propensity, made.Shortened
	if s != nil {
		s.seat.mu.Lock()
		s.record.Remember(set.Vectors[made.Arm], made) // a report that was made meanwhile needs it no more
		s.seat.mu.Unlock()
	}
	return d, nil
}

// decide makes a decision where panels are drawn, or in dry run. It asks nobody. If the device is in the panel and its
// report has room, the decision is kept for it.
func (h *Host) decide(name string, arms func(a *device.Announced) (Arms, error)) (Decision, error) {
	a, why, err := h.enrolling()
	if err != nil {
		return Decision{}, err
	}
	var s *seat
	if h.c.DryRun {
		why = rehearsed(why)
	} else {
		var none error
		if s, none, err = h.named(name, a, why); err != nil {
			return Decision{}, err
		}
		why = cmp.Or(why, none)
	}
	d := Decision{DryRun: h.c.DryRun, Epoch: a.Epoch, Reason: Sampled, Token: unsampledToken + newToken()}
	set, err := arms(a)
	if err != nil {
		return d, fmt.Errorf("%w: %w", ErrArms, err)
	}
	if why == nil {
		_, why = h.room(a, s)
	}
	// A decision that nobody learns from explores nothing, and is not kept even if there is room for it by then.
	set.Choice.Unrecorded = why != nil && h.drawsPanels()
	made, err := h.played.decide(name, a, set, h.c.Source())
	if err != nil {
		return d, fmt.Errorf("%w: %w", ErrArms, err)
	}
	d.Arm, d.ID, d.Propensity, d.Scaled = made.Arm, set.id(made.Arm), made.Propensity, made.Shortened
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

// Acceptance is the answer to a reward that came in time.
type Acceptance struct {
	device.Acceptance
	DryRun bool `json:"dry_run,omitempty"` // the host does nothing with it
}

// Reward takes the reward of a sampled decision. Until it comes the device's record is null. The same reward may be
// given again.
func (h *Host) Reward(token string, reward float64) (Acceptance, error) {
	h.mu.Lock()
	of, a := h.sessions[token], h.current
	h.mu.Unlock()
	if a != nil && len(token) > 0 && token[:1] == unsampledToken {
		least, most := family.RewardRange(a.Policy.Family, a.Policy.MaxReward)
		accepted, err := device.Accept(reward, least, most)
		return Acceptance{accepted, h.c.DryRun}, err
	}
	s := of.session
	if s == nil {
		return Acceptance{}, ErrToken
	}
	s.seat.mu.Lock()
	defer s.seat.mu.Unlock()
	accepted, err := s.record.Reward(of.decision, reward, h.c.Clock.Now())
	if errors.Is(err, device.ErrLate) {
		return Acceptance{}, ErrToken
	}
	return Acceptance{Acceptance: accepted}, err
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
