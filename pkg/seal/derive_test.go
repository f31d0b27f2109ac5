package seal_test

import (
	"bytes"
	"encoding/hex"
	"testing"

	"github.com/riffle-dp/riffle/pkg/seal"
)

// A derived secret follows from identity and purpose, and is HKDF-SHA256 over the seed: the expected value was computed
// with another implementation.
func TestDerivedSecrets(t *testing.T) {
	id, err := seal.NewIdentity(bytes.Repeat([]byte{1}, 32))
	if err != nil {
		t.Fatal(err)
	}
	const want = "328124524ef80c3d55619ba192cbedcd81bc4269de2f795cc0f467124f4e8daf"
	got := id.Derive([]byte("purpose"))
	if hex.EncodeToString(got[:]) != want {
		t.Errorf("%x, want %s", got, want)
	}
	if got == id.Derive([]byte("other purpose")) || got == seal.Derive(bytes.Repeat([]byte{2}, 32),
		[]byte("purpose")) ||
		got != seal.Derive(id.Bytes(), []byte("purpose")) {
		t.Error("a derived secret does not follow from seed and purpose alone")
	}
}

// Two draws of 32 bytes differ.
func TestRandomFillsItsArgument(t *testing.T) {
	var a, b [32]byte
	seal.Random(a[:])
	seal.Random(b[:])
	if a == b || a == [32]byte{} {
		t.Errorf("%x and %x", a, b)
	}
}
