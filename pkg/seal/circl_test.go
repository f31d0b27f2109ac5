package seal_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"slices"
	"testing"

	"github.com/cloudflare/circl/hpke"
	"github.com/riffle-dp/riffle/pkg/seal"
)

// circlSuite is the suite in use in an implementation that shares only the curve, SHA-256 and ChaCha20 with ours.
var circlSuite = hpke.NewSuite(hpke.KEM_X25519_HKDF_SHA256, hpke.KDF_HKDF_SHA256, hpke.AEAD_ChaCha20Poly1305)

// circlSeal has circl's HPKE seal a message: the encapsulated key, then the ciphertext.
func circlSeal(t testing.TB, public, info, plain, aad []byte) []byte {
	t.Helper()
	pk, err := hpke.KEM_X25519_HKDF_SHA256.Scheme().UnmarshalBinaryPublicKey(public)
	if err != nil {
		t.Fatal(err)
	}
	sender, err := circlSuite.NewSender(pk, info)
	if err != nil {
		t.Fatal(err)
	}
	encapsulated, s, err := sender.Setup(nil)
	if err != nil {
		t.Fatal(err)
	}
	ciphertext, err := s.Seal(plain, aad)
	if err != nil {
		t.Fatal(err)
	}
	return append(encapsulated, ciphertext...)
}

// circlOpen has circl's HPKE open a message of at least seal.EncapsulatedSize bytes.
func circlOpen(t testing.TB, private, info, message, aad []byte) ([]byte, error) {
	t.Helper()
	sk, err := hpke.KEM_X25519_HKDF_SHA256.Scheme().UnmarshalBinaryPrivateKey(private)
	if err != nil {
		t.Fatal(err)
	}
	receiver, err := circlSuite.NewReceiver(sk, info)
	if err != nil {
		t.Fatal(err)
	}
	opener, err := receiver.Setup(message[:seal.EncapsulatedSize])
	if err != nil {
		return nil, err
	}
	return opener.Open(message[seal.EncapsulatedSize:], aad)
}

func bitInfo(context [32]byte) []byte { return append([]byte("riffle/v1/labelled-bit"), context[:]...) }

// circlBit is a bit message that circl's HPKE sealed. plain is release, coordinate and bit; all but the first three
// bytes are under the seal.
func circlBit(t testing.TB, public []byte, context [32]byte, plain []byte) []byte {
	if len(plain) < seal.LabelSize {
		return circlSeal(t, public, bitInfo(context), plain, nil)
	}
	label := plain[:seal.LabelSize]
	message := circlSeal(t, public, bitInfo(context), plain[seal.LabelSize:], label)
	return slices.Insert(message, seal.EncapsulatedSize, label...)
}

// circlOpenBit is what circl's HPKE opens of a bit message: release, coordinate and bit.
func circlOpenBit(t testing.TB, private []byte, context [32]byte, message []byte) ([]byte, error) {
	label := bytes.Clone(seal.Label(message))
	rest := slices.Delete(bytes.Clone(message), seal.EncapsulatedSize, seal.EncapsulatedSize+seal.LabelSize)
	plain, err := circlOpen(t, private, bitInfo(context), rest, label)
	return append(label, plain...), err
}

// TestBitInteroperates has circl's own HPKE open what BitSealer sealed, and seal what BitOpener opens.
func TestBitInteroperates(t *testing.T) {
	for i := range 50 {
		key, err := seal.GenerateHPKE()
		if err != nil {
			t.Fatal(err)
		}
		context := [32]byte{byte(i), 1, 2}
		plain := []byte{byte(i), 0x12, byte(i), byte(i & 1)}
		message, err := sealer(t, key.Public(), context).AppendSeal(nil, plain[0],
			binary.BigEndian.Uint16(plain[1:]), plain[3] == 1)
		if err != nil {
			t.Fatal(err)
		}
		got, err := circlOpenBit(t, key.Bytes(), context, message)
		if err != nil || !bytes.Equal(got, plain) {
			t.Fatalf("circl opened %x, %v; want %x", got, err, plain)
		}
		message = circlBit(t, key.Public(), context, plain)
		r, c, one, err := seal.NewBitOpener(key, context).Open(message)
		if err != nil || r != plain[0] || c != binary.BigEndian.Uint16(plain[1:]) || one != (plain[3] == 1) {
			t.Fatalf("opened circl's message as (%d, %d, %v, %v), want %v", r, c, one, err, plain)
		}
	}
}

// TestReportsInteroperate has circl's own HPKE open a report's envelope, and seal one that ReportOpener opens.
func TestReportsInteroperate(t *testing.T) {
	key := fixedKey(t, 4)
	opener, err := seal.NewReportOpener(key)
	if err != nil {
		t.Fatal(err)
	}
	info, aad, plain := []byte("riffle/v1/report-envelope"), []byte("aad"), bytes.Repeat([]byte("report"), 500)
	e, err := seal.SealReport(key.Public(), aad, plain)
	if err != nil {
		t.Fatal(err)
	}
	got, err := circlOpen(t, key.Bytes(), info, append(bytes.Clone(e.Encapsulated), e.Ciphertext...), aad)
	if err != nil || !bytes.Equal(got, plain) {
		t.Errorf("circl opened %d bytes, %v", len(got), err)
	}
	message := circlSeal(t, key.Public(), info, plain, aad)
	e.Encapsulated, e.Ciphertext = message[:seal.EncapsulatedSize], message[seal.EncapsulatedSize:]
	if got, err := opener.Open(e, aad); err != nil || !bytes.Equal(got, plain) {
		t.Errorf("opened %d bytes of circl's, %v", len(got), err)
	}
}

// FuzzAgainstCircl opens messages, honest or not, with circl's HPKE and with ours: bit messages and envelopes open in
// both or in neither, to the same content.
func FuzzAgainstCircl(f *testing.F) {
	key, context := fixedKey(f, 1), [32]byte(bytes.Repeat([]byte{2}, 32))
	envelopeInfo := append([]byte(seal.LocalEnvelope), context[:]...)
	envelopes := seal.NewEnvelopeOpener(key, seal.LocalEnvelope, context)
	envelopeSealer, err := seal.NewEnvelopeSealer(key.Public(), seal.LocalEnvelope, context)
	if err != nil {
		f.Fatal(err)
	}
	// A message, what its bytes from an index on are changed by, and associated data.
	f.Add([]byte{1, 0, 5, 1}, []byte{}, uint16(0), []byte{})
	f.Add([]byte{1, 0, 5, 2}, []byte{}, uint16(0), []byte("aad"))
	f.Add([]byte{9, 0, 5, 0}, []byte{0x80}, uint16(31), []byte{}) // a bit of the encapsulated key that X25519 ignores
	f.Add([]byte{1, 0, 5, 1}, []byte{1}, uint16(33), []byte{})
	f.Add([]byte{1, 0, 5, 1}, []byte{1}, uint16(51), []byte{})
	f.Add([]byte{}, []byte{}, uint16(0), []byte{})
	f.Add(bytes.Repeat([]byte{7}, 300), []byte{}, uint16(0), bytes.Repeat([]byte{8}, 99))
	f.Fuzz(func(t *testing.T, plain, change []byte, from uint16, aad []byte) {
		tamper := func(message []byte) []byte {
			if int(from) < len(message) {
				for i := range min(len(change), len(message)-int(from)) {
					message[int(from)+i] ^= change[i]
				}
			}
			return message
		}
		agree := func(message []byte) { // a bit message, whoever sealed it
			if len(message) != seal.BitSize {
				return // circl's HPKE knows no size
			}
			want, wantErr := circlOpenBit(t, key.Bytes(), context, message)
			release, coordinate, one, err := seal.NewBitOpener(key, context).Open(message)
			switch {
			case wantErr != nil:
				if !errors.Is(err, seal.ErrOpen) {
					t.Fatalf("circl refuses %x, ours says %v", message, err)
				}
			case want[3] > 1:
				if !errors.Is(err, seal.ErrPlaintext) {
					t.Fatalf("content %x: %v", want, err)
				}
			case err != nil || !bytes.Equal(want, append(binary.BigEndian.AppendUint16([]byte{release}, coordinate),
				map[bool]byte{true: 1}[one])):
				t.Fatalf("(%d, %d, %v, %v), circl opened %x", release, coordinate, one, err, want)
			}
		}
		agree(tamper(circlBit(t, key.Public(), context, plain)))
		low := circlBit(t, key.Public(), context, plain)
		clear(low[:seal.EncapsulatedSize])
		agree(tamper(low))
		if len(plain) >= 3 {
			ours, err := sealer(t, key.Public(), context).AppendSeal(nil, plain[0], binary.BigEndian.Uint16(plain[1:]),
				len(plain)%2 == 1)
			if err != nil {
				t.Fatal(err)
			}
			agree(tamper(ours))
		}
		envelope, err := envelopeSealer.AppendSeal(nil, plain, aad)
		if err != nil {
			t.Fatal(err)
		}
		theirs := circlSeal(t, key.Public(), envelopeInfo, plain, aad)
		for _, message := range [][]byte{tamper(envelope), tamper(theirs)} {
			want, wantErr := circlOpen(t, key.Bytes(), envelopeInfo, message, aad)
			got, err := envelopes.Open(message, aad)
			if (err == nil) != (wantErr == nil) || !bytes.Equal(got, want) {
				t.Fatalf("envelope %x: %x, %v; circl %x, %v", message, got, err, want, wantErr)
			}
		}
	})
}
