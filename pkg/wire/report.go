package wire

import (
	"fmt"

	"github.com/riffle-dp/riffle/pkg/seal"
)

// Report is what a device sends in one round, inside the envelope.
type Report struct {
	Announcement [32]byte // digest of the round's announcement
	Epoch        uint64
	Round        uint32
	Slot         uint32
	Device       uint32
	Payload      []byte   // the channel's, 1 to MaxPayload bytes
	HostKey      [32]byte // who signed; BuildReport fills it in
}

// signatureField is the length of a report's last field: tag, length, Ed25519 signature.
const signatureField = 2 + seal.SignatureSize

// ReportSize is the length in bytes of every report with a payload of this many bytes.
func ReportSize(payload int) int {
	const fixed = (2 + digestSize) + 9 + 3*5 + 1 + (2 + keySize) + signatureField
	return fixed + sizeOfBytes(payload)
}

// EnvelopeSize is the length in bytes of every envelope around a report with a payload of this many bytes.
func EnvelopeSize(payload int) int {
	ciphertext := ReportSize(payload) + seal.CiphertextOverhead
	return (2 + seal.HPKEKeySize) + (2 + seal.EncapsulatedSize) + 1 + sizeOfBytes(ciphertext)
}

// BuildReport encodes a report and signs it with the host's key.
func BuildReport(r Report, host seal.Signer) ([]byte, error) {
	if err := checkPayload(r.Payload, MaxPayload); err != nil {
		return nil, named("report", err)
	}
	r.HostKey = [keySize]byte(host.Public())
	if err := checkRound(r.Epoch, r.Round); err != nil {
		return nil, named("report", err)
	}
	c := coder{b: make([]byte, 0, ReportSize(len(r.Payload)))}
	reportFields(&c, &r)
	signature, err := seal.Sign(seal.Report, c.b, host)
	if err != nil {
		return nil, named("report", err)
	}
	c.bytes(8, &signature) // the last field, so that what it covers is what is before it
	return c.written()
}

// ParseReport decodes a report whose payload must have exactly the given number of bytes, and verifies its signature by
// the host key it names. It does not know whether that host's device holds that slot: the caller compares HostKey,
// Device and Slot with the enrolment. The digest is SHA-256 of the bytes; the manifest names the report by it. The
// payload shares the memory of data.
func ParseReport(data []byte, payload int) (*Report, [32]byte, error) {
	r, err := parseReport(data, payload)
	if err != nil {
		return nil, [32]byte{}, named("report", err)
	}
	return r, sum(data), nil
}

// ReparseReport decodes a report again whose digest ParseReport gave before: the same bytes have the same signature,
// which is not verified a second time. Bytes of another digest are ErrMalformed.
func ReparseReport(data []byte, payload int, digest [32]byte) (*Report, error) {
	if sum(data) != digest {
		return nil, named("report", fmt.Errorf("%w: it is another report", ErrMalformed))
	}
	r, _, err := readReport(data, payload)
	return r, named("report", err)
}

func parseReport(data []byte, payload int) (*Report, error) {
	r, signature, err := readReport(data, payload)
	if err != nil {
		return nil, err
	}
	if err := seal.Verify(seal.Report, data[:len(data)-signatureField], r.HostKey[:], signature); err != nil {
		return nil, err
	}
	return r, nil
}

// readReport decodes and checks a report but for its signature.
func readReport(data []byte, payload int) (r *Report, signature []byte, err error) {
	if payload < 1 || payload > MaxPayload || len(data) != ReportSize(payload) {
		return nil, nil, fmt.Errorf("%w: %d bytes, a report with a payload of %d has %d", ErrSize, len(data),
			payload, ReportSize(payload))
	}
	c := coder{b: data, reads: true, shares: true}
	r = new(Report)
	reportFields(&c, r)
	c.bytes(8, &signature)
	if err := c.read(); err != nil {
		return nil, nil, err
	}
	if len(r.Payload) != payload || len(signature) != seal.SignatureSize {
		return nil, nil, fmt.Errorf("%w: not the layout of a report", ErrMalformed)
	}
	if err := checkRound(r.Epoch, r.Round); err != nil {
		return nil, nil, err
	}
	return r, signature, nil
}

func checkPayload(payload []byte, most int) error {
	if n := len(payload); n == 0 || n > most {
		return field("payload", "has %d bytes, must have 1 to %d", n, most)
	}
	return nil
}

// SealReport seals the bytes of a report to the shuffler's HPKE key.
func SealReport(report, shuffler []byte, context seal.ReportContext) ([]byte, error) {
	e, err := seal.SealReport(shuffler, context.AAD(), report)
	if err != nil {
		return nil, named("envelope", err)
	}
	return marshal(envelopeFields, &e)
}

// OpenEnvelope returns the bytes of the report inside. context is that of the round in which the envelope arrived.
func OpenEnvelope(envelope []byte, keys *seal.ReportOpener, context seal.ReportContext) ([]byte, error) {
	if most := EnvelopeSize(MaxPayload); len(envelope) > most {
		return nil, named("envelope", fmt.Errorf("%w: %d bytes, at most %d", ErrTooLarge, len(envelope), most))
	}
	e, err := unmarshal(envelopeFields, envelope)
	if err != nil {
		return nil, named("envelope", err)
	}
	report, err := keys.Open(*e, context.AAD())
	return report, named("envelope", err)
}
