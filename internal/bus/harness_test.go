package bus_test

import (
	"context"
	"net"
	"os"
	"testing"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/rs/zerolog"

	"github.com/riffle-dp/riffle/internal/broker"
	"github.com/riffle-dp/riffle/internal/bus"
	"github.com/riffle-dp/riffle/internal/keyring/keyfile"
	"github.com/riffle-dp/riffle/internal/testing/access"
	"github.com/riffle-dp/riffle/internal/testing/parallel"
	"github.com/riffle-dp/riffle/internal/testing/testbed"
)

// What the handles do is tested by the suite of package fakebroker, on a server and in memory. Here is what only the
// network has.

// TestMain has six tests run at a time: they wait more than they work, and more would be late under the race detector.
func TestMain(m *testing.M) {
	parallel.Tests("6")
	os.Exit(m.Run())
}

// bed is a provisioned server with one key per role.
type bed struct {
	t       testing.TB
	options broker.Options
	server  interface {
		URL() string
		Port() int
		Stop()
	}
	seeds map[bus.Role][]byte
}

func newBroker(t testing.TB, change ...func(*broker.Options, *bus.ProvisionOptions)) *bed {
	t.Helper()
	b := &bed{t: t, seeds: map[bus.Role][]byte{}, options: broker.Options{Dir: t.TempDir(), MaxStore: 1 << 40,
		Users: map[bus.Role][]string{}}}
	for _, r := range bus.Roles() {
		b.seeds[r] = b.addUser(r)
	}
	p := bus.ProvisionOptions{Workers: true}
	for _, f := range change {
		f(&b.options, &p)
	}
	b.start()
	t.Cleanup(func() { b.server.Stop() })
	admin := b.connect(bus.Admin)
	if err := bus.Provision(b.ctx(), admin, p); err != nil {
		t.Fatal(err)
	}
	admin.Close()
	return b
}

func (b *bed) addUser(r bus.Role) []byte {
	seed, public, err := keyfile.NewSeed()
	if err != nil {
		b.t.Fatal(err)
	}
	b.options.Users[r] = append(b.options.Users[r], public)
	return seed
}

func (b *bed) start() {
	b.t.Helper()
	s := testbed.StartBroker(b.t, b.options)
	b.server = s
	b.options.Port = s.Port()
}

// itself is a nats-server that a test started from the configuration that broker.WriteConfig would write.
type itself struct{ *server.Server }

func (s itself) URL() string { return s.ClientURL() }
func (s itself) Port() int   { return s.Addr().(*net.TCPAddr).Port }
func (s itself) Stop()       { s.Shutdown(); s.WaitForShutdown() }

// serverOptions are the broker's configuration as nats-server reads it.
func (b *bed) serverOptions() *server.Options {
	b.t.Helper()
	conf, err := broker.RenderConfig(b.options)
	if err != nil {
		b.t.Fatal(err)
	}
	o := new(server.Options)
	if err := o.ProcessConfigString(conf); err != nil {
		b.t.Fatal(err)
	}
	o.NoSigs = true
	return o
}

// startItself starts the broker again from its configuration, changed, as a nats-server that this process can look
// into.
func (b *bed) startItself(change func(*server.Options)) {
	b.t.Helper()
	b.server.Stop()
	o := b.serverOptions()
	change(o)
	s, err := server.NewServer(o)
	if err != nil {
		b.t.Fatal(err)
	}
	s.Start()
	if !s.ReadyForConnections(testbed.Patience) {
		b.t.Fatal("server did not start")
	}
	b.server = itself{s}
}

// reload has the running broker read its configuration again. It must have been started by startItself.
func (b *bed) reload() {
	b.t.Helper()
	if err := b.server.(itself).ReloadOptions(b.serverOptions()); err != nil {
		b.t.Fatal(err)
	}
}

// everyRole is every role with an account of its own.
var everyRole = bus.Roles()[1:]

// thief makes attempts with a role's credentials.
func (b *bed) thief(r bus.Role) *access.Client {
	b.t.Helper()
	c, err := access.Connect(bus.Options{URL: b.server.URL(), Role: r, Seed: b.seeds[r]})
	if err != nil {
		b.t.Fatal(err)
	}
	b.t.Cleanup(c.Close)
	return c
}

// ctx bounds all that a test does: testbed.Patience is for one step of it.
func (b *bed) ctx() context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), 5*testbed.Patience)
	b.t.Cleanup(cancel)
	return ctx
}

func (b *bed) connect(r bus.Role) *bus.Conn {
	b.t.Helper()
	return b.connectSeed(r, b.seeds[r])
}

func (b *bed) connectSeed(r bus.Role, seed []byte) *bus.Conn {
	b.t.Helper()
	o := bus.Options{URL: b.server.URL(), Role: r, Seed: seed, Name: "test " + string(r)}
	if os.Getenv("RIFFLE_LOG") != "" {
		l := zerolog.New(zerolog.NewTestWriter(b.t))
		o.Logger = &l
	}
	c, err := bus.Connect(b.ctx(), o)
	if err != nil {
		b.t.Fatal(err)
	}
	b.t.Cleanup(c.Close)
	return c
}
