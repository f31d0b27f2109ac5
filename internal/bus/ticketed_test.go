package bus_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"

	"github.com/nats-io/nats.go"

	"github.com/riffle-dp/riffle/internal/broker"
	"github.com/riffle-dp/riffle/internal/bus"
)

// handed are reports of different tickets, of the first number on.
func handed(first, n, size int) []bus.Ticketed {
	all := make([]bus.Ticketed, n)
	for i := range all {
		all[i] = bus.Ticketed{Epoch: 1, Ticket: fmt.Appendf(nil, "ticket %d", first+i), Payload: make([]byte, size)}
		copy(all[i].Payload, fmt.Sprintf("report %d", first+i))
	}
	return all
}

// stored are the reports that the broker keeps.
func stored(t testing.TB, b *bed, shuf *bus.Conn) (all []string) {
	t.Helper()
	err := shuf.Reports.StoredReports(b.ctx(), 1, 0, 1, func(_ uint64, payload []byte) error {
		all = append(all, string(payload))
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// Reports that are stored together are stored like others, once for each ticket and round, whatever was stored before
// and however they are divided.
func TestATicketIsGoodForOneReport(t *testing.T) {
	t.Parallel()
	b := newBroker(t)
	in, second, shuf := b.connect(bus.Ingress), b.connect(bus.Ingress), b.connect(bus.Shuffler)
	publish := func(c *bus.Conn, reports []bus.Ticketed) {
		t.Helper()
		if err := errors.Join(c.Reports.PublishTicketed(b.ctx(), reports)...); err != nil {
			t.Fatal(err)
		}
	}
	publish(in, handed(0, 10, 20))
	before := in.Traffic().MessagesIn
	publish(in, handed(10, 100, 20))
	if n := in.Traffic().MessagesIn - before; n != 1 {
		t.Errorf("%d acknowledgements of 100 reports: they were not stored together", n)
	}
	publish(second, handed(100, 20, 20)) // half of them are there
	publish(in, handed(0, 10, 30))       // other reports with the tickets
	publish(in, handed(119, 1, 30))
	got := stored(t, b, shuf)
	if len(got) != 120 {
		t.Errorf("%d reports are stored, want 120", len(got))
	}
	seen := map[string]bool{}
	for _, r := range got {
		if len(r) != 20 || seen[r] {
			t.Errorf("%q is stored twice, or in place of the first", r)
		}
		seen[r] = true
	}
	next := handed(0, 2, 20)
	next[0].Round, next[1].Epoch = 1, 2
	publish(in, next) // tickets are good for each round
	if n := len(stored(t, b, shuf)); n != 120 {
		t.Error(n)
	}
	if last, err := shuf.Reports.LastReport(b.ctx()); err != nil || last != 122 {
		t.Errorf("the last of %d reports, %v", last, err)
	}
}

// Where there is room for some of a batch, these are stored, and the others are told.
func TestABatchFillsTheRoomThereIs(t *testing.T) {
	t.Parallel()
	b := newBroker(t, func(_ *broker.Options, p *bus.ProvisionOptions) { p.HostReports = 30 })
	in, shuf := b.connect(bus.Ingress), b.connect(bus.Shuffler)
	full := 0
	for _, err := range in.Reports.PublishTicketed(b.ctx(), handed(0, 50, 20)) {
		if errors.Is(err, bus.ErrFull) {
			full++
		} else if err != nil {
			t.Error(err)
		}
	}
	if n := len(stored(t, b, shuf)); n != 30 || full != 20 {
		t.Errorf("%d stored, %d told that there is no room", n, full)
	}
}

// A hostile host that begins as many batches as may be open, and ends none, keeps nobody's report out.
func TestBatchesLeftOpenKeepNobodyOut(t *testing.T) {
	t.Parallel()
	b := newBroker(t)
	in, host, shuf := b.connect(bus.Ingress), b.connect(bus.Randomizer), b.connect(bus.Shuffler)
	for i := range 100 {
		m := &nats.Msg{Subject: bus.ReportSubject(host.User()), Data: []byte("junk"), Header: nats.Header{
			"Nats-Batch-Id": {fmt.Sprint("open", i)}, "Nats-Batch-Sequence": {"1"}}}
		if err := host.NATS().PublishMsg(m); err != nil {
			t.Fatal(err)
		}
	}
	if err := host.NATS().FlushWithContext(b.ctx()); err != nil {
		t.Fatal(err)
	}
	before := in.Traffic().MessagesIn
	if err := errors.Join(in.Reports.PublishTicketed(b.ctx(), handed(0, 50, 20))...); err != nil {
		t.Fatal(err)
	}
	if n := in.Traffic().MessagesIn - before; n < 50 {
		t.Errorf("%d answers: the test opened too few batches", n)
	}
	if n := len(stored(t, b, shuf)); n != 50 {
		t.Errorf("%d stored", n)
	}
}

// A broker that takes no batches stores each report by itself.
func TestBrokersWithoutBatchesStoreReports(t *testing.T) {
	t.Parallel()
	b := newBroker(t)
	admin, in, shuf := b.connect(bus.Admin), b.connect(bus.Ingress), b.connect(bus.Shuffler)
	s, err := admin.JetStream().Stream(b.ctx(), bus.StreamReports)
	if err != nil {
		t.Fatal(err)
	}
	config := s.CachedInfo().Config
	config.AllowAtomicPublish = false
	if _, err := admin.JetStream().UpdateStream(b.ctx(), config); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(in.Reports.PublishTicketed(b.ctx(), handed(0, 50, 20))...); err != nil {
		t.Fatal(err)
	}
	if n := len(stored(t, b, shuf)); n != 50 {
		t.Errorf("%d stored", n)
	}
}

// BenchmarkTicketed is what one sync for many reports brings: reports of 4 kB a second, synced.
func BenchmarkTicketed(b *testing.B) {
	for _, size := range []int{1, 16, 64, bus.MaxBatch} {
		b.Run(fmt.Sprintf("together=%d", size), func(b *testing.B) {
			br := newBroker(b, func(o *broker.Options, p *bus.ProvisionOptions) {
				o.SyncAlways, p.HostReports, p.MaxReportBytes = true, 1<<24, -1
			})
			in := br.connect(bus.Ingress)
			batches := make(chan []bus.Ticketed)
			var wg sync.WaitGroup
			senders := 4
			if size == 1 {
				senders = 64
			}
			for range senders {
				wg.Go(func() {
					for all := range batches {
						if err := errors.Join(in.Reports.PublishTicketed(context.Background(), all)...); err != nil {
							b.Error(err)
						}
					}
				})
			}
			b.ResetTimer()
			for n := 0; n < b.N; n += size {
				batches <- handed(n, min(size, b.N-n), 4096)
			}
			close(batches)
			wg.Wait()
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "reports/s")
		})
	}
}
