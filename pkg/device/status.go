package device

import (
	"time"

	"github.com/riffle-dp/riffle/pkg/privacy"
)

// Status is what an app or a person may want to know of the device. Nothing in it depends on a record.
type Status struct {
	Epoch uint64 `json:"epoch"` // 0: nothing was announced yet
	Round uint32 `json:"round"`
	Final bool   `json:"final"` // the last policy: learning is over
	Mode  Mode   `json:"mode,omitempty"`
	Promise
	// Of deployments that draw panels: whether the device is registered, and in how many panels it has reported.
	Registered bool `json:"registered,omitempty"`
	Panels     int  `json:"panels,omitempty"`
	// what the shuffler signed that cannot be true
	Evidence *Evidence      `json:"evidence,omitempty"`
	Refused  string         `json:"refused,omitempty"`   // why the device takes no part
	ReportAt *time.Time     `json:"report_at,omitempty"` // when the next report is due
	Place    *Place         `json:"place,omitempty"`     // that the device has in the epoch
	Ledger   privacy.Ledger `json:"ledger"`
	Account  string         `json:"account"` // the ledger in words
}

// Mode is how the deployment's cohorts form, and so when a device asks for its place.
type Mode string

// The modes are named as the setting admission.mode.
const (
	Arrival Mode = "arrival" // each decision asks, before its arms are known
	Panel   Mode = "panel"   // each new announcement asks, whatever the person does
)

// Status describes the device.
func (d *Device) Status() Status {
	s := Status{
		Refused: d.kept.RolledBack, Ledger: d.state.Ledger, Account: d.state.Ledger.Explain(),
		Registered: d.state.Registered(), Panels: d.state.Panels(), Evidence: d.kept.Evidence,
	}
	if d.record != nil && !d.record.Over() && d.record.open().deposit == noDeposit {
		s.ReportAt = &d.due
	}
	a := d.last
	if a == nil {
		return s
	}
	s.Epoch, s.Round, s.Final, s.Mode = a.Epoch, a.Round, a.Final, Arrival
	if a.Panels() {
		s.Mode = Panel
	}
	if e := d.state.Enrolment; e != nil && e.Epoch == a.Epoch {
		s.Place = d.state.place()
	}
	s.Promise = d.core.Promise(a)
	if a.Weak() != nil && s.Refused == "" {
		s.Refused = a.Weak().Error()
	}
	return s
}
