package keyring

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/riffle-dp/riffle/internal/keyring/keyfile"
)

func withBrokers(t *testing.T, brokers ...BrokerOptions) string {
	t.Helper()
	root := filepath.Join(t.TempDir(), "keys")
	hosts := []HostOptions{{Name: "one", Devices: 5}}
	if err := Generate(root, Options{Name: "demo", Hosts: hosts, Brokers: brokers}); err != nil {
		t.Fatal(err)
	}
	return root
}

// authorityPool is what a role believes that has the deployment's ca.pem.
func authorityPool(t *testing.T, root string) *x509.CertPool {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(root, AuthorityFile))
	if err != nil {
		t.Fatal(err)
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(text) {
		t.Fatal("no certificate in the authority's file")
	}
	return pool
}

// handshake lets a client that believes pool call a broker by a name.
func handshake(t *testing.T, root, broker, name string, client *tls.Config) error {
	t.Helper()
	folder := BrokerFolder(root, broker)
	pair, err := tls.LoadX509KeyPair(filepath.Join(folder, certificateFile), filepath.Join(folder, serverKeyFile))
	if err != nil {
		t.Fatal(err)
	}
	listener, err := tls.Listen("tcp", "127.0.0.1:0",
		&tls.Config{Certificates: []tls.Certificate{pair}, MinVersion: tls.VersionTLS13})
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	go func() {
		if far, err := listener.Accept(); err == nil {
			defer far.Close()
			_ = far.(*tls.Conn).Handshake() // what the client makes of it is what counts
		}
	}()
	client = client.Clone()
	client.ServerName = name
	near, err := tls.DialWithDialer(&net.Dialer{Timeout: 5 * time.Second}, "tcp", listener.Addr().String(), client)
	if err == nil {
		return near.Close()
	}
	return err
}

func TestBrokerIsBelievedUnderItsNamesOnly(t *testing.T) {
	root := withBrokers(t, BrokerOptions{"n1", []string{"nats", "n1.example.org", "127.0.0.1", "::1"}},
		BrokerOptions{"n2", []string{"n2"}})
	other := withBrokers(t, BrokerOptions{"n1", []string{"nats"}})
	mine, theirs := &tls.Config{RootCAs: authorityPool(t, root)}, &tls.Config{RootCAs: authorityPool(t, other)}
	for _, c := range []struct {
		broker, name string
		client       *tls.Config
		ok           bool
	}{
		{"n1", "nats", mine, true},
		{"n1", "n1.example.org", mine, true},
		{"n1", "127.0.0.1", mine, true},
		{"n1", "::1", mine, true},
		{"n2", "n2", mine, true},
		{"n1", "n2", mine, false},
		{"n2", "nats", mine, false},
		{"n1", "sub.n1.example.org", mine, false},
		{"n1", "nats", theirs, false},        // another deployment's authority
		{"n1", "nats", &tls.Config{}, false}, // the system's authorities
	} {
		if err := handshake(t, root, c.broker, c.name, c.client); (err == nil) != c.ok {
			t.Errorf("%s as %s: %v", c.broker, c.name, err)
		}
	}
}

// A broker's key must not be able to vouch for another broker.
func TestBrokerIsNoAuthority(t *testing.T) {
	root := withBrokers(t, BrokerOptions{"n1", []string{"nats"}})
	leaf, err := readCertificate(filepath.Join(BrokerFolder(root, "n1"), certificateFile))
	if err != nil {
		t.Fatal(err)
	}
	ca, err := readCertificate(filepath.Join(root, AuthorityFile))
	if err != nil {
		t.Fatal(err)
	}
	if leaf.IsCA || !ca.IsCA || !ca.MaxPathLenZero {
		t.Errorf("broker is an authority: %v; authority: %v, without authorities below it: %v", leaf.IsCA, ca.IsCA,
			ca.MaxPathLenZero)
	}
	if life := leaf.NotAfter.Sub(leaf.NotBefore); life > CertificateLife+backdating+time.Second {
		t.Errorf("a broker's certificate lives %s", life)
	}
}

func TestPrivateBrokerFilesAreClosed(t *testing.T) {
	root := withBrokers(t, BrokerOptions{"n1", []string{"nats"}})
	for path, mode := range map[string]fs.FileMode{
		AuthorityFile: 0o644, "registrar/" + authorityKeyFile: 0o600, "broker-n1/" +
			serverKeyFile: 0o600, "broker-n1/" + certificateFile: 0o644,
	} {
		info, err := os.Stat(filepath.Join(root, path))
		if err != nil || info.Mode() != mode {
			t.Errorf("%s: %v, %v", path, info.Mode(), err)
		}
	}
	info, err := os.Stat(BrokerFolder(root, "n1"))
	if err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("folder: %v, %v", info.Mode(), err)
	}
}

// A fresh deployment, a broker that is added and one that is renewed are believed by clocks that are behind or ahead:
// by the minutes of a clock that is never set, and by the hours of one that took its time zone for UTC.
func TestClocksThatAreOffBelieveAFreshDeployment(t *testing.T) {
	root := withBrokers(t, BrokerOptions{"n1", []string{"nats"}}, BrokerOptions{"n2", []string{"n2"}})
	if err := AddBroker(root, BrokerOptions{"n3", []string{"n3"}}); err != nil {
		t.Fatal(err)
	}
	if _, err := RenewBroker(root, "n2"); err != nil {
		t.Fatal(err)
	}
	for _, off := range []time.Duration{-10 * time.Minute, -14 * time.Hour, -26 * time.Hour, 26 * time.Hour} {
		client := &tls.Config{RootCAs: authorityPool(t, root), Time: func() time.Time { return time.Now().Add(off) }}
		for broker, name := range map[string]string{"n1": "nats", "n2": "n2", "n3": "n3"} {
			if err := handshake(t, root, broker, name, client); err != nil {
				t.Errorf("a clock that is off by %s does not believe %s: %v", off, broker, err)
			}
		}
	}
}

func TestRenewedBrokerIsBelievedAgain(t *testing.T) {
	root := withBrokers(t, BrokerOptions{"n1", []string{"nats", "10.0.0.7"}})
	client := &tls.Config{RootCAs: authorityPool(t, root)}
	later := time.Now().Add(CertificateLife + time.Hour)
	client.Time = func() time.Time { return later }
	if err := handshake(t, root, "n1", "nats", client); err == nil {
		t.Fatal("an expired certificate was believed")
	}
	end, err := renewBroker(root, "n1", later)
	if err != nil || end.Before(later.Add(CertificateLife-time.Minute)) {
		t.Fatal(end, err)
	}
	for _, name := range []string{"nats", "10.0.0.7"} {
		if err := handshake(t, root, "n1", name, client); err != nil {
			t.Errorf("renewed, as %s: %v", name, err)
		}
	}
	if _, err := RenewBroker(root, "n9"); err == nil {
		t.Error("a broker that is not there was renewed")
	}
	// The authority's own end bounds what it signs.
	if end, err = renewBroker(root, "n1", time.Now().Add(AuthorityLife-24*time.Hour)); err != nil ||
		end.After(time.Now().Add(AuthorityLife)) {
		t.Error(end, err)
	}
}

func TestAddedBrokerIsBelieved(t *testing.T) {
	root := withBrokers(t, BrokerOptions{"n1", []string{"nats"}})
	if err := AddBroker(root, BrokerOptions{"n2", []string{"n2"}}); err != nil {
		t.Fatal(err)
	}
	if err := handshake(t, root, "n2", "n2", &tls.Config{RootCAs: authorityPool(t, root)}); err != nil {
		t.Error(err)
	}
	if err := AddBroker(root, BrokerOptions{"n2", []string{"n2"}}); !errors.Is(err, keyfile.ErrExists) {
		t.Errorf("the same again: %v", err)
	}
	for name, b := range map[string]BrokerOptions{
		"no host":     {"n3", nil},
		"wildcard":    {"n3", []string{"*.example.org"}},
		"empty host":  {"n3", []string{""}},
		"a URL":       {"n3", []string{"nats://n3:4222"}},
		"empty label": {"n3", []string{"a..b"}},
		"outside":     {"../n3", []string{"n3"}},
	} {
		if err := AddBroker(root, b); !errors.Is(err, ErrOptions) {
			t.Errorf("%s: %v", name, err)
		}
	}
	// Without the registrar, or with another deployment's, no broker is vouched for.
	if err := os.Rename(filepath.Join(root, registrar), filepath.Join(root, "away")); err != nil {
		t.Fatal(err)
	}
	if err := AddBroker(root, BrokerOptions{"n4", []string{"n4"}}); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("without the registrar: %v", err)
	}
	other := withBrokers(t, BrokerOptions{"n1", []string{"nats"}})
	if err := os.Rename(filepath.Join(other, registrar), filepath.Join(root, registrar)); err != nil {
		t.Fatal(err)
	}
	if err := AddBroker(root, BrokerOptions{"n4", []string{"n4"}}); !errors.Is(err, ErrMismatch) {
		t.Errorf("with another registrar: %v", err)
	}
}

func TestGenerateRefusesFaultyBrokers(t *testing.T) {
	for name, brokers := range map[string][]BrokerOptions{
		"two of one name": {{"n1", []string{"a"}}, {"n1", []string{"b"}}},
		"bad name":        {{"N1", []string{"a"}}},
		"no host":         {{"n1", nil}},
	} {
		root := filepath.Join(t.TempDir(), "keys")
		if err := Generate(root, Options{Name: "demo", Brokers: brokers}); !errors.Is(err, ErrOptions) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if root := withBrokers(t); HasAuthority(root) {
		t.Error("an authority that was not asked for")
	}
	if !HasAuthority(withBrokers(t, BrokerOptions{"n1", []string{"a"}})) {
		t.Error("no authority")
	}
}

// After the authority's rotation a role with the new ca.pem believes no key from before, and a role with the old one no
// key from after. The names stay.
func TestANewAuthorityEndsTheOldOne(t *testing.T) {
	root := withBrokers(t, BrokerOptions{"n1", []string{"nats", "127.0.0.1"}}, BrokerOptions{"n2", []string{"n2"}})
	kept := filepath.Join(t.TempDir(), "kept")
	if err := os.CopyFS(kept, os.DirFS(root)); err != nil {
		t.Fatal(err)
	}
	if names, err := RotateAuthority(root); err != nil || len(names) != 2 {
		t.Fatal(names, err)
	}
	before, after := &tls.Config{RootCAs: authorityPool(t, kept)}, &tls.Config{RootCAs: authorityPool(t, root)}
	for _, c := range []struct {
		root, broker, name string
		client             *tls.Config
		ok                 bool
	}{
		{root, "n1", "nats", after, true}, {root, "n1", "127.0.0.1", after, true}, {root, "n2", "n2", after, true},
		{kept, "n1", "nats", after, false}, {root, "n1", "nats", before, false}, {kept, "n1", "nats", before, true},
	} {
		if err := handshake(t, c.root, c.broker, c.name, c.client); (err == nil) != c.ok {
			t.Errorf("%s as %s: %v", c.broker, c.name, err)
		}
	}
	if _, err := RenewBroker(root, "n1"); err != nil { // the authority is whole
		t.Error(err)
	}
}
