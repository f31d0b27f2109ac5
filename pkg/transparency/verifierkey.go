package transparency

import (
	"encoding/base64"
	"fmt"
	"strings"

	"github.com/riffle-dp/riffle/pkg/seal"
)

// VerifierKey is a witness's name and Ed25519 public key in one line of text, as C2SP signed-note writes a key for
// cosignatures: what a witness publishes, and what others trust it by. The error wraps ErrName.
func VerifierKey(name string, key []byte) (string, error) {
	if err := CheckName(name); err != nil {
		return "", err
	}
	if len(key) != seal.IdentitySize {
		return "", fmt.Errorf("%w: a key of %d bytes, must have %d", ErrName, len(key), seal.IdentitySize)
	}
	return fmt.Sprintf("%s+%08x+%s", name, keyID(name, algorithmCosignature, key),
		base64.StdEncoding.EncodeToString(append([]byte{algorithmCosignature}, key...))), nil
}

// ParseVerifierKey reads what VerifierKey made. White space around it is dropped. The error wraps ErrName.
func ParseVerifierKey(text string) (name string, key []byte, err error) {
	text = strings.TrimSpace(text)
	parts := strings.Split(text, "+")
	if len(parts) >= 3 {
		// base64 may hold a +
		raw, err := base64.StdEncoding.Strict().DecodeString(strings.Join(parts[2:], "+"))
		if err == nil && len(raw) == 1+seal.IdentitySize {
			again, err := VerifierKey(parts[0], raw[1:])
			if err == nil && again == text {
				return parts[0], raw[1:], nil
			}
		}
	}
	return "", nil, fmt.Errorf("%w and key: a witness's key has the form NAME+ID+KEY, of one line, as riffle witness "+
		"keygen wrote it", ErrName)
}
