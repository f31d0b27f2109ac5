package ingress

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sync/errgroup"

	"github.com/riffle-dp/riffle/internal/bus"
	"github.com/riffle-dp/riffle/internal/config"
	"github.com/riffle-dp/riffle/internal/keyring"
	"github.com/riffle-dp/riffle/internal/role"
	"github.com/riffle-dp/riffle/internal/role/listen"
	"github.com/riffle-dp/riffle/internal/role/status"
)

// Settings are the configuration of an ingress.
type Settings struct {
	Keys   string              `key:"keys" doc:"Folder made by riffle keygen; of it the bundle and ingress/ are read." required:"true"`
	HTTP   HTTPSettings        `key:"http"`
	Limits LimitSettings       `key:"limits"`
	Broker role.BrokerSettings `key:"broker"`
}

// HTTPSettings say where devices find the ingress.
type HTTPSettings struct {
	Listen  string   `key:"listen" doc:"host:port for devices, and for web pages of any origin. Port 0 takes a free one."`
	Cert    string   `key:"cert" doc:"PEM file of the certificate, with its chain; it is read again when it is renewed. Empty: plain HTTP, for behind a proxy that has the certificate."`
	CertKey string   `key:"cert_key" doc:"PEM file of the certificate's private key."`
	Proxies []string `key:"proxies" doc:"Addresses or networks of the proxies in front, whose header X-Forwarded-For says where a request came from. Nobody else's counts."`
	Relays  []string `key:"relays" doc:"Addresses or networks of those who send for many people, such as a mailbox: their rate is limits.relay."`
}

// LimitSettings bound what a process takes.
type LimitSettings struct {
	Memory      int64         `key:"memory" doc:"Bytes of request bodies that may be under way at a time; beyond them clients are told to come back."`
	Connections int           `key:"connections" doc:"Open connections; an eighth of them from one network at most, unless it is a proxy or a relay."`
	Body        time.Duration `key:"body" doc:"How long a body may take to come."`
	Reports     float64       `key:"reports" doc:"Reports a second that one network (/24, /64) may send in the long run; of a quiet one, those of ten seconds may come at once. A mobile carrier can have thousands of people behind one address."`
	Enrolments  float64       `key:"enrolments" doc:"The same, of requests for enrolment."`
	Relay       float64       `key:"relay" doc:"The same of either, from the network of a relay."`
}

// DefaultLimits are the bounds of a process on a small machine.
func DefaultLimits() LimitSettings {
	return LimitSettings{Memory: 64 << 20, Connections: 4096, Body: 10 * time.Second, Reports: 100, Enrolments: 100,
		Relay: 20_000}
}

// Validate lists what is wrong.
func (h HTTPSettings) Validate() (faults []error) {
	if _, _, err := net.SplitHostPort(h.Listen); err != nil {
		faults = append(faults, config.Wrong("listen", h.Listen, "must be host:port"))
	}
	if (h.Cert == "") != (h.CertKey == "") {
		faults = append(faults, config.Conflict("cert", h.Cert, "must be given together with", "cert_key", h.CertKey))
	}
	for key, texts := range map[string][]string{"proxies": h.Proxies, "relays": h.Relays} {
		if _, err := parseNetworks(texts); err != nil {
			faults = append(faults, config.Wrong(key, texts, "must be addresses or networks, such as 10.0.0.0/8"))
		}
	}
	return faults
}

// Validate lists what is wrong.
func (l LimitSettings) Validate() (faults []error) {
	if l.Memory < 1<<20 {
		faults = append(faults, config.Wrong("memory", l.Memory, "must be at least 1048576"))
	}
	if l.Connections < 1 {
		faults = append(faults, config.Wrong("connections", l.Connections, "must be at least 1"))
	}
	if l.Body < time.Second {
		faults = append(faults, config.Wrong("body", l.Body, "must be at least 1s"))
	}
	for key, rate := range map[string]float64{"reports": l.Reports, "enrolments": l.Enrolments, "relay": l.Relay} {
		if !(rate >= 0.001 && rate <= 1e9) {
			faults = append(faults, config.Wrong(key, rate, "must be 0.001 to 1e9"))
		}
	}
	return faults
}

// Role describes the ingress to the start-up shell.
func Role() role.Role[Settings] {
	return role.Role[Settings]{
		Name:  "ingress",
		Short: "let phones and web pages take part over HTTPS",
		Long: `The ingress is the way in for devices that are no users of the broker. It belongs to the shuffler's
operator, opens nothing and keeps no state: run as many as you need behind one name. It hands out the signed
announcements and keys, passes sealed requests for enrolment to the shuffler, and stores sealed reports at the
broker. GET /v1/openapi.json describes its requests.`,
		Defaults: Settings{
			HTTP: HTTPSettings{Listen: "127.0.0.1:8405"}, Limits: DefaultLimits(), Broker: role.DefaultBroker(),
		},
		OpsListen: "127.0.0.1:9406",
		Prepare:   prepare,
		Faults: func(s Settings) []error {
			_, err := s.load(nil)
			return config.FaultsOf(err)
		},
	}
}

// loaded is what the settings name, read.
type loaded struct {
	*keyring.IngressKeys
	tls *tls.Config // nil: plain HTTP
}

// load reads it. heard is told when the certificate changes.
func (s Settings) load(heard func(error)) (l loaded, err error) {
	var faults []error
	if l.IngressKeys, err = keyring.LoadIngress(s.Keys); err != nil {
		faults = append(faults, config.Wrong("keys", s.Keys, "cannot be used").From(err))
	}
	if s.HTTP.Cert != "" {
		if l.tls, err = listen.TLS(s.HTTP.Cert, s.HTTP.CertKey, "", heard); err != nil {
			faults = append(faults, config.Wrong("http.cert", s.HTTP.Cert, "cannot be used").From(err).
				Given("http.cert_key"))
		} else {
			l.tls.NextProtos = []string{"h2", "http/1.1"}
		}
	}
	return l, errors.Join(faults...)
}

func prepare(env *role.Env, s Settings) (role.Serve, error) {
	l, err := s.load(func(err error) { env.Log.Info().Err(err).Msg("the certificate's files have changed") })
	if err != nil {
		return nil, err
	}
	c := Config{
		Deployment: l.Bundle.Deployment, Analyzer: l.Bundle.Analyzer, Shuffler: l.Bundle.Shuffler, Ticket: l.Ticket,
		Limits: Limits(s.Limits), TLS: l.tls, Clock: env.Clock, Log: env.Log,
		Keys: env.Health.Condition("keys"),
	}
	c.Proxies, _ = parseNetworks(s.HTTP.Proxies) // valid
	c.Relays, _ = parseNetworks(s.HTTP.Relays)
	if err := c.measure(env); err != nil {
		return nil, err
	}
	var running atomic.Pointer[Ingress]
	err = status.Mount(env, func() status.Snapshot {
		if s := running.Load(); s != nil {
			return s.snapshot()
		}
		return status.Snapshot{Deployment: l.Bundle.Deployment}
	})
	if err != nil {
		return nil, err
	}
	return func(ctx context.Context) error {
		// Requests under way need the broker until the server has shut down.
		work, stop := context.WithCancel(context.WithoutCancel(ctx))
		defer stop()
		conn, err := role.Attach(ctx, env, bus.Ingress, s.Broker, l.Seed)
		if err != nil {
			return err
		}
		defer conn.Close()
		c.Bus = Over(conn.Streams)
		in := New(c)
		running.Store(in)
		socket, err := net.Listen("tcp", s.HTTP.Listen)
		if err != nil {
			return fmt.Errorf("http.listen: %w; is another ingress running?", err)
		}
		env.Log.Info().Str("listener", "http.listen").Str("address", socket.Addr().String()).
			Bool("tls", l.tls != nil).Msg("listening")
		return in.serve(ctx, work, stop, in.Listener(socket), in.Server())
	}, nil
}

// serve answers on a socket until ctx ends, finishes what it has begun, and then ends the work behind it.
func (s *Ingress) serve(ctx, work context.Context, stop func(), socket net.Listener, server *http.Server) error {
	g, work := errgroup.WithContext(work)
	g.Go(func() error {
		err := s.Run(work)
		if ctx.Err() != nil {
			return nil
		}
		return err
	})
	g.Go(func() error {
		listen := server.Serve
		if server.TLSConfig != nil {
			listen = func(l net.Listener) error { return server.ServeTLS(l, "", "") }
		}
		if err := listen(socket); !errors.Is(err, http.ErrServerClosed) {
			return fmt.Errorf("http: %w", err)
		}
		return nil
	})
	g.Go(func() error {
		select {
		case <-ctx.Done():
		case <-work.Done():
		}
		s.Stop()
		last, cancel := context.WithTimeout(context.WithoutCancel(ctx), closeTime)
		defer cancel()
		err := server.Shutdown(last)
		stop()
		return err
	})
	return g.Wait()
}

// closeTime bounds how long requests under way may take when the process stops.
const closeTime = 6 * time.Second

// measure registers accounts and metrics. No label of them is of a client.
func (c *Config) measure(env *role.Env) (err error) {
	if c.Reports, err = newAccount(env.Metrics, env.Name, "report", ReportReasons()); err != nil {
		return err
	}
	if c.Enrolments, err = newAccount(env.Metrics, env.Name, "enrolment", EnrolmentReasons()); err != nil {
		return err
	}
	env.Account(c.Enrolments.Outcomes)
	env.Account(c.Reports.Outcomes)
	sizes := prometheus.NewHistogram(prometheus.HistogramOpts{
		Name: "riffle_ingress_batch_reports", Help: "Reports that the broker stored with one sync.",
		Buckets: prometheus.ExponentialBuckets(1, 2, 9),
	})
	c.Batched = func(reports int) { sizes.Observe(float64(reports)) }
	if err := env.Metrics.Register(sizes); err != nil {
		return err
	}
	return env.ShowProcess()
}

// snapshot is what the status page shows.
func (s *Ingress) snapshot() status.Snapshot {
	out := status.Snapshot{Deployment: s.c.Deployment}
	if l, any := s.chain.last(); any {
		out.Epoch, out.Round, out.Final = l.at.epoch, l.at.round, l.final
	}
	return out
}
