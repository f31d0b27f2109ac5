package seal

import (
	"bytes"
	"crypto/hkdf"
	"crypto/rand"
	"crypto/sha256"
	"encoding/binary"
	"fmt"

	"github.com/cloudflare/circl/dh/x25519"
	"golang.org/x/crypto/chacha20poly1305"
)

const (
	// requestDomain starts the info string of sealed requests for enrolment; the deployment's name follows it.
	requestDomain = "riffle/v1/enrolment-request"
	// replyDomain is the exporter context of the secret that the reply to a request is sealed under.
	replyDomain = "riffle/v1/enrolment-reply"
	// replySalt is the random bytes before each sealed reply: as many as the longest of the keys that are derived with
	// them, as in RFC 9458 (section 4.4).
	replySalt = chacha20poly1305.KeySize
)

// ReplyOverhead is how many bytes longer than its content a sealed reply is: a salt and a tag.
const ReplyOverhead = replySalt + tagSize

// SealRequest encrypts a request for enrolment to the shuffler's HPKE public key, as SealReport does a report, under an
// info string of its own that names the deployment. No two sealed requests are the same bytes. reply opens the answer.
// The error is ErrKey, for a key that is not 32 bytes long or is of low order.
func SealRequest(shuffler []byte, deployment string, plaintext []byte) (e Envelope, reply *ReplyKey, err error) {
	receiver, err := publicKey(shuffler)
	if err != nil {
		return e, nil, fmt.Errorf("shuffler's HPKE key: %w", err)
	}
	var w exchange
	defer w.wipe()
	s := newRequestSchedule(deployment)
	rand.Read(w.ephemeral[:]) // never returns an error: without randomness the process ends
	if !w.send(&receiver, s) {
		return e, nil, fmt.Errorf("shuffler's HPKE key: %w", errLowOrder)
	}
	aead, nonce := w.cipher()
	e = Envelope{
		Key: receiver[:], Encapsulated: bytes.Clone(w.encapsulated[:]),
		Ciphertext: aead.Seal(nil, nonce[:], plaintext, nil),
	}
	return e, w.replyKey(s), nil
}

// RequestOpener opens sealed requests for enrolment with any of several keys, as ReportOpener does envelopes of
// reports.
type RequestOpener struct {
	keys     []*HPKEKey
	schedule *schedule
}

// NewRequestOpener takes the keys that are accepted and the deployment's name. Without any key it returns ErrKey.
func NewRequestOpener(deployment string, keys ...*HPKEKey) (*RequestOpener, error) {
	if len(keys) == 0 {
		return nil, fmt.Errorf("%w: none given", ErrKey)
	}
	return &RequestOpener{append([]*HPKEKey(nil), keys...), newRequestSchedule(deployment)}, nil
}

// Open decrypts a request; reply seals the answer to it. Errors: ErrUnknownKey, ErrSize, ErrOpen.
func (o *RequestOpener) Open(e Envelope) (plaintext []byte, reply *ReplyKey, err error) {
	if len(e.Encapsulated) != EncapsulatedSize || len(e.Ciphertext) < CiphertextOverhead {
		return nil, nil, fmt.Errorf("%w: envelope with %d bytes encapsulated and %d of ciphertext",
			ErrSize, len(e.Encapsulated), len(e.Ciphertext))
	}
	for _, k := range o.keys {
		if !bytes.Equal(k.public[:], e.Key) {
			continue
		}
		var w exchange
		defer w.wipe()
		if !w.receive(k, e.Encapsulated, o.schedule) {
			return nil, nil, ErrOpen
		}
		aead, nonce := w.cipher()
		plaintext, err = aead.Open(nil, nonce[:], e.Ciphertext, nil)
		if err != nil {
			return nil, nil, ErrOpen
		}
		return plaintext, w.replyKey(o.schedule), nil
	}
	return nil, nil, ErrUnknownKey
}

// ReplyKey seals and opens the replies to one request. Only who sealed the request and who can open it have it. It is
// safe for concurrent use.
type ReplyKey struct {
	secret       [sha256.Size]byte
	encapsulated x25519.Key // of the request
}

// Seal encrypts a reply. Each is sealed under a key of its own, because a request that is delivered again is answered
// again, and not always in the same words.
func (k *ReplyKey) Seal(plaintext []byte) []byte {
	salt := make([]byte, replySalt, ReplyOverhead+len(plaintext))
	rand.Read(salt)
	w := k.derive(salt)
	defer w.wipe()
	aead, nonce := w.cipher()
	return aead.Seal(salt, nonce[:], plaintext, nil)
}

// Open decrypts a reply to the request. Errors: ErrSize, ErrOpen.
func (k *ReplyKey) Open(sealed []byte) ([]byte, error) {
	if len(sealed) < ReplyOverhead {
		return nil, fmt.Errorf("%w: %d bytes, a reply has at least %d", ErrSize, len(sealed), ReplyOverhead)
	}
	w := k.derive(sealed[:replySalt])
	defer w.wipe()
	aead, nonce := w.cipher()
	plaintext, err := aead.Open(nil, nonce[:], sealed[replySalt:], nil)
	if err != nil {
		return nil, ErrOpen
	}
	return plaintext, nil
}

// derive is the key and nonce of the reply with this salt, as RFC 9458 (section 4.4) derives those of a response.
func (k *ReplyKey) derive(salt []byte) *exchange {
	prk, err := hkdf.Extract(sha256.New, k.secret[:], append(bytes.Clone(k.encapsulated[:]), salt...))
	var w exchange
	for _, part := range []struct {
		label string
		into  []byte
	}{{"key", w.key[:]}, {"nonce", w.nonce[:]}} {
		var b []byte
		if err == nil {
			b, err = hkdf.Expand(sha256.New, prk, part.label, len(part.into))
		}
		copy(part.into, b)
	}
	if err != nil { // only where FIPS 140-3 is enforced
		panic("seal: " + err.Error())
	}
	return &w
}

func newRequestSchedule(deployment string) *schedule {
	return newSchedule(append([]byte(requestDomain), deployment...))
}

// Nonce draws what tells two requests of a device apart: any number but 0, which stands for none.
func Nonce() uint32 {
	var b [4]byte
	for {
		rand.Read(b[:])
		if n := binary.BigEndian.Uint32(b[:]); n != 0 {
			return n
		}
	}
}
