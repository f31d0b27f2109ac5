package transparency_test

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"strings"
	"testing"

	"golang.org/x/mod/sumdb/tlog"
	"pgregory.net/rapid"

	"github.com/riffle-dp/riffle/pkg/transparency"
)

// leaf is the leaf with this index in the tests' trees.
func leaf(i int) []byte { return fmt.Appendf(nil, "statement %d", i) }

// hashes are those of the first n leaves.
func hashes(n int) (all []transparency.Hash) {
	for i := range n {
		all = append(all, transparency.LeafHash(leaf(i)))
	}
	return all
}

// stored is the storage of another implementation's log, which holds every node.
type stored []tlog.Hash

func (s stored) ReadHashes(indexes []int64) ([]tlog.Hash, error) {
	var all []tlog.Hash
	for _, i := range indexes {
		all = append(all, s[i])
	}
	return all, nil
}

// The roots and the proofs are those of package tlog of the Go project, for all sizes up to 130.
func TestTheTreeIsThatOfAnotherImplementation(t *testing.T) {
	const largest = 130
	var other stored
	var tree transparency.Tree
	if tree.Size() != 0 || tree.Root() != transparency.EmptyRoot() {
		t.Errorf("an empty tree has %d leaves and the root %x", tree.Size(), tree.Root())
	}
	for n := range largest {
		more, err := tlog.StoredHashes(int64(n), leaf(n), other)
		if err != nil {
			t.Fatal(err)
		}
		other = append(other, more...)
		tree.Append(leaf(n))
		size := int64(n + 1)
		root, err := tlog.TreeHash(size, other)
		if err != nil {
			t.Fatal(err)
		}
		if tree.Size() != uint64(size) || tree.Root() != transparency.Hash(root) {
			t.Fatalf("%d leaves: root %x, the other's is %x", tree.Size(), tree.Root(), root)
		}
		c := transparency.Checkpoint{Size: uint64(size), Root: tree.Root()}
		for index := range size {
			proof, err := transparency.Prove(hashes(largest), uint64(index), uint64(size))
			if err != nil {
				t.Fatal(err)
			}
			want, err := tlog.ProveRecord(size, index, other)
			if err != nil {
				t.Fatal(err)
			}
			if len(proof) != len(want) {
				t.Fatalf("leaf %d of %d: a proof of %d hashes, the other's has %d", index, size, len(proof), len(want))
			}
			for i := range want {
				if proof[i] != transparency.Hash(want[i]) {
					t.Fatalf("leaf %d of %d: hash %d of the proof differs", index, size, i)
				}
			}
			if err := transparency.CheckInclusion(leaf(int(index)), uint64(index), proof, c); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// A tree that is restored from its nodes, or cloned, grows as the first, and by itself.
func TestARestoredTreeGrowsOn(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var tree transparency.Tree
		n := rapid.IntRange(0, 300).Draw(t, "size")
		for i := range n {
			tree.Append(leaf(i))
		}
		if len(tree.Nodes()) > 9 {
			t.Fatalf("%d nodes are kept of %d leaves", len(tree.Nodes()), n)
		}
		restored, err := transparency.RestoreTree(tree.Size(), tree.Nodes())
		if err != nil {
			t.Fatal(err)
		}
		clone, before := tree.Clone(), tree.Root()
		for i := range rapid.IntRange(1, 20).Draw(t, "more") {
			restored.Append(leaf(n + i))
			clone.AppendHash(transparency.LeafHash(leaf(n + i)))
		}
		if restored.Root() != clone.Root() || restored.Size() != clone.Size() || tree.Root() != before {
			t.Fatal("the restored tree and the clone grew apart, or the first one with them")
		}
	})
	var tree transparency.Tree
	for i := range 5 {
		tree.Append(leaf(i))
	}
	for _, size := range []uint64{0, 4, 7, 1 << 63} {
		if _, err := transparency.RestoreTree(size, tree.Nodes()); !errors.Is(err, transparency.ErrTree) {
			t.Errorf("two nodes as those of %d leaves: %v", size, err)
		}
	}
}

// A proof shows its leaf at its place in its tree, and nothing else.
func TestAProofShowsOneLeaf(t *testing.T) {
	const size, index = 11, 6
	all := hashes(size)
	var tree transparency.Tree
	for _, h := range all {
		tree.AppendHash(h)
	}
	proof, err := transparency.Prove(all, index, size)
	if err != nil {
		t.Fatal(err)
	}
	c := transparency.Checkpoint{Size: size, Root: tree.Root()}
	changed := append([]transparency.Hash(nil), proof...)
	changed[1][31] ^= 1
	for name, err := range map[string]error{
		"another leaf":   transparency.CheckInclusion(leaf(5), index, proof, c),
		"another place":  transparency.CheckInclusion(leaf(index), 7, proof, c),
		"no place":       transparency.CheckInclusion(leaf(index), size, proof, c),
		"a changed hash": transparency.CheckInclusion(leaf(index), index, changed, c),
		"a hash less":    transparency.CheckInclusion(leaf(index), index, proof[1:], c),
		"a hash more":    transparency.CheckInclusion(leaf(index), index, append(changed, proof[0]), c),
		"another root":   transparency.CheckInclusion(leaf(index), index, proof, transparency.Checkpoint{Size: size}),
		"no proof":       transparency.CheckInclusion(leaf(index), index, nil, c),
		"an inner node": transparency.CheckInclusion(append(all[0][:], all[1][:]...), 0, nil,
			transparency.Checkpoint{Size: 1, Root: tree.Nodes()[0]}),
	} {
		if !errors.Is(err, transparency.ErrNotIncluded) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if err := transparency.CheckInclusion(leaf(index), index, proof, c); err != nil {
		t.Error(err)
	}
	for _, bad := range [][2]uint64{{size, size}, {0, 0}, {0, size + 1}} {
		if _, err := transparency.Prove(all, bad[0], bad[1]); err == nil {
			t.Errorf("a proof of leaf %d in %d leaves of %d", bad[0], bad[1], size)
		}
	}
}

// The sorted root is a function of the set: no order of arrival is in it, and each digest counts as often as it came.
func TestTheSortedRootForgetsTheOrder(t *testing.T) {
	var digests [][32]byte
	for i := range 37 {
		digests = append(digests, transparency.LeafHash(leaf(i)))
	}
	root := transparency.SortedRoot(digests)
	for range 50 {
		rand.Shuffle(len(digests), func(i, j int) { digests[i], digests[j] = digests[j], digests[i] })
		if transparency.SortedRoot(digests) != root {
			t.Fatal("the root depends on the order")
		}
	}
	for i := 1; i < len(digests); i++ {
		if bytes.Compare(digests[i-1][:], digests[i][:]) > 0 {
			t.Fatal("the argument is not sorted")
		}
	}
	if transparency.SortedRoot(digests[1:]) == root || transparency.SortedRoot(append(digests, digests[3])) == root {
		t.Error("a digest less or twice gives the same root")
	}
	if transparency.SortedRoot(nil) != transparency.EmptyRoot() {
		t.Error("the root of none is not the empty tree's")
	}
}

// TestGoldenRoots compares with stored roots, so that a change of the hashing fails: "tree SIZE ROOT" is of the leaves
// "statement 0" and so on, "sorted SIZE ROOT" of their hashes as digests. The empty root is RFC 6962's.
func TestGoldenRoots(t *testing.T) {
	var got strings.Builder
	for _, n := range []int{0, 1, 2, 3, 7, 8, 100} {
		var tree transparency.Tree
		for _, h := range hashes(n) {
			tree.AppendHash(h)
		}
		fmt.Fprintf(&got, "tree %d %x\nsorted %d %x\n", n, tree.Root(), n, transparency.SortedRoot(hashes(n)))
	}
	golden(t, "roots.golden", []byte(got.String()))
	if !strings.HasPrefix(got.String(), "tree 0 e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855\n") {
		t.Error("the empty root is not SHA-256 of nothing")
	}
}

// golden compares with a stored file, or writes it with -update.
func golden(t *testing.T, name string, got []byte) {
	t.Helper()
	path := "testdata/" + name
	if *update {
		if err := os.WriteFile(path, got, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, want) {
		t.Errorf("%s: got\n%s\nwant\n%s", path, got, want)
	}
}

// The root of digests that come sorted is the tree's over them, for every size, and none is allocated for. One that
// does not come in order is refused and changes nothing.
func TestTheSortedTreeIsTheTree(t *testing.T) {
	digests := hashes(70)
	transparency.SortedRoot(digests) // sorts them
	var sorted transparency.SortedTree
	var tree transparency.Tree
	for i := range digests {
		if sorted.Root() != tree.Root() || sorted.Size() != tree.Size() {
			t.Fatalf("%d digests have another root", i)
		}
		if i > 1 {
			if err := sorted.Append(digests[0]); !errors.Is(err, transparency.ErrOrder) {
				t.Fatalf("a smaller digest: %v", err)
			}
		}
		if i%2 == 0 { // equal ones count each
			if err := sorted.Append(digests[i]); err != nil {
				t.Fatal(err)
			}
			tree.Append(digests[i][:])
		}
		if err := sorted.Append(digests[i]); err != nil {
			t.Fatal(err)
		}
		tree.Append(digests[i][:])
	}
	if n := testing.AllocsPerRun(100, func() { _ = sorted.Append([32]byte{255, 255, 255}) }); n != 0 {
		t.Errorf("%v allocations for each digest", n)
	}
}
