package wire

import (
	"fmt"

	rifflev1 "github.com/riffle-dp/riffle/messages/riffle/v1"
	"github.com/riffle-dp/riffle/pkg/seal"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
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
	return fixed + protowire.SizeBytes(payload)
}

// EnvelopeSize is the length in bytes of every envelope around a report with a payload of this many bytes.
func EnvelopeSize(payload int) int {
	ciphertext := ReportSize(payload) + seal.CiphertextOverhead
	return (2 + seal.HPKEKeySize) + (2 + seal.EncapsulatedSize) + 1 + protowire.SizeBytes(ciphertext)
}

// BuildReport encodes a report and signs it with the host's key.
func BuildReport(r Report, host *seal.Identity) ([]byte, error) {
	if err := checkPayload(r.Payload, MaxPayload); err != nil {
		return nil, named("report", err)
	}
	m := &rifflev1.Report{
		Announcement: r.Announcement[:],
		Epoch:        &r.Epoch,
		Round:        &r.Round,
		Slot:         &r.Slot,
		Device:       &r.Device,
		Payload:      r.Payload,
		HostKey:      host.Public(),
	}
	if err := checkReport(m); err != nil {
		return nil, named("report", err)
	}
	body, err := marshal(m)
	if err != nil {
		return nil, named("report", err)
	}
	// The signature is the last field, so that what it covers is what is before it.
	return proto.MarshalOptions{Deterministic: true}.MarshalAppend(body,
		&rifflev1.Report{Signature: seal.Sign(seal.Report, body, host)})
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
	// Every acceptable report with such a payload has one layout.
	f := &fixed{rest: data}
	r = &Report{
		Announcement: f.array(1), Epoch: f.fixed64(2), Round: f.fixed32(3), Slot: f.fixed32(4), Device: f.fixed32(5),
		Payload: f.bytes(6, payload), HostKey: f.array(7),
	}
	if signature = f.bytes(8, seal.SignatureSize); !f.whole() {
		return nil, nil, oddReport(data, payload)
	}
	if err := checkRound(r.Epoch, r.Round); err != nil {
		return nil, nil, err
	}
	return r, signature, nil
}

// oddReport says what is wrong with a report that has another layout than reports have.
func oddReport(data []byte, payload int) error {
	m := new(rifflev1.Report)
	if err := unmarshal(data, m); err != nil {
		return err
	}
	if err := checkReport(m); err != nil {
		return err
	}
	if len(m.Payload) != payload {
		return fmt.Errorf("%w: a payload of %d bytes, must have %d", ErrSize, len(m.Payload), payload)
	}
	if err := checkLength("signature", m.Signature, seal.SignatureSize); err != nil {
		return err
	}
	return fmt.Errorf("%w: not the layout of a report", ErrMalformed)
}

func checkReport(m *rifflev1.Report) error {
	if err := checkLength("announcement", m.Announcement, digestSize); err != nil {
		return err
	}
	if m.Epoch == nil || m.Round == nil || m.Slot == nil || m.Device == nil {
		return field("epoch", "or round, slot or device is absent: they are always present, zero or not")
	}
	if err := checkRound(*m.Epoch, *m.Round); err != nil {
		return err
	}
	return checkLength("host_key", m.HostKey, keySize)
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
	return marshal(&rifflev1.Envelope{Key: e.Key, Encapsulated: e.Encapsulated, Ciphertext: e.Ciphertext})
}

// OpenEnvelope returns the bytes of the report inside. context is that of the round in which the envelope arrived.
func OpenEnvelope(envelope []byte, keys *seal.ReportOpener, context seal.ReportContext) ([]byte, error) {
	if most := EnvelopeSize(MaxPayload); len(envelope) > most {
		return nil, named("envelope", fmt.Errorf("%w: %d bytes, at most %d", ErrTooLarge, len(envelope), most))
	}
	e, err := readEnvelope(envelope)
	if err != nil {
		return nil, named("envelope", err)
	}
	report, err := keys.Open(e, context.AAD())
	return report, named("envelope", err)
}

// readEnvelope decodes an envelope. What it returns may share its memory.
func readEnvelope(envelope []byte) (seal.Envelope, error) {
	f := &fixed{rest: envelope}
	e := seal.Envelope{Key: f.bytes(1, seal.HPKEKeySize), Encapsulated: f.bytes(2, seal.EncapsulatedSize)}
	if ciphertext, n := protowire.ConsumeBytes(f.rest[min(1, len(f.rest)):]); n > 0 && len(ciphertext) > 0 {
		e.Ciphertext = f.bytes(3, len(ciphertext))
	}
	if f.whole() && e.Ciphertext != nil {
		return e, nil
	}
	// Nothing that has another layout opens: this is how it is refused.
	m := new(rifflev1.Envelope)
	if err := unmarshal(envelope, m); err != nil {
		return seal.Envelope{}, err
	}
	return seal.Envelope{Key: m.Key, Encapsulated: m.Encapsulated, Ciphertext: m.Ciphertext}, nil
}
