package seal_test

import (
	"bytes"
	"errors"
	"testing"

	"github.com/riffle-dp/riffle/pkg/seal"
)

// An envelope opens with its key, domain, context and associated data, and with no others.
func TestAnEnvelopeOpensOnlyWhereItBelongs(t *testing.T) {
	t.Parallel()
	key, other := fixedKey(t, 1), fixedKey(t, 2)
	context, content, aad := [32]byte{1}, []byte("content"), []byte("bound to this")
	sealer, err := seal.NewEnvelopeSealer(key.Public(), seal.LocalEnvelope, context)
	if err != nil {
		t.Fatal(err)
	}
	prefixed, err := sealer.AppendSeal([]byte("before"), content, aad)
	if err != nil {
		t.Fatal(err)
	}
	envelope := prefixed[len("before"):]
	if len(envelope) != len(content)+seal.EnvelopeOverhead {
		t.Errorf("an envelope of %d bytes for %d", len(envelope), len(content))
	}
	if got, err := seal.NewEnvelopeOpener(key, seal.LocalEnvelope, context).Open(envelope, aad); err != nil ||
		!bytes.Equal(got, content) {
		t.Errorf("%q, %v", got, err)
	}
	changed := bytes.Clone(envelope)
	changed[len(changed)-1] ^= 1
	for name, try := range map[string]struct {
		opener        *seal.EnvelopeOpener
		envelope, aad []byte
		want          error
	}{
		"other key":     {seal.NewEnvelopeOpener(other, seal.LocalEnvelope, context), envelope, aad, seal.ErrOpen},
		"other domain":  {seal.NewEnvelopeOpener(key, seal.CentralEnvelope, context), envelope, aad, seal.ErrOpen},
		"other context": {seal.NewEnvelopeOpener(key, seal.LocalEnvelope, [32]byte{2}), envelope, aad, seal.ErrOpen},
		"other data":    {seal.NewEnvelopeOpener(key, seal.LocalEnvelope, context), envelope, nil, seal.ErrOpen},
		"changed":       {seal.NewEnvelopeOpener(key, seal.LocalEnvelope, context), changed, aad, seal.ErrOpen},
		"cut": {
			seal.NewEnvelopeOpener(key, seal.LocalEnvelope, context), envelope[:seal.EnvelopeOverhead-1], aad,
			seal.ErrSize,
		},
		"empty": {seal.NewEnvelopeOpener(key, seal.LocalEnvelope, context), nil, aad, seal.ErrSize},
	} {
		if _, err := try.opener.Open(try.envelope, try.aad); !errors.Is(err, try.want) {
			t.Errorf("%s: %v, want %v", name, err, try.want)
		}
	}
	if _, err := seal.NewEnvelopeSealer(make([]byte, seal.HPKEKeySize), seal.LocalEnvelope, context); !errors.Is(err,
		seal.ErrKey) {
		t.Errorf("a key of low order: %v", err)
	}
}

// No domain of an envelope starts with another one, or with that of bit messages, so that no info string has two
// meanings.
func TestEnvelopeDomainsAreApart(t *testing.T) {
	t.Parallel()
	domains := []string{string(seal.LocalEnvelope), string(seal.CentralEnvelope), string(seal.ShareEnvelope),
		string(seal.SecretEnvelope), string(seal.RetainedEnvelope), "riffle/v1/bit", "riffle/v1/report-envelope"}
	for i, a := range domains {
		for j, b := range domains {
			if i != j && bytes.HasPrefix([]byte(a), []byte(b)) {
				t.Errorf("%q starts with %q", a, b)
			}
		}
	}
}
