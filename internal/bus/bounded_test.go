package bus_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"golang.org/x/sync/errgroup"

	"github.com/riffle-dp/riffle/internal/broker"
	"github.com/riffle-dp/riffle/internal/bus"
)

// Every stream has a limit of bytes by default and, where its messages have subjects of their own, of messages. It
// refuses what is new and never drops what it acknowledged, but for key sets: of those no role can push out another's.
func TestEveryStreamIsBounded(t *testing.T) {
	t.Parallel()
	for _, s := range (bus.ProvisionOptions{Workers: true}).Streams() {
		if s.MaxBytes <= 0 || s.MaxMsgSize <= 0 {
			t.Errorf("%s: at most %d bytes, each at most %d", s.Name, s.MaxBytes, s.MaxMsgSize)
		}
		if s.Name == bus.StreamKeys {
			if n := int64(len(bus.Roles())) * s.MaxMsgsPerSubject * int64(s.MaxMsgSize); n > s.MaxBytes {
				t.Errorf("all key sets can take %d bytes of %d", n, s.MaxBytes)
			}
			continue
		}
		if s.MaxMsgs <= 0 || s.Discard != jetstream.DiscardNew {
			t.Errorf("%s: at most %d messages, discards %v", s.Name, s.MaxMsgs, s.Discard)
		}
	}
	for _, s := range (bus.ProvisionOptions{MaxAnnouncementBytes: 1 << 16}).Streams() {
		if s.Name == bus.StreamAnnouncements && s.MaxMsgs < 4000 {
			t.Errorf("%d messages of a stream with few bytes: a deployment's rounds do not fit", s.MaxMsgs)
		}
	}
	for _, s := range (bus.ProvisionOptions{MaxMixedBytes: -1}).Streams() {
		if s.Name == bus.StreamMixed && (s.MaxBytes != -1 || s.MaxMsgs != -1) {
			t.Errorf("without a limit: %d bytes, %d messages", s.MaxBytes, s.MaxMsgs)
		}
	}
}

// Statements of a few bytes fill the audit log by their number, and are refused then. A smaller limit on a log that has
// more, as a provisioning by this version may bring to an older broker, drops nothing.
func TestTinyStatementsFillNoMemory(t *testing.T) {
	t.Parallel()
	const room = 5000
	b := newBroker(t, func(_ *broker.Options, p *bus.ProvisionOptions) { p.MaxAuditBytes = room * 512 })
	ana, auditor, admin := b.connect(bus.Analyzer), b.connect(bus.Auditor), b.connect(bus.Admin)
	var stored, full atomic.Int64
	var g errgroup.Group
	g.SetLimit(32)
	for i := range room + 100 {
		g.Go(func() error {
			err := ana.Audit.AppendAudit(b.ctx(), "junk", fmt.Appendf(nil, "%d", i))
			switch {
			case err == nil:
				stored.Add(1)
			case errors.Is(err, bus.ErrFull):
				full.Add(1)
			default:
				return err
			}
			return nil
		})
	}
	if err := g.Wait(); err != nil || stored.Load() != room || full.Load() != 100 {
		t.Fatalf("%d statements are stored, %d refused: %v", stored.Load(), full.Load(), err)
	}
	read := 0
	err := bus.Provision(b.ctx(), admin, bus.ProvisionOptions{MaxAuditBytes: 1 << 20}) // 4096 messages
	if err == nil {
		err = auditor.Audit.ReadAudit(b.ctx(), bus.AuditFilter{}, func(bus.Statement) error { read++; return nil })
	}
	if err != nil || read != room {
		t.Errorf("%d of %d statements are left: %v", read, room, err)
	}
	if err := ana.Audit.AppendAudit(b.ctx(), "junk", []byte("more")); !errors.Is(err, bus.ErrFull) {
		t.Errorf("above the lower limit: %v", err)
	}
}

// Requests of a megabyte that come faster than they are answered do not fill the memory of who answers, and the others'
// are answered behind them.
func TestLargeRequestsThatWaitTakeLittleMemory(t *testing.T) {
	b := newBroker(t)
	shuffler, host := b.connect(bus.Shuffler), b.connect(bus.Randomizer)
	ctx, cancel := context.WithCancel(b.ctx())
	gate, asked := make(chan struct{}), make(chan struct{}, 1)
	served := make(chan error, 1)
	go func() {
		served <- shuffler.Enrolment.ServeEnrol(ctx, 1, func(_ context.Context, p []byte) ([]byte, error) {
			select {
			case asked <- struct{}{}:
			default:
			}
			<-gate
			return p[:1], nil
		})
	}()
	defer func() { cancel(); <-served }()
	use := func() int64 {
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return int64(m.HeapAlloc)
	}
	before := use()
	const requests, limit = 300, 200 << 20
	junk := make([]byte, 1<<20)
	for ready := false; !ready; { // the subscription may be on its way
		_ = host.NATS().PublishRequest(bus.SubjectEnrol, host.NATS().NewRespInbox(), junk)
		select {
		case <-asked:
			ready = true
		case <-time.After(10 * time.Millisecond):
		}
	}
	for range requests {
		if err := host.NATS().PublishRequest(bus.SubjectEnrol, host.NATS().NewRespInbox(), junk); err != nil {
			t.Fatal(err)
		}
	}
	if err := host.NATS().FlushWithContext(b.ctx()); err != nil {
		t.Fatal(err)
	}
	if err := shuffler.NATS().FlushWithContext(b.ctx()); err != nil { // all that is for it came before the answer
		t.Fatal(err)
	}
	if grown := use() - before; grown > limit {
		t.Errorf("%d MiB for %d requests of 1 MiB", grown>>20, requests)
	}
	close(gate)
	if reply, err := host.Enrolment.Enrol(b.ctx(), []byte("x")); err != nil || string(reply) != "x" {
		t.Errorf("behind them: %q, %v", reply, err)
	}
}
