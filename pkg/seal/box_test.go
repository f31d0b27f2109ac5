package seal_test

import (
	"bytes"
	"errors"
	"testing"

	"github.com/riffle-dp/riffle/pkg/seal"
)

// A box opens with its key, domain, context and associated data, and with no others.
func TestABoxOpensOnlyWhereItBelongs(t *testing.T) {
	t.Parallel()
	key, other := fixedKey(t, 1), fixedKey(t, 2)
	context, content, aad := [32]byte{1}, []byte("content"), []byte("bound to this")
	sealer, err := seal.NewBoxSealer(key.Public(), seal.LocalBox, context)
	if err != nil {
		t.Fatal(err)
	}
	prefixed, err := sealer.AppendSeal([]byte("before"), content, aad)
	if err != nil {
		t.Fatal(err)
	}
	box := prefixed[len("before"):]
	if len(box) != len(content)+seal.BoxOverhead {
		t.Errorf("a box of %d bytes for %d", len(box), len(content))
	}
	if got, err := seal.NewBoxOpener(key, seal.LocalBox, context).Open(box, aad); err != nil ||
		!bytes.Equal(got, content) {
		t.Errorf("%q, %v", got, err)
	}
	changed := bytes.Clone(box)
	changed[len(changed)-1] ^= 1
	for name, try := range map[string]struct {
		opener   *seal.BoxOpener
		box, aad []byte
		want     error
	}{
		"other key":     {seal.NewBoxOpener(other, seal.LocalBox, context), box, aad, seal.ErrOpen},
		"other domain":  {seal.NewBoxOpener(key, seal.CentralBox, context), box, aad, seal.ErrOpen},
		"other context": {seal.NewBoxOpener(key, seal.LocalBox, [32]byte{2}), box, aad, seal.ErrOpen},
		"other data":    {seal.NewBoxOpener(key, seal.LocalBox, context), box, nil, seal.ErrOpen},
		"changed":       {seal.NewBoxOpener(key, seal.LocalBox, context), changed, aad, seal.ErrOpen},
		"cut":           {seal.NewBoxOpener(key, seal.LocalBox, context), box[:seal.BoxOverhead-1], aad, seal.ErrSize},
		"empty":         {seal.NewBoxOpener(key, seal.LocalBox, context), nil, aad, seal.ErrSize},
	} {
		if _, err := try.opener.Open(try.box, try.aad); !errors.Is(err, try.want) {
			t.Errorf("%s: %v, want %v", name, err, try.want)
		}
	}
	if _, err := seal.NewBoxSealer(make([]byte, seal.HPKEKeySize), seal.LocalBox, context); !errors.Is(err,
		seal.ErrKey) {
		t.Errorf("a key of low order: %v", err)
	}
}

// No domain of a box starts with another one, or with that of bit messages, so that no info string has two meanings.
func TestBoxDomainsAreApart(t *testing.T) {
	t.Parallel()
	domains := []string{string(seal.LocalBox), string(seal.CentralBox), string(seal.ShareBox),
		string(seal.SecretBox), string(seal.RetainedBox), "riffle/v1/bit", "riffle/v1/report-envelope"}
	for i, a := range domains {
		for j, b := range domains {
			if i != j && bytes.HasPrefix([]byte(a), []byte(b)) {
				t.Errorf("%q starts with %q", a, b)
			}
		}
	}
}
