package keyring

import (
	"bytes"
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/riffle-dp/riffle/internal/keyring/keyfile"
	"github.com/riffle-dp/riffle/pkg/seal"
	"github.com/riffle-dp/riffle/pkg/wire"
)

// Issuer is the folder of an issuer, on its own machine; the registrar's copy of a certificate is in one with the
// issuer's name after it.
const Issuer = "issuer"

// Files of an issuer.
const (
	namesFile             = "names.key"
	issuerCertificateFile = "certificate"
)

// IssuerKeys is what an issuer needs.
type IssuerKeys struct {
	Bundle      Bundle
	Identity    *seal.Identity
	Names       [32]byte // under which accounts are hashed
	Certificate []byte   // the registrar's
	First, Last uint64   // its epochs
}

// IssuerOptions is what the registrar lets an issuer do.
type IssuerOptions struct {
	Name          string // a-z, 0-9, "-"
	Key           Key
	First, Last   uint64 // epochs
	Installations uint32
}

// MakeIssuer makes the keys of an issuer, on its machine, in a folder that has none yet, and returns its public key for
// the registrar.
func MakeIssuer(root string) (key Key, err error) {
	folder := filepath.Join(root, Issuer)
	if key, err = newIdentity(folder); err != nil {
		return nil, err
	}
	var names [32]byte
	rand.Read(names[:]) // never fails
	return key, keyfile.WriteSecret(filepath.Join(folder, namesFile), names)
}

// CertifyIssuer signs a certificate with the registrar's key, and returns its file. A later certificate of the same
// issuer replaces the earlier one, and can only let more in.
func CertifyIssuer(root string, o IssuerOptions) (path string, err error) {
	if err := checkName(ErrOptions, "an issuer", o.Name); err != nil {
		return "", err
	}
	r, err := LoadRegistrar(root)
	if err != nil {
		return "", err
	}
	if _, err := r.Bundle.RegistrarParty().Hosts.First([32]byte(o.Key)); err != nil {
		return "", fmt.Errorf("%w: the key of issuer %q was withdrawn; certify another key", ErrOptions, o.Name)
	}
	path = filepath.Join(root, Issuer+"-"+o.Name, issuerCertificateFile)
	old, err := readIssuer(path, r.Bundle)
	switch {
	case errors.Is(err, os.ErrNotExist):
	case err != nil:
		return "", err
	case !bytes.Equal(old.Key, o.Key):
		return "", fmt.Errorf("%w: issuer %q has another key; certify the new one under another name, and withdraw "+
			"the old one", ErrOptions, o.Name)
	case o.Installations < old.Installations:
		return "", fmt.Errorf("%w: issuer %q may let %d installations in already, and their number can only be raised",
			ErrOptions, o.Name, old.Installations)
	}
	signed, _, err := wire.Sign(&wire.IssuerCertificate{
		Deployment: r.Bundle.Deployment, Key: o.Key, First: o.First, Last: o.Last, Installations: o.Installations,
	}, r.Identity)
	if err != nil {
		return "", fmt.Errorf("%w: %w", ErrOptions, err)
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return "", err
	}
	return path, keyfile.Replace(path, signed, 0o644)
}

// WithdrawIssuer makes the shuffler and the analyzer, once they have the new bundle, refuse every credential of an
// issuer, also of installations that took part before.
func WithdrawIssuer(root, name string) error {
	if err := checkName(ErrOptions, "an issuer", name); err != nil {
		return err
	}
	bundle, err := LoadBundle(root)
	if err != nil {
		return err
	}
	c, err := readIssuer(filepath.Join(root, Issuer+"-"+name, issuerCertificateFile), bundle)
	if err != nil {
		return err
	}
	bundle, listed := bundle.list(Issuer+"-"+name, c.Key)
	listed.Withdrawn = true
	return replaceBundle(root, bundle)
}

func readIssuer(path string, bundle Bundle) (*wire.IssuerCertificate, error) {
	signed, err := os.ReadFile(filepath.Clean(path))
	if err != nil {
		return nil, err
	}
	c, _, err := wire.Open[wire.IssuerCertificate](signed, bundle.RegistrarParty())
	if err != nil {
		return nil, fmt.Errorf("%s: %w: %w", path, ErrMismatch, err)
	}
	return c, nil
}

// LoadIssuer reads an issuer's keys and checks that the certificate is for them.
func LoadIssuer(root string) (*IssuerKeys, error) {
	bundle, err := LoadBundle(root)
	if err != nil {
		return nil, err
	}
	k, folder := &IssuerKeys{Bundle: bundle}, filepath.Join(root, Issuer)
	if k.Identity, err = keyfile.LoadIdentity(filepath.Join(folder, identityFile)); err != nil {
		return nil, err
	}
	if k.Names, err = keyfile.LoadSecret(filepath.Join(folder, namesFile)); err != nil {
		return nil, err
	}
	path := filepath.Join(folder, issuerCertificateFile)
	c, err := readIssuer(path, bundle)
	if err != nil {
		return nil, err
	}
	if !bytes.Equal(c.Key, k.Identity.Public()) {
		return nil, fmt.Errorf("%s: %w: the certificate is another issuer's", path, ErrMismatch)
	}
	k.First, k.Last = c.First, c.Last
	k.Certificate, err = os.ReadFile(filepath.Clean(path))
	return k, err
}
