package seal

import (
	"crypto/cipher"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"

	"filippo.io/edwards25519"
	"github.com/cloudflare/circl/dh/x25519"
	"golang.org/x/crypto/chacha20"
	"golang.org/x/crypto/chacha20poly1305"
	//lint:ignore SA1019 the AEAD of this library keeps every key on the heap; see shortTag
	"golang.org/x/crypto/poly1305"
)

const (
	// HPKEKeySize is the length in bytes of an X25519 public or private key.
	HPKEKeySize = 32
	// EncapsulatedSize is the length in bytes of an encapsulated key.
	EncapsulatedSize = 32
	tagSize          = 16
)

// What RFC 9180 puts before the values from which a secret is derived: the length of the output where there is one
// (section 4, LabeledExpand), the version, the identity of the one suite in use (section 7, code points 0x0020, 0x0001,
// 0x0003), and the label.
const (
	kemSuite  = "HPKE-v1" + "KEM\x00\x20"
	hpkeSuite = "HPKE-v1" + "HPKE\x00\x20\x00\x01\x00\x03"

	labelDH     = kemSuite + "eae_prk"
	labelShared = "\x00\x20" + kemSuite + "shared_secret"
	labelPSK    = hpkeSuite + "psk_id_hash"
	labelInfo   = hpkeSuite + "info_hash"
	labelSecret = hpkeSuite + "secret"
	labelKey    = "\x00\x20" + hpkeSuite + "key"
	labelNonce  = "\x00\x0c" + hpkeSuite + "base_nonce"
	labelExp    = "\x00\x20" + hpkeSuite + "exp"
	labelExport = "\x00\x20" + hpkeSuite + "sec"
)

// schedule is what all messages with one info string have in common: RFC 9180's key_schedule_context (section 5.1),
// which starts with the mode, 0 for base.
type schedule [1 + 2*sha256.Size]byte

func newSchedule(info []byte) *schedule {
	var w exchange
	s := new(schedule)
	copy(s[1:], w.hmac(&[32]byte{}, labelPSK))
	copy(s[1+sha256.Size:], w.hmac(&[32]byte{}, labelInfo, info))
	return s
}

// exchange derives key and nonce of one message after another, in memory of its own: nothing is allocated for a
// message. Whoever is done with it wipes it.
//
// It is the base mode of RFC 9180 for the first message of a context, which is all that is ever sent under one: the
// curve, SHA-256, ChaCha20 and Poly1305 are libraries', what is here is the order in which they are called.
type exchange struct {
	ephemeral    x25519.Key
	scalar       edwards25519.Scalar // the ephemeral key
	point        edwards25519.Point  // the encapsulated key
	encapsulated x25519.Key
	shared       x25519.Key
	secret       [32]byte
	key          [32]byte
	nonce        [chacha20poly1305.NonceSize]byte

	inner [sha256.BlockSize + 128]byte // the input of HMAC's inner hash; longer input moves to the heap
	outer [sha256.BlockSize + sha256.Size]byte
	// The key stream of a short message: its first block starts with the key of Poly1305, its second with what covers
	// the plaintext.
	stream [chachaBlock + shortSize]byte
}

func (w *exchange) wipe() { *w = exchange{} }

// send derives key and nonce of a message to a receiver from w.ephemeral, 32 random bytes that are used for nothing
// else, and encapsulates them. It is false for a receiver's key of low order.
func (w *exchange) send(receiver *x25519.Key, s *schedule) bool {
	w.encapsulate()
	if !x25519.Shared(&w.shared, &w.ephemeral, receiver) {
		return false
	}
	w.derive(receiver, s)
	return true
}

// encapsulate is x25519.KeyGen by way of the Edwards form of the curve, for whose base point there are tables: less
// than three quarters of the time. It takes the same time for every key.
func (w *exchange) encapsulate() {
	if _, err := w.scalar.SetBytesWithClamping(w.ephemeral[:]); err != nil { // only for another length
		panic("seal: " + err.Error())
	}
	copy(w.encapsulated[:], w.point.ScalarBaseMult(&w.scalar).BytesMontgomery())
}

// receive derives key and nonce of a message from its encapsulated key, EncapsulatedSize bytes. It is false for one of
// low order (RFC 9180, section 7.1.4).
func (w *exchange) receive(k *HPKEKey, encapsulated []byte, s *schedule) bool {
	copy(w.encapsulated[:], encapsulated)
	if !x25519.Shared(&w.shared, &k.private, &w.encapsulated) {
		return false
	}
	w.derive(&k.public, s)
	return true
}

// derive is ExtractAndExpand of section 4.1 and KeySchedule of section 5.1.
func (w *exchange) derive(receiver *x25519.Key, s *schedule) {
	end := [1]byte{1} // of the first and only block of HKDF-Expand
	copy(w.secret[:], w.hmac(&[32]byte{}, labelDH, w.shared[:]))
	copy(w.secret[:], w.hmac(&w.secret, labelShared, w.encapsulated[:], receiver[:], end[:]))
	copy(w.secret[:], w.hmac(&w.secret, labelSecret))
	copy(w.key[:], w.hmac(&w.secret, labelKey, s[:], end[:]))
	copy(w.nonce[:], w.hmac(&w.secret, labelNonce, s[:], end[:]))
}

// replyKey is what the reply to a request is sealed under: the secret that Context.Export of section 5.3 makes of the
// exporter secret.
func (w *exchange) replyKey(s *schedule) *ReplyKey {
	k := &ReplyKey{encapsulated: w.encapsulated}
	end := [1]byte{1}
	var exporter [32]byte
	copy(exporter[:], w.hmac(&w.secret, labelExp, s[:], end[:]))
	copy(k.secret[:], w.hmac(&exporter, labelExport, []byte(replyDomain), end[:]))
	clear(exporter[:])
	return k
}

// cipher is the cipher of w.key, and the nonce of its one message: all else of w stays off the heap.
func (w *exchange) cipher() (cipher.AEAD, [chacha20poly1305.NonceSize]byte) {
	aead, err := chacha20poly1305.New(w.key[:])
	if err != nil { // only where FIPS 140-3 is enforced
		panic("seal: " + err.Error())
	}
	return aead, w.nonce
}

// hmac is HMAC-SHA256 of a label and what follows it. The result is overwritten by the next call. The standard
// library's allocates its state for every key, and nearly every key is used once.
func (w *exchange) hmac(key *[32]byte, label string, parts ...[]byte) []byte {
	for i := range sha256.BlockSize {
		w.inner[i], w.outer[i] = 0x36, 0x5c
	}
	subtle.XORBytes(w.inner[:len(key)], w.inner[:len(key)], key[:])
	subtle.XORBytes(w.outer[:len(key)], w.outer[:len(key)], key[:])
	input := append(w.inner[:sha256.BlockSize], label...)
	for _, p := range parts {
		input = append(input, p...)
	}
	digest := sha256.Sum256(input)
	copy(w.outer[sha256.BlockSize:], digest[:])
	digest = sha256.Sum256(w.outer[:])
	return append(w.outer[:0], digest[:]...)
}

const (
	// shortSize is the longest plaintext that sealShort and openShort take, in bytes: one block of Poly1305.
	shortSize   = 16
	chachaBlock = 64 // bytes
)

// sealShort writes the ciphertext of a plaintext of 1 to shortSize bytes to out, and the tag after it: as
// chacha20poly1305 with at most shortSize bytes of associated data does, which allocates an object for each key.
func (w *exchange) sealShort(out, plain, aad []byte) {
	w.expandKey()
	subtle.XORBytes(out, plain, w.stream[chachaBlock:])
	tag := w.shortTag(out[:len(plain)], aad)
	copy(out[len(plain):], tag[:])
}

// openShort decrypts what sealShort wrote, tagSize longer than plain. Where it is false, plain is not written.
func (w *exchange) openShort(plain, sealed, aad []byte) bool {
	w.expandKey()
	tag := w.shortTag(sealed[:len(plain)], aad)
	if subtle.ConstantTimeCompare(tag[:], sealed[len(plain):]) != 1 {
		return false
	}
	subtle.XORBytes(plain, sealed[:len(plain)], w.stream[chachaBlock:])
	return true
}

// expandKey fills w.stream from key and nonce (RFC 8439, section 2.8).
func (w *exchange) expandKey() {
	c, err := chacha20.NewUnauthenticatedCipher(w.key[:], w.nonce[:])
	if err != nil { // only where FIPS 140-3 is enforced
		panic("seal: " + err.Error())
	}
	clear(w.stream[:])
	c.XORKeyStream(w.stream[:], w.stream[:])
}

// shortTag is the tag of a ciphertext of 1 to shortSize bytes with at most shortSize bytes of associated data (RFC
// 8439, section 2.8): Poly1305 over the associated data and the ciphertext, each padded to 16 bytes, of which nothing
// is left where there is none, and the two lengths. Each key of Poly1305 is used for one message, as it must be.
func (w *exchange) shortTag(ciphertext, aad []byte) (tag [tagSize]byte) {
	var input [2*shortSize + 16]byte
	end := 0
	for _, part := range [...][]byte{aad, ciphertext} {
		if len(part) > 0 {
			copy(input[end:end+shortSize], part)
			end += shortSize
		}
	}
	input[end], input[end+8] = byte(len(aad)), byte(len(ciphertext))
	poly1305.Sum(&tag, input[:end+16], (*[32]byte)(w.stream[:32]))
	return tag
}

// appendSeal appends an encapsulated key and the ciphertext of a message of any length to dst. It allocates, besides
// what dst lacks, its key and nonce. A receiver's key of low order is ErrKey.
func appendSeal(dst []byte, receiver *x25519.Key, s *schedule, plaintext, aad []byte) ([]byte, error) {
	var w exchange
	defer w.wipe()
	rand.Read(w.ephemeral[:]) // never returns an error: without randomness the process ends
	if !w.send(receiver, s) {
		return dst, errLowOrder
	}
	aead, nonce := w.cipher()
	return aead.Seal(append(dst, w.encapsulated[:]...), nonce[:], plaintext, aad), nil
}

// appendOpen appends the plaintext of a message to dst; what does not open is ErrOpen.
func appendOpen(dst []byte, k *HPKEKey, s *schedule, encapsulated, ciphertext, aad []byte) ([]byte, error) {
	var w exchange
	defer w.wipe()
	if !w.receive(k, encapsulated, s) {
		return dst, ErrOpen
	}
	aead, nonce := w.cipher()
	plain, err := aead.Open(dst, nonce[:], ciphertext, aad)
	if err != nil {
		return dst, ErrOpen
	}
	return plain, nil
}
