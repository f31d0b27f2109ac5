package seal_test

import (
	"bytes"
	"errors"
	"testing"

	"github.com/riffle-dp/riffle/pkg/seal"
)

// FuzzBoxes feeds any bytes, with any associated data, to the openers of boxes and of retained chunks. Only what was
// sealed opens, to what was sealed; whatever else is too short or does not open, and gives nothing.
func FuzzBoxes(f *testing.F) {
	key, content, aad := fixedKey(f, 1), []byte("content"), []byte("bound to this")
	sealer, err := seal.NewBoxSealer(key.Public(), seal.LocalBox, [32]byte{1})
	if err != nil {
		f.Fatal(err)
	}
	box, err := sealer.AppendSeal(nil, content, aad)
	if err != nil {
		f.Fatal(err)
	}
	chunk, err := seal.SealRetained(key.Public(), retainedAt, content)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(box, aad)
	f.Add(chunk, aad)
	f.Add(box[:seal.BoxOverhead-1], []byte{})
	opener := seal.NewBoxOpener(key, seal.LocalBox, [32]byte{1})
	f.Fuzz(func(t *testing.T, data, bound []byte) {
		opened := func(what string, good bool, got []byte, err error) {
			switch {
			case (err == nil) != good, good && !bytes.Equal(got, content), !good && got != nil,
				!good && errors.Is(err, seal.ErrSize) != (len(data) < seal.BoxOverhead),
				!good && !errors.Is(err, seal.ErrSize) && !errors.Is(err, seal.ErrOpen):
				t.Fatalf("%s of %d bytes, sealed %v: %q, %v", what, len(data), good, got, err)
			}
		}
		got, err := opener.Open(data, bound)
		opened("a box", bytes.Equal(data, box) && bytes.Equal(bound, aad), got, err)
		got, err = seal.OpenRetained(key, retainedAt, data)
		opened("a retained chunk", bytes.Equal(data, chunk), got, err)
	})
}
