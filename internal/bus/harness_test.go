package bus

import (
	"context"
	"os"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"github.com/riffle-dp/riffle/internal/testing/parallel"
)

// TestMain has six tests run at a time: they wait more than they work, and more would be late under the race detector.
func TestMain(m *testing.M) {
	parallel.Tests("6")
	os.Exit(m.Run())
}

// broker is a provisioned server with one key per role.
type broker struct {
	t       testing.TB
	options ServerOptions
	server  *Server
	seeds   map[Role][]byte
}

func newBroker(t testing.TB, change ...func(*ServerOptions, *ProvisionOptions)) *broker {
	t.Helper()
	b := &broker{t: t, seeds: map[Role][]byte{}, options: ServerOptions{Dir: t.TempDir(), MaxStore: 1 << 40, Users: map[Role][]string{}}}
	for _, r := range Roles() {
		b.seeds[r] = b.addUser(r)
	}
	var p ProvisionOptions
	for _, f := range change {
		f(&b.options, &p)
	}
	b.start()
	t.Cleanup(func() { b.server.Stop() })
	admin := b.connect(Admin)
	if err := Provision(b.ctx(), admin, p); err != nil {
		t.Fatal(err)
	}
	admin.Close()
	return b
}

func (b *broker) addUser(r Role) []byte {
	seed, public, err := NewSeed()
	if err != nil {
		b.t.Fatal(err)
	}
	b.options.Users[r] = append(b.options.Users[r], public)
	return seed
}

func (b *broker) start() {
	b.t.Helper()
	s, err := Start(b.options)
	if err != nil {
		b.t.Fatal(err)
	}
	b.server = s
	b.options.Port = s.Port()
}

func (b *broker) ctx() context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	b.t.Cleanup(cancel)
	return ctx
}

func (b *broker) connect(r Role) *Conn {
	b.t.Helper()
	return b.connectSeed(r, b.seeds[r])
}

func (b *broker) connectSeed(r Role, seed []byte) *Conn {
	b.t.Helper()
	o := Options{URL: b.server.URL(), Role: r, Seed: seed, Name: "test " + string(r)}
	if os.Getenv("RIFFLE_LOG") != "" {
		l := zerolog.New(zerolog.NewTestWriter(b.t))
		o.Logger = &l
	}
	c, err := Connect(b.ctx(), o)
	if err != nil {
		b.t.Fatal(err)
	}
	b.t.Cleanup(c.Close)
	return c
}
