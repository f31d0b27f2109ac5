package contract

import (
	"fmt"
	"testing"
	"time"

	"github.com/riffle-dp/riffle/internal/bus"
	"github.com/riffle-dp/riffle/internal/channel"
	"github.com/riffle-dp/riffle/internal/testing/testbed"
	"github.com/riffle-dp/riffle/pkg/glm"
	"github.com/riffle-dp/riffle/pkg/glm/learner"
	"github.com/riffle-dp/riffle/pkg/panel"
	"github.com/riffle-dp/riffle/pkg/plan"
	"github.com/riffle-dp/riffle/pkg/wire"
)

// A deployment of panels whose people come back.
const (
	lifeSize      = 12
	lifePool      = 20 // registered devices, at least
	lifeDevices   = 40
	lifeDecisions = 3
	lifeEpochs    = 3
)

// Three epochs of panels through all roles, with several decisions in a report and a control group: every panel is
// drawn by both servers and is full, a device keeps as many decisions as the plan says and no more, and reports in two
// epochs at most; what was learned has the lift.
func TestPanelsThroughAllRoles(t *testing.T) {
	for _, c := range []plan.Channel{plan.Shuffle, plan.Shares} {
		t.Run(string(c), func(t *testing.T) {
			t.Parallel()
			config := testbed.Learner(glm.Practical, lifeSize)
			config.Horizon = lifeEpochs * lifeSize
			config.Practical = learner.PracticalConfig{Panel: lifeSize, Decisions: lifeDecisions, Control: 0.25}
			terms := testbed.Terms()
			terms.Channel, terms.Registered, terms.Decisions, terms.Records = c, lifePool, lifeDecisions, 2
			timing := testbed.Timing()
			timing.RewardWindow, timing.Grace = testbed.Long, 10*time.Second
			d := start(t, config, timing, terms)
			for i := range lifeDevices {
				d.register(i)
			}
			testbed.Eventually(t, "announced", func() bool { return d.host.Status().Epoch > 0 })
			panels := map[int]int{} // by device
			for epoch := uint64(1); epoch <= lifeEpochs; epoch++ {
				for device, kept := range d.lived(epoch) {
					panels[device]++
					if kept != lifeDecisions {
						t.Errorf("epoch %d: device %d keeps %d decisions, want %d", epoch, device, kept, lifeDecisions)
					}
				}
				d.clock.Pass(timing.RewardWindow + timing.Jitter)
				counts := d.counts(epoch, 0)
				if counts.Destroyed || counts.Reports != lifeSize {
					t.Errorf("epoch %d: counted %+v", epoch, counts)
				}
				d.drawnByBoth(epoch)
			}
			for device, n := range panels {
				if n > 2 {
					t.Errorf("device %d was in %d panels", device, n)
				}
			}
			testbed.Eventually(t, "the last policy is out", func() bool { return d.host.Status().Final })
			for _, m := range d.manifests() {
				if m.Enrolled != lifeSize || m.Reports != lifeSize {
					t.Errorf("epoch %d: a manifest of %d reports of %d", m.Epoch, m.Reports, m.Enrolled)
				}
			}
			d.compared()
			d.stop()
			if c == plan.Shares {
				d.remembered()
			}
		})
	}
}

// register names a device to the host.
func (d *deployment) register(device int) {
	d.t.Helper()
	if status, answer := d.post(fmt.Sprintf("/v1/devices/person-%d", device), ""); status >= 300 {
		d.t.Fatalf("device %d: %d %v", device, status, answer)
	}
}

// lived has every device decide in the epoch, and returns how many decisions each device of the panel kept. Those of
// the panel get a reward for each.
func (d *deployment) lived(epoch uint64) (kept map[int]int) {
	d.t.Helper()
	kept = map[int]int{}
	decide := func(device int) bool {
		status, answer := d.post(fmt.Sprintf("/v1/devices/person-%d/decisions", device),
			`{"arms":[[0.5,0.5],[-0.5,0.25]]}`)
		if status >= 300 {
			d.t.Fatalf("device %d: %d %v", device, status, answer)
		}
		if answer["sampled"] != true || answer["epoch"] != float64(epoch) {
			return false
		}
		if status, answer := d.post("/v1/rewards",
			fmt.Sprintf(`{"token":%q,"reward":1}`, answer["token"])); status >= 300 {
			d.t.Fatalf("device %d: %d %v", device, status, answer)
		}
		return true
	}
	testbed.Eventually(d.t, fmt.Sprintf("in the panel of epoch %d", epoch), func() bool {
		for device := range lifeDevices {
			if kept[device] == 0 && decide(device) {
				for kept[device] = 1; decide(device); {
					kept[device]++
				}
			}
		}
		for device, n := range kept {
			if n == 0 {
				delete(kept, device)
			}
		}
		return len(kept) == lifeSize
	})
	return kept
}

// drawnByBoth checks that both servers drew the epoch's panel: the shuffler's pool comes first in the log, once, and
// the analyzer's contribution opens what was announced, once.
func (d *deployment) drawnByBoth(epoch uint64) {
	d.t.Helper()
	var order string
	var named [32]byte
	var announced *plan.Announcement
	d.must(d.auditor.Audit.ReadAudit(d.Context(), bus.AuditFilter{}, func(s bus.Statement) error {
		switch s.Kind {
		case wire.KindAnnouncement:
			a, _, err := wire.Open[plan.Announcement](s.Payload, d.AnalyzerParty())
			if err == nil && a.Epoch == epoch {
				announced, order = a, order+"a"
			}
			return err
		case wire.KindPool:
			p, digest, err := wire.Open[wire.Pool](s.Payload, d.ShufflerParty())
			if err == nil && p.Epoch == epoch {
				named, order = digest, order+"p"
				if p.Registered < lifePool || p.Registered > lifeDevices {
					d.t.Errorf("epoch %d: a pool of %d", epoch, p.Registered)
				}
			}
			return err
		case wire.KindDraw:
			w, _, err := wire.Open[wire.Draw](s.Payload, d.AnalyzerParty())
			if err == nil && w.Epoch == epoch {
				order += "d"
				if [32]byte(w.Pool) != named || !panel.Opens(announced.Commitment, w.Contribution) {
					d.t.Errorf("epoch %d: the draw does not fit", epoch)
				}
			}
			return err
		}
		return nil
	}))
	if order != "apd" {
		d.t.Errorf("epoch %d: announcement, pool and draw come as %q", epoch, order)
	}
}

// compared checks what was learned of the control group.
func (d *deployment) compared() {
	d.t.Helper()
	n := uint64(0)
	d.must(d.auditor.Audit.ReadAudit(d.Context(), bus.AuditFilter{Role: bus.Analyzer, Kind: wire.KindLearned},
		func(s bus.Statement) error {
			l, _, err := wire.Open[wire.Learned](s.Payload, d.AnalyzerParty())
			if err != nil {
				return err
			}
			n++
			if l.Lift == nil || l.Total == nil || l.Lift.Reports != lifeSize || l.Total.Reports != n*lifeSize ||
				!(l.Lift.Low <= l.Lift.Lift && l.Lift.Lift <= l.Lift.High) || (l.Unchanged > 0) != (n > 1) {
				d.t.Errorf("epoch %d: learned %+v, %+v, unchanged %v", l.Epoch, l.Lift, l.Total, l.Unchanged)
			}
			return nil
		}))
	if n != lifeEpochs {
		d.t.Errorf("%d epochs were learned from", n)
	}
}

// remembered checks that the analyzer knows whom it counted.
func (d *deployment) remembered() {
	d.t.Helper()
	p, err := channel.OpenParticipants(channel.Folder(d.learned), testbed.Deployment, []uint64{1, 2, 3})
	d.must(err)
	for epoch := uint64(1); epoch <= lifeEpochs; epoch++ {
		if n := p.Devices(epoch); n != lifeSize {
			d.t.Errorf("epoch %d: %d devices are remembered", epoch, n)
		}
	}
}
