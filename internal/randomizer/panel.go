package randomizer

import (
	"fmt"
	"time"

	"github.com/riffle-dp/riffle/pkg/device"
)

// Where panels are drawn, each device registers once, and asks in each epoch whether it is in the panel: when the
// announcement comes, and again until there is an answer (attendance). Nothing that a person does has a part in when it
// asks. A decision asks nothing.

// panels has the devices of a host take part where panels are drawn.
type panels struct {
	*core
	places     *places
	promises   *promises
	rollback   *rollback
	line       *line
	attendance *attendance
	evidence   *accusations
	registered int // devices; the core's lock guards it
}

// attendAll has every device of the host take part in the panels of an announcement, now.
func (p *panels) attendAll(a *device.Announced) {
	for _, dev := range p.places.all() {
		p.attend(a, dev)
	}
	p.attendance.visitAll()
}

// takePart brings a device's task on: it ends what the device owes of earlier epochs, registers it, and asks for its
// place in the panel. again is when to come back, or never, or inTurn.
func (p *panels) takePart(dev *localDevice, t *task) (again time.Duration, err error) {
	a := t.a
	if t.step == tidying {
		if err := p.tidy(a, dev); err != nil {
			return never, err
		}
		if !a.Panels() || a.Weak() != nil {
			return never, nil
		}
		t.step = registering
	}
	if p.isOver(a) {
		return never, nil // what was set aside is taken back in the next epoch
	}
	if t.step == registering {
		again, err := p.register(dev, t)
		if again != 0 || err != nil {
			return again, err
		}
		t.step, t.pause = placing, firstPause
		if first := a.AskAfter(dev.now().Number); first > 0 {
			return first, nil
		}
	}
	return p.place(dev, t)
}

// tidy drops what is open of earlier epochs, and takes back what was set aside for it.
func (p *panels) tidy(a *device.Announced, dev *localDevice) error {
	dev.mu.Lock()
	defer dev.mu.Unlock()
	open := p.promises.of(dev.state.Number)
	if open != nil && open.epoch != a.Epoch {
		p.promises.drop(open, EpochOver)
	}
	dev.why = p.share(because(NotDrawn, "it is not known yet whether the device is in the panel of epoch %d", a.Epoch))
	next := dev.state.Expire(a)
	if len(next.Ledger.Entries) == len(dev.state.Ledger.Entries) {
		return nil
	}
	if err := p.keep(dev, next); err != nil {
		return fmt.Errorf("what was set aside for earlier epochs cannot be taken back: %w", err)
	}
	return nil
}

// attend has a device take part in the panels of an announcement. It comes after what it does under the one before.
func (p *panels) attend(a *device.Announced, dev *localDevice) {
	if !p.drawsPanels() {
		return
	}
	dev.mu.Lock()
	defer dev.mu.Unlock()
	if dev.attended == a || !p.places.occupy(dev) {
		return
	}
	dev.attended = a
	if dev.task == nil { // else what is done under the announcement before ends first
		dev.task = &task{a: a, pause: firstPause}
		p.attendance.enter(dev, p.c.Clock.Now())
	}
}

// visit does what is due for one device, and enters when it is visited again.
func (p *panels) visit(dev *localDevice) {
	dev.mu.Lock()
	t := dev.task
	if t.a != dev.attended { // announced meanwhile
		*t = task{a: dev.attended, pause: firstPause}
	}
	dev.mu.Unlock()
	again, err := p.takePart(dev, t)
	if err != nil && p.life.Err() == nil {
		p.c.Log.Error().Err(err).Uint64("epoch", t.a.Epoch).Msg("a device takes no part in this epoch's panel")
	}
	dev.mu.Lock()
	defer dev.mu.Unlock()
	switch {
	case p.life.Err() != nil:
	case t.a != dev.attended:
		p.attendance.enter(dev, p.c.Clock.Now())
	case again == inTurn:
		step := t.step // from here on another visit's
		p.attendance.wait(dev)
		if !p.attendance.isSilent() && (step == registering || p.isDrawn()) { // by now
			p.attendance.visitWaiting()
		}
	case again == never:
		dev.task = nil
	default:
		p.attendance.enter(dev, p.c.Clock.Now().Add(again))
	}
}
