package bus_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/riffle-dp/riffle/internal/bus"
)

// What is stored once stays, whatever the role with the right to write sends past this package's methods.
func TestBrokerKeepsWhatIsStored(t *testing.T) {
	t.Parallel()
	b := newBroker(t)
	ana, shuf, dev := b.connect(bus.Analyzer), b.connect(bus.Shuffler), b.connect(bus.Randomizer)
	for _, c := range []*bus.Conn{ana, shuf, dev} {
		activity(t, c, 1)
	}
	admin := b.connect(bus.Admin)
	before := look(t, admin)
	for _, h := range []nats.Header{
		nil,
		{"Nats-Rollup": {"all"}},
		{"Nats-Rollup": {"sub"}},
		{"KV-Operation": {"DEL"}},
		{"KV-Operation": {"PURGE"}, "Nats-Rollup": {"sub"}},
		{bus.HeaderExpectLast: {"1"}},
		{"Nats-TTL": {"1s"}},
		{"Nats-Batch-Id": {"x"}, "Nats-Batch-Sequence": {"1"}, "Nats-Batch-Commit": {"1"}},
		{"Nats-Schedule": {"@at 2020-01-01T00:00:00Z"}, "Nats-Schedule-Target": {bus.ReportSubject("another")}},
		{"Nats-Incr": {"1"}},
	} {
		for subject, c := range map[string]*bus.Conn{
			bus.AnnouncementSubject(1, 0, []byte("announcement")): ana,
			bus.SubjectManifest + ".1.0":                          shuf,
			bus.SubjectRetained + ".1.0.0":                        shuf,
		} {
			reply, err := c.NATS().RequestMsg(&nats.Msg{Subject: subject, Header: h, Data: []byte("another")},
				time.Second)
			if err != nil {
				t.Errorf("%v on %s: %v", h, subject, err)
			} else {
				t.Logf("%v on %s: %s", h, subject, reply.Data)
			}
		}
		// A device can add reports, and do nothing to those of others.
		if h["Nats-Rollup"] != nil {
			if _, err := dev.NATS().RequestMsg(&nats.Msg{Subject: bus.ReportSubject(dev.User()), Header: h,
				Data: []byte("x")}, time.Second); err != nil {
				t.Error(err)
			}
		}
	}
	for name, is := range look(t, admin) {
		if is != before[name] {
			t.Errorf("%s was %+v, is %+v", name, before[name], is)
		}
	}
	ctx := b.ctx()
	if p, err := shuf.Reports.GetReport(ctx, 1); err != nil || string(p) != "secret report" {
		t.Errorf("report: %q, %v", p, err)
	}
	all, err := dev.Announcements.ReadAnnouncements(ctx)
	if err != nil || len(all) != 1 || string(all[0].Payload) != "announcement" {
		t.Errorf("announcements: %+v, %v", all, err)
	}
}

// Message ids are shared by all who write into a stream. No one can make the broker take their message for another's.
func TestNoHostUsesUpAnothersID(t *testing.T) {
	t.Parallel()
	b := newBroker(t)
	dev, shuf, ana := b.connect(bus.Randomizer), b.connect(bus.Shuffler), b.connect(bus.Analyzer)
	ctx := b.ctx()
	for _, p := range []string{"junk", "report", "report"} {
		if err := dev.Reports.PublishReport(ctx, 1, 0, "guessed", []byte(p)); err != nil {
			t.Fatal(err)
		}
	}
	if p, err := shuf.Reports.GetReport(ctx, 2); err != nil || string(p) != "report" {
		t.Errorf("the honest report: %q, %v", p, err)
	}
	if _, err := shuf.Reports.GetReport(ctx, 3); !errors.Is(err, bus.ErrGone) {
		t.Errorf("the repetition: %v", err)
	}
	for _, c := range []*bus.Conn{ana, shuf, shuf} {
		if err := c.Audit.AppendAudit(ctx, "manifest", []byte("the same statement")); err != nil {
			t.Fatal(err)
		}
	}
	var who []bus.Role
	err := ana.Audit.ReadAudit(ctx, bus.AuditFilter{},
		func(s bus.Statement) error { who = append(who, s.Role); return nil })
	if err != nil || len(who) != 2 || who[1] != bus.Shuffler {
		t.Errorf("the log has statements of %v, %v", who, err)
	}
}

// A dishonest host may put reports under names that no round has, and an analyzer announcements. Such a report is one
// of no round, and such an announcement is skipped.
func TestMalformedNamesAreRefused(t *testing.T) {
	t.Parallel()
	b := newBroker(t)
	dev, shuf, ana := b.connect(bus.Randomizer), b.connect(bus.Shuffler), b.connect(bus.Analyzer)
	ctx := b.ctx()
	names := []string{"", "1", "01.0", "1.0.0", "1.x", "-1.0", "1.4294967296"}
	for _, name := range names {
		reply, err := dev.NATS().RequestMsg(&nats.Msg{Subject: bus.ReportSubject(dev.User()),
			Header: nats.Header{bus.HeaderRound: {name}}, Data: []byte("junk")}, time.Second)
		if err != nil || !strings.Contains(string(reply.Data), `"seq"`) {
			t.Fatalf("%q: %v, %v", name, reply, err)
		}
	}
	for _, subject := range []string{
		bus.SubjectAnnouncements + ".x.0.y", bus.SubjectAnnouncements + ".1.0.y",
		// another payload's digest
		bus.AnnouncementSubject(1, 0, []byte("announcement")) + "0", bus.AnnouncementSubject(1, 0, []byte("another")),
	} {
		if _, err := ana.NATS().Request(subject, []byte("junk"), time.Second); err != nil {
			t.Fatal(err)
		}
	}
	activity(t, dev, 1)
	activity(t, ana, 1)
	places := map[uint64]int{}
	ctx, cancel := context.WithCancelCause(ctx)
	err := shuf.Reports.ReceiveReports(ctx, func(d *bus.Delivery) {
		if err := d.Ack(); err != nil {
			t.Error(err)
		}
		if places[d.Epoch]++; d.Epoch == 1 {
			cancel(errStop)
		}
	})
	if !errors.Is(err, errStop) || places[0] != len(names) || places[1] != 1 {
		t.Fatalf("reports by epoch: %v, %v", places, err)
	}
	all, err := dev.Announcements.ReadAnnouncements(b.ctx())
	if err != nil || len(all) != 1 {
		t.Errorf("announcements: %+v, %v", all, err)
	}
}
