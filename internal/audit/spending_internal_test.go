package audit

import (
	"testing"

	"github.com/riffle-dp/riffle/pkg/plan"
)

// The number of epochs that a device can have reported in is the largest that the plan allows: R out of any P.
func TestMostEpochsOfADevice(t *testing.T) {
	for _, x := range []struct {
		records, period uint32
		epoch, want     uint64
	}{
		{1, 0, 1, 1}, {1, 0, 9, 1}, {4, 0, 3, 3}, {4, 0, 60, 4}, {2, 7, 1, 1}, {2, 7, 2, 2}, {2, 7, 7, 2}, {2, 7, 8, 3},
		{2, 7, 9, 4}, {2, 7, 14, 4}, {3, 3, 8, 8},
	} {
		a := &plan.Announcement{
			Epoch: x.epoch,
			Plan:  plan.Plan{Panel: new(plan.Panel), Records: x.records, Period: x.period},
		}
		if got := most(a); got != x.want {
			t.Errorf("%d of %d up to epoch %d: %d, want %d", x.records, x.period, x.epoch, got, x.want)
		}
		// By hand: whoever reports as early as possible, epoch by epoch.
		var in []uint64
		for e := uint64(1); e <= x.epoch; e++ {
			n := uint32(0)
			for _, before := range in {
				if x.period == 0 || before+uint64(x.period) > e {
					n++
				}
			}
			if n < x.records {
				in = append(in, e)
			}
		}
		if uint64(len(in)) != x.want {
			t.Errorf("%d of %d up to epoch %d: by hand %d", x.records, x.period, x.epoch, len(in))
		}
	}
}
