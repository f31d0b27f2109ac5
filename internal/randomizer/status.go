package randomizer

import (
	"math"

	"github.com/riffle-dp/riffle/internal/role/status"
	"github.com/riffle-dp/riffle/pkg/privacy"
)

// Snapshot describes the host for people to look at. Nothing in it depends on a record, nor on what apps ask of the API
// but for what leaves the host: a device counts as known once it asks the shuffler for something.
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
		out.Budget = &status.Budget{Epsilon: privacy.Epsilon(s.Epsilon), Delta: s.Delta}
		alone := math.Inf(1)
		if s.EpsilonAlone != nil {
			alone = *s.EpsilonAlone
		}
		out.Budget.In(a.Plan.Channel, alone)
		out.Budget.Counts(a.Plan)
	}
	return out
}
