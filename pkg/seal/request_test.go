package seal_test

import (
	"bytes"
	"crypto/hkdf"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"os"
	"strings"
	"testing"

	"github.com/cloudflare/circl/hpke"
	"github.com/riffle-dp/riffle/pkg/seal"
	"golang.org/x/crypto/chacha20poly1305"
)

const requestInfo = "riffle/v1/enrolment-request"

func requestOpener(t testing.TB, deployment string, keys ...*seal.HPKEKey) *seal.RequestOpener {
	t.Helper()
	o, err := seal.NewRequestOpener(deployment, keys...)
	if err != nil {
		t.Fatal(err)
	}
	return o
}

// A request opens with every key that is kept, in its deployment and in no other, and its reply with the request's key
// alone. Nothing else that is sealed to the shuffler opens as a request.
func TestRequestsAndReplies(t *testing.T) {
	old, current, unknown := fixedKey(t, 1), fixedKey(t, 2), fixedKey(t, 3)
	opener := requestOpener(t, "d", current, old)
	var before *seal.ReplyKey
	for _, k := range []*seal.HPKEKey{old, current} {
		e, mine, err := seal.SealRequest(k.Public(), "d", []byte("request"))
		if err != nil {
			t.Fatal(err)
		}
		plain, theirs, err := opener.Open(e)
		if err != nil || string(plain) != "request" {
			t.Fatalf("%q, %v", plain, err)
		}
		one, two := theirs.Seal([]byte("reply")), theirs.Seal([]byte("reply"))
		if len(one) != len("reply")+seal.ReplyOverhead || bytes.Equal(one[32:], two[32:]) {
			t.Errorf("two replies are sealed as %x and %x", one, two)
		}
		for _, sealed := range [][]byte{one, two} {
			if got, err := mine.Open(sealed); err != nil || string(got) != "reply" {
				t.Errorf("%q, %v", got, err)
			}
			for i := range sealed {
				changed := bytes.Clone(sealed)
				changed[i] ^= 1
				if got, err := mine.Open(changed); !errors.Is(err, seal.ErrOpen) || got != nil {
					t.Errorf("byte %d of a reply changed: %q, %v", i, got, err)
				}
			}
		}
		if before != nil {
			if got, err := before.Open(one); !errors.Is(err, seal.ErrOpen) {
				t.Errorf("another request's key: %q, %v", got, err)
			}
		}
		if _, err := mine.Open(one[:seal.ReplyOverhead-1]); !errors.Is(err, seal.ErrSize) {
			t.Errorf("cut: %v", err)
		}
		before = mine
		if _, _, err := requestOpener(t, "e", k).Open(e); !errors.Is(err, seal.ErrOpen) {
			t.Errorf("another deployment: %v", err)
		}
		e.Encapsulated[31] ^= 0x80 // a bit that X25519 ignores
		if _, _, err := opener.Open(e); !errors.Is(err, seal.ErrOpen) {
			t.Errorf("another encapsulated key: %v", err)
		}
	}
	e, _, err := seal.SealRequest(unknown.Public(), "d", []byte("request"))
	if err != nil {
		t.Fatal(err)
	}
	if _, _, err := opener.Open(e); !errors.Is(err, seal.ErrUnknownKey) {
		t.Errorf("unknown key: %v", err)
	}
	if e, err = seal.SealReport(current.Public(), nil, []byte("report")); err != nil {
		t.Fatal(err)
	}
	if _, _, err := opener.Open(e); !errors.Is(err, seal.ErrOpen) {
		t.Errorf("a report opens as a request: %v", err)
	}
	e.Ciphertext = e.Ciphertext[:seal.CiphertextOverhead-1]
	if _, _, err := opener.Open(e); !errors.Is(err, seal.ErrSize) {
		t.Errorf("cut: %v", err)
	}
	if _, _, err := seal.SealRequest(make([]byte, seal.HPKEKeySize), "d", nil); !errors.Is(err, seal.ErrKey) {
		t.Errorf("a key of low order: %v", err)
	}
	if _, err := seal.NewRequestOpener("d"); !errors.Is(err, seal.ErrKey) {
		t.Errorf("no keys: %v", err)
	}
}

// A request does not open as a report, nor a report as a request, even where neither is bound to anything besides its
// kind: a deployment without a name, and no associated data.
func TestRequestsAndReportsAreApart(t *testing.T) {
	key := fixedKey(t, 1)
	reports, err := seal.NewReportOpener(key)
	if err != nil {
		t.Fatal(err)
	}
	request, _, err := seal.SealRequest(key.Public(), "", []byte("request"))
	if err != nil {
		t.Fatal(err)
	}
	report, err := seal.SealReport(key.Public(), nil, []byte("report"))
	if err != nil {
		t.Fatal(err)
	}
	if _, _, err := requestOpener(t, "", key).Open(report); !errors.Is(err, seal.ErrOpen) {
		t.Errorf("a report opens as a request: %v", err)
	}
	if _, err := reports.Open(request, nil); !errors.Is(err, seal.ErrOpen) {
		t.Errorf("a request opens as a report: %v", err)
	}
}

// circlReply is a reply as RFC 9458 seals it, by way of circl's export of the secret.
func circlReply(t testing.TB, secret, encapsulated, salt, plain []byte) []byte {
	t.Helper()
	prk, err := hkdf.Extract(sha256.New, secret, append(bytes.Clone(encapsulated), salt...))
	if err != nil {
		t.Fatal(err)
	}
	key, err := hkdf.Expand(sha256.New, prk, "key", chacha20poly1305.KeySize)
	if err != nil {
		t.Fatal(err)
	}
	nonce, err := hkdf.Expand(sha256.New, prk, "nonce", chacha20poly1305.NonceSize)
	if err != nil {
		t.Fatal(err)
	}
	aead, err := chacha20poly1305.New(key)
	if err != nil {
		t.Fatal(err)
	}
	return aead.Seal(bytes.Clone(salt), nonce, plain, nil)
}

// TestRequestGolden has circl's HPKE seal a request with fixed randomness and a reply to it, compares them with what is
// stored, and opens them: key 32 bytes 0x01, deployment "golden", seed 32 bytes 0x05, salt 32 bytes 0x06. The four
// lines are the encapsulated key, the ciphertext of "a request", the exported secret, the sealed "a reply".
func TestRequestGolden(t *testing.T) {
	key := fixedKey(t, 1)
	pk, err := hpke.KEM_X25519_HKDF_SHA256.Scheme().UnmarshalBinaryPublicKey(key.Public())
	if err != nil {
		t.Fatal(err)
	}
	sender, err := circlSuite.NewSender(pk, []byte(requestInfo+"golden"))
	if err != nil {
		t.Fatal(err)
	}
	encapsulated, s, err := sender.Setup(bytes.NewReader(bytes.Repeat([]byte{5}, 32)))
	if err != nil {
		t.Fatal(err)
	}
	ciphertext, err := s.Seal([]byte("a request"), nil)
	if err != nil {
		t.Fatal(err)
	}
	secret := s.Export([]byte("riffle/v1/enrolment-reply"), 32)
	reply := circlReply(t, secret, encapsulated, bytes.Repeat([]byte{6}, 32), []byte("a reply"))
	var lines []string
	for _, b := range [][]byte{encapsulated, ciphertext, secret, reply} {
		lines = append(lines, hex.EncodeToString(b))
	}
	stored, err := os.ReadFile("testdata/request.golden")
	if err != nil || strings.TrimSpace(string(stored)) != strings.Join(lines, "\n") {
		t.Errorf("stored are\n%s%v, circl makes\n%s", stored, err, strings.Join(lines, "\n"))
	}
	opener := requestOpener(t, "golden", key)
	plain, k, err := opener.Open(seal.Envelope{Key: key.Public(), Encapsulated: encapsulated, Ciphertext: ciphertext})
	if err != nil || string(plain) != "a request" {
		t.Fatalf("%q, %v", plain, err)
	}
	if got, err := k.Open(reply); err != nil || string(got) != "a reply" {
		t.Errorf("%q, %v", got, err)
	}
}

// FuzzSealedRequest feeds any bytes to the openers of requests and of their replies: nothing opens but what was sealed.
func FuzzSealedRequest(f *testing.F) {
	key := fixedKey(f, 1)
	opener := requestOpener(f, "d", key)
	e, reply, err := seal.SealRequest(key.Public(), "d", []byte("request"))
	if err != nil {
		f.Fatal(err)
	}
	answer := reply.Seal([]byte("reply"))
	f.Add(e.Encapsulated, e.Ciphertext)
	f.Add(e.Encapsulated, answer)
	f.Add([]byte{}, []byte{})
	f.Fuzz(func(t *testing.T, encapsulated, sealed []byte) {
		plain, _, err := opener.Open(seal.Envelope{Key: key.Public(), Encapsulated: encapsulated, Ciphertext: sealed})
		if err == nil && string(plain) != "request" || err != nil && plain != nil {
			t.Fatalf("%q opens, %v", plain, err)
		}
		if got, err := reply.Open(sealed); (err == nil) != bytes.Equal(sealed, answer) || err != nil && got != nil {
			t.Fatalf("%q opens as a reply, %v", got, err)
		}
	})
}
