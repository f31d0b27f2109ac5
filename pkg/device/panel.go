package device

import (
	"errors"
	"fmt"

	"github.com/riffle-dp/riffle/pkg/panel"
	"github.com/riffle-dp/riffle/pkg/wire"
)

// Evidence is a signed reply in which the shuffler says what cannot be true. A device takes no part where it has one,
// and its owner should keep it and show it: What says what is proved, and everything but Since can be checked by
// others.
type Evidence struct {
	Epoch  uint64 `json:"epoch"`
	Device uint32 `json:"device"` // number under the identity's credential
	What   string `json:"what"`
	// The signed request, and the shuffler's signed reply to it.
	Request []byte `json:"request"`
	Reply   []byte `json:"reply"`
	// Of a registration that the shuffler denies: its signed reply to it, and an epoch in which it gave the device a
	// definite answer after that.
	Registration []byte `json:"registration,omitempty"`
	Since        uint64 `json:"since,omitempty"`
	// Of two draws for one epoch: the signed reply to another device, which shows the other one.
	Other []byte `json:"other,omitempty"`
}

func (e *Evidence) Error() string {
	return fmt.Sprintf("the shuffler's signed reply in epoch %d cannot be true: %s", e.Epoch, e.What)
}

// Drawn verifies what a reply under plans of panels says of the epoch's panel: the shuffler's pool, the analyzer's
// draw, and whether the device can be in the panel, or out of it, as the reply has it. seed is what the panel follows
// from; zero where the reply does not say. An error is *Evidence. Where there are no panels there is nothing to verify.
//
// Core.Reply has opened the reply; request and reply are its signed bytes.
func (c *Core) Drawn(a *Announced, s State, request, reply []byte, r *wire.EnrolReply) (seed panel.Seed, err error) {
	if a.Final || a.Plan.Panel == nil {
		return seed, nil
	}
	proof := &Evidence{Epoch: a.Epoch, Device: s.Number, Request: request, Reply: reply}
	switch {
	case r.Enrolled || r.Refusal == wire.RefusalNotDrawn:
		var registered int
		seed, registered, err = c.seed(a, r)
		if err == nil {
			err = c.plausible(a, s.Number, seed, registered, r)
		}
	case r.Refusal == wire.RefusalNotRegistered && s.wasKnown(a.Epoch):
		proof.Registration, proof.Since = s.Registration.Reply, s.Registration.Since
		err = fmt.Errorf("it says that the device was not registered, which the shuffler had confirmed before it "+
			"answered in epoch %d", s.Registration.Since)
	}
	if err != nil {
		proof.What = err.Error()
		return panel.Seed{}, proof
	}
	return seed, nil
}

// seed opens pool and draw; registered counts the devices that the panel was drawn from.
func (c *Core) seed(a *Announced, r *wire.EnrolReply) (seed panel.Seed, registered int, err error) {
	if len(r.Pool) == 0 {
		return seed, 0, errors.New("it says who is in the panel, without the pool and the draw that this follows from")
	}
	pool, digest, err := wire.Open[wire.Pool](r.Pool, c.party(c.c.Shuffler))
	switch {
	case err != nil:
		return seed, 0, fmt.Errorf("its pool is not the shuffler's: %w", err)
	case pool.Epoch != a.Epoch || [32]byte(pool.Announcement) != a.Digest:
		return seed, 0, fmt.Errorf("its pool is one for another announcement, of epoch %d", pool.Epoch)
	case pool.Registered < a.Plan.Panel.Registered:
		return seed, 0, fmt.Errorf("its pool has %d devices, and panels were announced to be drawn from at least %d",
			pool.Registered, a.Plan.Panel.Registered)
	}
	draw, _, err := wire.Open[wire.Draw](r.Draw, c.party(c.c.Analyzer))
	switch {
	case err != nil:
		return seed, 0, fmt.Errorf("its draw is not the analyzer's: %w", err)
	case draw.Epoch != a.Epoch || [32]byte(draw.Announcement) != a.Digest:
		return seed, 0, fmt.Errorf("its draw is one for another announcement, of epoch %d", draw.Epoch)
	case [32]byte(draw.Pool) != digest:
		return seed, 0, errors.New("its draw was made for another pool than the one that it shows")
	case !panel.Opens(a.Commitment, draw.Contribution):
		return seed, 0,
			errors.New("its draw holds another contribution of the analyzer than the one that was announced")
	}
	return panel.NewSeed(digest, draw.Contribution), int(pool.Registered), nil
}

// plausible holds a device's rank against what the shuffler says.
func (c *Core) plausible(a *Announced, number uint32, seed panel.Seed, registered int,
	r *wire.EnrolReply) error {
	if r.Enrolled && r.Slot >= a.Cohort.Size {
		return fmt.Errorf("it gives slot %d of a panel of %d", r.Slot, a.Cohort.Size)
	}
	rank := seed.Rank(panel.Device{Host: c.first(), Number: number})
	if panel.Plausible(rank, registered, int(a.Cohort.Size), r.Enrolled) {
		return nil
	}
	if r.Enrolled {
		return fmt.Errorf("it says that the device is in the panel, and by its rank it is not: a panel of %d out of "+
			"%d devices has one with so large a rank with a probability below %g", a.Cohort.Size, registered,
			panel.Doubt)
	}
	return fmt.Errorf("it says that the device is not in the panel, and by its rank it is: as many as %d out of %d "+
		"devices are before it with a probability below %g", a.Cohort.Size, registered, panel.Doubt)
}

// errNoPanels says that there is nothing to register for.
var errNoPanels = errors.New("devices of this deployment enrol when they decide, and do not register")

// registers tells why no device registers under an announcement; nil where it does.
func (a *Announced) registers() error {
	switch {
	case a.Final:
		return ErrOver
	case a.Plan.Panel == nil:
		return errNoPanels
	}
	return a.Weak()
}

// Panels reports whether the cohort of the announcement is a panel of registered devices.
func (a *Announced) Panels() bool { return !a.Final && a.Plan.Panel != nil }

// Registration is the signed request with which a device registers, so that later panels can be drawn of it. It may
// leave, sealed, once the state, which State.Register returned, is durable.
func (c *Core) Registration(s State) ([]byte, error) {
	request, _, err := wire.Sign(&wire.EnrolRequest{
		Deployment: c.c.Deployment, Device: s.Number, Credential: c.c.Credential, Nonces: []uint32{s.nonce(0)},
	}, c.c.Identity)
	return request, err
}

// Registered reads the shuffler's reply to a registration.
func (c *Core) Registered(request, reply []byte) (*wire.EnrolReply, error) {
	r, err := wire.OpenEnrolReply(reply, c.c.Shuffler, wire.RequestDigest(request))
	if err == nil && r.Enrolled && (r.Slot != 0 || r.ReportAfter != 0 || len(r.Commitment) > 0 || len(r.Pool) > 0) {
		return nil, errors.New("device: the shuffler's reply to a registration gives a place in a cohort")
	}
	return r, err
}
