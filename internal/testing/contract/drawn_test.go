package contract

import (
	"fmt"
	"testing"
	"time"

	"github.com/riffle-dp/riffle/internal/bus"
	"github.com/riffle-dp/riffle/internal/testing/testbed"
	"github.com/riffle-dp/riffle/pkg/glm"
	"github.com/riffle-dp/riffle/pkg/wire"
)

// Panels through the real roles: 36 devices register over the API, two panels of twelve are drawn by the shuffler and
// the analyzer, and are released whole although no person decides anything. No device is in both, the analyzer
// announces the next epoch, and each epoch has one pool and one draw in the log.
func TestPanelsAreDrawnByBothServers(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("36 devices and two cohorts")
	}
	const size, devices = 12, 36
	learner := testbed.Learner(glm.Practical, size)
	learner.Practical.Panel, learner.Practical.Decisions = size, 2
	terms := testbed.Terms()
	terms.Registered, terms.Decisions, terms.Records = size, 2, 1
	timing := testbed.Timing()
	timing.Grace = time.Minute
	d := start(t, learner, timing, terms)
	for i := range devices {
		if status, answer := d.post(fmt.Sprintf("/v1/devices/%d", i), "{}"); status/100 != 2 {
			t.Fatalf("device %d registers: %d %v", i, status, answer)
		}
	}
	for epoch := uint64(1); epoch <= 2; epoch++ {
		if c := d.counts(epoch, 0); c.Reports != size || c.Destroyed {
			t.Errorf("epoch %d: %+v", epoch, c)
		}
	}
	for i, m := range d.manifests()[:2] {
		if m.Enrolled != size || m.Reports != size || m.Outcome != wire.Released {
			t.Errorf("manifest %d: %+v", i, m)
		}
	}
	pools, draws := map[uint64]int{}, map[uint64]int{}
	d.must(d.auditor.Audit.ReadAudit(d.Context(), bus.AuditFilter{Kind: wire.KindPool}, func(st bus.Statement) error {
		p, _, err := wire.Open[wire.Pool](st.Payload, d.ShufflerParty())
		if err == nil {
			pools[p.Epoch]++
		}
		return err
	}))
	d.must(d.auditor.Audit.ReadAudit(d.Context(), bus.AuditFilter{Kind: wire.KindDraw}, func(st bus.Statement) error {
		p, _, err := wire.Open[wire.Draw](st.Payload, d.AnalyzerParty())
		if err == nil {
			draws[p.Epoch]++
		}
		return err
	}))
	for epoch := uint64(1); epoch <= 2; epoch++ {
		if pools[epoch] != 1 || draws[epoch] != 1 {
			t.Errorf("epoch %d has %d pools and %d draws", epoch, pools[epoch], draws[epoch])
		}
	}
	d.stop()
	drawn := 0
	for _, ev := range d.journal() {
		if ev.Enrolled != nil {
			t.Error("a device enrolled as it arrived")
		}
		if ev.Drawn != nil {
			drawn++
		}
	}
	if drawn < 2 {
		t.Errorf("%d panels in the journal", drawn)
	}
}
