package seal

import "github.com/cloudflare/circl/hpke"

// The one suite in use: RFC 9180, section 7, code points 0x0020, 0x0001, 0x0003.
const (
	kemID  = hpke.KEM_X25519_HKDF_SHA256
	kdfID  = hpke.KDF_HKDF_SHA256
	aeadID = hpke.AEAD_ChaCha20Poly1305
)

const (
	// HPKEKeySize is the length in bytes of an X25519 public or private key.
	HPKEKeySize = 32
	// EncapsulatedSize is the length in bytes of an encapsulated key.
	EncapsulatedSize = 32
	tagSize          = 16
)

func suite() hpke.Suite { return hpke.NewSuite(kemID, kdfID, aeadID) }
