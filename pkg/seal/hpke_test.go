package seal

import (
	"bytes"
	"encoding/hex"
	"errors"
	"os"
	"reflect"
	"strings"
	"testing"

	"github.com/cloudflare/circl/dh/x25519"
	"golang.org/x/crypto/chacha20poly1305"
	"pgregory.net/rapid"

	_ "github.com/riffle-dp/riffle/internal/testing/fixedseed"
)

// vectors are the values of a file of lines "name hex".
func vectors(t *testing.T, file string) map[string][]byte {
	t.Helper()
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	values := map[string][]byte{}
	for line := range strings.Lines(string(data)) {
		if name, value, found := strings.Cut(strings.TrimSpace(line), " "); found && name != "#" {
			if values[name], err = hex.DecodeString(value); err != nil {
				t.Fatal(err)
			}
		}
	}
	return values
}

// The test vector of RFC 9180 for this suite and mode: every value on the way, on both sides.
func TestTheVectorOfRFC9180(t *testing.T) {
	v := vectors(t, "testdata/rfc9180.golden")
	if len(v) != 14 {
		t.Fatalf("%d values in the file", len(v))
	}
	key, err := NewHPKEKey(v["skRm"])
	if err != nil {
		t.Fatal(err)
	}
	s := newSchedule(v["info"])
	var out, in exchange
	copy(out.ephemeral[:], v["skEm"])
	if !out.send(&key.public, s) || !in.receive(key, v["enc"], s) {
		t.Fatal("a key of low order")
	}
	for _, side := range []*exchange{&out, &in} {
		for name, got := range map[string][]byte{
			"pkRm": key.public[:], "key_schedule_context": s[:], "enc": side.encapsulated[:], "secret": side.secret[:],
			"key": side.key[:], "base_nonce": side.nonce[:],
		} {
			if !bytes.Equal(got, v[name]) {
				t.Errorf("%s is %x, not %x", name, got, v[name])
			}
		}
	}
	if got, err := appendOpen([]byte("before"), key, s, v["enc"], v["ct"], v["aad"]); err != nil ||
		string(got) != "before"+string(v["pt"]) {
		t.Errorf("%q, %v", got, err)
	}
	aead, err := chacha20poly1305.New(out.key[:])
	if err != nil {
		t.Fatal(err)
	}
	if got := aead.Seal(nil, out.nonce[:], v["pt"], v["aad"]); !bytes.Equal(got, v["ct"]) {
		t.Errorf("ciphertext %x, not %x", got, v["ct"])
	}
}

// The encapsulated key is the one that X25519 gives for the ephemeral key (RFC 7748), whatever its bytes.
func TestEncapsulatedKeysAreX25519s(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := exchange{ephemeral: x25519.Key(rapid.SliceOfN(rapid.Byte(), 32, 32).Draw(t, "key"))}
		var want x25519.Key
		x25519.KeyGen(&want, &w.ephemeral)
		if w.encapsulate(); w.encapsulated != want {
			t.Fatalf("%x, not %x", w.encapsulated, want)
		}
	})
}

// A short message is sealed and opened as the library's ChaCha20-Poly1305 does it, and no changed one opens.
func TestShortMessagesAreChaCha20Poly1305(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		draw := func(name string, least, most int) []byte {
			return rapid.SliceOfN(rapid.Byte(), least, most).Draw(t, name)
		}
		var w exchange
		copy(w.key[:], draw("key", 32, 32))
		copy(w.nonce[:], draw("nonce", 12, 12))
		plain, aad := draw("plain", 1, shortSize), draw("aad", 0, shortSize)
		aead, err := chacha20poly1305.New(w.key[:])
		if err != nil {
			t.Fatal(err)
		}
		want := aead.Seal(nil, w.nonce[:], plain, aad)
		got := make([]byte, len(plain)+tagSize)
		if w.sealShort(got, plain, aad); !bytes.Equal(got, want) {
			t.Fatalf("%x, not %x", got, want)
		}
		opened := make([]byte, len(plain))
		if !w.openShort(opened, want, aad) || !bytes.Equal(opened, plain) {
			t.Fatalf("opened to %x, not %x", opened, plain)
		}
		clear(opened)
		if len(aad) < shortSize && w.openShort(opened, want, append(bytes.Clone(aad), 0)) {
			t.Fatal("a message opens with other associated data")
		}
		want[rapid.IntRange(0, len(want)-1).Draw(t, "at")] ^= 1 << rapid.IntRange(0, 7).Draw(t, "bit")
		if w.openShort(opened, want, aad) || !bytes.Equal(opened, make([]byte, len(plain))) {
			t.Fatalf("a changed message opened to %x", opened)
		}
	})
}

// What a message was sealed or opened with is not in memory afterwards.
func TestTheWorkingMemoryIsWiped(t *testing.T) {
	key, err := GenerateHPKE()
	if err != nil {
		t.Fatal(err)
	}
	var w exchange
	Random(w.ephemeral[:])
	w.send(&key.public, newSchedule(nil))
	w.sealShort(make([]byte, bitPlain+tagSize), make([]byte, bitPlain), nil)
	if w.wipe(); !reflect.DeepEqual(w, exchange{}) {
		t.Errorf("%+v", w)
	}
}

// A message whose encapsulated key is of low order has a secret that everyone knows, so anyone can seal one that has a
// right tag: it is refused nevertheless.
func TestALowOrderMessageWithARightTagIsRefused(t *testing.T) {
	key, err := GenerateHPKE()
	if err != nil {
		t.Fatal(err)
	}
	context := [32]byte{1}
	for _, encapsulated := range [][32]byte{{}, {1}} {
		derived := func(info []byte) *exchange {
			w := exchange{encapsulated: encapsulated} // and a shared secret of zeros
			w.derive(&key.public, newSchedule(info))
			return &w
		}
		bit := append(encapsulated[:], make([]byte, bitPlain+tagSize)...)
		derived(bitInfo(context)).sealShort(bit[EncapsulatedSize+LabelSize:], []byte{1}, Label(bit))
		if _, _, _, err := NewBitOpener(key, context).Open(bit); !errors.Is(err, ErrOpen) {
			t.Errorf("a bit message: %v", err)
		}
		envelope := append(encapsulated[:], make([]byte, bitPlain+tagSize)...)
		derived(LocalEnvelope.info(context)).sealShort(envelope[EncapsulatedSize:], make([]byte, bitPlain), nil)
		if _, err := NewEnvelopeOpener(key, LocalEnvelope, context).Open(envelope, nil); !errors.Is(err, ErrOpen) {
			t.Errorf("an envelope: %v", err)
		}
	}
}
