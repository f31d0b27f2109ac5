package randomizer

import (
	"errors"
	"fmt"
	"time"

	"github.com/riffle-dp/riffle/pkg/device"
	"github.com/riffle-dp/riffle/pkg/wire"
)

// hostAsks is how long a host of many devices waits at least before one of them asks again for a panel that is not
// drawn yet.
const hostAsks = time.Second

// askPause is how long a host waits before one of its devices asks again for a panel that is not drawn yet: a sixteenth
// of the reward window, between 20 ms and a minute; on a host of many devices, whose people wait together, no longer
// than a second.
func askPause(a *device.Announced, devices int) time.Duration {
	pause := min(max(a.Timing.RewardWindow/16, 20*time.Millisecond), time.Minute)
	return max(pause/time.Duration(max(1, devices)), min(pause, hostAsks))
}

// place asks whether the device is in the panel, once, unless others of this host have asked just now and heard that it
// is not drawn.
func (p *panels) place(dev *localDevice, t *task) (again time.Duration, err error) {
	a := t.a
	p.mu.Lock()
	drawn := p.news.drawn
	p.mu.Unlock()
	state := dev.now()
	if known, why := needsNone(a, state, p.c.Clock.Now()); known {
		dev.mu.Lock()
		dev.why = p.share(why)
		dev.mu.Unlock()
		// else recall went on with it
		if took := state.Enrolment; took != nil && took.Epoch == a.Epoch && !state.Owes(a) {
			p.countMember(a)
		}
		return never, nil
	}
	pause := time.Duration(0)
	if !drawn {
		pause = askPause(a, p.places.count())
	}
	if !p.attendance.lets(t, pause) {
		return inTurn, nil
	}
	dev.mu.Lock()
	state = dev.state
	next, err := state.Ask(a, p.c.Clock.Now())
	if err == nil && !state.Asked(a.Epoch) {
		err = p.keep(dev, next)
	}
	dev.mu.Unlock()
	if err != nil {
		return never, fmt.Errorf("the device's question cannot be kept: %w", err)
	}
	request, err := p.rules.Request(a, state.Number)
	if err != nil {
		return never, err
	}
	signed, err := p.line.exchange(p.life, request)
	if err != nil {
		p.attendance.noteSilence()
		return inTurn, nil
	}
	r, err := p.rules.Reply(a, request, signed)
	switch {
	case err != nil:
		return t.later(), nil
	case r.Refusal == wire.RefusalWrongEpoch && p.isDrawn(): // others have an answer
		p.attendance.noteSilence()
		return inTurn, nil
	}
	p.attendance.noteAnswer()
	if r.Refusal == wire.RefusalWrongEpoch { // the panel is not drawn yet
		return inTurn, nil
	}
	p.noteDraw(a)
	return never, p.take(a, dev, request, signed, r)
}

// needsNone reports whether a device need not ask under an announcement, and why it is in no panel that it could report
// in.
func needsNone(a *device.Announced, state device.State, now time.Time) (known bool, why error) {
	if took := state.Enrolment; took != nil && took.Epoch == a.Epoch { // an earlier process knew it
		return true, because(WindowOver, "the report of epoch %d has left", a.Epoch)
	}
	if _, err := state.Ask(a, now); err != nil {
		return true, because(RecordUsed, "%v", err)
	}
	return false, nil
}

// isDrawn reports whether the shuffler has answers for the panel in force.
func (p *panels) isDrawn() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.news.drawn
}

// noteDraw notes that the shuffler has answers for the epoch's panel.
func (p *panels) noteDraw(a *device.Announced) {
	p.mu.Lock()
	first := p.current == a && !p.news.drawn
	if first {
		p.news.drawn = true
	}
	p.mu.Unlock()
	if first {
		p.attendance.visitWaiting()
	}
}

// take makes a definite answer durable.
func (p *panels) take(a *device.Announced, dev *localDevice, request, signed []byte, r *wire.EnrolReply) error {
	state := dev.now()
	if did := state.Contradicts(r, true); did != "" {
		_, err := p.rollback.prove(fmt.Sprintf("in epoch %d the shuffler %s (device %d)", a.Epoch, did, state.Number))
		return err
	}
	seed, err := p.rules.Drawn(a, state, request, signed, r)
	if err == nil {
		err = p.evidence.compare(a, state.Number, seed, request, signed)
	}
	var proof *device.Evidence
	if errors.As(err, &proof) {
		if err := p.evidence.accuse(proof); err != nil {
			return err
		}
		return p.giveBack(a, dev, r, because(NotAdmitted, "%v", proof))
	}
	if err != nil {
		return err
	}
	switch r.Refusal {
	case wire.NoRefusal:
		_, err := p.promises.promise(a, dev, r)
		if err == nil {
			p.countMember(a)
		}
		return err
	case wire.RefusalNotDrawn:
		return p.giveBack(a, dev, r, because(NotDrawn, "the device is not in the panel of epoch %d", a.Epoch))
	case wire.RefusalNotRegistered:
		return p.giveBack(a, dev, r, because(NotDrawn,
			"the device registered after the panel of epoch %d was drawn from", a.Epoch))
	}
	return p.giveBack(a, dev, r, because(NotAdmitted, "the shuffler refused: %s", r.Refusal))
}

// giveBack takes back what was set aside for a place that is not given.
func (p *panels) giveBack(a *device.Announced, dev *localDevice, r *wire.EnrolReply, why error) error {
	dev.mu.Lock()
	defer dev.mu.Unlock()
	dev.why = p.share(why)
	next, err := dev.state.Answered(a, r).Release(a)
	if err == nil {
		err = p.keep(dev, next)
	}
	if err != nil {
		return fmt.Errorf("the shuffler's answer cannot be kept: %w", err)
	}
	return nil
}
