package randomizer

import (
	"math"

	"github.com/riffle-dp/riffle/internal/role/status"
)

// Steps whose time is measured. None of them depends on a record.
const (
	stepEnrolment = "enrolment" // the shuffler's answer
	stepSealing   = "sealing"   // encoding and encrypting one report, and keeping it
)

// Steps lists the steps whose time is measured.
func Steps() []string { return []string{stepEnrolment, stepSealing} }

// Snapshot describes the host for people to look at. Nothing in it depends on a record.
func (h *Host) Snapshot() status.Snapshot {
	s := h.Status()
	out := status.Snapshot{
		Deployment: s.Deployment, Epoch: s.Epoch, Round: s.Round, Final: s.Final,
		Devices: &status.Devices{Known: s.Devices, Capacity: s.Capacity},
	}
	if s.Refused != "" { // ready, and no device here takes part
		out.Warnings = append(out.Warnings, s.Refused)
	}
	if s.DryRun {
		out.Warnings = append(out.Warnings, dryRunMeans)
	}
	if s.Evidence != nil {
		out.Warnings = append(out.Warnings, s.Evidence.Error())
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	a := h.current
	if a == nil || a.Final || a.Epoch != s.Epoch {
		return out
	}
	out.Rounds = len(a.Plan.Rounds)
	out.Cohort = &status.Cohort{Size: a.Cohort.Size, Minimum: a.Cohort.Minimum, Messages: s.Messages}
	if s.Epsilon > 0 {
		out.Budget = &status.Budget{Epsilon: status.Epsilon(s.Epsilon), Delta: s.Delta}
		alone := math.Inf(1)
		if s.EpsilonAlone != nil {
			alone = *s.EpsilonAlone
		}
		out.Budget.In(a.Plan.Channel, alone)
		out.Budget.Counts(a.Plan)
	}
	return out
}
