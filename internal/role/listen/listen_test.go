package listen_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"io"
	"io/fs"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/riffle-dp/riffle/internal/role/listen"
)

// certify makes a self-signed certificate of a name, in two files.
func certify(t *testing.T, name, certificate, key string) tls.Certificate {
	t.Helper()
	k, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	of := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: name}, DNSNames: []string{name},
		NotAfter: time.Now().Add(time.Hour), IsCA: true, BasicConstraintsValid: true,
		KeyUsage:    x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}
	der, err := x509.CreateCertificate(rand.Reader, of, of, k.Public(), k)
	if err != nil {
		t.Fatal(err)
	}
	secret, err := x509.MarshalPKCS8PrivateKey(k)
	if err != nil {
		t.Fatal(err)
	}
	first := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
	second := pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: secret})
	write(t, certificate, string(first))
	write(t, key, string(second))
	pair, err := tls.X509KeyPair(first, second)
	if err != nil {
		t.Fatal(err)
	}
	return pair
}

// shake connects and returns the name in the certificate that is shown. The caller shows one of own, if there is one.
func shake(t *testing.T, config *tls.Config, own ...tls.Certificate) (name string, err error) {
	t.Helper()
	near, far := net.Pipe()
	served := make(chan error, 1)
	go func() {
		server := tls.Server(far, config)
		err := server.Handshake()
		if err == nil {
			_, err = server.Write([]byte("x"))
		}
		served <- err
		_ = far.Close()
	}()
	client := tls.Client(near, &tls.Config{InsecureSkipVerify: true, Certificates: own})
	if err = client.Handshake(); err == nil {
		name = client.ConnectionState().PeerCertificates[0].Subject.CommonName
		_, err = io.ReadAll(client)
	}
	_ = near.Close()
	if wrong := <-served; wrong != nil {
		err = wrong
	}
	return name, err
}

// A certificate that is renewed is shown from then on; one that cannot be used leaves the one before in force.
func TestCertificatesAreReadAgain(t *testing.T) {
	folder := t.TempDir()
	certificate, key := filepath.Join(folder, "tls.crt"), filepath.Join(folder, "tls.key")
	if _, err := listen.TLS(certificate, key, "", nil); err == nil {
		t.Error("no files are taken")
	}
	certify(t, "first", certificate, key)
	var told []error
	config, err := listen.TLS(certificate, key, "", func(err error) { told = append(told, err) })
	if err != nil {
		t.Fatal(err)
	}
	expect := func(want string) {
		t.Helper()
		if name, err := shake(t, config); name != want || err != nil {
			t.Errorf("%q, %v; want %q", name, err, want)
		}
	}
	expect("first")
	certify(t, "second", certificate, key)
	expect("second")
	write(t, certificate, "nothing")
	expect("second")
	if len(told) != 1 || told[0] == nil {
		t.Errorf("told %v", told)
	}
	certify(t, "third", certificate, key)
	expect("third")
	if err := os.Chmod(key, 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := listen.TLS(certificate, key, "", nil); err == nil || !strings.Contains(err.Error(), "chmod") {
		t.Errorf("a key that everybody reads: %v", err)
	}
}

// Where there are authorities of callers, only whom they vouch for is let in, and that changes with the file.
func TestCallersShowACertificate(t *testing.T) {
	path := func(name string) string { return filepath.Join(t.TempDir(), name) }
	certificate, key, authority := path("tls.crt"), path("tls.key"), path("callers.crt")
	certify(t, "server", certificate, key)
	good := certify(t, "good", authority, path("good.key"))
	other := path("other.crt")
	bad := certify(t, "bad", other, path("bad.key"))
	config, err := listen.TLS(certificate, key, authority, nil)
	if err != nil {
		t.Fatal(err)
	}
	expect := func(what string, let bool, own ...tls.Certificate) {
		t.Helper()
		if _, err := shake(t, config, own...); (err == nil) != let {
			t.Errorf("%s: %v", what, err)
		}
	}
	expect("none", false)
	expect("another authority's", false, bad)
	expect("the authority's", true, good)
	text, err := os.ReadFile(other)
	if err != nil {
		t.Fatal(err)
	}
	write(t, authority, string(text))
	expect("now the authority's", true, bad)
	expect("no more the authority's", false, good)
	write(t, authority, "nothing")
	expect("of none", false, bad)
	if _, err := listen.TLS(certificate, key, authority, nil); err == nil {
		t.Error("no authority is taken")
	}
}

// A socket is its owner's, or its group's; a stale one is replaced; one in use, and another file, is not; and it is
// gone when it is closed.
func TestUnixSockets(t *testing.T) {
	folder := t.TempDir()
	path := filepath.Join(folder, "api")
	mode := func() fs.FileMode {
		info, err := os.Stat(path)
		if err != nil {
			t.Fatal(err)
		}
		return info.Mode()
	}
	l, err := listen.Unix(path, "")
	if err != nil {
		t.Fatal(err)
	}
	if mode() != fs.ModeSocket|0o600 || l.Addr().String() != path {
		t.Errorf("%v at %v", mode(), l.Addr())
	}
	if _, err := listen.Unix(path, ""); err == nil || !strings.Contains(err.Error(), "served by another") {
		t.Errorf("one in use: %v", err)
	}
	go func() {
		if c, err := net.Dial("unix", path); err == nil {
			_ = c.Close()
		}
	}()
	if c, err := l.Accept(); err != nil {
		t.Error(err)
	} else {
		_ = c.Close()
	}
	// What a process that was killed leaves: a socket that nobody serves.
	left, err := net.ListenUnix("unix", &net.UnixAddr{Name: path + "2", Net: "unix"})
	if err != nil {
		t.Fatal(err)
	}
	left.SetUnlinkOnClose(false)
	if err := left.Close(); err != nil {
		t.Fatal(err)
	}
	again, err := listen.Unix(path+"2", strconv.Itoa(os.Getgid()))
	if err != nil {
		t.Fatal(err)
	}
	if info, err := os.Stat(path + "2"); err != nil || info.Mode() != fs.ModeSocket|0o660 {
		t.Errorf("%v, %v", info, err)
	}
	if err := os.Rename(path+"2", path); err != nil { // another process has replaced it meanwhile
		t.Fatal(err)
	}
	if err := l.Close(); err != nil || mode().Type() != fs.ModeSocket {
		t.Error(err)
	}
	if err := again.Close(); err != nil {
		t.Error(err)
	}
	write(t, path+"3", "precious")
	if _, err := listen.Unix(path+"3", ""); err == nil || !strings.Contains(err.Error(), "no socket") {
		t.Errorf("another file: %v", err)
	}
	if _, err := listen.Unix(path+"4", "no such group"); err == nil {
		t.Error("no such group")
	}
	if _, err := listen.Unix(path+strings.Repeat("5", 120), ""); err == nil {
		t.Error("a long path")
	}
	entries, err := os.ReadDir(folder)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, e := range entries {
		names = append(names, e.Name())
	}
	if !slices.Equal(names, []string{"api", "api3"}) { // of which the first was moved there by this test
		t.Errorf("left: %v", names)
	}
}
