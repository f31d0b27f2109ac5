package channel

import (
	"encoding/binary"
	"fmt"
	"sync"

	"github.com/riffle-dp/riffle/pkg/seal"
	"github.com/riffle-dp/riffle/pkg/wire"
)

// Participant is a device that took part: the first Ed25519 public key of its host, by which it is known whatever key
// the host has now, and its number there.
type Participant struct {
	Host   [seal.IdentitySize]byte
	Number uint32
}

// ProofSize is the length in bytes of a proof of participation: the host's key (32), the device's number (4), how many
// devices the host's credential covers (4), the registrar's signature under the credential (64), and the host's
// signature over what the proof is for (64).
const ProofSize = seal.IdentitySize + 4 + 4 + 2*seal.SignatureSize

// AppendProof appends a proof that the device made the content for the round whose announcement has this digest.
// Whoever holds a proof knows which host's device took part: it is sealed to the analyzer.
func (s Sender) AppendProof(dst []byte, announcement [32]byte, content []byte) ([]byte, error) {
	c, signature, err := wire.SplitCredential(s.Credential)
	if err != nil {
		return dst, err
	}
	begin := len(dst)
	dst = append(dst, s.Identity.Public()...)
	dst = binary.BigEndian.AppendUint32(dst, s.Number)
	dst = binary.BigEndian.AppendUint32(dst, c.Devices)
	dst = append(dst, signature[:]...)
	signed := seal.Sign(seal.Share, signedContent(announcement, dst[begin:], content), s.Identity)
	return append(dst, signed...), nil
}

// signedContent is what the host signs: the announcement's digest, the proof so far, and the content.
func signedContent(announcement [32]byte, proof, content []byte) []byte {
	b := make([]byte, 0, len(announcement)+len(proof)+len(content))
	return append(append(append(b, announcement[:]...), proof...), content...)
}

// Verifier checks proofs of participation in one deployment. Each host's credential is verified once. It is safe for
// concurrent use.
type Verifier struct {
	registrar wire.Party

	mu    sync.Mutex
	known map[[seal.IdentitySize]byte]uint32 // devices that a host's credential covers, as verified
}

// NewVerifier takes the deployment's name, the registrar's key, and the hosts whose keys were replaced or withdrawn.
func NewVerifier(registrar wire.Party) *Verifier {
	return &Verifier{registrar: registrar, known: map[[seal.IdentitySize]byte]uint32{}}
}

// Check verifies a proof of ProofSize bytes for content in the round whose announcement has this digest. The errors are
// those of package wire, for wire.Reason.
func (v *Verifier) Check(proof []byte, announcement [32]byte, content []byte) (Participant, error) {
	if len(proof) != ProofSize {
		return Participant{}, fmt.Errorf("%w: a proof of %d bytes, must have %d", wire.ErrSize, len(proof), ProofSize)
	}
	const fixed = ProofSize - seal.SignatureSize
	key := [seal.IdentitySize]byte(proof)
	first, err := v.registrar.Hosts.First(key)
	if err != nil {
		return Participant{}, fmt.Errorf("%w: %w", wire.ErrCredential, err)
	}
	p := Participant{Host: first, Number: binary.BigEndian.Uint32(proof[seal.IdentitySize:])}
	devices := binary.BigEndian.Uint32(proof[seal.IdentitySize+4:])
	v.mu.Lock()
	covered := v.known[key]
	v.mu.Unlock()
	if covered != devices || covered == 0 {
		c := wire.Credential{Deployment: v.registrar.Deployment, HostKey: key[:], Devices: devices}
		if first != key {
			c.FirstKey = first[:]
		}
		if err := wire.CheckCredential(c, proof[seal.IdentitySize+8:fixed], v.registrar); err != nil {
			return Participant{}, fmt.Errorf("%w: %w", wire.ErrCredential, err)
		}
		v.mu.Lock()
		v.known[key] = devices
		v.mu.Unlock()
	}
	if p.Number >= devices {
		return Participant{}, fmt.Errorf("%w: device %d of a host with %d", wire.ErrCredential, p.Number, devices)
	}
	return p, seal.Verify(seal.Share, signedContent(announcement, proof[:fixed], content), key[:], proof[fixed:])
}
