package transparency_test

import (
	"bytes"
	"strings"
	"testing"

	"github.com/riffle-dp/riffle/pkg/transparency"
)

// seeds gives the fuzzer good notes, and cut ones.
func seeds(f *testing.F) {
	for _, b := range [][]byte{signed(f), cosigned(f, first)} {
		f.Add(b)
		f.Add(b[:len(b)/2])
		f.Add(append(bytes.Clone(b), b...))
	}
}

// FuzzCheckpoint feeds any bytes to Open. No one else has the key, so whatever opens is the one checkpoint that was
// signed.
func FuzzCheckpoint(f *testing.F) {
	seeds(f)
	key := identity(f, 1).Public()
	f.Fuzz(func(t *testing.T, data []byte) {
		if c, err := transparency.Open(data, origin, key); err == nil && c != checkpoint() {
			t.Fatalf("%v opens, and was never signed", c)
		}
	})
}

// FuzzWitnessedCheckpoint does the same with the witness's signature.
func FuzzWitnessedCheckpoint(f *testing.F) {
	seeds(f)
	role, key := identity(f, 1).Public(), identity(f, 2).Public()
	f.Fuzz(func(t *testing.T, data []byte) {
		c, at, err := transparency.OpenCosigned(data, origin, role, witness, key)
		if err == nil && (c != checkpoint() || !at.Equal(first)) {
			t.Fatalf("%v at %v opens, and was never signed", c, at)
		}
	})
}

// FuzzCosigning has a witness sign any bytes, unopened: what it makes is no other checkpoint of the role's, and
// whatever it takes verifies as its own.
func FuzzCosigning(f *testing.F) {
	seeds(f)
	f.Fuzz(func(t *testing.T, data []byte) {
		b, err := transparency.Cosign(data, witness, identity(t, 2), first)
		if err != nil {
			return
		}
		if c, err := transparency.Open(b, origin, identity(t, 1).Public()); err == nil && c != checkpoint() {
			t.Fatalf("%v opens, and was never signed", c)
		}
		again, err := transparency.Cosign(b, witness, identity(t, 2), first)
		if err != nil || len(again) > len(b) {
			t.Fatalf("not the same again: %v", err)
		}
	})
}

// FuzzRestoreTree restores trees of any nodes, which grow without a panic, and are what they are restored from.
func FuzzRestoreTree(f *testing.F) {
	f.Add(uint64(5), make([]byte, 64))
	f.Add(uint64(1)<<63, make([]byte, 32))
	f.Fuzz(func(t *testing.T, size uint64, data []byte) {
		var nodes []transparency.Hash
		for ; len(data) >= transparency.HashSize; data = data[transparency.HashSize:] {
			nodes = append(nodes, transparency.Hash(data))
		}
		tree, err := transparency.RestoreTree(size, nodes)
		if err != nil || size == 1<<64-1 {
			return
		}
		if tree.Size() != size || len(tree.Nodes()) != len(nodes) {
			t.Fatal("not what it was restored from")
		}
		root := tree.Root()
		tree.Append(nil)
		if tree.Size() != size+1 || tree.Root() == root {
			t.Fatal("does not grow")
		}
	})
}

// FuzzCheckInclusion shows any proof: none shows a leaf that is not there.
func FuzzCheckInclusion(f *testing.F) {
	all := hashes(7)
	proof, err := transparency.Prove(all, 4, 7)
	if err != nil {
		f.Fatal(err)
	}
	var flat []byte
	for _, h := range proof {
		flat = append(flat, h[:]...)
	}
	f.Add(uint64(4), flat)
	f.Add(uint64(7), flat)
	f.Add(uint64(1)<<63, []byte{})
	f.Fuzz(func(t *testing.T, index uint64, data []byte) {
		var proof []transparency.Hash
		for ; len(data) >= transparency.HashSize; data = data[transparency.HashSize:] {
			proof = append(proof, transparency.Hash(data))
		}
		if transparency.CheckInclusion([]byte("not there"), index, proof, checkpoint()) == nil {
			t.Fatal("a leaf that is not there is shown")
		}
	})
}

// FuzzParseVerifierKey reads any line: what it takes is the one form of it.
func FuzzParseVerifierKey(f *testing.F) {
	line, err := transparency.VerifierKey(witness, identity(f, 1).Public())
	if err != nil {
		f.Fatal(err)
	}
	f.Add(line)
	f.Add(line + "+")
	f.Fuzz(func(t *testing.T, text string) {
		name, key, err := transparency.ParseVerifierKey(text)
		if err != nil {
			return
		}
		if again, err := transparency.VerifierKey(name, key); err != nil || again != strings.TrimSpace(text) {
			t.Fatalf("%q is %q, %v", text, again, err)
		}
	})
}
