package transparency_test

import (
	"bytes"
	"errors"
	"testing"

	"github.com/riffle-dp/riffle/pkg/transparency"
)

// proved is a proof of leaf 4 under the co-signed checkpoint.
func proved(t testing.TB) []byte {
	t.Helper()
	shown, err := transparency.Prove(hashes(7), 4, 7)
	if err != nil {
		t.Fatal(err)
	}
	return transparency.Proof{Index: 4, Hashes: shown, Checkpoint: cosigned(t, first)}.Encode()
}

// The format does not change, and a proof is read as what was written.
func TestGoldenProof(t *testing.T) {
	golden(t, "proof.tlog-proof", proved(t))
	p, err := transparency.DecodeProof(proved(t))
	if err != nil || p.Index != 4 || len(p.Hashes) != 3 || !bytes.Equal(p.Checkpoint, cosigned(t, first)) {
		t.Errorf("%+v, %v", p, err)
	}
}

// Whatever is read as a proof is written as the same bytes.
func FuzzDecodeProof(f *testing.F) {
	f.Add(proved(f))
	f.Add(bytes.Replace(proved(f), []byte("index 4"), []byte("extra AA==\nindex 04"), 1))
	f.Add([]byte("c2sp.org/tlog-proof@v1\nindex 18446744073709551615\n\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		p, err := transparency.DecodeProof(data)
		if err == nil && !bytes.Equal(p.Encode(), data) {
			t.Fatalf("%q is read, and written as %q", data, p.Encode())
		}
		if err != nil && !errors.Is(err, transparency.ErrProof) {
			t.Fatal(err)
		}
	})
}

// Checkpoints that several witnesses co-signed by themselves become one that all co-signed.
func TestCosignaturesAreMerged(t *testing.T) {
	all := transparency.Witnesses{Quorum: 2}
	var each [][]byte
	for i, name := range []string{witness, "other.example.org"} {
		id := identity(t, byte(2+i))
		b, err := transparency.Cosign(signed(t), name, id, first)
		if err != nil {
			t.Fatal(err)
		}
		all.All = append(all.All, transparency.Witness{Name: name, Key: id.Public()})
		each = append(each, b)
	}
	role := identity(t, 1).Public()
	for _, one := range each {
		if _, err := all.Open(one, origin, role); !errors.Is(err, transparency.ErrUnsigned) {
			t.Errorf("one of two witnesses: %v", err)
		}
	}
	both, err := transparency.Merge(each[0], each[1], each[0])
	if err != nil {
		t.Fatal(err)
	}
	if c, err := all.Open(both, origin, role); err != nil || c != checkpoint() {
		t.Errorf("%v, %v", c, err)
	}
	longer, err := transparency.Sign(transparency.Checkpoint{Origin: origin, Size: 8}, identity(t, 1))
	if err != nil {
		t.Fatal(err)
	}
	for _, bad := range [][][]byte{nil, {signed(t), longer}, {nil}} {
		if _, err := transparency.Merge(bad...); !errors.Is(err, transparency.ErrCheckpoint) {
			t.Errorf("%d checkpoints are merged: %v", len(bad), err)
		}
	}
	if err := all.Check(); err != nil {
		t.Error(err)
	}
	if err := (transparency.Witnesses{}).Check(); err != nil {
		t.Error(err)
	}
	if _, err := (transparency.Witnesses{}).Open(both, origin, role); !errors.Is(err, transparency.ErrUnsigned) {
		t.Errorf("nobody is a quorum: %v", err)
	}
}
