package role

import (
	"context"
	"net/url"
	"slices"
	"strings"

	"github.com/riffle-dp/riffle/internal/bus"
	"github.com/riffle-dp/riffle/internal/config"
)

// BrokerSettings are a role's configuration keys about the broker.
type BrokerSettings struct {
	URL        string `key:"url" doc:"Where the broker listens: nats://host:port or tls://host:port; several, separated by commas, for a cluster. wss://host:port is for networks that let nothing but HTTPS out, where the broker has a WebSocket listener." required:"true"`
	CA         string `key:"ca" doc:"PEM file of the authorities that may vouch for the broker. Empty: the system's, where the URL begins with tls."`
	Cert       string `key:"cert" doc:"PEM file of this client's own certificate, where the broker asks for one. Empty: none."`
	CertKey    string `key:"cert_key" doc:"PEM file of the certificate's private key. Empty: none."`
	ServerName string `key:"server_name" doc:"Name expected in the broker's certificate. Empty: the URL's host."`
}

// DefaultBroker is a broker that was started by hand on the same machine.
func DefaultBroker() BrokerSettings { return BrokerSettings{URL: bus.DefaultURL} }

// brokerSchemes are how a broker may be spoken to.
var brokerSchemes = []string{"nats", "tls", "wss"}

// Validate lists what is wrong with the settings.
func (s BrokerSettings) Validate() (faults []error) {
	for _, u := range strings.Split(s.URL, ",") {
		parsed, err := url.Parse(strings.TrimSpace(u))
		if err != nil || parsed.Host == "" || !slices.Contains(brokerSchemes, parsed.Scheme) {
			faults = append(faults, config.Wrong("url", u, "must be nats://, tls:// or wss://host:port"))
		} else if web := parsed.Scheme == "wss"; web != strings.HasPrefix(s.URL, "wss:") {
			faults = append(faults, config.Wrong("url", s.URL, "must be all wss://, or none"))
		}
	}
	if (s.Cert == "") != (s.CertKey == "") {
		faults = append(faults, config.Conflict("cert", s.Cert, "must be given together with", "cert_key", s.CertKey))
	}
	return faults
}

// Attach connects a role's process to its broker with the seed of its key there, and keeps its metrics and the
// conditions of its health up to date until the context ends (see bus.Conn.Monitor). The errors are those of
// bus.Connect.
func Attach(ctx context.Context, env *Env, who bus.Role, s BrokerSettings, seed []byte) (*bus.Conn, error) {
	o := bus.Options{URL: s.URL, Role: who, Seed: seed, Name: env.Name, Logger: &env.Log}
	if s.CA != "" || s.Cert != "" || s.ServerName != "" {
		o.TLS = &bus.TLS{CAFile: s.CA, CertFile: s.Cert, KeyFile: s.CertKey, ServerName: s.ServerName}
	}
	env.Health.Condition(bus.ConditionReached)
	c, err := bus.Connect(ctx, o)
	if err != nil {
		return nil, err
	}
	set := func(condition string, err error) { env.Health.Condition(condition).Set(err) }
	if err := c.Monitor(ctx, env.Metrics, set); err != nil {
		c.Close()
		return nil, err
	}
	return c, nil
}
