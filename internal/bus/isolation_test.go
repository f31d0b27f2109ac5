package bus_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"

	"github.com/riffle-dp/riffle/internal/broker"
	"github.com/riffle-dp/riffle/internal/bus"
	"github.com/riffle-dp/riffle/internal/testing/access"
	"github.com/riffle-dp/riffle/internal/testing/testbed"
)

// These tests look at the accounts alone: the same broker with every user permission taken away must still keep the
// roles apart.

// startWithoutPermissions runs the broker's configuration without its users' permissions.
func (b *bed) startWithoutPermissions() {
	b.t.Helper()
	b.startItself(func(o *server.Options) {
		for _, u := range o.Nkeys {
			if u.Permissions == nil {
				b.t.Error("a user had no permissions to take away")
			}
			u.Permissions = nil
		}
	})
}

func TestAccountsAloneRefuse(t *testing.T) {
	t.Parallel()
	b := newBroker(t)
	b.startWithoutPermissions()
	for _, r := range everyRole {
		c := b.thief(r)
		for _, a := range access.Attempts() {
			if a.Listen || a.Quiet || a.Peers {
				continue // what a role says to itself in its own account is no matter
			}
			if strings.HasPrefix(a.Subjects[0], bus.APIStreams) {
				// every account has the API of its own streams, which are none: see TestBluntForce
				a.Subjects = a.Subjects[1:]
			}
			o, err := c.Try(context.Background(), a)
			if err != nil {
				t.Fatal(err)
			}
			if o.Reached != a.Allows(r) {
				t.Errorf("%s: %s: reached %v (%s), allowed %v", r, a.What, o.Reached, o.Reason, a.Allows(r))
			}
		}
	}
}

// activity makes a role do all that it does to others.
func activity(t *testing.T, c *bus.Conn, n uint64) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), testbed.Patience)
	defer cancel()
	var err error
	switch c.Role() {
	case bus.Randomizer, bus.Ingress:
		err = c.Reports.PublishReport(ctx, n, 0, fmt.Sprintf("id-%d", n), []byte("secret report"))
	case bus.Shuffler:
		err = errors.Join(
			c.Mixed.PublishChunk(ctx, n, 0, 0, []byte("secret chunk")),
			c.Mixed.PublishManifest(ctx, n, 0, []byte("secret manifest")),
			c.Retained.PublishRetained(ctx, n, 0, 0, []byte("secret retained chunk"), time.Hour),
			c.Keys.PutKeys(ctx, []byte("keys")),
			c.Audit.AppendAudit(ctx, "manifest", fmt.Appendf(nil, "statement %d", n)))
	case bus.Analyzer:
		err = errors.Join(
			c.Announcements.PutAnnouncement(ctx, n, 0, []byte("announcement")),
			c.Audit.AppendAudit(ctx, "counts", fmt.Appendf(nil, "counts %d", n)),
			c.Audit.ReadAudit(ctx, bus.AuditFilter{}, func(bus.Statement) error { return nil }))
	case bus.Auditor:
		err = c.Audit.ReadAudit(ctx, bus.AuditFilter{}, func(bus.Statement) error { return nil })
	}
	if err != nil {
		t.Fatalf("%s: %v", c.Role(), err)
	}
}

// A user who listens to everything in their own account hears nothing of the others but notices.
func TestAccountsAloneKeepSilent(t *testing.T) {
	t.Parallel()
	b := newBroker(t)
	b.startWithoutPermissions()
	conns := map[bus.Role]*bus.Conn{}
	for _, r := range everyRole {
		conns[r] = b.connect(r)
	}
	n := uint64(0)
	for _, spy := range everyRole {
		allowed := map[string]bool{}
		for _, g := range broker.Grants() {
			if g.Role == spy && (g.Access == broker.Watch || g.Access == broker.Serve) {
				allowed[strings.TrimSuffix(g.Subject, ".>")] = true
			}
		}
		var mu sync.Mutex
		heard := map[string]int{}
		sub, err := conns[spy].NATS().Subscribe(">", func(m *nats.Msg) {
			mu.Lock()
			defer mu.Unlock()
			heard[m.Subject]++
		})
		if err != nil {
			t.Fatal(err)
		}
		if err := conns[spy].NATS().FlushWithContext(b.ctx()); err != nil {
			t.Fatal(err)
		}
		n++
		for _, r := range everyRole {
			if r != spy {
				activity(t, conns[r], n)
			}
		}
		if spy != bus.Shuffler && spy != bus.Randomizer && spy != bus.Ingress {
			ctx, cancel := context.WithCancel(context.Background())
			go func() {
				_ = conns[bus.Shuffler].Enrolment.ServeEnrol(ctx, 1,
					func(context.Context, []byte) ([]byte, error) { return []byte("slot"), nil })
			}()
			if _, err := conns[bus.Randomizer].Enrolment.Enrol(b.ctx(), []byte("request")); err != nil {
				t.Error(err)
			}
			cancel()
		}
		if spy != bus.Analyzer { // else nothing need come
			testbed.Eventually(t, fmt.Sprint(spy, " hears something"), func() bool {
				mu.Lock()
				defer mu.Unlock()
				return len(heard) > 0
			})
		}
		time.Sleep(100 * time.Millisecond)
		if err := sub.Unsubscribe(); err != nil {
			t.Fatal(err)
		}
		mu.Lock()
		for subject := range heard {
			ok := false
			for prefix := range allowed {
				ok = ok || strings.HasPrefix(subject, prefix)
			}
			if !ok {
				t.Errorf("%s heard %s", spy, subject)
			}
		}
		if spy != bus.Analyzer && len(heard) == 0 {
			t.Errorf("%s heard nothing at all: the test is deaf", spy)
		}
		mu.Unlock()
	}
}

// Two hosts of the same role: neither hears the other's replies, and what one tells the other is a hint at most.
func TestHostsAreApart(t *testing.T) {
	t.Parallel()
	b := newBroker(t)
	b.server.Stop()
	seed := b.addUser(bus.Randomizer)
	b.start()
	mine, other, ana := b.connect(bus.Randomizer), b.connectSeed(bus.Randomizer, seed), b.connect(bus.Analyzer)
	theirs, thief := bus.Inbox(bus.Randomizer, b.options.Users[bus.Randomizer][1]), b.thief(bus.Randomizer)
	for _, a := range []access.Attempt{
		{What: "listen to another host's inbox", Subjects: []string{theirs + ".>"}, Listen: true},
		{What: "write into another host's inbox", Subjects: []string{theirs + ".x"}, Quiet: true},
	} {
		if o, err := thief.Try(b.ctx(), a); err != nil || o.Reached {
			t.Errorf("%s: %+v, %v", a.What, o, err)
		}
	}
	activity(t, ana, 1)
	seen := make(chan bus.Announcement, 10)
	ctx, cancel := context.WithCancel(b.ctx())
	defer cancel()
	go func() {
		_ = other.Announcements.WatchAnnouncements(ctx, func(a bus.Announcement) error { seen <- a; return nil })
	}()
	<-seen
	// The stored announcement, sent by the server in the first host's name to where notices come.
	for range 100 {
		if err := mine.NATS().PublishRequest(bus.APILocal+".DIRECT.GET."+bus.StreamAnnouncements,
			bus.SubjectAnnounced+".2.0", []byte(`{"seq":1}`)); err != nil {
			t.Fatal(err)
		}
	}
	activity(t, ana, 2)
	if a := <-seen; a.Epoch != 2 {
		t.Errorf("a forged notice became announcement %+v", a)
	}
	select {
	case a := <-seen:
		t.Errorf("and another: %+v", a)
	case <-time.After(300 * time.Millisecond):
	}
}
