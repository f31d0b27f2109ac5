package bus

import (
	"context"
	"net/url"
	"strings"

	"github.com/riffle-dp/riffle/internal/role"
)

// Settings are a role's configuration keys about the broker, for the start-up shell.
type Settings struct {
	URL        string `key:"url" doc:"Where the broker listens: nats://host:port or tls://host:port; several, separated by commas, for a cluster." required:"true"`
	CA         string `key:"ca" doc:"PEM file of the authorities that may vouch for the broker. Empty: the system's, where the URL begins with tls."`
	Cert       string `key:"cert" doc:"PEM file of this client's own certificate, where the broker asks for one. Empty: none."`
	CertKey    string `key:"cert_key" doc:"PEM file of the certificate's private key. Empty: none."`
	ServerName string `key:"server_name" doc:"Name expected in the broker's certificate. Empty: the URL's host."`
}

// DefaultURL is where a broker listens that was started by hand on the same machine.
const DefaultURL = "nats://127.0.0.1:4222"

// Validate lists what is wrong with the settings.
func (s Settings) Validate() (faults []error) {
	for _, u := range strings.Split(s.URL, ",") {
		parsed, err := url.Parse(strings.TrimSpace(u))
		if err != nil || parsed.Host == "" || parsed.Scheme != "nats" && parsed.Scheme != "tls" {
			faults = append(faults, role.Wrong("url", u, "must be nats://host:port or tls://host:port"))
		}
	}
	if (s.Cert == "") != (s.CertKey == "") {
		faults = append(faults, role.Conflict("cert", s.Cert, "must be given together with", "cert_key", s.CertKey))
	}
	return faults
}

// options are the connection options of a role with this seed.
func (s Settings) options(role Role, seed []byte, name string) Options {
	o := Options{URL: s.URL, Role: role, Seed: seed, Name: name}
	if s.CA != "" || s.Cert != "" || s.ServerName != "" {
		o.TLS = &TLS{CAFile: s.CA, CertFile: s.Cert, KeyFile: s.CertKey, ServerName: s.ServerName}
	}
	return o
}

// Attach connects a role's process to its broker and keeps its health up to date until the context ends: the conditions "broker" (it is
// there), "broker_calls" (it settles what it is asked) and "broker_room" (it has room for what is written). The errors are Connect's.
func Attach(ctx context.Context, env *role.Env, role Role, s Settings, seed []byte) (*Conn, error) {
	return attach(ctx, env, s.options(role, seed, env.Name), usualPace)
}

func attach(ctx context.Context, env *role.Env, o Options, p pace) (*Conn, error) {
	o.Logger = &env.Log
	env.Health.Condition("broker")
	c, err := Connect(ctx, o)
	if err != nil {
		return nil, err
	}
	u := newPulse(c, p)
	if err := env.Metrics.Register(newConnMetrics(env.Name, u)); err != nil {
		c.Close()
		return nil, err
	}
	go u.ask(ctx)
	go u.watchOver(ctx, env.Health, env.Log)
	return c, nil
}
