package bus_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"

	"github.com/riffle-dp/riffle/internal/bus"
	"github.com/riffle-dp/riffle/internal/keyring/keyfile"
	"github.com/riffle-dp/riffle/internal/testing/testbed"
)

// What is not there any more is gone, at once, in whichever of its words the broker says so: for every call that
// names one message, on a stream that any replica may be asked for and on one that only the leader answers for.
func TestPurgedMessageIsGone(t *testing.T) {
	t.Parallel()
	for _, direct := range []bool{true, false} {
		t.Run(fmt.Sprintf("direct get %v", direct), func(t *testing.T) {
			t.Parallel()
			b := newBroker(t)
			dev, shuf, admin := b.connect(bus.Randomizer), b.connect(bus.Shuffler), b.connect(bus.Admin)
			if !direct {
				c := bus.ProvisionOptions{}.Streams()[0]
				c.AllowDirect = false
				if _, err := admin.JetStream().UpdateStream(b.ctx(), c); err != nil {
					t.Fatal(err)
				}
			}
			gone := func(what string, sequence uint64) {
				t.Helper()
				atOnce := func(ask func(context.Context) ([]byte, error)) (p []byte, err error) {
					for range 3 { // a busy machine may hold up one answer, not each
						ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
						p, err = ask(ctx)
						cancel()
						if errors.Is(err, bus.ErrGone) || err == nil {
							break
						}
					}
					return p, err
				}
				if p, err := atOnce(func(ctx context.Context) ([]byte, error) {
					return shuf.Reports.GetReport(ctx, sequence)
				}); !errors.Is(err, bus.ErrGone) {
					t.Errorf("%s: report %d: %q, %v", what, sequence, p, err)
				}
				if sequence == 0 { // no question that the leader takes
					return
				}
				if p, err := atOnce(func(ctx context.Context) ([]byte, error) {
					return shuf.Leader(ctx, bus.StreamReports, sequence)
				}); !errors.Is(err, bus.ErrGone) {
					t.Errorf("%s: report %d at the leader: %q, %v", what, sequence, p, err)
				}
			}
			gone("in an empty stream", 1)
			gone("never stored", 0)
			publishReports(t, dev, 0, 5)
			gone("past the end", 6)
			gone("far past the end", 1<<63)
			if err := shuf.Reports.PurgeReports(b.ctx(), 3); err != nil {
				t.Fatal(err)
			}
			for s := range uint64(4) {
				gone("purged, with others behind it", s)
			}
			for range 2 { // the second time there is nothing left to purge
				if err := shuf.Reports.PurgeReports(b.ctx(), 1<<63); err != nil {
					t.Error(err)
				}
			}
			for s := range uint64(7) {
				gone("purged", s)
			}
		})
	}
}

// doubleServer is a server without streams, where the test itself answers what a broker would. It knows one key.
func doubleServer(t *testing.T, answer func(*nats.Msg)) (url string, seed []byte) {
	t.Helper()
	seed, public, err := keyfile.NewSeed()
	if err != nil {
		t.Fatal(err)
	}
	s, err := server.NewServer(&server.Options{
		Host: "127.0.0.1", Port: -1, NoSigs: true,
		Nkeys: []*server.NkeyUser{{Nkey: public}}, Users: []*server.User{{Username: "double", Password: "double"}},
	})
	if err != nil {
		t.Fatal(err)
	}
	s.Start()
	t.Cleanup(s.Shutdown)
	if !s.ReadyForConnections(testbed.Patience) {
		t.Fatal("server did not start")
	}
	nc, err := nats.Connect(s.ClientURL(), nats.UserInfo("double", "double"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(nc.Close)
	if _, err := nc.Subscribe("riffle.>", answer); err != nil {
		t.Fatal(err)
	}
	if err := nc.FlushTimeout(testbed.Patience); err != nil {
		t.Fatal(err)
	}
	return s.ClientURL(), seed
}

func double(t *testing.T, role bus.Role, answer func(*nats.Msg)) *bus.Conn {
	t.Helper()
	url, seed := doubleServer(t, answer)
	ctx, cancel := context.WithTimeout(context.Background(), testbed.Patience)
	defer cancel()
	c, err := bus.Connect(ctx, bus.Options{URL: url, Role: role, Seed: seed})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	c.Hasten()
	return c
}

// An answer that is not known here ends the call, with what it said; one that comes late after such answers still
// counts, and calls that are not answered at all go on.
func TestUnknownAnswerEndsTheCall(t *testing.T) {
	t.Parallel()
	for name, say := range map[string]string{
		"a server error":      `{"error":{"code":500,"err_code":19999,"description":"the moon is full"}}`,
		"no room, unheard of": `{"error":{"code":507,"err_code":19998,"description":"the moon is full"}}`,
		"a bad request":       `{"error":{"code":400,"err_code":19997,"description":"the moon is full"}}`,
		"not JSON":            `the moon is full`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := double(t, bus.Shuffler, func(m *nats.Msg) {
				h := nats.Header{"Status": {"577"}, "Description": {"the moon is full"}}
				if m.Subject == bus.APILocal+".DIRECT.GET."+bus.StreamReports {
					_ = m.RespondMsg(&nats.Msg{Header: h})
				} else {
					_ = m.Respond([]byte(say))
				}
			})
			var wg sync.WaitGroup
			for call, f := range map[string]func(context.Context) error{
				"purge":        func(ctx context.Context) error { return c.Reports.PurgeReports(ctx, 1) },
				"read":         func(ctx context.Context) error { _, err := c.Reports.GetReport(ctx, 1); return err },
				"read a batch": func(ctx context.Context) error { return c.Batch(ctx, bus.StreamReports, ">", 1) },
				"read manifest": func(ctx context.Context) error {
					_, err := c.Mixed.ReadManifest(ctx, 1, 0)
					return err
				},
				"publish": func(ctx context.Context) error { return c.Mixed.PublishManifest(ctx, 1, 0, nil) },
				"backlog": func(ctx context.Context) error { _, err := c.Reports.Backlog(ctx); return err },
			} {
				wg.Go(func() {
					ctx, cancel := context.WithTimeout(context.Background(), testbed.Patience)
					defer cancel()
					err := f(ctx)
					if !errors.Is(err, bus.ErrRefused) || errors.Is(err, bus.ErrUnknown) {
						t.Errorf("%s: %v", call, err)
					} else if call != "backlog" && !strings.Contains(err.Error(), "moon") && say[0] == '{' {
						t.Errorf("%s: the error does not say what came: %v", call, err)
					}
				})
			}
			wg.Wait()
		})
	}
	t.Run("known at last", func(t *testing.T) {
		t.Parallel()
		var tries atomic.Int32
		c := double(t, bus.Shuffler, func(m *nats.Msg) {
			if tries.Add(1) < bus.OddTries {
				_ = m.Respond([]byte(`{"error":{"code":500,"err_code":19999}}`))
			} else {
				_ = m.Respond([]byte(`{"success":true}`))
			}
		})
		if err := c.Reports.PurgeReports(t.Context(), 1); err != nil {
			t.Error(err)
		}
	})
	t.Run("known to pass", func(t *testing.T) {
		t.Parallel()
		var tries atomic.Int32
		ctx, end := context.WithTimeout(t.Context(), testbed.Patience)
		defer end()
		c := double(t, bus.Shuffler, func(m *nats.Msg) {
			if tries.Add(1) > bus.OddTries+1 { // it has not given up by then
				end()
			}
			_ = m.Respond([]byte(`{"error":{"code":503,"err_code":10008,` +
				`"description":"JetStream system temporarily unavailable"}}`))
		})
		if err := c.Reports.PurgeReports(ctx, 1); !errors.Is(err, bus.ErrUnknown) || tries.Load() <= bus.OddTries {
			t.Errorf("after %d tries: %v", tries.Load(), err)
		}
	})
}
