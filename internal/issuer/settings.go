// Package issuer is the program that credentials installations of an organisation's app: package pkg/issuer behind a
// proxy that knows who is logged in, with its files. It needs no broker, and belongs to the organisation.
package issuer

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/riffle-dp/riffle/internal/config"
	"github.com/riffle-dp/riffle/internal/keyring"
	"github.com/riffle-dp/riffle/internal/role"
	"github.com/riffle-dp/riffle/internal/role/listen"
	"github.com/riffle-dp/riffle/internal/role/status"
	"github.com/riffle-dp/riffle/pkg/issuer"
)

// Settings are the configuration of an issuer.
type Settings struct {
	Keys        string             `key:"keys" doc:"Folder with the bundle, and in issuer/ the keys of riffle keygen issuer and the registrar's certificate." required:"true"`
	State       string             `key:"state" doc:"Folder of what was issued. It belongs to one process and must survive restarts. Its file issued.log is for auditors." required:"true"`
	HTTP        HTTPSettings       `key:"http"`
	Login       LoginSettings      `key:"login"`
	Credentials CredentialSettings `key:"credentials"`
	Mailbox     MailboxSettings    `key:"mailbox"`
}

// HTTPSettings say where installations find the issuer.
type HTTPSettings struct {
	Listen  string   `key:"listen" doc:"host:port for the organisation's proxy. Port 0 takes a free one."`
	Cert    string   `key:"cert" doc:"PEM file of the certificate, with its chain; it is read again when it is renewed. Empty: plain HTTP, on a machine or network that nobody else reads."`
	CertKey string   `key:"cert_key" doc:"PEM file of the certificate's private key."`
	Origins []string `key:"origins" doc:"Origins of the web pages that may ask, as https://app.example, beside the issuer's own."`
}

// LoginSettings say how the issuer learns who asks.
type LoginSettings struct {
	Header string `key:"header" doc:"Header in which the organisation's proxy names the account that is logged in. The proxy must remove it from what clients send."`
	Tokens string `key:"tokens" doc:"File of the tokens with which the proxy authenticates itself (Authorization: Bearer): lines of a name and a token." required:"true"`
}

// CredentialSettings say what credentials are like.
type CredentialSettings struct {
	End    uint64        `key:"end" doc:"Last epoch in which credentials admit; installations ask again before. 0: the certificate's last. With a period: the period's last epoch, or accounts have two keys for a time."`
	Period time.Duration `key:"period" doc:"How long an account has one key: as long as the epochs over which devices count what they spend. 0: for ever, for deployments in which a device takes part once."`
}

// Validate lists what is wrong.
func (h HTTPSettings) Validate() (faults []error) {
	if _, _, err := net.SplitHostPort(h.Listen); err != nil {
		faults = append(faults, config.Wrong("listen", h.Listen, "must be host:port"))
	}
	if (h.Cert == "") != (h.CertKey == "") {
		faults = append(faults, config.Conflict("cert", h.Cert, "must be given together with", "cert_key", h.CertKey))
	}
	return append(faults, role.Callers{Origins: h.Origins}.Faults()...)
}

// Validate lists what is wrong.
func (l LoginSettings) Validate() (faults []error) {
	if l.Header == "" || http.CanonicalHeaderKey(l.Header) == "Authorization" {
		faults = append(faults, config.Wrong("header", l.Header, "must name a header, and not Authorization"))
	}
	return faults
}

// Validate lists what is wrong.
func (c CredentialSettings) Validate() (faults []error) {
	if c.Period < 0 || c.Period > 0 && c.Period < time.Hour {
		faults = append(faults, config.Wrong("period", c.Period, "must be 0 or at least 1h"))
	}
	if c.Period > 0 && c.End == 0 {
		faults = append(faults, config.Conflict("period", c.Period, "needs the period's last epoch, and not", "end",
			c.End).Because("an account would have two keys that admit"))
	}
	return faults
}

// Role describes the issuer to the start-up shell.
func Role() role.Role[Settings] {
	return role.Role[Settings]{
		Name:  "issuer",
		Short: "credential installations of an organisation's app",
		Long: `The issuer gives each account of an organisation a credential for one installation of its app, in a
period. It stands behind a proxy that knows who is logged in. It needs no broker, and sees nothing of what people
decide or report. GET /v1/openapi.json describes its requests. With mailbox.ingress it is a mailbox, too, described by
GET /v1/deposits/openapi.json, and learns whether and when somebody was rewarded.`,
		Defaults: Settings{
			HTTP: HTTPSettings{Listen: "127.0.0.1:8406"}, Login: LoginSettings{Header: "Riffle-Account"},
		},
		OpsListen: "127.0.0.1:9407",
		Prepare:   prepare,
		Faults: func(s Settings) []error {
			_, err := s.load(nil)
			return config.FaultsOf(err)
		},
	}
}

// loaded is what the settings name, read.
type loaded struct {
	*keyring.IssuerKeys
	tokens *listen.Tokens
	tls    *tls.Config // nil: plain HTTP
}

func (s Settings) load(heard func(error)) (l loaded, err error) {
	if heard == nil {
		heard = func(error) {}
	}
	var faults []error
	if l.IssuerKeys, err = keyring.LoadIssuer(s.Keys); err != nil {
		faults = append(faults, config.Wrong("keys", s.Keys, "cannot be used").From(err))
	} else if end := s.Credentials.End; end != 0 && (end < l.First || end > l.Last) {
		faults = append(faults, config.Wrong("credentials.end", end,
			fmt.Sprintf("must be an epoch of the certificate, which is for %d to %d", l.First, l.Last)))
	}
	if l.tokens, err = listen.OpenTokens(s.Login.Tokens, heard); err != nil {
		faults = append(faults, config.Wrong("login.tokens", s.Login.Tokens, "cannot be used").From(err))
	}
	if s.HTTP.Cert != "" {
		if l.tls, err = listen.TLS(s.HTTP.Cert, s.HTTP.CertKey, "", heard); err != nil {
			faults = append(faults,
				config.Wrong("http.cert", s.HTTP.Cert, "cannot be used").From(err).Given("http.cert_key"))
		}
	}
	return l, errors.Join(faults...)
}

// account is who asks, as the proxy says: one that bears a token.
func (s Settings) account(tokens *listen.Tokens) func(*http.Request) (string, error) {
	return func(r *http.Request) (string, error) {
		if err := tokens.Check(r); err != nil {
			return "", err
		}
		said := r.Header.Values(s.Login.Header)
		if len(said) != 1 {
			return "", fmt.Errorf("%d headers %s, must be one", len(said), s.Login.Header)
		}
		return said[0], nil
	}
}

func prepare(env *role.Env, s Settings) (role.Serve, error) {
	l, err := s.load(func(err error) {
		if err != nil {
			env.Log.Error().Err(err).Msg("a file cannot be used any more; the one before stays in force where it can")
		}
	})
	if err != nil {
		return nil, err
	}
	if err := status.Mount(env, func() status.Snapshot {
		return status.Snapshot{Deployment: l.Bundle.Deployment}
	}); err != nil {
		return nil, err
	}
	ready := env.Health.Condition("listening")
	return func(ctx context.Context) (err error) {
		kept, err := openStore(s.State, l.Certificate)
		if err != nil {
			return fmt.Errorf("state: %w", err)
		}
		defer func() { _ = kept.close() }()
		credentials, err := issuer.New(issuer.Config{
			Registrar: l.Bundle.RegistrarParty(), Certificate: l.Certificate, Identity: l.Identity,
			End: s.Credentials.End, Period: s.Credentials.Period, Names: l.Names,
			Account: s.account(l.tokens), Origins: s.HTTP.Origins,
			Store: kept, Now: env.Clock.Now,
		})
		if err != nil {
			return err
		}
		n, of := credentials.Issued()
		env.Log.Info().Int("issued", n).Uint32("of", of).Msg("credentials")
		handler, forward, end, err := s.withMailbox(env, l, credentials)
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, end()) }()
		socket, err := net.Listen("tcp", s.HTTP.Listen)
		if err != nil {
			return fmt.Errorf("http.listen: %w; is another issuer running?", err)
		}
		env.Log.Info().Str("listener", "http.listen").Str("address", socket.Addr().String()).Bool("tls", l.tls != nil).
			Msg("listening")
		if l.tls != nil {
			socket = tls.NewListener(socket, l.tls)
		}
		ready.Set(nil)
		g, ctx := errgroup.WithContext(ctx)
		g.Go(func() error { return forward(ctx) })
		g.Go(func() error { return serve(ctx, socket, handler) })
		return g.Wait()
	}, nil
}

const (
	headerTime = 5 * time.Second
	bodyTime   = 10 * time.Second
	closeTime  = 5 * time.Second
)

// serve answers on a socket until ctx ends, and finishes what it has begun.
func serve(ctx context.Context, socket net.Listener, handler http.Handler) error {
	server := &http.Server{
		Handler: handler, ReadHeaderTimeout: headerTime, ReadTimeout: bodyTime, WriteTimeout: bodyTime,
		IdleTimeout: time.Minute, MaxHeaderBytes: 16 << 10,
	}
	g, ended := errgroup.WithContext(ctx)
	g.Go(func() error {
		if err := server.Serve(socket); !errors.Is(err, http.ErrServerClosed) {
			return fmt.Errorf("http: %w", err)
		}
		return nil
	})
	g.Go(func() error {
		<-ended.Done()
		last, cancel := context.WithTimeout(context.WithoutCancel(ctx), closeTime)
		defer cancel()
		return server.Shutdown(last)
	})
	return g.Wait()
}
