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
	Promise
	// Of deployments that draw panels: whether the device is registered, and in how many panels it has reported.
	Registered bool `json:"registered,omitempty"`
	Panels     int  `json:"panels,omitempty"`
	// what the shuffler signed that cannot be true
	Evidence *Evidence      `json:"evidence,omitempty"`
	Refused  string         `json:"refused,omitempty"`   // why the device takes no part
	ReportAt *time.Time     `json:"report_at,omitempty"` // when the next report is due
	Ledger   privacy.Ledger `json:"ledger"`
}

// Status describes the device.
func (d *Device) Status() Status {
	s := Status{
		Refused: d.kept.RolledBack, Ledger: d.state.Ledger, Registered: d.state.Registered(), Panels: d.state.Panels(),
		Evidence: d.kept.Evidence,
	}
	if d.record != nil && !d.record.Over() {
		s.ReportAt = &d.due
	}
	a := d.last
	if a == nil {
		return s
	}
	s.Epoch, s.Round, s.Final = a.Epoch, a.Round, a.Final
	s.Promise = d.core.Promise(a)
	if a.Weak != nil && s.Refused == "" {
		s.Refused = a.Weak.Error()
	}
	return s
}
