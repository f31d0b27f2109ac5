package seal_test

import (
	"errors"
	"testing"

	"github.com/riffle-dp/riffle/pkg/seal"
)

// A text's signature is that of its key and of every byte of it.
func TestATextIsSignedAsItStands(t *testing.T) {
	t.Parallel()
	id, other := identity(t, 1), identity(t, 2)
	text := []byte("one line\n")
	signature, err := seal.SignText(text, id)
	if err != nil {
		t.Fatal(err)
	}
	for name, try := range map[string]struct {
		text, key, signature []byte
		want                 error
	}{
		"as signed":    {text, id.Public(), signature, nil},
		"another text": {[]byte("two lines\n"), id.Public(), signature, seal.ErrSignature},
		"another key":  {text, other.Public(), signature, seal.ErrSignature},
		"no key":       {text, nil, signature, seal.ErrKey},
		"no signature": {text, id.Public(), nil, seal.ErrSignature},
		"a zero byte":  {[]byte("\x00\n"), id.Public(), signature, seal.ErrText},
	} {
		if err := seal.VerifyText(try.text, try.key, try.signature); !errors.Is(err, try.want) {
			t.Errorf("%s: %v, want %v", name, err, try.want)
		}
	}
	for _, bad := range []string{"", "no newline", "\x00\n", "in \x00 it\n", seal.Manifest.Domain() + "body\n"} {
		if _, err := seal.SignText([]byte(bad), id); !errors.Is(err, seal.ErrText) {
			t.Errorf("%q is signed: %v", bad, err)
		}
	}
	// A statement's signature verifies as that of no text, even of the same bytes.
	message := seal.Manifest.Domain() + "body\n"
	signature = signedBy(seal.Manifest, []byte("body\n"), id)
	if err := seal.VerifyText([]byte(message), id.Public(), signature); !errors.Is(err, seal.ErrText) {
		t.Errorf("a manifest verifies as a text: %v", err)
	}
}
