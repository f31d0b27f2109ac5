package bus_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/riffle-dp/riffle/internal/broker"
	"github.com/riffle-dp/riffle/internal/bus"
	"github.com/riffle-dp/riffle/internal/keyring/keyfile"
	"github.com/riffle-dp/riffle/internal/testing/access"
)

// TestClusterSurvivesItsLeader runs three servers with every stream on all of them, and stops the one that leads the
// reports in the middle of a run. It takes about half a minute: RIFFLE_LONG=1 runs it.
func TestClusterSurvivesItsLeader(t *testing.T) {
	if os.Getenv("RIFFLE_LONG") == "" {
		t.Skip("RIFFLE_LONG=1 runs it")
	}
	users := map[bus.Role][]string{}
	seeds := map[bus.Role][]byte{}
	for _, r := range bus.Roles() {
		seed, public, err := keyfile.NewSeed()
		if err != nil {
			t.Fatal(err)
		}
		users[r], seeds[r] = []string{public}, seed
	}
	var routes []string
	for range 3 {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		routes = append(routes, l.Addr().String())
		if err := l.Close(); err != nil {
			t.Fatal(err)
		}
	}
	servers := map[string]*broker.Server{}
	var urls []string
	for i, listen := range routes {
		name := fmt.Sprintf("s%d", i)
		o := broker.Options{Dir: t.TempDir(), MaxStore: 1 << 40, Name: name, Users: users,
			Cluster: &broker.Cluster{Name: "c", Listen: listen}}
		for j, other := range routes {
			if j != i {
				o.Cluster.Routes = append(o.Cluster.Routes, "nats-route://"+other)
			}
		}
		s, err := broker.Start(o)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(s.Stop)
		servers[name] = s
		urls = append(urls, s.URL())
	}
	ctx, cancel := context.WithTimeout(context.Background(), 90*time.Second)
	defer cancel()
	connect := func(r bus.Role) *bus.Conn {
		c, err := bus.Connect(ctx, bus.Options{URL: strings.Join(urls, ","), Role: r, Seed: seeds[r]})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(c.Close)
		return c
	}
	admin := connect(bus.Admin)
	const reports = 300
	if err := bus.Provision(ctx, admin, bus.ProvisionOptions{Replicas: 3, AckWait: 5 * time.Second,
		HostReports: reports + 1}); err != nil {
		t.Fatal(err)
	}
	dev, shuf, ana := connect(bus.Randomizer), connect(bus.Shuffler), connect(bus.Analyzer)
	seen := make(chan bus.Announcement, 10)
	go func() {
		_ = dev.Announcements.WatchAnnouncements(ctx, func(a bus.Announcement) error { seen <- a; return nil })
	}()
	stream, err := admin.JetStream().Stream(ctx, bus.StreamReports)
	if err != nil {
		t.Fatal(err)
	}
	failed := make(chan error, 1)
	go func() {
		for i := range reports {
			if err := dev.Reports.PublishReport(ctx, 1, 0, fmt.Sprintf("r%d", i),
				fmt.Appendf(nil, "report %d", i)); err != nil {
				failed <- err
				return
			}
			if i == reports/3 {
				leader := stream.CachedInfo().Cluster.Leader
				go servers[leader].Stop()
			}
		}
		failed <- nil
	}()
	got := map[uint64]int{}
	rctx, stop := context.WithCancelCause(ctx)
	err = shuf.Reports.ReceiveReports(rctx, func(d *bus.Delivery) {
		got[d.Sequence]++
		_ = d.Ack() // may fail on the server that stops: then it comes again
		if len(got) == reports {
			stop(errStop)
		}
	})
	if !errors.Is(err, errStop) {
		t.Fatalf("%d of %d reports: %v", len(got), reports, err)
	}
	if err := <-failed; err != nil {
		t.Fatal(err)
	}
	for seq := range got {
		if _, err := shuf.Reports.GetReport(ctx, seq); err != nil {
			t.Error(err)
		}
	}
	for i, full := range []bool{false, true, true} {
		if err := dev.Reports.PublishReport(ctx, 2, 0, fmt.Sprintf("r%d", i), []byte("one more")); errors.Is(err,
			bus.ErrFull) != full || err != nil && !full {
			t.Errorf("a host's report %d: %v", reports+1+i, err)
		}
	}
	for i := range uint32(50) {
		if err := shuf.Mixed.PublishChunk(ctx, 1, 0, i, []byte("chunk")); err != nil {
			t.Fatal(err)
		}
	}
	if err := shuf.Mixed.PublishChunk(ctx, 1, 0, 7, []byte("another")); !errors.Is(err, bus.ErrExists) {
		t.Errorf("another chunk under an index that is taken: %v", err)
	}
	n := 0
	if err := ana.Mixed.ReadChunks(ctx, 1, 0, func(uint32, []byte) error { n++; return nil }); err != nil || n != 50 {
		t.Errorf("%d of 50 chunks right after they were stored: %v", n, err)
	}
	for i, last := 0, uint64(0); i < 20; i++ {
		sequence, err := shuf.Audit.AppendAuditAfter(ctx, "manifest", fmt.Append(nil, i), last)
		if err != nil {
			t.Fatalf("entry %d of the audit log: %v", i, err)
		}
		if _, err := shuf.Audit.AppendAuditAfter(ctx, "other", fmt.Append(nil, i), last); !errors.Is(err,
			bus.ErrMoved) {
			t.Fatalf("another entry %d of the audit log: %v", i, err)
		}
		last = sequence
	}
	for _, text := range []string{"one", "two", "one"} {
		if err := ana.Announcements.PutAnnouncement(ctx, 1, 0, []byte(text)); err != nil {
			t.Fatalf("announcement %s: %v", text, err)
		}
	}
	stored, err := ana.Announcements.ReadAnnouncementsAt(ctx, 1, 0)
	if err != nil || len(stored) != 2 || string(stored[0].Payload)+string(stored[1].Payload) != "onetwo" {
		t.Errorf("of two announcements of one round, the first stored twice: %v, %v", stored, err)
	}
	select {
	case <-seen:
	case <-ctx.Done():
		t.Error("the announcement did not arrive")
	}
	for _, r := range []bus.Role{bus.Randomizer, bus.Shuffler, bus.Analyzer, bus.Auditor} {
		c, err := access.Connect(bus.Options{URL: strings.Join(urls, ","), Role: r, Seed: seeds[r]})
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		for _, a := range access.Attempts() {
			if a.Listen {
				continue
			}
			if o, err := c.Try(ctx, a); err != nil || o.Reached && !a.Allows(r) {
				t.Errorf("%s: %s: %+v, %v", r, a.What, o, err)
			}
		}
	}
}
