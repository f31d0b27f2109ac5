package randomizer

import (
	"errors"
	"fmt"

	"github.com/riffle-dp/riffle/internal/randomizer/api"
	"github.com/riffle-dp/riffle/pkg/device"
)

// A host in dry run is for whoever builds an app. It decides with the announced policy, enrols and registers nobody,
// and sends nothing; each of its answers says so. It alone answers POST /v1/check, which says whether a body can be
// decided about. On any other host, an app that could ask so about a person's real arms and then choose whether to ask
// for a decision would make who takes part depend on the arms.

// errDryRunState refuses a state folder of real devices: what they promised would not be sent.
var errDryRunState = errors.New("the state folder has devices that took part, and a host in dry run (api.dry_run) " +
	"keeps no promise: give it a state folder of its own")

// Check judges a decision's body against the announced policy and schema. It returns a decision about it, and what a
// host does with the body that is not in dry run, also where the error is api.ErrArms. Other errors are
// api.ErrNoPolicy, device.ErrRewound, and api.ErrNotDryRun where the host is not in dry run.
func (m *decisions) Check(arms func(a *device.Announced) (api.Arms, error)) (d api.Decision, would string, err error) {
	if !m.c.DryRun {
		return api.Decision{}, "", api.ErrNotDryRun
	}
	_, why, err := m.enrolling()
	if err != nil {
		return api.Decision{}, "", err
	}
	d, err = m.decide("", arms)
	return d, m.wouldDo(why, err), err
}

// wouldDo says what becomes of a device whose decision has the error bad, nil where there is none. why says for what
// reason none is asked for now; nil where one is.
func (m *decisions) wouldDo(why, bad error) string {
	device := "Its device is asked for, and reports if it is given a slot."
	switch {
	case why != nil:
		device = fmt.Sprintf("Its device is not asked for: %v.", why)
	case m.drawsPanels():
		device = "Its device is registered, and keeps the decision if it is in the epoch's panel."
		if bad != nil {
			device = "Its device is registered, and keeps nothing of it."
		}
	case bad != nil:
		device = "Its device is asked for all the same, and if it is given a slot it reports the null record: who " +
			"takes part never depends on a body, and the person's record is used."
	}
	if bad != nil {
		return "A decision about this body is refused. " + device
	}
	return "A decision about this body is made. " + device
}
