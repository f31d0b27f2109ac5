package api_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"math/big"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"github.com/riffle-dp/riffle/internal/randomizer/api"
	"github.com/riffle-dp/riffle/pkg/client"
)

// idle is a host that shows its status and does nothing else.
type idle struct{ api.Host }

func (idle) Status() api.Status        { return api.Status{Deployment: "d"} }
func (idle) OptOut(string, bool) error { return nil }
func (idle) Erase(string) error        { return nil }
func (idle) OptedOut(name string) bool { return false }

// serve serves an idle host as settings say, and returns where.
func serve(t *testing.T, s api.Settings, log zerolog.Logger) string {
	t.Helper()
	if faults := s.Validate(); len(faults) > 0 {
		t.Fatal(faults)
	}
	a, l, err := api.Open(idle{}, s, log)
	if err != nil {
		t.Fatal(err)
	}
	server := a.Server()
	ended := make(chan error, 1)
	go func() { ended <- server.Serve(l) }()
	t.Cleanup(func() {
		if err := server.Close(); err != nil {
			t.Error(err)
		}
		if err := <-ended; !errors.Is(err, http.ErrServerClosed) {
			t.Error(err)
		}
	})
	return l.Addr().String()
}

// asks asks for the status, for an opt-out and for an erasure, and wants all of them to be answered, or refused alike.
func asks(t *testing.T, o client.Options, at string, want error) {
	t.Helper()
	o.GiveUp = -1
	c := client.New(o)
	defer c.Close()
	ctx, base := context.Background(), client.At(at)
	s, err := c.Status(ctx, base)
	if !errors.Is(err, want) || (want == nil) != (err == nil) || err == nil && s.Deployment != "d" {
		t.Errorf("%s: %+v, %v; want %v", at, s, err, want)
	}
	for _, err := range []error{
		c.OptOut(ctx, base, "a/b", true), c.OptOut(ctx, base, "a", false), c.Erase(ctx, base, "a"),
	} {
		if !errors.Is(err, want) || (want == nil) != (err == nil) {
			t.Errorf("%s: %v; want %v", at, err, want)
		}
	}
}

const first, second = "11111111111111111111111111111111", "22222222222222222222222222222222"

// Over a Unix socket and over TLS, with tokens, the client is served, and without one of them it is not; a token that
// is replaced in the file is served no more, without a restart.
func TestBackendMode(t *testing.T) {
	folder := t.TempDir()
	path := func(name string) string { return filepath.Join(folder, name) }
	write := func(name, text string) string {
		t.Helper()
		if err := os.WriteFile(path(name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path(name)
	}
	pool := certify(t, write)
	trusting := &tls.Config{RootCAs: pool, MinVersion: tls.VersionTLS12}
	tokens := write("tokens", "backend "+first)
	var log strings.Builder

	socket := "unix:" + path("api")
	serve(t, api.Settings{Listen: socket, Tokens: tokens}, zerolog.New(&log))
	asks(t, client.Options{Token: first}, socket, nil)
	asks(t, client.Options{Token: second}, socket, client.Unauthorized)
	asks(t, client.Options{}, socket, client.Unauthorized)
	if info, err := os.Stat(path("api")); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v", info, err)
	}

	s := api.Settings{Listen: "127.0.0.1:0", Tokens: tokens, TLS: api.TLSSettings{
		Certificate: path("tls.crt"), Key: path("tls.key")}}
	_, port, err := net.SplitHostPort(serve(t, s, zerolog.Nop()))
	if err != nil {
		t.Fatal(err)
	}
	at := "https://localhost:" + port
	asks(t, client.Options{Token: first, TLS: trusting}, at, nil)
	asks(t, client.Options{TLS: trusting}, at, client.Unauthorized)
	asks(t, client.Options{Token: first}, at, client.ErrUnreachable) // of an authority that it does not know
	if answer, err := http.Get("http://localhost:" + port + "/v1/status"); err == nil {
		if answer.StatusCode == http.StatusOK {
			t.Error("it is served in the clear")
		}
		_ = answer.Body.Close()
	}
	write("tokens", "backend "+second)
	asks(t, client.Options{Token: first, TLS: trusting}, at, client.Unauthorized)
	asks(t, client.Options{Token: second, TLS: trusting}, at, nil)
	write("tokens", "backend "+second+" "+second)
	asks(t, client.Options{Token: second}, socket, client.TokensUnreadable)
	if said := log.String(); !strings.Contains(said, "api.tokens") || strings.Contains(said, second) {
		t.Errorf("the log says %q", said)
	}
	for _, s := range []api.Settings{
		{Listen: "127.0.0.1:0", Tokens: tokens},
		{Listen: "127.0.0.1:0", TLS: api.TLSSettings{Certificate: tokens, Key: path("tls.key")}},
		{Listen: socket}, {Listen: "unix:" + tokens},
	} {
		if _, l, err := api.Open(idle{}, s, zerolog.Nop()); err == nil {
			t.Errorf("%+v is served at %v", s, l.Addr())
		}
	}
}

// certify writes a certificate of localhost with its key, and returns what trusts it.
func certify(t *testing.T, write func(name, text string) string) *x509.CertPool {
	t.Helper()
	k, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	of := &x509.Certificate{SerialNumber: big.NewInt(1), DNSNames: []string{"localhost"},
		NotAfter: time.Now().Add(time.Hour), IsCA: true, BasicConstraintsValid: true}
	der, err := x509.CreateCertificate(rand.Reader, of, of, k.Public(), k)
	if err != nil {
		t.Fatal(err)
	}
	secret, err := x509.MarshalPKCS8PrivateKey(k)
	if err != nil {
		t.Fatal(err)
	}
	certificate := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
	write("tls.crt", string(certificate))
	write("tls.key", string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: secret})))
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(certificate)
	return pool
}
