package bus_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/riffle-dp/riffle/internal/bus"
	"github.com/riffle-dp/riffle/internal/testing/testbed"
)

func TestBacklogCountsWhatIsNotAcknowledged(t *testing.T) {
	t.Parallel()
	b := newBroker(t)
	dev, shuf := b.connect(bus.Randomizer), b.connect(bus.Shuffler)
	ctx := b.ctx()
	if last, err := shuf.Reports.LastReport(ctx); err != nil || last != 0 {
		t.Errorf("the last report of none is %d, %v", last, err)
	}
	for i := range 4 {
		if err := dev.Reports.PublishReport(ctx, 1, 0, fmt.Sprintf("id-%d", i), fmt.Appendf(nil, "report %d", i)); err != nil {
			t.Fatal(err)
		}
	}
	if last, err := shuf.Reports.LastReport(ctx); err != nil || last != 4 {
		t.Errorf("the last report is %d, %v", last, err)
	}
	eventually(t, func() error { // the consumer hears of a report some time after the stream stored it
		if got, err := shuf.Reports.Backlog(ctx); err != nil || got.Waiting != 4 || got.Floor != 0 || got.Sent != 0 {
			return fmt.Errorf("nothing was delivered: %+v, %v", got, err)
		}
		return nil
	})
	taken := make(chan *bus.Delivery, 4)
	go shuf.Reports.ReceiveReports(ctx, func(d *bus.Delivery) { taken <- d })
	var held *bus.Delivery
	for range 4 {
		if d := <-taken; d.Sequence == 3 {
			held = d
		} else if err := d.Ack(); err != nil {
			t.Error(err)
		}
	}
	eventually(t, func() error {
		if got, err := shuf.Reports.Backlog(ctx); err != nil || got.Waiting != 1 || got.Floor != 2 || got.Sent != 4 {
			return fmt.Errorf("report 3 is not acknowledged: %+v, %v", got, err)
		}
		return nil
	})
	if err := held.Ack(); err != nil {
		t.Error(err)
	}
	eventually(t, func() error {
		if got, err := shuf.Reports.Backlog(ctx); err != nil || got.Waiting != 0 || got.Floor != 4 {
			return fmt.Errorf("all are acknowledged: %+v, %v", got, err)
		}
		return nil
	})
	if _, err := dev.Reports.Backlog(ctx); !errors.Is(err, bus.ErrForbidden) {
		t.Errorf("a device looks at the backlog: %v", err)
	}
}

// eventually tries until there is no error, for acknowledgements that are on their way.
func eventually(t *testing.T, try func() error) {
	t.Helper()
	err := try()
	for deadline := time.Now().Add(testbed.Patience); err != nil && time.Now().Before(deadline); err = try() {
		time.Sleep(10 * time.Millisecond)
	}
	if err != nil {
		t.Error(err)
	}
}
