package seal_test

import (
	"bytes"
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/riffle-dp/riffle/pkg/seal"
	"pgregory.net/rapid"
)

var kinds = []seal.Kind{seal.Announcement, seal.KeySet, seal.Manifest, seal.Counts, seal.Credential, seal.EnrolRequest,
	seal.EnrolReply, seal.Report, seal.Accepted, seal.Share, seal.Summed, seal.Configuration, seal.Learned,
	seal.Pool, seal.Draw, seal.IssuerCertificate, seal.Issued}

func identity(t testing.TB, b byte) *seal.Identity {
	t.Helper()
	id, err := seal.NewIdentity(bytes.Repeat([]byte{b}, 32))
	if err != nil {
		t.Fatal(err)
	}
	return id
}

// signedBy is an identity's, which never fails to sign.
func signedBy(kind seal.Kind, body []byte, by *seal.Identity) []byte {
	s, err := seal.Sign(kind, body, by)
	if err != nil {
		panic(err)
	}
	return s
}

// What a signer elsewhere signs is what the identity signs, byte for byte. Its error is an error, and so is a signature
// of another key or none.
func TestASignerElsewhere(t *testing.T) {
	id, other := identity(t, 1), ed25519.NewKeyFromSeed(bytes.Repeat([]byte{2}, 32))
	key := ed25519.NewKeyFromSeed(id.Bytes())
	lost := errors.New("the key was lost")
	for _, c := range []struct {
		name string
		ask  func([]byte) ([]byte, error)
		want error
	}{
		{"the key", func(m []byte) ([]byte, error) { return ed25519.Sign(key, m), nil }, nil},
		{"another key", func(m []byte) ([]byte, error) { return ed25519.Sign(other, m), nil }, seal.ErrSignature},
		{"nothing", func([]byte) ([]byte, error) { return nil, nil }, seal.ErrSignature},
		{"an error", func([]byte) ([]byte, error) { return nil, lost }, lost},
	} {
		by, err := seal.NewSigner(id.Public(), c.ask)
		if err != nil {
			t.Fatal(err)
		}
		got, err := seal.Sign(seal.Report, []byte("body"), by)
		if !errors.Is(err, c.want) {
			t.Errorf("%s: %v", c.name, err)
		}
		if err == nil && !bytes.Equal(got, signedBy(seal.Report, []byte("body"), id)) {
			t.Errorf("%s: another signature", c.name)
		}
	}
	if _, err := seal.NewSigner(id.Public()[1:], nil); !errors.Is(err, seal.ErrKey) {
		t.Errorf("a public key of 31 bytes: %v", err)
	}
}

// Who changes a key that was handed over, in either direction, changes no signer.
func TestSignersShareNoKeys(t *testing.T) {
	id := identity(t, 1)
	want, given := id.Public(), id.Public()
	sign := func(m []byte) ([]byte, error) { return ed25519.Sign(ed25519.NewKeyFromSeed(id.Bytes()), m), nil }
	elsewhere, err := seal.NewSigner(given, sign)
	if err != nil {
		t.Fatal(err)
	}
	clear(given)
	for _, by := range []seal.Signer{id, elsewhere} {
		clear(by.Public())
		signature, err := seal.Sign(seal.Report, []byte("body"), by)
		if err != nil || !bytes.Equal(by.Public(), want) {
			t.Errorf("%T: the key is %x, %v", by, by.Public(), err)
		}
		if err := seal.Verify(seal.Report, []byte("body"), want, signature); err != nil {
			t.Errorf("%T: %v", by, err)
		}
	}
}

func TestSignaturesAreSeparate(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		body := rapid.SliceOfN(rapid.Byte(), 0, 64).Draw(t, "body")
		i, j := rapid.IntRange(0, len(kinds)-1).Draw(t, "kind"), rapid.IntRange(0, len(kinds)-1).Draw(t, "other kind")
		id, err := seal.NewIdentity(rapid.SliceOfN(rapid.Byte(), 32, 32).Draw(t, "seed"))
		if err != nil {
			t.Fatal(err)
		}
		signature := signedBy(kinds[i], body, id)
		if err := seal.Verify(kinds[i], body, id.Public(), signature); err != nil {
			t.Fatal(err)
		}
		if err := seal.Verify(kinds[j], body, id.Public(), signature); (err == nil) != (i == j) {
			t.Fatalf("%v verified as %v: %v", kinds[i], kinds[j], err)
		}
		if (seal.Digest(kinds[i], body) == seal.Digest(kinds[j], body)) != (i == j) {
			t.Fatal("digests of two kinds collide")
		}
		bad := bytes.Clone(signature)
		bad[rapid.IntRange(0, len(bad)-1).Draw(t, "at")] ^= 1 << rapid.IntRange(0, 7).Draw(t, "bit")
		if err := seal.Verify(kinds[i], body, id.Public(), bad); !errors.Is(err, seal.ErrSignature) {
			t.Fatalf("changed signature: %v", err)
		}
		if err := seal.Verify(kinds[i], append(body, 0), id.Public(), signature); !errors.Is(err, seal.ErrSignature) {
			t.Fatalf("changed body: %v", err)
		}
	})
}

// TestDomains: no domain is the start of another, or a body could move bytes between domain and body.
func TestDomains(t *testing.T) {
	for i, a := range kinds {
		if !strings.HasPrefix(a.Domain(), "riffle/v1/") || strings.Contains(a.Domain(), "kind(") {
			t.Errorf("domain %q", a.Domain())
		}
		for j, b := range kinds {
			if i != j && strings.HasPrefix(b.Domain(), a.Domain()) {
				t.Errorf("%q starts with %q", b.Domain(), a.Domain())
			}
		}
	}
}

// TestSignGolden fixes what is signed, with nothing but the standard library on the other side.
func TestSignGolden(t *testing.T) {
	id, body := identity(t, 4), []byte("body")
	signature := signedBy(seal.Manifest, body, id)
	if !ed25519.Verify(id.Public(), []byte("riffle/v1/manifest\x00body"), signature) {
		t.Error("not a signature over domain || body")
	}
	const golden = "003ea2a38841c3dc7cb2194bff3bb7cc"
	if got := hex.EncodeToString(signature[:16]); got != golden {
		t.Errorf("signature starts %s, want %s", got, golden)
	}
	if got := seal.Digest(seal.Manifest, body); got != sha256.Sum256([]byte("riffle/v1/manifest\x00body")) {
		t.Errorf("digest %x", got)
	}
}

func TestVerifyRefusesKeys(t *testing.T) {
	id := identity(t, 4)
	signature := signedBy(seal.Counts, nil, id)
	if err := seal.Verify(seal.Counts, nil, id.Public()[:31], signature); !errors.Is(err, seal.ErrKey) {
		t.Errorf("short key: %v", err)
	}
	if err := seal.Verify(seal.Counts, nil, identity(t, 5).Public(), signature); !errors.Is(err, seal.ErrSignature) {
		t.Errorf("other key: %v", err)
	}
	if err := seal.Verify(seal.Counts, nil, id.Public(), nil); !errors.Is(err, seal.ErrSignature) {
		t.Errorf("no signature: %v", err)
	}
}

// TestKeysDoNotPrint: no verb shows a private key, whole or in part.
func TestKeysDoNotPrint(t *testing.T) {
	h, id := fixedKey(t, 0xab), identity(t, 0xcd)
	for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%x", "%d", "%q"} {
		for _, k := range []any{h, id, struct{ K *seal.HPKEKey }{h}} {
			text := fmt.Sprintf(verb, k)
			for _, secret := range []string{"abab", "cdcd", "171 171", "205 205", "0xab, 0xab"} {
				if strings.Contains(text, secret) {
					t.Errorf("%s shows %s", verb, text)
				}
			}
		}
	}
	for _, pair := range []struct{ public, private []byte }{{h.Public(), h.Bytes()}, {id.Public(), id.Bytes()}} {
		if bytes.Equal(pair.public, pair.private) || len(pair.public) != 32 || len(pair.private) != 32 {
			t.Error("halves of a key")
		}
	}
}

func TestKeysRoundTrip(t *testing.T) {
	h, err := seal.GenerateHPKE()
	if err != nil {
		t.Fatal(err)
	}
	id, err := seal.GenerateIdentity()
	if err != nil {
		t.Fatal(err)
	}
	h2, err := seal.NewHPKEKey(h.Bytes())
	if err != nil || !bytes.Equal(h2.Public(), h.Public()) {
		t.Error("HPKE key", err)
	}
	id2, err := seal.NewIdentity(id.Bytes())
	if err != nil || !bytes.Equal(id2.Public(), id.Public()) {
		t.Error("identity", err)
	}
	if _, err := seal.NewHPKEKey(make([]byte, 31)); !errors.Is(err, seal.ErrKey) {
		t.Error(err)
	}
	if _, err := seal.NewIdentity(make([]byte, 64)); !errors.Is(err, seal.ErrKey) {
		t.Error(err)
	}
}
