package bus_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/riffle-dp/riffle/internal/broker"
	"github.com/riffle-dp/riffle/internal/bus"
)

var errStop = errors.New("enough")

func TestReportsArriveAsTheyWereSent(t *testing.T) {
	t.Parallel()
	b := newBroker(t)
	dev, shuf := b.connect(bus.Randomizer), b.connect(bus.Shuffler)
	ctx := b.ctx()
	for i := range 5 {
		if err := dev.Reports.PublishReport(ctx, 3, 1, fmt.Sprintf("id-%d", i), fmt.Appendf(nil, "report %d", i)); err != nil {
			t.Fatal(err)
		}
	}
	// A repetition is stored once.
	if err := dev.Reports.PublishReport(ctx, 3, 1, "id-2", []byte("report 2")); err != nil {
		t.Fatal(err)
	}
	if err := dev.Reports.PublishReport(ctx, 4, 0, "other", []byte("other round")); err != nil {
		t.Fatal(err)
	}
	var got []*bus.Delivery
	rctx, cancel := context.WithCancelCause(ctx)
	err := shuf.Reports.ReceiveReports(rctx, func(d *bus.Delivery) {
		got = append(got, d)
		if err := d.Ack(); err != nil {
			t.Error(err)
		}
		if len(got) == 6 {
			cancel(errStop)
		}
	})
	if !errors.Is(err, errStop) {
		t.Fatal(err)
	}
	for i, d := range got[:5] {
		if string(d.Payload) != fmt.Sprintf("report %d", i) || d.Epoch != 3 || d.Round != 1 ||
			d.Sequence != uint64(i+1) || d.Redelivered {
			t.Errorf("report %d arrived as %+v %q", i, d, d.Payload)
		}
	}
	if d := got[5]; d.Epoch != 4 || d.Round != 0 || d.Sequence != 6 {
		t.Errorf("the report after the repetition: %+v", d)
	}
	p, err := shuf.Reports.GetReport(ctx, 2)
	if err != nil || string(p) != "report 1" {
		t.Errorf("read again: %q, %v", p, err)
	}
	if err := shuf.Reports.PurgeReports(ctx, 0); err != nil {
		t.Fatal(err)
	}
	if p, err := shuf.Reports.GetReport(ctx, 1); err != nil || string(p) != "report 0" {
		t.Errorf("after a purge of nothing: %q, %v", p, err)
	}
	if err := shuf.Reports.PurgeReports(ctx, 5); err != nil {
		t.Fatal(err)
	}
	for seq := uint64(1); seq <= 5; seq++ {
		if _, err := shuf.Reports.GetReport(ctx, seq); !errors.Is(err, bus.ErrGone) {
			t.Errorf("purged report %d: %v", seq, err)
		}
	}
	if p, err := shuf.Reports.GetReport(ctx, 6); err != nil || string(p) != "other round" {
		t.Errorf("a purge took the report behind it: %q, %v", p, err)
	}
	if _, err := shuf.Reports.GetReport(ctx, 99); !errors.Is(err, bus.ErrGone) {
		t.Errorf("report never stored: %v", err)
	}
}

func TestMixedRoundTrip(t *testing.T) {
	t.Parallel()
	b := newBroker(t)
	shuf, ana := b.connect(bus.Shuffler), b.connect(bus.Analyzer)
	ctx := b.ctx()
	chunk := func(i uint32) []byte { return bytes.Repeat([]byte{byte(i)}, 1000) }
	for i := range uint32(600) { // more than one batch
		if err := shuf.Mixed.PublishChunk(ctx, 1, 0, i, chunk(i)); err != nil {
			t.Fatal(err)
		}
	}
	if err := shuf.Mixed.PublishChunk(ctx, 2, 0, 0, []byte("another round")); err != nil {
		t.Fatal(err)
	}
	if err := shuf.Mixed.PublishManifest(ctx, 1, 0, []byte("manifest")); err != nil {
		t.Fatal(err)
	}
	// Repeating is fine, changing is not.
	if err := shuf.Mixed.PublishChunk(ctx, 1, 0, 7, chunk(7)); err != nil {
		t.Errorf("the same chunk again: %v", err)
	}
	err := shuf.Mixed.PublishChunk(ctx, 1, 0, 7, chunk(8))
	var exists *bus.ExistsError
	if !errors.Is(err, bus.ErrExists) || !errors.As(err, &exists) || !bytes.Equal(exists.Stored, chunk(7)) {
		t.Errorf("another chunk under the same index: %v", err)
	}
	for range 2 { // again after a restart
		var n uint32
		err = ana.Mixed.ReadChunks(ctx, 1, 0, func(i uint32, p []byte) error {
			if i != n || !bytes.Equal(p, chunk(i)) {
				return fmt.Errorf("chunk %d out of order or changed", i)
			}
			n++
			return nil
		})
		if err != nil || n != 600 {
			t.Fatalf("read %d chunks, %v", n, err)
		}
	}
	if err := ana.Mixed.ReadChunks(ctx, 1, 0, func(uint32, []byte) error { return errStop }); !errors.Is(err, errStop) {
		t.Errorf("handler's error: %v", err)
	}
	var chunks, manifests int
	mctx, cancel := context.WithCancelCause(ctx)
	err = ana.Mixed.ReceiveMixed(mctx, func(m *bus.Mixed) {
		if m.Manifest {
			manifests++
		} else {
			chunks++
		}
		if err := m.Ack(); err != nil {
			t.Error(err)
		}
		if chunks+manifests == 602 {
			cancel(errStop)
		}
	})
	if !errors.Is(err, errStop) || manifests != 1 {
		t.Fatalf("%d chunks, %d manifests, %v", chunks, manifests, err)
	}
	if err := ana.Mixed.PurgeMixed(ctx, 1, 0); err != nil {
		t.Fatal(err)
	}
	left := 0
	if err := ana.Mixed.ReadChunks(ctx, 1, 0, func(uint32, []byte) error { left++; return nil }); err != nil || left != 0 {
		t.Errorf("%d chunks after the purge, %v", left, err)
	}
	if p, err := ana.Mixed.ReadManifest(ctx, 1, 0); err != nil || string(p) != "manifest" {
		t.Errorf("manifest after the purge: %q, %v", p, err)
	}
	if _, err := ana.Mixed.ReadManifest(ctx, 9, 0); !errors.Is(err, bus.ErrGone) {
		t.Errorf("manifest of no round: %v", err)
	}
	if err := ana.Mixed.ReadChunks(ctx, 2, 0, func(uint32, []byte) error { left++; return nil }); err != nil || left != 1 {
		t.Errorf("the other round has %d chunks, %v", left, err)
	}
}

// A place takes any number of announcements, so that no one can occupy it, and shows all readers the same order.
func TestNoAnnouncementOccupiesAPlace(t *testing.T) {
	t.Parallel()
	b := newBroker(t)
	thief, ana := b.connect(bus.Analyzer), b.connect(bus.Analyzer)
	dev, aud := b.connect(bus.Randomizer), b.connect(bus.Auditor)
	ctx := b.ctx()
	var want []string
	for i, p := range []string{"junk", "", "announcement", "more junk", "junk", "announcement"} {
		if err := []*bus.Conn{thief, ana}[i%2].Announcements.PutAnnouncement(ctx, 7, 2, []byte(p)); err != nil {
			t.Fatal(err)
		}
		if i < 4 {
			want = append(want, p)
		}
	}
	for _, c := range []*bus.Conn{dev, aud, ana} {
		all, err := c.Announcements.ReadAnnouncementsAt(ctx, 7, 2)
		var got []string
		for _, a := range all {
			got = append(got, string(a.Payload))
		}
		if err != nil || !slices.Equal(got, want) {
			t.Errorf("%s reads %q, %v", c.Role(), got, err)
		}
	}
	for _, at := range [][2]uint64{{7, 0}, {7, 20}, {72, 0}} {
		if all, err := dev.Announcements.ReadAnnouncementsAt(ctx, at[0], uint32(at[1])); err != nil || len(all) != 0 {
			t.Errorf("at another place: %+v, %v", all, err)
		}
	}
}

func TestAnnouncements(t *testing.T) {
	t.Parallel()
	b := newBroker(t)
	ana, dev := b.connect(bus.Analyzer), b.connect(bus.Randomizer)
	ctx := b.ctx()
	if all, err := dev.Announcements.ReadAnnouncements(ctx); err != nil || len(all) != 0 {
		t.Fatalf("empty bucket: %v, %v", all, err)
	}
	put := func(e uint64) {
		t.Helper()
		if err := ana.Announcements.PutAnnouncement(ctx, e, 0, fmt.Appendf(nil, "policy %d", e)); err != nil {
			t.Fatal(err)
		}
	}
	for e := range uint64(12) { // 10 comes after 9, not after 1
		put(e)
	}
	if err := ana.Announcements.PutAnnouncement(ctx, 5, 0, []byte("policy 5")); err != nil {
		t.Errorf("the same announcement again: %v", err)
	}
	all, err := dev.Announcements.ReadAnnouncements(ctx)
	if err != nil || len(all) != 12 {
		t.Fatalf("%d announcements, %v", len(all), err)
	}
	for e, a := range all {
		if a.Epoch != uint64(e) || string(a.Payload) != fmt.Sprintf("policy %d", e) {
			t.Errorf("announcement %d is %d %q", e, a.Epoch, a.Payload)
		}
	}
	if at, err := dev.Announcements.ReadAnnouncementsAt(ctx, 5, 0); err != nil || len(at) != 1 || string(at[0].Payload) != "policy 5" {
		t.Errorf("announcements of epoch 5: %+v, %v", at, err)
	}
	seen := make(chan bus.Announcement, 100)
	done := make(chan error, 1)
	wctx, cancel := context.WithCancelCause(ctx)
	go func() {
		done <- dev.Announcements.WatchAnnouncements(wctx, func(a bus.Announcement) error { seen <- a; return nil })
	}()
	for e := range uint64(12) {
		if a := <-seen; a.Epoch != e {
			t.Fatalf("watcher saw %d, not %d", a.Epoch, e)
		}
	}
	late := time.Hour // the next look comes after ten seconds; a busy machine may be late once
	for e := uint64(12); e < 16 && late > 5*time.Second; e++ {
		time.Sleep(200 * time.Millisecond) // the watcher has looked, found no more, and waits
		begin := time.Now()
		put(e)
		if a := <-seen; a.Epoch != e || string(a.Payload) != fmt.Sprint("policy ", e) {
			t.Fatalf("watcher saw %+v", a)
		}
		late = time.Since(begin)
	}
	if late > 5*time.Second {
		t.Errorf("four live announcements took more than 5 s each, the last %v: notices do not work", late)
	}
	cancel(errStop)
	if err := <-done; !errors.Is(err, errStop) {
		t.Errorf("watch ended with %v", err)
	}
}

func TestKeys(t *testing.T) {
	t.Parallel()
	b := newBroker(t)
	shuf, dev := b.connect(bus.Shuffler), b.connect(bus.Randomizer)
	ctx := b.ctx()
	if _, err := dev.Keys.ReadKeys(ctx, bus.Shuffler); !errors.Is(err, bus.ErrGone) {
		t.Errorf("no keys yet: %v", err)
	}
	for i := range 20 {
		if err := shuf.Keys.PutKeys(ctx, fmt.Appendf(nil, "keys %d", i)); err != nil {
			t.Fatal(err)
		}
	}
	if k, err := dev.Keys.ReadKeys(ctx, bus.Shuffler); err != nil || string(k) != "keys 19" {
		t.Errorf("newest keys: %q, %v", k, err)
	}
	seen := 0
	err := dev.Keys.WatchKeys(ctx, func(r bus.Role, p []byte) error {
		if r != bus.Shuffler {
			t.Errorf("keys of %s", r)
		}
		seen++
		if string(p) == "keys 19" {
			go func() { _ = shuf.Keys.PutKeys(ctx, []byte("live")) }()
		}
		if string(p) == "live" {
			return errStop
		}
		return nil
	})
	if !errors.Is(err, errStop) || seen != 17 {
		t.Errorf("watched %d key sets, %v", seen, err)
	}
}

func TestAudit(t *testing.T) {
	t.Parallel()
	b := newBroker(t)
	shuf, ana, aud := b.connect(bus.Shuffler), b.connect(bus.Analyzer), b.connect(bus.Auditor)
	ctx := b.ctx()
	for i := range 3 {
		for range 2 {
			if err := shuf.Audit.AppendAudit(ctx, "manifest", fmt.Appendf(nil, "m%d", i)); err != nil {
				t.Fatal(err)
			}
		}
		// what one role said is not what another did
		for role, want := range map[bus.Role]bool{bus.Shuffler: true, bus.Analyzer: false} {
			if got, err := ana.Audit.Audited(ctx, role, "manifest", fmt.Appendf(nil, "m%d", i)); err != nil || got != want {
				t.Fatalf("statement %d of %s: %v, %v", i, role, got, err)
			}
		}
		if got, err := ana.Audit.Audited(ctx, bus.Shuffler, "manifest", fmt.Appendf(nil, "m%d", i+1)); err != nil || got {
			t.Fatalf("a statement that is still to come is there: %v", err)
		}
		if err := ana.Audit.AppendAudit(ctx, "counts", fmt.Appendf(nil, "c%d", i)); err != nil {
			t.Fatal(err)
		}
	}
	read := func(c *bus.Conn, f bus.AuditFilter) (got []string) {
		t.Helper()
		err := c.Audit.ReadAudit(ctx, f, func(s bus.Statement) error {
			got = append(got, string(s.Role)+"/"+s.Kind+"/"+string(s.Payload))
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		return got
	}
	want := []string{"shuffler/manifest/m0", "analyzer/counts/c0", "shuffler/manifest/m1", "analyzer/counts/c1",
		"shuffler/manifest/m2", "analyzer/counts/c2"}
	if got := read(aud, bus.AuditFilter{}); !slices.Equal(got, want) {
		t.Errorf("log: %v", got)
	}
	if got := read(ana, bus.AuditFilter{Role: bus.Shuffler, After: 1}); !slices.Equal(got, []string{want[2], want[4]}) {
		t.Errorf("filtered log: %v", got)
	}
	if got := read(aud, bus.AuditFilter{Kind: "counts"}); len(got) != 3 {
		t.Errorf("filtered log: %v", got)
	}
	for _, kind := range []string{"", "a.b", "*", ">", "a b"} {
		if err := shuf.Audit.AppendAudit(ctx, kind, nil); !errors.Is(err, bus.ErrBadName) {
			t.Errorf("kind %q: %v", kind, err)
		}
	}
}

func TestEnrol(t *testing.T) {
	t.Parallel()
	b := newBroker(t)
	dev, shuf := b.connect(bus.Randomizer), b.connect(bus.Shuffler)
	ctx := b.ctx()
	sctx, cancel := context.WithCancelCause(ctx)
	var calls atomic.Int32
	done := make(chan error, 1)
	go func() {
		time.Sleep(300 * time.Millisecond) // the first tries find no shuffler
		done <- shuf.Enrolment.ServeEnrol(sctx, 4, func(_ context.Context, p []byte) ([]byte, error) {
			if calls.Add(1) == 1 {
				return nil, errors.New("the first is dropped")
			}
			return append([]byte("slot for "), p...), nil
		})
	}()
	for i := range 10 {
		reply, err := dev.Enrolment.Enrol(ctx, fmt.Appendf(nil, "device %d", i))
		if err != nil || string(reply) != fmt.Sprintf("slot for device %d", i) {
			t.Fatalf("reply %q, %v", reply, err)
		}
	}
	cancel(errStop)
	if err := <-done; !errors.Is(err, errStop) {
		t.Error(err)
	}
	short, stop := context.WithTimeout(ctx, 300*time.Millisecond)
	defer stop()
	if _, err := dev.Enrolment.Enrol(short, []byte("x")); !errors.Is(err, bus.ErrUnknown) ||
		!errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("no shuffler serves: %v", err)
	}
}

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
