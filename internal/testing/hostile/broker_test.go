package hostile_test

import (
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/riffle-dp/riffle/internal/bus"
	"github.com/riffle-dp/riffle/internal/testing/hostile"
	"github.com/riffle-dp/riffle/internal/testing/testbed"
	"github.com/riffle-dp/riffle/pkg/plan"
	"github.com/riffle-dp/riffle/pkg/wire"
)

// trick is what a malicious broker does with one kind of statement. It returns what came of it. What is last in a world
// stops a role there.
type trick struct {
	name     string
	channels []plan.Channel // nil: all
	// tried without RIFFLE_LONG, too, in the channel shuffle; in shares where it is of that channel
	always bool
	last   bool
	panels bool // where panels are drawn
	run    func(d *world) string
}

// verdict waits for the end of an epoch and says what came of it: never a sum that is not of the reports that reached
// the broker, each once.
func (d *world) verdict(r *round) string {
	d.t.Helper()
	testbed.Eventually(d.t, fmt.Sprintf("over: epoch %d", r.Epoch), func() bool {
		// the shuffler waits for its deadline, in steps that it takes for ordinary
		if len(d.l.reports(r.Epoch)) < size {
			d.clock.Pass(time.Second)
		}
		return d.over(r) || d.dead() != ""
	})
	var c *wire.Counts
	d.must(d.auditor.Audit.ReadAudit(d.Context(), bus.AuditFilter{Role: bus.Analyzer, Kind: wire.KindCounts},
		func(s bus.Statement) error {
			one, _, err := wire.Open[wire.Counts](s.Payload, d.AnalyzerParty())
			if err == nil && one.Epoch == r.Epoch {
				c = one
			}
			return nil
		}))
	if c == nil {
		return "stopped: the " + numbers.ReplaceAllString(d.dead(), "…")
	}
	d.mu.Lock()
	ended := len(d.ended)
	d.mu.Unlock()
	if ended > 0 {
		d.t.Errorf("a role ended: %s", d.dead())
	}
	reports := d.l.reports(r.Epoch)
	if c.Destroyed {
		why := ""
		for _, text := range d.said.of(r.Epoch, "round rejected") {
			why = ": the analyzer refuses the release, `" + strings.Replace(text, ": ", "`: ", 1)
		}
		return lost + why
	}
	sums := make([][]uint64, len(c.Releases))
	for i := range sums {
		sums[i] = c.Releases[i].Ones
	}
	if int(c.Reports) != len(reports) || !holds(r, c, d.entries(r, reports)) {
		return fmt.Sprintf("**the result is changed**: %d reports count of %d that were sent", c.Reports, len(reports))
	}
	return fmt.Sprintf("the result is that of %d of %d reports, each once", c.Reports, size)
}

var numbers = regexp.MustCompile(`[0-9a-f]{16,}|[0-9]+`)

// refusals are the reasons that the manifest of an epoch names.
func (d *world) refusals(r *round) string {
	d.t.Helper()
	var all []string
	d.must(d.auditor.Audit.ReadAudit(d.Context(), bus.AuditFilter{Role: bus.Shuffler, Kind: wire.KindManifest},
		func(s bus.Statement) error {
			m, _, err := wire.Open[wire.Manifest](s.Payload, d.ShufflerParty())
			if err == nil && m.Epoch == r.Epoch {
				for _, one := range m.Refused {
					all = append(all, fmt.Sprintf("`%s`", one.Reason))
				}
			}
			return err
		}))
	if all == nil {
		return "nothing is refused"
	}
	return "refused by the shuffler: " + strings.Join(all, ", ")
}

// A malicious broker between the three roles' own code. It may stop the service. It changes no result: what is counted
// is, exactly, what the reports that reached it hold, each once.
func TestAMaliciousBroker(t *testing.T) {
	if testing.Short() {
		t.Skip("one epoch after the other: what runs at the same time runs so in internal/testing/contract, too")
	}
	t.Parallel()
	all, long := slices.Concat(tricks(), sharesReplays(), keyReplays(), logReplays(), forks(), panelTricks(),
		panelReplays()), os.Getenv("RIFFLE_LONG") != ""
	found := make([]hostile.Table, len(all))
	for _, c := range plan.Channels() {
		t.Run(string(c), func(t *testing.T) {
			var d *world
			for i, x := range all {
				switch {
				case x.channels != nil && !slices.Contains(x.channels, c):
					continue
				case long:
				case !x.always || c != plan.Shuffle && (len(x.channels) != 1 || c != x.channels[0]):
					continue
				}
				if d == nil || d.panels != x.panels {
					d = newWorld(t, c, x.panels)
				}
				found[i] = append(found[i], hostile.Row{
					Attack: x.name, Channel: string(c), Outcome: x.run(d), Test: "TestAMaliciousBroker",
				})
				if x.last {
					d = nil
				}
			}
		})
	}
	if !t.Failed() {
		written(t, "broker.csv", slices.Concat(found...), long)
	}
}
