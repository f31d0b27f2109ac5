package keyring

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/riffle-dp/riffle/internal/keyring/keyfile"
)

// Files of the deployment's own certificate authority, which vouches for its brokers and for nothing else.
const (
	AuthorityFile    = "ca.pem" // public: by it roles know their broker
	authorityKeyFile = "ca.key" // in registrar/, offline
	certificateFile  = "server.pem"
	serverKeyFile    = "server.key"
)

// How long certificates are good for. A broker's is renewed with RenewBroker; a new authority means a new ca.pem for
// every role.
const (
	AuthorityLife   = 10 * 365 * 24 * time.Hour
	CertificateLife = 397 * 24 * time.Hour // what public authorities give: a year and some weeks to renew in
	// backdating lets machines whose clocks are behind believe a fresh deployment: by minutes where nothing sets
	// them, by hours where they took local time for UTC (at most 14 hours), by some more where both happened. An
	// early beginning helps no attacker: the key did not exist then.
	backdating = 48 * time.Hour
)

// ErrCertificate means certificates that cannot be made or read.
var ErrCertificate = errors.New("certificate")

// BrokerOptions is one broker, which gets a certificate.
type BrokerOptions struct {
	Name  string   // a-z, 0-9, "-"; of its folder, broker-<name>
	Hosts []string // DNS names and IP addresses under which roles and other brokers find it; at least one
}

func (b BrokerOptions) check() error {
	if err := checkName(ErrOptions, "a broker", b.Name); err != nil {
		return err
	}
	if len(b.Hosts) == 0 {
		return fmt.Errorf("%w: broker %q has no host name", ErrOptions, b.Name)
	}
	for _, h := range b.Hosts {
		if net.ParseIP(h) == nil && !hostName(h) {
			return fmt.Errorf("%w: broker %q: %q is neither a DNS name nor an IP address", ErrOptions, b.Name, h)
		}
	}
	return nil
}

// hostName accepts the DNS names that a client would look up: no wildcards.
func hostName(s string) bool {
	if s == "" || len(s) > 253 {
		return false
	}
	for label := range strings.SplitSeq(s, ".") {
		if label == "" || len(label) > 63 || strings.Trim(label,
			"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-") != "" || label[0] == '-' ||
			label[len(label)-1] == '-' {
			return false
		}
	}
	return true
}

// BrokerFolder is where the certificate and key of a broker lie: server.pem and server.key.
func BrokerFolder(root, name string) string { return filepath.Join(root, "broker-"+name) }

// HasAuthority reports whether the folder belongs to a deployment whose brokers have certificates.
func HasAuthority(root string) bool {
	_, err := os.Stat(filepath.Join(root, AuthorityFile))
	return err == nil
}

// AddBroker makes the key and certificate of one more broker. The registrar's folder must be there.
func AddBroker(root string, b BrokerOptions) error {
	return addBroker(root, b, time.Now())
}

func addBroker(root string, b BrokerOptions, now time.Time) error {
	if err := b.check(); err != nil {
		return err
	}
	ca, err := loadAuthority(root)
	if err != nil {
		return err
	}
	folder := BrokerFolder(root, b.Name)
	if _, err := os.Stat(folder); err == nil {
		return fmt.Errorf("%s: %w", folder, keyfile.ErrExists)
	}
	if err := keyfile.Folder(folder); err != nil {
		return err
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err == nil {
		err = writeKey(filepath.Join(folder, serverKeyFile), key)
	}
	if err == nil {
		err = ca.issue(filepath.Join(folder, certificateFile), b.Name, b.Hosts, &key.PublicKey, now)
	}
	if err != nil {
		return errors.Join(err, os.RemoveAll(folder))
	}
	return nil
}

// RenewBroker replaces a broker's certificate by one for the same key and names whose life begins now, and returns
// its end. The broker takes it up when it is told to read its configuration again (SIGHUP).
func RenewBroker(root, name string) (time.Time, error) { return renewBroker(root, name, time.Now()) }

func renewBroker(root, name string, now time.Time) (time.Time, error) {
	if err := checkName(ErrOptions, "a broker", name); err != nil {
		return time.Time{}, err
	}
	ca, err := loadAuthority(root)
	if err != nil {
		return time.Time{}, err
	}
	path := filepath.Join(BrokerFolder(root, name), certificateFile)
	old, err := readCertificate(path)
	if err != nil {
		return time.Time{}, err
	}
	public, ok := old.PublicKey.(*ecdsa.PublicKey)
	if !ok {
		return time.Time{}, fmt.Errorf("%s: %w: not made by this program", path, ErrCertificate)
	}
	next := path + ".new"
	if err := os.Remove(next); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return time.Time{}, err
	}
	if err := ca.issue(next, name, hostsOf(old), public, now); err != nil {
		return time.Time{}, err
	}
	if err := os.Rename(next, path); err != nil {
		return time.Time{}, err
	}
	fresh, err := readCertificate(path)
	if err != nil {
		return time.Time{}, err
	}
	return fresh.NotAfter, nil
}

// hostsOf are the names and addresses that a broker's certificate is made out to.
func hostsOf(c *x509.Certificate) []string {
	hosts := slices.Clone(c.DNSNames)
	for _, ip := range c.IPAddresses {
		hosts = append(hosts, ip.String())
	}
	return hosts
}

// authority is the deployment's certificate authority.
type authority struct {
	certificate *x509.Certificate
	key         *ecdsa.PrivateKey
}

// newAuthority makes the authority. It may sign certificates of brokers, but no further authority.
func newAuthority(root, deployment string, now time.Time) error {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return err
	}
	if err := keyfile.Folder(filepath.Join(root, registrar)); err != nil {
		return err
	}
	if err := writeKey(filepath.Join(root, registrar, authorityKeyFile), key); err != nil {
		return err
	}
	serial, err := serialNumber()
	if err != nil {
		return err
	}
	template := &x509.Certificate{
		SerialNumber: serial, Subject: pkix.Name{Organization: []string{"Riffle"}, CommonName: deployment + " brokers"},
		NotBefore: now.Add(-backdating), NotAfter: now.Add(AuthorityLife),
		IsCA: true, BasicConstraintsValid: true, MaxPathLenZero: true,
		KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageCRLSign,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		return fmt.Errorf("%w: %w", ErrCertificate, err)
	}
	return writePEM(filepath.Join(root, AuthorityFile), "CERTIFICATE", der, 0o644)
}

func loadAuthority(root string) (*authority, error) {
	certificate, err := readCertificate(filepath.Join(root, AuthorityFile))
	if err != nil {
		return nil, err
	}
	path := filepath.Join(root, registrar, authorityKeyFile)
	der, err := readPEM(path, "PRIVATE KEY", keyfile.LoadPrivate)
	if err != nil {
		return nil, err
	}
	parsed, err := x509.ParsePKCS8PrivateKey(der)
	if err != nil {
		// the parser's error could show what it read
		return nil, fmt.Errorf("%s: %w: not a private key", path, ErrCertificate)
	}
	key, ok := parsed.(*ecdsa.PrivateKey)
	if !ok || !key.PublicKey.Equal(certificate.PublicKey) {
		return nil, fmt.Errorf("%s: %w: it is not the key of %s", path, ErrMismatch, filepath.Join(root, AuthorityFile))
	}
	return &authority{certificate, key}, nil
}

// issue writes a certificate for a broker. It serves both ways, because brokers of a cluster call each other and
// prove who they are.
func (a *authority) issue(path, name string, hosts []string, public *ecdsa.PublicKey, now time.Time) error {
	serial, err := serialNumber()
	if err != nil {
		return err
	}
	template := &x509.Certificate{
		SerialNumber: serial, Subject: pkix.Name{Organization: []string{"Riffle"}, CommonName: "broker " + name},
		NotBefore: now.Add(-backdating), NotAfter: now.Add(CertificateLife),
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth,
			x509.ExtKeyUsageClientAuth},
		BasicConstraintsValid: true,
	}
	if template.NotAfter.After(a.certificate.NotAfter) {
		template.NotAfter = a.certificate.NotAfter
	}
	for _, h := range hosts {
		if ip := net.ParseIP(h); ip != nil {
			template.IPAddresses = append(template.IPAddresses, ip)
		} else {
			template.DNSNames = append(template.DNSNames, h)
		}
	}
	der, err := x509.CreateCertificate(rand.Reader, template, a.certificate, public, a.key)
	if err != nil {
		return fmt.Errorf("%w: %w", ErrCertificate, err)
	}
	return writePEM(path, "CERTIFICATE", der, 0o644)
}

func serialNumber() (*big.Int, error) {
	return rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 127))
}

func writeKey(path string, key *ecdsa.PrivateKey) error {
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return fmt.Errorf("%w: %w", ErrCertificate, err)
	}
	return writePEM(path, "PRIVATE KEY", der, 0o600)
}

func writePEM(path, kind string, der []byte, mode fs.FileMode) error {
	return keyfile.Create(path, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), mode)
}

// readPEM reads a file of exactly one block of the kind.
func readPEM(path, kind string, read func(string) ([]byte, error)) ([]byte, error) {
	text, err := read(path)
	if err != nil {
		return nil, err
	}
	block, rest := pem.Decode(text)
	if block == nil || block.Type != kind || len(bytes.TrimSpace(rest)) > 0 {
		return nil, fmt.Errorf("%s: %w: not one PEM block %q", path, ErrCertificate, kind)
	}
	return block.Bytes, nil
}

func readCertificate(path string) (*x509.Certificate, error) {
	der, err := readPEM(path, "CERTIFICATE", os.ReadFile)
	if err != nil {
		return nil, err
	}
	c, err := x509.ParseCertificate(der)
	if err != nil {
		return nil, fmt.Errorf("%s: %w: %w", path, ErrCertificate, err)
	}
	return c, nil
}
