package bus

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
)

// These tests look at the accounts alone: the same broker with every user permission taken away must still keep the roles apart.

// startWithout runs the broker's configuration without its users' permissions.
func (b *broker) startWithoutPermissions() {
	b.t.Helper()
	b.server.Stop()
	conf, err := render(b.options, "-1")
	if err != nil {
		b.t.Fatal(err)
	}
	var o server.Options
	if err := o.ProcessConfigString(conf); err != nil {
		b.t.Fatal(err)
	}
	o.NoSigs = true
	for _, u := range o.Nkeys {
		if u.Permissions == nil {
			b.t.Error("a user had no permissions to take away")
		}
		u.Permissions = nil
	}
	s, err := server.NewServer(&o)
	if err != nil {
		b.t.Fatal(err)
	}
	s.Start()
	if !s.ReadyForConnections(10 * time.Second) {
		b.t.Fatal("server did not start")
	}
	b.server = &Server{s: s}
	b.options.Port = b.server.Port()
}

func TestAccountsAloneRefuse(t *testing.T) {
	t.Parallel()
	b := newBroker(t)
	b.startWithoutPermissions()
	for _, r := range everyone {
		c := b.connect(r)
		for _, a := range Attempts() {
			if a.Listen || a.Quiet || a.Peers {
				continue // what a role says to itself in its own account is no matter
			}
			if strings.HasPrefix(a.Subjects[0], apiStreams) {
				a.Subjects = a.Subjects[1:] // every account has the API of its own streams, which are none: see TestBluntForce
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
func activity(t *testing.T, c *Conn, n uint64) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	var err error
	switch c.Role() {
	case Randomizer:
		err = c.PublishReport(ctx, n, 0, fmt.Sprintf("id-%d", n), []byte("secret report"))
	case Shuffler:
		err = errors.Join(
			c.PublishChunk(ctx, n, 0, 0, []byte("secret chunk")),
			c.PublishManifest(ctx, n, 0, []byte("secret manifest")),
			c.PutKeys(ctx, []byte("keys")),
			c.AppendAudit(ctx, "manifest", fmt.Appendf(nil, "statement %d", n)))
	case Analyzer:
		err = errors.Join(
			c.PutAnnouncement(ctx, n, 0, []byte("announcement")),
			c.AppendAudit(ctx, "counts", fmt.Appendf(nil, "counts %d", n)),
			c.ReadAudit(ctx, AuditFilter{}, func(Statement) error { return nil }))
	case Auditor:
		err = c.ReadAudit(ctx, AuditFilter{}, func(Statement) error { return nil })
	}
	if err != nil {
		t.Fatalf("%s: %v", c.Role(), err)
	}
}

// Somebody who listens to everything in their own account hears nothing of the others but notices.
func TestAccountsAloneKeepSilent(t *testing.T) {
	t.Parallel()
	b := newBroker(t)
	b.startWithoutPermissions()
	conns := map[Role]*Conn{}
	for _, r := range everyone {
		conns[r] = b.connect(r)
	}
	n := uint64(0)
	for _, spy := range everyone {
		allowed := map[string]bool{}
		for _, g := range Grants() {
			if g.Role == spy && (g.Access == Watch || g.Access == Serve) {
				allowed[strings.TrimSuffix(g.Subject, ".>")] = true
			}
		}
		var mu sync.Mutex
		heard := map[string]int{}
		sub, err := conns[spy].nc.Subscribe(">", func(m *nats.Msg) {
			mu.Lock()
			defer mu.Unlock()
			heard[m.Subject]++
		})
		if err != nil {
			t.Fatal(err)
		}
		if err := conns[spy].nc.Flush(); err != nil {
			t.Fatal(err)
		}
		n++
		for _, r := range everyone {
			if r != spy {
				activity(t, conns[r], n)
			}
		}
		if spy != Shuffler && spy != Randomizer {
			ctx, cancel := context.WithCancel(context.Background())
			go func() {
				_ = conns[Shuffler].ServeEnrol(ctx, 1, func(context.Context, []byte) ([]byte, error) { return []byte("slot"), nil })
			}()
			if _, err := conns[Randomizer].Enrol(b.ctx(), []byte("request")); err != nil {
				t.Error(err)
			}
			cancel()
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
		if spy != Analyzer && len(heard) == 0 {
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
	seed := b.addUser(Randomizer)
	b.start()
	mine, other, ana := b.connect(Randomizer), b.connectSeed(Randomizer, seed), b.connect(Analyzer)
	theirs := inbox(Randomizer, b.options.Users[Randomizer][1])
	for _, a := range []Attempt{
		{What: "listen to another host's inbox", Subjects: []string{theirs + ".>"}, Listen: true},
		{What: "write into another host's inbox", Subjects: []string{theirs + ".x"}, Quiet: true},
	} {
		if o, err := mine.Try(b.ctx(), a); err != nil || o.Reached {
			t.Errorf("%s: %+v, %v", a.What, o, err)
		}
	}
	activity(t, ana, 1)
	seen := make(chan Announcement, 10)
	ctx, cancel := context.WithCancel(b.ctx())
	defer cancel()
	go func() {
		_ = other.WatchAnnouncements(ctx, func(a Announcement) error { seen <- a; return nil })
	}()
	<-seen
	// The stored announcement, sent by the server in the first host's name to where notices come.
	for range 100 {
		if err := mine.nc.PublishRequest(apiLocal+".DIRECT.GET."+streamAnnouncements, SubjectAnnounced+".2.0", []byte(`{"seq":1}`)); err != nil {
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
