package seal_test

import (
	"bytes"
	"errors"
	"testing"

	"github.com/riffle-dp/riffle/pkg/seal"
)

// FuzzSealedEnvelopes feeds any bytes, with any associated data, to the openers of envelopes and of retained chunks.
// What opens is what was sealed, with the data that it was bound to; whatever else is too short or does not open, and
// gives nothing. Each process of the fuzzer seals anew, so there are several envelopes of one content.
func FuzzSealedEnvelopes(f *testing.F) {
	key, content, aad := fixedKey(f, 1), []byte("content"), []byte("bound to this")
	sealer, err := seal.NewEnvelopeSealer(key.Public(), seal.LocalEnvelope, [32]byte{1})
	if err != nil {
		f.Fatal(err)
	}
	envelope, err := sealer.AppendSeal(nil, content, aad)
	if err != nil {
		f.Fatal(err)
	}
	chunk, err := seal.SealRetained(key.Public(), retainedAt, content)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(envelope, aad)
	f.Add(chunk, aad)
	f.Add(envelope[:seal.EnvelopeOverhead-1], []byte{})
	opener := seal.NewEnvelopeOpener(key, seal.LocalEnvelope, [32]byte{1})
	f.Fuzz(func(t *testing.T, data, bound []byte) {
		opened := func(what string, sealed, may bool, got []byte, err error) {
			switch {
			case sealed && err != nil, err == nil && (!may || !bytes.Equal(got, content)), err != nil && got != nil,
				err != nil && errors.Is(err, seal.ErrSize) != (len(data) < seal.EnvelopeOverhead),
				err != nil && !errors.Is(err, seal.ErrSize) && !errors.Is(err, seal.ErrOpen):
				t.Fatalf("%s of %d bytes, sealed %v: %q, %v", what, len(data), sealed, got, err)
			}
		}
		got, err := opener.Open(data, bound)
		same := bytes.Equal(bound, aad)
		opened("an envelope", same && bytes.Equal(data, envelope), same, got, err)
		got, err = seal.OpenRetained(key, retainedAt, data)
		opened("a retained chunk", bytes.Equal(data, chunk), true, got, err)
	})
}
