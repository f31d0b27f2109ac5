package wire_test

import (
	"bytes"
	"testing"

	"github.com/riffle-dp/riffle/pkg/wire"
)

// A statement is a leaf under its own kind and signer, and under nothing else.
func TestAStatementIsALeafUnderItsOwnKind(t *testing.T) {
	t.Parallel()
	id, other := signer(t, goldenSigner), signer(t, goldenHost)
	golden, leaves := accepted(t), map[string][]byte{}
	for kind, name := range map[string]string{
		wire.KindAnnouncement: "announcement", wire.KindManifest: "manifest", wire.KindCounts: "counts",
		wire.AcceptedKind(2, 1): "accepted", wire.SummedKind(2, 1): "summed",
	} {
		leaves[kind] = golden[name][0]
	}
	kinds := []string{wire.KindConfiguration, wire.KindLearned, wire.KindCheckpoint, "keyset", "", "accepted", "summed",
		wire.AcceptedKind(2, 2), wire.SummedKind(3, 1)}
	for kind := range leaves {
		kinds = append(kinds, kind)
	}
	for name, signed := range leaves {
		for _, kind := range kinds {
			if got := wire.Leaf(kind, signed, party(id)); got != (kind == name) {
				t.Errorf("what is under %s is a leaf under %q: %v", name, kind, got)
			}
		}
		changed := bytes.Clone(signed)
		changed[len(changed)-1] ^= 1
		if wire.Leaf(name, changed, party(id)) || wire.Leaf(name, append(bytes.Clone(signed), 0), party(id)) {
			t.Errorf("%s: a changed statement is a leaf", name)
		}
		if wire.Leaf(name, signed, party(other)) || wire.Leaf(name, signed, wire.Party{Deployment: deployment}) {
			t.Errorf("%s: a leaf of another key, or of none", name)
		}
	}
	if wire.Leaf("keyset", golden["keyset"][0], party(id)) || wire.Leaf(wire.KindManifest, nil, party(id)) {
		t.Error("a key set or nothing is a leaf")
	}
}
