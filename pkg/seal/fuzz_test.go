package seal_test

import (
	"bytes"
	"errors"
	"testing"

	"github.com/riffle-dp/riffle/pkg/seal"
)

// FuzzBoxes feeds any bytes, with any associated data, to the openers of boxes and of retained chunks. What opens is
// what was sealed, with the data that it was bound to; whatever else is too short or does not open, and gives nothing.
// Each process of the fuzzer seals anew, so there are several boxes of one content.
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
		opened := func(what string, sealed, may bool, got []byte, err error) {
			switch {
			case sealed && err != nil, err == nil && (!may || !bytes.Equal(got, content)), err != nil && got != nil,
				err != nil && errors.Is(err, seal.ErrSize) != (len(data) < seal.BoxOverhead),
				err != nil && !errors.Is(err, seal.ErrSize) && !errors.Is(err, seal.ErrOpen):
				t.Fatalf("%s of %d bytes, sealed %v: %q, %v", what, len(data), sealed, got, err)
			}
		}
		got, err := opener.Open(data, bound)
		same := bytes.Equal(bound, aad)
		opened("a box", same && bytes.Equal(data, box), same, got, err)
		got, err = seal.OpenRetained(key, retainedAt, data)
		opened("a retained chunk", bytes.Equal(data, chunk), true, got, err)
	})
}
