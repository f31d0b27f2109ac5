package device

import (
	"errors"
	"fmt"

	"github.com/riffle-dp/riffle/pkg/wire"
)

// Register returns the sealed request to be registered, so that panels can be drawn of the device. Call it when the
// device begins to follow the deployment, and again where no answer came. ErrNoPlace says why the device does not
// register: it does so only if its limits allow the announced plan over all the epochs that it may be asked for
// together.
func (d *Device) Register() (request []byte, err error) {
	switch {
	case d.kept.RolledBack != "":
		err = fmt.Errorf("%w: %s", ErrRolledBack, d.kept.RolledBack)
	case d.last == nil:
		err = ErrNoPolicy
	default:
		err = d.last.registers()
	}
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrNoPlace, err)
	}
	if d.state.Registered() {
		return nil, fmt.Errorf("%w: the device is registered already", ErrNoPlace)
	}
	next := d.state.Register()
	signed, err := d.core.Registration(next)
	if err != nil {
		return nil, err
	}
	sealed, err := d.seal(signed)
	if err != nil {
		return nil, err
	}
	d.unanswered = d.unanswered || d.state.Registering()
	d.state, d.registering = next, sealed
	return sealed.Sealed, nil
}

// Registered takes the shuffler's reply to the latest request of Register. refusal says why it does not register the
// device, "" where it did; again that this is no answer, because the shuffler is not ready: call Register again.
// ErrRolledBack is as in Answer.
func (d *Device) Registered(reply []byte) (refusal string, again bool, err error) {
	switch {
	case d.kept.RolledBack != "":
		return "", false, fmt.Errorf("%w: %s", ErrRolledBack, d.kept.RolledBack)
	case d.registering == nil:
		return "", false, errors.New("device: nothing was asked")
	}
	signed, err := d.core.Unseal(d.registering, reply)
	if err != nil {
		return "", false, err
	}
	r, err := d.core.Registered(d.registering.Signed, signed)
	if err != nil {
		return "", false, err
	}
	if r.Refusal == wire.RefusalWrongEpoch {
		d.registering = nil
		return r.Refusal.String(), true, nil
	}
	if did := d.state.Unregistered(r, d.unanswered); did != "" {
		d.kept.RolledBack = "the shuffler " + did
		return "", false, fmt.Errorf("%w: %s", ErrRolledBack, d.kept.RolledBack)
	}
	d.registering, d.unanswered = nil, false
	if r.Refusal != wire.NoRefusal {
		d.state = d.state.Unregister()
		return r.Refusal.String(), false, nil
	}
	d.state = d.state.Confirm(signed)
	return "", false, nil
}

// accuse keeps what proves that the shuffler's reply cannot be true, the first time, and ends the question: no place is
// taken.
func (d *Device) accuse(err error) error {
	var proof *Evidence
	if errors.As(err, &proof) && d.kept.Evidence == nil {
		d.kept.Evidence = proof
	}
	next, failed := d.state.Release(d.last)
	if failed != nil {
		return fmt.Errorf("device: %w", failed)
	}
	d.state, d.request, d.heard = next, nil, false
	return err
}
