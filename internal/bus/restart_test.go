package bus_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nkeys"

	"github.com/riffle-dp/riffle/internal/broker"
	"github.com/riffle-dp/riffle/internal/bus"
	"github.com/riffle-dp/riffle/internal/keyring/keyfile"
	"github.com/riffle-dp/riffle/internal/testing/testbed"
)

// collect receives reports until n different ones came, acknowledges them if told to, and returns how often each came.
func collect(t *testing.T, c *bus.Conn, n int, ack bool) map[uint64]int {
	t.Helper()
	got := map[uint64]int{}
	ctx, cancel := context.WithCancelCause(context.Background())
	limit := time.AfterFunc(testbed.Patience, func() { cancel(fmt.Errorf("only %d of %d reports", len(got), n)) })
	defer limit.Stop()
	err := c.Reports.ReceiveReports(ctx, func(d *bus.Delivery) {
		got[d.Sequence]++
		if ack {
			if err := d.Ack(); err != nil {
				t.Error(err)
			}
		}
		if len(got) == n {
			cancel(errStop)
		}
	})
	if !errors.Is(err, errStop) {
		t.Fatal(err)
	}
	return got
}

func publishReports(t *testing.T, c *bus.Conn, from, to int) {
	t.Helper()
	for i := from; i < to; i++ {
		if err := c.Reports.PublishReport(context.Background(), 1, 0, fmt.Sprintf("r%d", i),
			fmt.Appendf(nil, "report %d", i)); err != nil {
			t.Fatal(err)
		}
	}
}

// A worker that dies without a word must not hold up what comes after it: the request for messages that it left
// behind must not swallow them until AckWait.
func TestKilledWorkerSwallowsNothing(t *testing.T) {
	t.Parallel()
	b := newBroker(t, func(_ *broker.Options, p *bus.ProvisionOptions) { p.AckWait = time.Hour })
	b.startItself(func(*server.Options) {})
	dev, first := b.connect(bus.Randomizer), b.connect(bus.Shuffler)
	publishReports(t, dev, 0, 1)
	collect(t, first, 1, true)
	ctx, cancel := context.WithCancel(b.ctx())
	defer cancel()
	go func() { _ = first.Reports.ReceiveReports(ctx, func(*bus.Delivery) {}) }()
	time.Sleep(300 * time.Millisecond)
	clients := b.server.(itself).NumClients()
	first.NATS().Close()                            // no drain, no acknowledgement
	for b.server.(itself).NumClients() == clients { // until the server saw it
		time.Sleep(10 * time.Millisecond)
	}
	publishReports(t, dev, 1, 11)
	begin := time.Now()
	collect(t, b.connect(bus.Shuffler), 10, true)
	t.Logf("ten reports after a kill took %v", time.Since(begin))
}

// The server stops and starts again on its directory and port while everything runs. Nothing that was acknowledged is
// lost, publishers and watchers go on by themselves.
func TestServerRestartLosesNothing(t *testing.T) {
	t.Parallel()
	b := newBroker(t)
	dev, shuf, ana := b.connect(bus.Randomizer), b.connect(bus.Shuffler), b.connect(bus.Analyzer)
	ctx := b.ctx()
	if err := ana.Announcements.PutAnnouncement(ctx, 1, 0, []byte("one")); err != nil {
		t.Fatal(err)
	}
	seen := make(chan uint64, 10)
	go func() {
		_ = dev.Announcements.WatchAnnouncements(ctx, func(a bus.Announcement) error { seen <- a.Epoch; return nil })
	}()
	if e := <-seen; e != 1 {
		t.Fatalf("announcement %d", e)
	}
	publishReports(t, dev, 0, 10)

	var mu sync.Mutex
	got := map[uint64]int{}
	all := make(chan struct{})
	go func() {
		_ = shuf.Reports.ReceiveReports(ctx, func(d *bus.Delivery) {
			mu.Lock()
			defer mu.Unlock()
			if got[d.Sequence]++; len(got) == 20 && got[d.Sequence] == 1 {
				close(all)
			}
			_ = d.Ack() // may fail while the server is away: then it comes again
		})
	}()
	b.server.Stop()
	down := make(chan error, 1)
	go func() {
		for i := 10; i < 20; i++ {
			if err := dev.Reports.PublishReport(ctx, 1, 0, fmt.Sprintf("r%d", i), []byte("while down")); err != nil {
				down <- err
				return
			}
		}
		down <- ana.Announcements.PutAnnouncement(ctx, 2, 0, []byte("two"))
	}()
	time.Sleep(500 * time.Millisecond)
	b.start()
	if err := <-down; err != nil {
		t.Fatal(err)
	}
	select {
	case <-all:
	case <-ctx.Done():
		mu.Lock()
		t.Fatalf("%d of 20 reports after the restart", len(got))
	}
	select {
	case e := <-seen:
		if e != 2 {
			t.Errorf("announcement %d after the restart", e)
		}
	case <-ctx.Done():
		t.Error("no announcement after the restart")
	}
	// A second copy of what was stored before the restart is still recognised.
	publishReports(t, dev, 0, 1)
	if _, err := shuf.Reports.GetReport(ctx, 21); !errors.Is(err, bus.ErrGone) {
		t.Errorf("a repetition over a restart was stored again: %v", err)
	}
}

func TestPortInUseIsRefused(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	_, key, err := keyfile.NewSeed()
	if err != nil {
		t.Fatal(err)
	}
	_, err = broker.Start(broker.Options{Dir: t.TempDir(), Port: l.Addr().(*net.TCPAddr).Port,
		Users: map[bus.Role][]string{bus.Admin: {key}}})
	if !errors.Is(err, broker.ErrPortInUse) {
		t.Errorf("port in use: %v", err)
	}
}

func TestFaultyServerOptionsAreRefused(t *testing.T) {
	t.Parallel()
	_, key, err := keyfile.NewSeed()
	if err != nil {
		t.Fatal(err)
	}
	for name, o := range map[string]broker.Options{
		"no directory": {Users: map[bus.Role][]string{bus.Admin: {key}}},
		"no admin":     {Dir: "x"},
		"bad port":     {Dir: "x", Port: 70000, Users: map[bus.Role][]string{bus.Admin: {key}}},
		"unknown role": {Dir: "x", Users: map[bus.Role][]string{bus.Admin: {key}, "spy": {key}}},
		"not a key":    {Dir: "x", Users: map[bus.Role][]string{bus.Admin: {"SUAA"}}},
		"shared key":   {Dir: "x", Users: map[bus.Role][]string{bus.Admin: {key}, bus.Analyzer: {key}}},
		"bare cluster": {Dir: "x", Users: map[bus.Role][]string{bus.Admin: {key}}, Cluster: &broker.Cluster{}},
	} {
		if s, err := broker.Start(o); err == nil {
			s.Stop()
			t.Errorf("%s: started", name)
		}
	}
}

func TestConnectRefusesWrongCredentials(t *testing.T) {
	t.Parallel()
	b := newBroker(t)
	pair, err := nkeys.CreateAccount()
	if err != nil {
		t.Fatal(err)
	}
	account, err := pair.Seed()
	if err != nil {
		t.Fatal(err)
	}
	seed, _, err := keyfile.NewSeed()
	if err != nil {
		t.Fatal(err)
	}
	for name, o := range map[string]bus.Options{
		"unknown":    {URL: b.server.URL(), Role: bus.Analyzer, Seed: seed},
		"no seed":    {URL: b.server.URL(), Role: bus.Analyzer},
		"not a seed": {URL: b.server.URL(), Role: bus.Analyzer, Seed: []byte("SUABC")},
		"no user's":  {URL: b.server.URL(), Role: bus.Analyzer, Seed: account},
	} {
		if _, err := bus.Connect(b.ctx(), o); !errors.Is(err, bus.ErrCredentials) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := bus.Connect(b.ctx(), bus.Options{URL: b.server.URL(), Role: "spy", Seed: seed}); err == nil {
		t.Error("unknown role connected")
	}
	short, cancel := context.WithTimeout(context.Background(), 300*time.Millisecond)
	defer cancel()
	if _, err := bus.Connect(short, bus.Options{URL: "nats://127.0.0.1:1", Role: bus.Analyzer,
		Seed: seed}); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("no broker: %v", err)
	}
	c := b.connect(bus.Analyzer)
	c.Close()
	if err := c.Announcements.PutAnnouncement(b.ctx(), 1, 0, nil); !errors.Is(err, bus.ErrClosed) {
		t.Errorf("after Close: %v", err)
	}
}

func TestProvisionTwiceKeepsEverything(t *testing.T) {
	t.Parallel()
	b := newBroker(t)
	dev, ana, shuf := b.connect(bus.Randomizer), b.connect(bus.Analyzer), b.connect(bus.Shuffler)
	publishReports(t, dev, 0, 3)
	if err := bus.Provision(b.ctx(), ana, bus.ProvisionOptions{}); !errors.Is(err, bus.ErrForbidden) {
		t.Errorf("the analyzer provisions: %v", err)
	}
	admin := b.connect(bus.Admin)
	for _, o := range []bus.ProvisionOptions{{}, {DedupWindow: time.Hour, AckWait: time.Minute,
		MaxReportBytes: 1 << 20, ReportSize: 128 << 10, HostReports: 4}} {
		if err := bus.Provision(b.ctx(), admin, o); err != nil {
			t.Fatal(err)
		}
	}
	if p, err := shuf.Reports.GetReport(b.ctx(), 1); err != nil || string(p) != "report 0" {
		t.Errorf("after provisioning again: %q, %v", p, err)
	}
	// A share below what waits would have the broker drop some of it.
	if err := bus.Provision(b.ctx(), admin, bus.ProvisionOptions{HostReports: 2}); err == nil {
		t.Error("a host's share was lowered below what it has waiting")
	}
	collect(t, shuf, 3, true)
}

// The streams' limits must fit into what the broker may store. Where they do not, provisioning says so; where they
// did once, and the broker may store less since, what is there is left alone.
func TestProvisionRefusesASmallDisk(t *testing.T) {
	t.Parallel()
	b := newBroker(t, func(o *broker.Options, _ *bus.ProvisionOptions) { o.MaxStore = 20 << 30 })
	for _, r := range []bus.Role{bus.Randomizer, bus.Shuffler, bus.Analyzer} {
		activity(t, b.connect(r), 1)
	}
	b.server.Stop()
	b.options.MaxStore = 1 << 30
	b.start()
	for _, r := range []bus.Role{bus.Randomizer, bus.Shuffler, bus.Analyzer} {
		activity(t, b.connect(r), 2)
	}
	admin := b.connect(bus.Admin)
	if err := bus.Provision(b.ctx(), admin, bus.ProvisionOptions{}); err != nil {
		t.Errorf("again, on a smaller disk: %v", err)
	}
	if err := bus.Provision(b.ctx(), admin, bus.ProvisionOptions{MaxAuditBytes: 3 << 30}); !errors.Is(err,
		bus.ErrFull) || !strings.Contains(err.Error(), "max_file_store") {
		t.Errorf("more than there is: %v", err)
	}
}

// A stream that is full refuses what is new and names the limit; a larger limit lets work go on.
func TestFullStreamOfAnnouncementsRefuses(t *testing.T) {
	t.Parallel()
	b := newBroker(t, func(_ *broker.Options, p *bus.ProvisionOptions) { p.MaxAnnouncementBytes = 1 << 20 })
	ana, dev, shuf := b.connect(bus.Analyzer), b.connect(bus.Randomizer), b.connect(bus.Shuffler)
	var err error
	for i := 0; err == nil && i < 100; i++ {
		err = ana.Announcements.PutAnnouncement(b.ctx(), 1, 0, append(make([]byte, 100<<10), byte(i)))
	}
	if !errors.Is(err, bus.ErrFull) {
		t.Fatalf("junk without end: %v", err)
	}
	if err := ana.Announcements.PutAnnouncement(b.ctx(), 2, 0, make([]byte, 100<<10)); !errors.Is(err, bus.ErrFull) {
		t.Errorf("an announcement in a full stream: %v", err)
	}
	activity(t, dev, 1) // the others' streams have room of their own
	activity(t, shuf, 1)
	admin := b.connect(bus.Admin)
	if err := bus.Provision(b.ctx(), admin, bus.ProvisionOptions{MaxAnnouncementBytes: 2 << 20}); err != nil {
		t.Fatal(err)
	}
	if err := ana.Announcements.PutAnnouncement(b.ctx(), 2, 0, make([]byte, 100<<10)); err != nil {
		t.Errorf("with a larger limit: %v", err)
	}
}

func TestUnprovisionedBrokerIsWaitedFor(t *testing.T) {
	t.Parallel()
	b := newBroker(t)
	admin := b.connect(bus.Admin)
	if err := admin.JetStream().DeleteStream(b.ctx(), bus.StreamReports); err != nil {
		t.Fatal(err)
	}
	dev, shuf := b.connect(bus.Randomizer), b.connect(bus.Shuffler)
	short, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	err := dev.Reports.PublishReport(short, 1, 0, "id", nil)
	if !errors.Is(err, bus.ErrUnknown) {
		t.Errorf("without a stream: %v", err)
	}
	again, cancel2 := context.WithTimeout(context.Background(), 300*time.Millisecond)
	defer cancel2()
	if err := shuf.Reports.ReceiveReports(again, func(*bus.Delivery) {}); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("consuming from no stream: %v", err)
	}
	if err := shuf.Reports.PurgeReports(again, 1); !errors.Is(err, bus.ErrUnknown) {
		t.Errorf("purging no stream: %v", err)
	}
	// A call that waits goes on once the stream is there.
	ctx, stop := context.WithCancelCause(b.ctx())
	done := make(chan error, 1)
	go func() {
		done <- shuf.Reports.ReceiveReports(ctx, func(d *bus.Delivery) { _ = d.Ack(); stop(errStop) })
	}()
	time.Sleep(200 * time.Millisecond)
	if err := bus.Provision(b.ctx(), admin, bus.ProvisionOptions{}); err != nil {
		t.Fatal(err)
	}
	publishReports(t, dev, 0, 1)
	if err := <-done; !errors.Is(err, errStop) {
		t.Error(err)
	}
}

// The file for a container is what the embedded server runs with.
func TestRenderedConfigRuns(t *testing.T) {
	t.Parallel()
	b := newBroker(t)
	o := b.options
	o.Dir, o.Port, o.Name, o.SyncAlways, o.Monitor = t.TempDir(), 0, "one", true, "127.0.0.1:8222"
	o.Cluster = &broker.Cluster{Name: "c", Listen: "127.0.0.1:6222", Routes: []string{"nats-route://two:6222"}}
	path := filepath.Join(t.TempDir(), "conf", "nats-server.conf")
	if err := broker.WriteConfig(path, o); err != nil {
		t.Fatal(err)
	}
	got, err := server.ProcessConfigFile(path)
	if err != nil {
		conf, _ := os.ReadFile(path)
		t.Fatalf("%v\n%s", err, conf)
	}
	if got.Port != 4222 || got.MaxPayload != bus.MaxPayload || !got.SyncAlways || got.HTTPPort != 8222 ||
		got.Cluster.Port != 6222 || len(got.Nkeys) != len(bus.Roles()) {
		t.Errorf("rendered configuration reads as %+v", got)
	}
}
