package seal

import (
	"bytes"
	"crypto/ed25519"
	"errors"
	"fmt"
)

// ErrText means bytes that SignText does not sign.
var ErrText = errors.New("seal: not a text that can be signed")

// SignText signs a text as it stands, without a domain before it, for formats that others defined, like the signed
// notes of transparency logs. A text ends in a newline and has no zero byte: the domain of every statement has one (see
// Kind.Domain), so that a signature of a text verifies as no statement, and one of a statement as no text. The error
// wraps ErrText.
func SignText(text []byte, by *Identity) ([]byte, error) {
	if err := checkText(text); err != nil {
		return nil, err
	}
	return ed25519.Sign(by.key, text), nil
}

// VerifyText checks a signature of SignText. Errors: ErrText, ErrKey for a public key of the wrong length,
// ErrSignature.
func VerifyText(text, public, signature []byte) error {
	if err := checkText(text); err != nil {
		return err
	}
	if len(public) != ed25519.PublicKeySize {
		return fmt.Errorf("%w: Ed25519 public key of %d bytes, want %d", ErrKey, len(public), ed25519.PublicKeySize)
	}
	if !ed25519.Verify(public, text, signature) {
		return ErrSignature
	}
	return nil
}

func checkText(text []byte) error {
	if bytes.IndexByte(text, 0) >= 0 {
		return fmt.Errorf("%w: it holds a zero byte, as what is signed with a domain does", ErrText)
	}
	if !bytes.HasSuffix(text, []byte("\n")) {
		return fmt.Errorf("%w: it must end in a newline", ErrText)
	}
	return nil
}
