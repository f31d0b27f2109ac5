package randomizer

import (
	"math"

	"github.com/riffle-dp/riffle/internal/randomizer/api"
	"github.com/riffle-dp/riffle/internal/role/status"
	"github.com/riffle-dp/riffle/pkg/device"
	"github.com/riffle-dp/riffle/pkg/panel"
	"github.com/riffle-dp/riffle/pkg/plan"
	"github.com/riffle-dp/riffle/pkg/privacy"
)

// overview is what apps and people are shown of the host.
type overview struct {
	*core
	places   *places
	promises *promises
	panels   *panels
	evidence *accusations
}

// Status describes the host now, but for what the API counts.
func (o *overview) Status() api.Status {
	s := api.Status{
		Deployment: o.c.Deployment, Devices: o.places.countTaken(), Capacity: o.c.Devices,
		Pending: int(o.promises.Pending()),
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.refusal != nil {
		s.Refused = o.refusal.Error()
	}
	if o.rolledBack != nil {
		s.Refused = o.rolledBack.Error()
	}
	s.Evidence, s.DryRun = o.evidence.first, o.c.DryRun
	a := o.current
	if a == nil {
		return s
	}
	if o.drawing {
		s.Panel = &api.PanelStatus{Registered: o.panels.registered, Decisions: a.Plan.Decisions,
			Records: a.Plan.Records, Period: a.Plan.Period}
		s.Panel.Drawn, s.Panel.Members = o.news.seed != panel.Seed{}, o.news.members
	}
	s.Epoch, s.Round, s.Final, s.Cohort = a.Epoch, a.Round, a.Final, a.Cohort.Size
	if err := o.rewound(a); err != nil {
		if o.caughtUp && o.rolledBack == nil {
			s.Refused = err.Error()
		}
		return s
	}
	if a.Final {
		return s
	}
	if o.rolledBack != nil {
		return s
	}
	s.Promise = o.rules.Promise(a)
	if a.Weak() != nil {
		s.Refused = a.Weak().Error()
		return s
	}
	s.Enrolling = a.Round == 0 && !o.full && o.shuffler != nil && !o.c.DryRun
	s.Delta, s.Messages = o.c.Limits.Delta, a.ReportMessages()
	return s
}

// Channel is the deployment's, empty before it is known.
func (o *overview) Channel() plan.Channel {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.pinned
}

// Announced is the announcement in force, nil before the first one.
func (o *overview) Announced() *device.Announced { return o.inForce() }

// State is a device's state; that of one that has done nothing, where the device is not known.
func (o *overview) State(name string) device.State {
	dev := o.places.get(name)
	if dev == nil {
		return o.rules.NewState(0)
	}
	return dev.now()
}

// Snapshot describes the host for people to look at. Nothing in it depends on a record, nor on what apps ask of the API
// but for what leaves the host: a device counts as known once it asks the shuffler for something.
func (o *overview) Snapshot() status.Snapshot {
	s := o.Status()
	shown := status.Snapshot{
		Deployment: s.Deployment, Epoch: s.Epoch, Round: s.Round, Final: s.Final,
		Devices: &status.Devices{Known: s.Devices, Capacity: s.Capacity},
	}
	if s.Refused != "" { // ready, and no device here takes part
		shown.Warnings = append(shown.Warnings, s.Refused)
	}
	if s.DryRun {
		shown.Warnings = append(shown.Warnings, dryRunMeans)
	}
	if s.Evidence != nil {
		shown.Warnings = append(shown.Warnings, s.Evidence.Error())
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	a := o.current
	if a == nil || a.Final || a.Epoch != s.Epoch {
		return shown
	}
	shown.Rounds = len(a.Plan.Rounds)
	shown.Cohort = &status.Cohort{Size: a.Cohort.Size, Minimum: a.Cohort.Minimum, Messages: s.Messages}
	if s.Epsilon > 0 {
		shown.Budget = &status.Budget{Epsilon: privacy.Epsilon(s.Epsilon), Delta: s.Delta}
		alone := math.Inf(1)
		if s.EpsilonAlone != nil {
			alone = *s.EpsilonAlone
		}
		shown.Budget.In(a.Plan.Channel, alone)
		shown.Budget.Counts(a.Plan)
	}
	return shown
}
