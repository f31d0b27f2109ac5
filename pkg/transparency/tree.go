package transparency

import (
	"bytes"
	"errors"
	"fmt"

	"github.com/transparency-dev/merkle/compact"
	"github.com/transparency-dev/merkle/proof"
	"github.com/transparency-dev/merkle/rfc6962"
)

// HashSize is the length in bytes of a leaf's hash, of an inner node's and of a root.
const HashSize = 32

// Hash is the hash of a leaf or of an inner node, or a root.
type Hash = [HashSize]byte

// ErrTree means nodes that are those of no tree of the size.
var ErrTree = errors.New("transparency: not the nodes of a tree of this size")

// ErrNotIncluded means that a proof does not show the leaf at its place in the tree.
var ErrNotIncluded = errors.New("transparency: the statement is not shown to be in the log")

var (
	hasher = rfc6962.DefaultHasher
	ranges = compact.RangeFactory{Hash: hasher.HashChildren}
)

// LeafHash is the hash of a leaf: SHA-256 over a zero byte and the leaf.
func LeafHash(leaf []byte) Hash { return Hash(hasher.HashLeaf(leaf)) }

// EmptyRoot is the root of a tree without leaves: SHA-256 of nothing.
func EmptyRoot() Hash { return Hash(hasher.EmptyRoot()) }

// Tree is a Merkle tree that keeps only what it takes to grow: at most 64 hashes, whatever its size. The zero value has
// no leaves.
type Tree struct{ nodes *compact.Range }

// RestoreTree makes the tree that Size and Nodes told of. It returns ErrTree where the number of nodes is not that of a
// tree of the size. Whether they are the right ones shows in the root.
func RestoreTree(size uint64, nodes []Hash) (*Tree, error) {
	all := make([][]byte, len(nodes))
	for i := range nodes {
		all[i] = bytes.Clone(nodes[i][:])
	}
	r, err := ranges.NewRange(0, size, all)
	if err != nil {
		return nil, fmt.Errorf("%w: %d nodes, size %d", ErrTree, len(nodes), size)
	}
	return &Tree{r}, nil
}

// Append adds a leaf.
func (t *Tree) Append(leaf []byte) { t.AppendHash(LeafHash(leaf)) }

// AppendHash adds a leaf by its hash.
func (t *Tree) AppendHash(leaf Hash) {
	if err := t.grown().Append(leaf[:], nil); err != nil { // only for ranges that do not begin at 0
		panic("transparency: " + err.Error())
	}
}

// Size is the number of leaves.
func (t *Tree) Size() uint64 { return t.grown().End() }

// Root is the root of the tree.
func (t *Tree) Root() Hash {
	if t.Size() == 0 {
		return EmptyRoot()
	}
	root, err := t.nodes.GetRootHash(nil)
	if err != nil { // only for ranges that do not begin at 0
		panic("transparency: " + err.Error())
	}
	return Hash(root)
}

// Nodes are the roots of the perfect subtrees that make up the tree, from left to right: with the size, all that
// RestoreTree needs.
func (t *Tree) Nodes() []Hash {
	hashes := t.grown().Hashes()
	all := make([]Hash, len(hashes))
	for i, h := range hashes {
		all[i] = Hash(h)
	}
	return all
}

// Clone is a tree of its own with the same leaves.
func (t *Tree) Clone() *Tree {
	clone, err := RestoreTree(t.Size(), t.Nodes())
	if err != nil { // a tree has the nodes of its size
		panic(err.Error())
	}
	return clone
}

func (t *Tree) grown() *compact.Range {
	if t.nodes == nil {
		t.nodes = ranges.NewEmptyRange(0)
	}
	return t.nodes
}

// Prove shows that the leaf with this index, from 0, is in the tree of the first size leaves. leaves are the hashes of
// at least these, in order. The proof has at most one hash for each level of the tree. It is an error where there is no
// such leaf.
func Prove(leaves []Hash, index, size uint64) ([]Hash, error) {
	if size > uint64(len(leaves)) {
		return nil, fmt.Errorf("transparency: a proof in a tree of %d leaves, there are %d", size, len(leaves))
	}
	nodes, err := proof.Inclusion(index, size)
	if err != nil {
		return nil, fmt.Errorf("transparency: %w", err)
	}
	hashes := make([][]byte, len(nodes.IDs))
	for i, id := range nodes.IDs {
		from, to := id.Coverage()
		var under Tree
		for _, leaf := range leaves[from:to] {
			under.AppendHash(leaf)
		}
		root := under.Root()
		hashes[i] = root[:]
	}
	if hashes, err = nodes.Rehash(hashes, hasher.HashChildren); err != nil {
		return nil, fmt.Errorf("transparency: %w", err)
	}
	shown := make([]Hash, len(hashes))
	for i, h := range hashes {
		shown[i] = Hash(h)
	}
	return shown, nil
}

// CheckInclusion checks that a proof shows the leaf at its index, from 0, in the log that the checkpoint is of. The
// error wraps ErrNotIncluded.
func CheckInclusion(leaf []byte, index uint64, shown []Hash, c Checkpoint) error {
	hashes, hash := make([][]byte, len(shown)), LeafHash(leaf)
	for i := range shown {
		hashes[i] = shown[i][:]
	}
	if err := proof.VerifyInclusion(hasher, index, c.Size, hash[:], hashes, c.Root[:]); err != nil {
		return fmt.Errorf("%w, as entry %d of %d", ErrNotIncluded, index, c.Size)
	}
	return nil
}
