package wire

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"sync"

	"github.com/riffle-dp/riffle/pkg/seal"
)

func checkIssuerCertificate(c *IssuerCertificate) error {
	if err := CheckDeployment(c.Deployment); err != nil {
		return err
	}
	if err := checkLength("key", c.Key, keySize); err != nil {
		return err
	}
	if c.First == 0 || c.Last < c.First || c.Last > math.MaxInt64 {
		return field("first", "and last are %d and %d, must be epochs in their order", c.First, c.Last)
	}
	if c.Installations == 0 {
		return field("installations", "is 0: the issuer can admit nobody")
	}
	return nil
}

func checkIssued(s *Issued) error {
	if err := CheckDeployment(s.Deployment); err != nil {
		return err
	}
	if s.Number == 0 {
		return field("number", "is 0; entries count from 1")
	}
	if s.Number == 1 && len(s.Previous) > 0 {
		return field("previous", "must be absent in the first entry")
	}
	if s.Number > 1 {
		if err := checkLength("previous", s.Previous, digestSize); err != nil {
			return err
		}
	}
	return checkLength("key", s.Key, keySize)
}

func checkCredential(c *Credential) error {
	if err := CheckDeployment(c.Deployment); err != nil {
		return err
	}
	if err := checkLength("host_key", c.HostKey, keySize); err != nil {
		return err
	}
	if c.Devices == 0 {
		return field("devices", "is 0: the credential covers no device")
	}
	if c.NotAfter > math.MaxInt64 {
		return field("not_after", "is %d, which is no epoch", c.NotAfter)
	}
	if len(c.Issuer) > 0 {
		return c.checkIssued()
	}
	if len(c.FirstKey) == 0 {
		return nil
	}
	if bytes.Equal(c.FirstKey, c.HostKey) {
		return field("first_key", "must be absent where host_key is the host's first key")
	}
	return checkLength("first_key", c.FirstKey, keySize)
}

// checkIssued checks what an issuer may sign.
func (c *Credential) checkIssued() error {
	certificate, _, err := splitCertificate(c.Issuer)
	switch {
	case err != nil:
		return fmt.Errorf("%w: %w", ErrMalformed, err)
	case certificate.Deployment != c.Deployment:
		return field("issuer", "is certified for another deployment")
	case c.Devices != 1:
		return field("devices", "is %d, must be 1 where an issuer signs", c.Devices)
	case len(c.FirstKey) > 0:
		return field("first_key", "must be absent where an issuer signs")
	case c.NotAfter < certificate.First || c.NotAfter > certificate.Last:
		return field("not_after", "is %d, must be in the epochs of the issuer, %d to %d", c.NotAfter, certificate.First,
			certificate.Last)
	}
	return nil
}

// splitCertificate decodes and checks a signed certificate. It does not verify it.
func splitCertificate(signed []byte) (c *IssuerCertificate, outer *sealed, err error) {
	if outer, err = openSigned(signed, MaxEnrolment); err != nil {
		return nil, nil, named("issuer-certificate", err)
	}
	o, err := certificates.open(outer.Body)
	return o.statement, outer, named("issuer-certificate", err)
}

// ReadCredential is what a signed credential says. It does not verify it.
func ReadCredential(signed []byte) (*Credential, error) {
	c, _, err := splitCredential(signed)
	return c, err
}

func splitCredential(signed []byte) (c *Credential, outer *sealed, err error) {
	if outer, err = openSigned(signed, MaxEnrolment); err != nil {
		return nil, nil, named("credential", err)
	}
	o, err := formatOf[Credential]().open(outer.Body)
	return o.statement, outer, named("credential", err)
}

// Admission is a verified credential: who is admitted, and who answers for them.
type Admission struct {
	Key      [32]byte           // the host's present Ed25519 public key
	HostKey  [32]byte           // its first one, by which its devices are known
	Covers   uint32             // devices
	NotAfter uint64             // last epoch in which it admits; 0: no end
	Issuer   *IssuerCertificate // nil where the registrar admits the host; read only
}

// In is the reason for which the credential does not admit in an epoch; nil where it does.
func (a Admission) In(epoch uint64) error {
	if a.NotAfter > 0 && epoch > a.NotAfter {
		return fmt.Errorf("%w: it ended with epoch %d", ErrCredential, a.NotAfter)
	}
	if a.Issuer != nil && (epoch < a.Issuer.First || epoch > a.Issuer.Last) {
		return fmt.Errorf("%w: its issuer is certified for epochs %d to %d", ErrCredential, a.Issuer.First,
			a.Issuer.Last)
	}
	return nil
}

// Credentials verifies credentials, each once: a host shows the same bytes for each of its devices, and installations
// the same certificate of their issuer. It keeps a bounded number, only of those that hold. Safe for concurrent use.
type Credentials struct {
	registrar Party
	most      int // how many it keeps of each

	mu           sync.Mutex
	known        map[[32]byte]Admission          // by the SHA-256 of their Signed bytes, or of host and layout
	certificates map[[32]byte]*IssuerCertificate // by the SHA-256 of their Signed bytes
}

// maxKnown is how many verified credentials are remembered, in some 150 bytes each. Beyond it they are verified anew.
const maxKnown = 1 << 16

// NewCredentials takes the deployment's name, the registrar's key, and the hosts and issuers whose keys were replaced
// or withdrawn.
func NewCredentials(registrar Party) *Credentials {
	return &Credentials{registrar: registrar, most: maxKnown, known: map[[32]byte]Admission{},
		certificates: map[[32]byte]*IssuerCertificate{}}
}

// OpenCredential is Open of Credentials, for one credential.
func OpenCredential(signed []byte, registrar Party) (Admission, error) {
	return NewCredentials(registrar).Open(signed)
}

// Open verifies a signed credential: the registrar signed it, or an issuer that the registrar certified, and neither
// the host's key nor the issuer's was replaced or withdrawn. Every error is ErrCredential.
func (k *Credentials) Open(signed []byte) (Admission, error) {
	return k.once(sum(signed), func() (Admission, error) {
		c, outer, err := splitCredential(signed)
		if err != nil {
			return Admission{}, err
		}
		return k.verify(c, outer.Body, outer.Key, outer.Signature)
	})
}

// once runs a verification, unless it held before.
func (k *Credentials) once(digest [32]byte, verify func() (Admission, error)) (Admission, error) {
	k.mu.Lock()
	a, known := k.known[digest]
	k.mu.Unlock()
	if known {
		return a, nil
	}
	a, err := verify()
	if err != nil {
		return Admission{}, fmt.Errorf("%w: %w", ErrCredential, err)
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if len(k.known) >= k.most {
		clear(k.known)
	}
	k.known[digest] = a
	return a, nil
}

// verify judges a checked credential, which signer is said to have signed.
func (k *Credentials) verify(c *Credential, body, signer, signature []byte) (a Admission, err error) {
	if len(k.registrar.Key) != keySize { // an absent key must not stand for any key
		return a, ErrSigner
	}
	a = Admission{Key: [32]byte(c.HostKey), Covers: c.Devices, NotAfter: c.NotAfter}
	by := k.registrar.Key
	if len(c.Issuer) > 0 {
		if a.Issuer, err = k.certificate(c.Issuer); err != nil {
			return a, err
		}
		by = a.Issuer.Key
	}
	if !bytes.Equal(signer, by) {
		return a, ErrSigner
	}
	if err := seal.Verify(seal.Credential, body, by, signature); err != nil {
		return a, err
	}
	if c.Deployment != k.registrar.Deployment {
		return a, fmt.Errorf("%w: %q, expected %q", ErrDeployment, c.Deployment, k.registrar.Deployment)
	}
	a.HostKey, err = k.registrar.Hosts.admits(c)
	return a, err
}

// certificate verifies an issuer's certificate.
func (k *Credentials) certificate(signed []byte) (*IssuerCertificate, error) {
	digest := sum(signed)
	k.mu.Lock()
	known := k.certificates[digest]
	k.mu.Unlock()
	if known != nil {
		return known, nil
	}
	c, _, err := Open[IssuerCertificate](signed, k.registrar)
	if err != nil {
		return nil, err
	}
	if _, err := k.registrar.Hosts.First([32]byte(c.Key)); err != nil {
		return nil, errors.New("the issuer was withdrawn")
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if len(k.certificates) >= k.most {
		clear(k.certificates)
	}
	k.certificates[digest] = c
	return c, nil
}

// LayoutSize is the length in bytes of a credential without its host, for messages of a fixed length: the devices that
// it covers (4), its end (8) and its signature (64), then the issuer's key (32), first and last epoch (8 each), number
// of installations (4) and the registrar's signature (64), which are zeros where the registrar admits the host itself.
const LayoutSize = registrarSize + issuerSize

const (
	registrarSize = 4 + 8 + seal.SignatureSize
	issuerSize    = keySize + 8 + 8 + 4 + seal.SignatureSize
)

// AppendLayout appends a signed credential in LayoutSize bytes. It does not verify it.
func AppendLayout(dst, signed []byte) ([]byte, error) {
	c, outer, err := splitCredential(signed)
	if err != nil {
		return dst, err
	}
	dst = binary.BigEndian.AppendUint32(dst, c.Devices)
	dst = binary.BigEndian.AppendUint64(dst, c.NotAfter)
	dst = append(dst, outer.Signature...)
	if len(c.Issuer) == 0 {
		return append(dst, make([]byte, issuerSize)...), nil
	}
	certificate, outer, err := splitCertificate(c.Issuer)
	if err != nil {
		return dst, err
	}
	dst = append(dst, certificate.Key...)
	dst = binary.BigEndian.AppendUint64(dst, certificate.First)
	dst = binary.BigEndian.AppendUint64(dst, certificate.Last)
	dst = binary.BigEndian.AppendUint32(dst, certificate.Installations)
	return append(dst, outer.Signature...), nil
}

// OpenLayout is Open for a host's credential in the form of AppendLayout.
func (k *Credentials) OpenLayout(host [32]byte, b [LayoutSize]byte) (Admission, error) {
	digest := sum(append(append([]byte("layout\x00"), host[:]...), b[:]...)) // Signed does not begin so
	return k.once(digest, func() (Admission, error) {
		c := &Credential{
			Deployment: k.registrar.Deployment, HostKey: host[:], Devices: binary.BigEndian.Uint32(b[:]),
			NotAfter: binary.BigEndian.Uint64(b[4:]),
		}
		signer := k.registrar.Key
		if issuer := b[registrarSize:]; !bytes.Equal(issuer, make([]byte, issuerSize)) {
			var err error
			if c.Issuer, err = k.certificateOf(issuer); err != nil {
				return Admission{}, err
			}
			signer = issuer[:keySize]
		} else if first, err := k.registrar.Hosts.First(host); err != nil {
			return Admission{}, err
		} else if first != host {
			c.FirstKey = first[:]
		}
		if err := checkCredential(c); err != nil {
			return Admission{}, err
		}
		body, err := marshal(credentialFields, c)
		if err != nil {
			return Admission{}, err
		}
		return k.verify(c, body, signer, b[12:registrarSize])
	})
}

// certificateOf puts the signed bytes of a certificate together again.
func (k *Credentials) certificateOf(b []byte) ([]byte, error) {
	c := &IssuerCertificate{
		Deployment: k.registrar.Deployment, Key: b[:keySize], First: binary.BigEndian.Uint64(b[keySize:]),
		Last: binary.BigEndian.Uint64(b[keySize+8:]), Installations: binary.BigEndian.Uint32(b[keySize+16:]),
	}
	if err := checkIssuerCertificate(c); err != nil {
		return nil, err
	}
	body, err := marshal(issuerCertificateFields, c)
	if err != nil {
		return nil, err
	}
	return marshal(sealedFields, &sealed{body, k.registrar.Key, b[issuerSize-seal.SignatureSize:]})
}
