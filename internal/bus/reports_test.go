package bus_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/riffle-dp/riffle/internal/broker"
	"github.com/riffle-dp/riffle/internal/bus"
	"github.com/riffle-dp/riffle/internal/testing/access"
	"github.com/riffle-dp/riffle/internal/testing/testbed"
)

// waiting is how many reports the broker holds under each host's name.
func (b *bed) waiting(admin *bus.Conn) map[string]uint64 {
	b.t.Helper()
	s, err := admin.JetStream().Stream(b.ctx(), bus.StreamReports)
	if err != nil {
		b.t.Fatal(err)
	}
	info, err := s.Info(b.ctx(), jetstream.WithSubjectFilter(bus.SubjectReport+".*"))
	if err != nil {
		b.t.Fatal(err)
	}
	return info.State.Subjects
}

// A host reports under its own name only, whatever it publishes to, and wherever it has the server send an answer:
// what the broker counts against a host is that host's.
func TestNoHostReportsAsAnother(t *testing.T) {
	t.Parallel()
	b := newBroker(t)
	b.server.Stop()
	seed := b.addUser(bus.Randomizer)
	b.start()
	mine, other, admin := b.connect(bus.Randomizer), b.connectSeed(bus.Randomizer, seed), b.connect(bus.Admin)
	activity(t, mine, 1)
	activity(t, other, 2)
	activity(t, b.connect(bus.Analyzer), 1)
	served := make(chan struct{}, 100)
	ctx, cancel := context.WithCancel(b.ctx())
	defer cancel()
	shuf := b.connect(bus.Shuffler)
	go func() {
		_ = shuf.Enrolment.ServeEnrol(ctx, 1, func(context.Context, []byte) ([]byte,
			error) {
			served <- struct{}{}
			return []byte("slot"), nil
		})
	}()
	if _, err := mine.Enrolment.Enrol(ctx, []byte("request")); err != nil {
		t.Fatal(err)
	}
	theirs, thief := bus.ReportSubject(other.User()), b.thief(bus.Randomizer)
	for _, subject := range []string{theirs, bus.ReportSubject("unknown"), bus.SubjectReport, theirs + ".x"} {
		o, err := thief.Try(b.ctx(), access.Attempt{Subjects: []string{subject}, Body: "junk"})
		if err != nil || o.Reached || o.Reason != "no permission" {
			t.Errorf("publish to %s: %+v, %v", subject, o, err)
		}
	}
	for _, g := range broker.Grants() {
		if g.Role != bus.Randomizer || g.Access == broker.Watch {
			continue
		}
		for _, body := range answers {
			if err := mine.NATS().PublishRequest(concrete(g, mine.User()), theirs, []byte(body)); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := mine.NATS().FlushTimeout(testbed.Patience); err != nil {
		t.Fatal(err)
	}
	testbed.Eventually(t, "answered", func() bool { return len(served) >= 1+len(answers) })
	time.Sleep(300 * time.Millisecond)
	if len(served) != 1+len(answers) {
		t.Errorf("%d enrolment requests were answered, of %d", len(served), 1+len(answers))
	}
	waiting := b.waiting(admin)
	if waiting[theirs] != 1 {
		t.Errorf("the other host has %d reports waiting, it sent 1", waiting[theirs])
	}
	if n, want := waiting[bus.ReportSubject(mine.User())], uint64(1+len(answers)); n != want || len(waiting) != 2 {
		t.Errorf("%d reports under this host's name, %d expected, of %d hosts", n, want, len(waiting))
	}
}

// One host alone can never take the room of all.
func TestImpossibleLimitsAreRefused(t *testing.T) {
	t.Parallel()
	b := newBroker(t)
	admin := b.connect(bus.Admin)
	for what, o := range map[string]bus.ProvisionOptions{
		"a share too large":     {HostReports: 1 << 20},
		"reports too large":     {ReportSize: 1 << 20},
		"too little for two":    {MaxReportBytes: 1 << 20},
		"less than one report":  {HostReports: -1},
		"a report of no bytes":  {ReportSize: -1},
		"more than one message": {ReportSize: bus.MaxPayload},
	} {
		if err := bus.Provision(b.ctx(), admin, o); err == nil {
			t.Errorf("%s: accepted", what)
		}
	}
	for what, o := range map[string]bus.ProvisionOptions{
		"no limit":          {MaxReportBytes: -1, HostReports: 1 << 20},
		"a large gateway":   {HostReports: 1 << 17, ReportSize: 16 << 10, MaxReportBytes: 4 << 30},
		"a small disk":      {HostReports: 1 << 10, ReportSize: 16 << 10, MaxReportBytes: 32 << 20},
		"the defaults, now": {},
	} {
		if err := bus.Provision(b.ctx(), admin, o); err != nil {
			t.Errorf("%s: %v", what, err)
		}
	}
}

// A broker whose disk has not what the limits set aside is not provisioned, and the operator learns what to lower.
func TestProvisionReservesTheRoomOfReports(t *testing.T) {
	t.Parallel()
	b := newBroker(t)
	b.server.Stop()
	b.options.Dir, b.options.MaxStore = t.TempDir(), 1<<30
	b.start()
	admin := b.connect(bus.Admin)
	if err := bus.Provision(b.ctx(), admin, bus.ProvisionOptions{}); !errors.Is(err, bus.ErrFull) ||
		!strings.Contains(err.Error(), "REPORTS") {
		t.Errorf("more than the disk has: %v", err)
	}
	if err := bus.Provision(b.ctx(), admin, bus.ProvisionOptions{HostReports: 1 << 10, MaxReportBytes: 1 << 28,
		MaxMixedBytes: 1 << 27, MaxRetainedBytes: 1 << 26, MaxAuditBytes: 1 << 26, MaxAnnouncementBytes: 1 << 26,
	}); err != nil {
		t.Errorf("less: %v", err)
	}
}
