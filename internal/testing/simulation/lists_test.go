package simulation

import (
	"os"
	"runtime"
	"testing"

	"github.com/riffle-dp/riffle/pkg/plan"
)

// TestMain runs everything on one processor: what goes on at the same time then goes on in an order that the schedule
// determines as far as anything can.
func TestMain(m *testing.M) {
	runtime.GOMAXPROCS(1)
	os.Exit(m.Run())
}

// Nothing goes wrong: each channel counts its cohorts.
func TestWithoutFaults(t *testing.T) {
	for _, c := range plan.Channels() {
		for _, panel := range []bool{false, true} {
			l := List{Seed: 1, Channel: c, Panel: panel, Ops: []Operation{
				{Do: Decide, Who: "host-0", N: 2}, {Do: Decide, Who: "host-1", N: 2}, {Do: Decide, Who: "host-2", N: 1},
				{Do: Wait, Ms: 100}, {Do: Reward, Who: "host-0"}, {Do: Reward, Who: "host-1"}, {Do: Wait, Ms: 1500},
			}}
			r := Run(t, l)
			t.Logf("%s panel %v: %d releases, %d destroyed, %d steps, trace %s", c, panel, r.Releases, r.Destroyed, r.Steps,
				r.Trace)
			if len(r.Violations) > 0 || r.Releases == 0 {
				t.Errorf("%s: %q", l, r.Violations)
			}
		}
	}
}
