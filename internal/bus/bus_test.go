package bus_test

import (
	"bytes"
	"errors"
	"testing"

	"github.com/riffle-dp/riffle/internal/broker"
	"github.com/riffle-dp/riffle/internal/bus"
)

var errStop = errors.New("enough")

func TestLargestMessagePassesAndALargerOneIsRefused(t *testing.T) {
	t.Parallel()
	b := newBroker(t, func(_ *broker.Options, p *bus.ProvisionOptions) {
		p.ReportSize,
			p.MaxReportBytes = bus.MaxMessage, -1
	})
	dev, shuf := b.connect(bus.Randomizer), b.connect(bus.Shuffler)
	ctx := b.ctx()
	big := bytes.Repeat([]byte("x"), bus.MaxMessage)
	if err := dev.Reports.PublishReport(ctx, 1, 0, "big", big); err != nil {
		t.Fatal(err)
	}
	if p, err := shuf.Reports.GetReport(ctx, 1); err != nil || !bytes.Equal(p, big) {
		t.Errorf("%d bytes, %v", len(p), err)
	}
	if _, err := shuf.Leader(ctx, bus.StreamReports, 1); err != nil {
		t.Errorf("from the leader: %v", err)
	}
	if err := dev.Reports.PublishReport(ctx, 1, 0, "bigger", append(big, 'x')); !errors.Is(err, bus.ErrTooLarge) {
		t.Errorf("one byte more: %v", err)
	}
	for _, id := range []string{"", "a b", "a.b", "ü", string(bytes.Repeat([]byte("a"), 129))} {
		if err := dev.Reports.PublishReport(ctx, 1, 0, id, nil); !errors.Is(err, bus.ErrBadName) {
			t.Errorf("id %q: %v", id, err)
		}
	}
}
