package bus_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"

	"github.com/riffle-dp/riffle/internal/broker"
	"github.com/riffle-dp/riffle/internal/bus"
	"github.com/riffle-dp/riffle/internal/keyring/keyfile"
)

// authority writes a certificate authority and what it signs for 127.0.0.1 into a directory.
func authority(t *testing.T, dir string) {
	t.Helper()
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	write := func(name, kind string, der []byte) {
		t.Helper()
		must(os.WriteFile(filepath.Join(dir, name), pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), 0o600))
	}
	caKey, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	must(err)
	ca := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "test authority"},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	der, err := x509.CreateCertificate(rand.Reader, ca, ca, &caKey.PublicKey, caKey)
	must(err)
	write("ca.pem", "CERTIFICATE", der)
	for i, name := range []string{"server", "client"} {
		key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
		must(err)
		cert := &x509.Certificate{
			SerialNumber: big.NewInt(int64(i + 2)), Subject: pkix.Name{CommonName: name},
			NotBefore: ca.NotBefore, NotAfter: ca.NotAfter,
			IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
			ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
			KeyUsage:    x509.KeyUsageDigitalSignature,
		}
		der, err := x509.CreateCertificate(rand.Reader, cert, ca, &key.PublicKey, caKey)
		must(err)
		write(name+".pem", "CERTIFICATE", der)
		private, err := x509.MarshalPKCS8PrivateKey(key)
		must(err)
		write(name+".key", "PRIVATE KEY", private)
	}
}

func TestTLSRefusesWrongCertificates(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	authority(t, dir)
	at := func(name string) string { return filepath.Join(dir, name) }
	seed, public, err := keyfile.NewSeed()
	if err != nil {
		t.Fatal(err)
	}
	s, err := broker.Start(broker.Options{
		Dir: t.TempDir(), Users: map[bus.Role][]string{bus.Admin: {public}},
		TLS: &broker.TLS{CertFile: at("server.pem"), KeyFile: at("server.key"), CAFile: at("ca.pem")},
	})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Stop()
	good := &bus.TLS{CAFile: at("ca.pem"), CertFile: at("client.pem"), KeyFile: at("client.key")}
	for name, c := range map[string]struct {
		tls *bus.TLS
		ok  bool
	}{
		"both certificates":     {good, true},
		"no client certificate": {&bus.TLS{CAFile: at("ca.pem")}, false},
		"unknown authority":     {&bus.TLS{CertFile: at("client.pem"), KeyFile: at("client.key")}, false},
		"clear text":            {nil, false},
		"wrong name": {&bus.TLS{CAFile: at("ca.pem"), CertFile: at("client.pem"), KeyFile: at("client.key"),
			ServerName: "other"}, false},
		"no such file":          {&bus.TLS{CAFile: at("none")}, false},
		"no certificate inside": {&bus.TLS{CAFile: at("client.key")}, false},
		"key without its pair": {&bus.TLS{CAFile: at("ca.pem"), CertFile: at("client.pem"),
			KeyFile: at("server.key")}, false},
	} {
		ctx, cancel := context.WithTimeout(context.Background(), 300*time.Millisecond)
		if c.ok {
			ctx = t.Context()
		}
		conn, err := bus.Connect(ctx, bus.Options{URL: s.URL(), Role: bus.Admin, Seed: seed, TLS: c.tls})
		cancel()
		if (err == nil) != c.ok {
			t.Errorf("%s: %v", name, err)
		}
		if err == nil {
			if err := bus.Provision(t.Context(), conn, bus.ProvisionOptions{}); err != nil {
				t.Error(err)
			}
			conn.Close()
		}
	}
}

// Where a network lets nothing but HTTPS out, roles reach a broker that has a WebSocket listener.
func TestABrokerIsReachedOverWebSockets(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	authority(t, dir)
	at := func(name string) string { return filepath.Join(dir, name) }
	pair, err := tls.LoadX509KeyPair(at("server.pem"), at("server.key"))
	if err != nil {
		t.Fatal(err)
	}
	b := newBroker(t)
	b.startItself(func(o *server.Options) {
		o.Websocket.Host, o.Websocket.Port = "127.0.0.1", -1
		o.Websocket.TLSConfig = &tls.Config{Certificates: []tls.Certificate{pair}, MinVersion: tls.VersionTLS13}
	})
	url := b.server.(itself).WebsocketURL()
	o := bus.Options{URL: url, Role: bus.Randomizer, Seed: b.seeds[bus.Randomizer]}
	hasty, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	if _, err := bus.Connect(hasty, o); err == nil {
		t.Error("an unknown authority vouches for the broker")
	}
	o.TLS = &bus.TLS{CAFile: at("ca.pem")}
	c, err := bus.Connect(b.ctx(), o)
	if err != nil {
		t.Fatalf("%s: %v", url, err)
	}
	defer c.Close()
	if err := c.Reports.PublishReport(b.ctx(), 1, 0, "id", make([]byte, 100_000)); err != nil {
		t.Error(err)
	}
}
