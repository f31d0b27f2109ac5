package cohort

import (
	"bytes"

	"github.com/riffle-dp/riffle/pkg/panel"
)

// Registered enters a device among those that panels are drawn from.
type Registered struct {
	Host   []byte `json:"host"`
	Device uint32 `json:"device"`
	Issuer []byte `json:"issuer,omitempty"` // key of who let it in; none: the registrar
	Nonce  uint32 `json:"nonce"`            // of the device's request
}

// Pooled fixes whom the panel of the open epoch is drawn from: the devices that are registered by now and may be in
// another panel. They follow from the events before it.
type Pooled struct {
	At         int64  `json:"at_ms"` // by the shuffler's clock
	Registered uint32 `json:"registered"`
	Quota      uint32 `json:"quota,omitempty"` // devices of one host at most; 0: no limit
	Statement  []byte `json:"statement"`       // the signed pool, which leaves as it is here
	Digest     []byte `json:"digest"`          // of it

	ready *pool // made of the event's devices beforehand; nil: it is made when the event is applied
}

// Drawn draws the panel. It is a function of the pool and of the analyzer's contribution.
type Drawn struct {
	At           int64  `json:"at_ms"` // by the shuffler's clock: from then on the reward window runs
	Contribution []byte `json:"contribution"`
	Statement    []byte `json:"statement"` // of the analyzer, as it goes to devices

	pool  *pool          // that it is drawn from
	size  int            // of the panel
	panel []panel.Device // drawn beforehand; nil: it is drawn when the event is applied
}

// Prepare draws the panel before the event is applied, which takes long and needs no state: a pool that is fixed does
// not change.
func (d *Drawn) Prepare() { d.panel = d.pool.panel(d.Contribution, d.size) }

// Take takes over what an event of the same draw has prepared.
func (d *Drawn) Take(prepared *Drawn) {
	if d.pool == prepared.pool && bytes.Equal(d.Contribution, prepared.Contribution) {
		d.panel = prepared.panel
	}
}
