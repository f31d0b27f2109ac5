package seal

import (
	"fmt"

	"github.com/cloudflare/circl/hpke"
)

const (
	// The one suite in use: RFC 9180, section 7, code points 0x0020, 0x0001, 0x0003.
	kemID  = hpke.KEM_X25519_HKDF_SHA256
	kdfID  = hpke.KDF_HKDF_SHA256
	aeadID = hpke.AEAD_ChaCha20Poly1305

	// HPKEKeySize is the length in bytes of an X25519 public or private key.
	HPKEKeySize = 32
	// EncapsulatedSize is the length in bytes of an encapsulated key.
	EncapsulatedSize = 32
	tagSize          = 16
)

func suite() hpke.Suite { return hpke.NewSuite(kemID, kdfID, aeadID) }

// newSender prepares sealing to a public key; an unusable key is ErrKey.
func newSender(public, info []byte) (*hpke.Sender, error) {
	if err := CheckHPKEPublic(public); err != nil {
		return nil, err
	}
	key, err := kemID.Scheme().UnmarshalBinaryPublicKey(public)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrKey, err)
	}
	sender, err := suite().NewSender(key, info)
	if err != nil {
		return nil, fmt.Errorf("seal: %w", err)
	}
	return sender, nil
}

// sealOne encrypts the first and only message of a context. circl notes the mode in the sender: each message takes a
// copy.
func sealOne(sender hpke.Sender, plaintext, aad []byte) (encapsulated, ciphertext []byte, err error) {
	encapsulated, sealer, err := sender.Setup(nil)
	if err == nil {
		ciphertext, err = sealer.Seal(plaintext, aad)
	}
	if err != nil {
		return nil, nil, fmt.Errorf("seal: %w", err)
	}
	return encapsulated, ciphertext, nil
}

// open decrypts the first message of a context; what does not open is ErrOpen, an encapsulated point of low order
// included (RFC 9180, section 7.1.4).
func (k *HPKEKey) open(info, encapsulated, ciphertext, aad []byte) ([]byte, error) {
	receiver, err := suite().NewReceiver(k.kem, info)
	if err != nil {
		return nil, fmt.Errorf("seal: %w", err)
	}
	opener, err := receiver.Setup(encapsulated)
	if err != nil {
		return nil, ErrOpen
	}
	plain, err := opener.Open(ciphertext, aad)
	if err != nil {
		return nil, ErrOpen
	}
	return plain, nil
}
