package channel

import (
	"encoding/binary"
	"fmt"

	"github.com/riffle-dp/riffle/pkg/seal"
	"github.com/riffle-dp/riffle/pkg/wire"
)

// Participant is a device that took part: the first Ed25519 public key of its host, by which it is known whatever key
// the host has now, and its number there.
type Participant struct {
	Host   [seal.IdentitySize]byte
	Number uint32
}

// Present is a participant, and who let it in.
type Present struct {
	Participant
	Issuer        [seal.IdentitySize]byte // of its credential; zero: the registrar
	Installations uint32                  // that the issuer may let in; 0: the registrar
}

// Sponsor is who answers for the participant: the issuer of its credential, or else its host.
func (p Present) Sponsor() [seal.IdentitySize]byte {
	if p.Installations == 0 {
		return p.Host
	}
	return p.Issuer
}

// PresentSize is the length in bytes of what Append appends.
const PresentSize = 2 * (seal.IdentitySize + 4)

// Append appends what ParsePresent reads, for another process of the same role.
func (p Present) Append(b []byte) []byte {
	b = binary.BigEndian.AppendUint32(append(b, p.Host[:]...), p.Number)
	return binary.BigEndian.AppendUint32(append(b, p.Issuer[:]...), p.Installations)
}

// ParsePresent reads PresentSize bytes.
func ParsePresent(b [PresentSize]byte) (p Present) {
	const half = PresentSize / 2
	p.Host, p.Number = [seal.IdentitySize]byte(b[:]), binary.BigEndian.Uint32(b[half-4:])
	p.Issuer, p.Installations = [seal.IdentitySize]byte(b[half:]), binary.BigEndian.Uint32(b[PresentSize-4:])
	return p
}

// ProofSize is the length in bytes of a proof of participation: the host's key (32), the device's number (4), the
// host's credential (wire.LayoutSize), and the host's signature over what the proof is for (64).
const ProofSize = seal.IdentitySize + 4 + wire.LayoutSize + seal.SignatureSize

// AppendProof appends a proof that the device made the content for the round whose announcement has this digest.
// Whoever holds a proof knows which host's device took part: it is sealed to the analyzer.
func (s Sender) AppendProof(dst []byte, announcement [32]byte, content []byte) ([]byte, error) {
	begin := len(dst)
	with := binary.BigEndian.AppendUint32(append(dst, s.Identity.Public()...), s.Number)
	with, err := wire.AppendLayout(with, s.Credential)
	if err != nil {
		return dst, err
	}
	signed, err := seal.Sign(seal.Share, signedContent(announcement, with[begin:], content), s.Identity)
	if err != nil {
		return dst, err
	}
	return append(with, signed...), nil
}

// signedContent is what the host signs: the announcement's digest, the proof so far, and the content.
func signedContent(announcement [32]byte, proof, content []byte) []byte {
	b := make([]byte, 0, len(announcement)+len(proof)+len(content))
	return append(append(append(b, announcement[:]...), proof...), content...)
}

// Verifier checks proofs of participation in one deployment. It is safe for concurrent use.
type Verifier struct{ admitted *wire.Credentials }

// NewVerifier takes the deployment's name, the registrar's key, and the hosts and issuers whose keys were replaced or
// withdrawn.
func NewVerifier(registrar wire.Party) *Verifier { return &Verifier{wire.NewCredentials(registrar)} }

// Check verifies a proof of ProofSize bytes for content in the round of an epoch whose announcement has this digest.
// The errors are those of package wire, for wire.Reason.
func (v *Verifier) Check(proof []byte, epoch uint64, announcement [32]byte, content []byte) (Present, error) {
	if len(proof) != ProofSize {
		return Present{}, fmt.Errorf("%w: a proof of %d bytes, must have %d", wire.ErrSize, len(proof), ProofSize)
	}
	const credential, fixed = seal.IdentitySize + 4, ProofSize - seal.SignatureSize
	key := [seal.IdentitySize]byte(proof)
	admission, err := v.admitted.OpenLayout(key, [wire.LayoutSize]byte(proof[credential:]))
	if err == nil {
		err = admission.In(epoch)
	}
	if err != nil {
		return Present{}, err
	}
	p := Present{Participant: Participant{
		Host: admission.HostKey, Number: binary.BigEndian.Uint32(proof[seal.IdentitySize:]),
	}}
	if by := admission.Issuer; by != nil {
		p.Issuer, p.Installations = [seal.IdentitySize]byte(by.Key), by.Installations
	}
	if p.Number >= admission.Covers {
		return Present{}, fmt.Errorf("%w: device %d of a host with %d", wire.ErrCredential, p.Number,
			admission.Covers)
	}
	return p, seal.Verify(seal.Share, signedContent(announcement, proof[:fixed], content), key[:], proof[fixed:])
}
