package device

import (
	"fmt"
	"time"

	"github.com/riffle-dp/riffle/pkg/protocol"
)

// Deposit makes a report for a mailbox, which sends the last one that it was given when the report is due: a page whose
// tab is closed thereby stays in its cohort. There are at most two of one record: the first of the null record, before
// there is a decision, and another of the record, once its reward is there and the first was placed. Both are as Report
// would make them, but for what is in them: of one length, each with rounding, noise, nonces and keys of its own. They
// share one entry of the ledger, since the shuffler admits one report per slot and only one of them is about a record.
//
// next is the state to make durable together with the first envelope. The second leaves it as it is, and wipes the
// record: whether there was a reward is written nowhere. A record with a report for a mailbox has none for Report.
func (c *Core) Deposit(s State, r Record, a *Announced, shuffler []byte, src protocol.Source) (envelope []byte,
	next State, err error) {
	return c.deposit(s, r, a, shuffler, from(src))
}

func (c *Core) deposit(s State, r Record, a *Announced, shuffler []byte, of noise) (envelope []byte, next State,
	err error) {
	h := r.open()
	switch {
	case a.Panels(), h.rounds != 1:
		return nil, s, fmt.Errorf("%w: deposits are for cohorts that form as devices arrive, and plans of one round",
			ErrNoReport)
	case h.reported > 0:
		return nil, s, fmt.Errorf("%w: it was made already", ErrNoReport)
	case h.deposit == noDeposit && h.known:
		return nil, s, fmt.Errorf("%w: the first deposit comes before the decision", ErrNoReport)
	case h.deposit == noDeposit:
		if envelope, err = c.envelope(h, nil, a, shuffler, of); err != nil {
			return nil, s, err
		}
		if next, err = s.reported(a.Epoch); err != nil {
			return nil, s, fmt.Errorf("device: %w", err)
		}
		h.deposit = unplaced
		return envelope, next, nil
	case h.deposit == unplaced || len(h.records) == 0 || h.records[0].Null:
		return nil, s, fmt.Errorf("%w: there is nothing to deposit", ErrNoReport)
	}
	if envelope, err = c.envelope(h, h.records, a, shuffler, of); err != nil {
		return nil, s, err
	}
	r.Wipe()
	return envelope, s, nil
}

// deposited is how far a record's reports for a mailbox are.
type deposited int

const (
	noDeposit deposited = iota
	unplaced            // the null record's was made
	placed              // the mailbox has it
)

// Placed notes that the mailbox has the null record's report. Only then the record keeps a decision: whether a report
// arrives must not depend on the arms.
func (r Record) Placed() {
	if h := r.open(); h.deposit == unplaced {
		h.deposit = placed
	}
}

// Deposit returns the report, sealed to the shuffler, that a mailbox is to have now; it sends the last one when it is
// due. It is for deployments whose cohorts form as devices arrive and whose plans have one round, where the device may
// be gone by then, as a page is whose tab was closed.
//
//  1. After Answer and before the arms of the decision are known: the report of the null record.
//  2. Once the mailbox has it, call Deposited. Only then the device reports on a decision. After a decision that came
//     earlier it has no report at all: whether one arrives must not depend on the arms.
//  3. After Reward: the report of the record, for the mailbox to keep in place of the first. The device makes one.
//
// The same bytes come again until Deposited is called. ErrNoReport says that the mailbox needs nothing now. Whoever
// begins with Deposit cannot call Report for the same slot, and the other way round.
//
// Save holds the first report until it is deposited, and the record until the second is made, and never the second,
// not even sealed. The caller keeps the second's bytes together with what Save returns, and deposits these later. One
// that is made anew, from an older copy of what Save returned, has the same noise.
func (d *Device) Deposit(now time.Time) (envelope []byte, err error) {
	d.expire(now)
	first, made := d.kept.Deposit, d.deposit
	switch {
	case d.kept.RolledBack != "":
		return nil, fmt.Errorf("%w: %w: %s", ErrNoReport, ErrRolledBack, d.kept.RolledBack)
	case d.last == nil, len(first)+len(made) == 0 && (d.record == nil || d.record.Over()):
		return nil, ErrNoReport
	case d.last.Weak() != nil:
		return nil, fmt.Errorf("%w: %w", ErrNoReport, d.last.Weak())
	case len(first) > 0:
		return first, nil
	case len(made) > 0:
		return made, nil
	case d.keys == nil:
		return nil, fmt.Errorf("device: %w", ErrNoKeys)
	}
	null := d.record.open().deposit == noDeposit
	envelope, next, err := d.core.deposit(d.state, *d.record, d.last, d.keys.Keys[0], d.noise(null))
	if err != nil {
		return nil, err
	}
	d.state = next
	if null {
		d.kept.Deposit = envelope
	} else {
		d.deposit = envelope
	}
	return envelope, nil
}

// Deposited notes that the mailbox has what Deposit returned last.
func (d *Device) Deposited() {
	if len(d.kept.Deposit) == 0 {
		d.deposit = nil
		return
	}
	d.kept.Deposit = nil
	if d.record != nil {
		d.record.Placed()
	}
}

// known notes that the arms of a decision are known. A device whose mailbox does not have the first report by then
// sends none.
func (d *Device) known() {
	if d.record != nil {
		d.record.known()
	}
	d.kept.Deposit = nil
}

func (r Record) known() {
	h := r.open()
	h.known = true
	if h.deposit == unplaced {
		r.Wipe()
	}
}
