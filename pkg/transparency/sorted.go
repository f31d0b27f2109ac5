package transparency

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"slices"
)

// SortedRoot is the Merkle root over digests in ascending order, each as a leaf. It sorts its argument: the root tells
// which digests there are and how often each, and nothing of the order in which they came.
func SortedRoot(digests [][32]byte) Hash {
	slices.SortFunc(digests, func(a, b [32]byte) int { return bytes.Compare(a[:], b[:]) })
	var t SortedTree
	for i := range digests {
		_ = t.Append(digests[i]) // they are in ascending order
	}
	return t.Root()
}

// ErrOrder means a digest that is smaller than the one before it.
var ErrOrder = errors.New("transparency: digests must come in ascending order")

// SortedTree finds the root of SortedRoot over more digests than fit into memory, which come sorted. It keeps one hash
// for each level of the tree, and allocates nothing. The zero value has no digests.
type SortedTree struct {
	size  uint64
	last  [32]byte
	nodes [64]Hash // the root of a perfect subtree of 2^i leaves where bit i of size is set
	leaf  [1 + 32]byte
	inner [1 + 2*HashSize]byte
}

// Append adds a digest, which is not smaller than the one before. The error is ErrOrder.
func (t *SortedTree) Append(digest [32]byte) error {
	if bytes.Compare(digest[:], t.last[:]) < 0 {
		return ErrOrder
	}
	t.last = digest
	t.leaf[0] = 0 // RFC 6962, section 2.1
	copy(t.leaf[1:], digest[:])
	hash := sha256.Sum256(t.leaf[:])
	level := 0
	for ; t.size>>level&1 == 1; level++ {
		hash = t.join(&t.nodes[level], &hash)
	}
	t.nodes[level] = hash
	t.size++
	return nil
}

// join is the hash of an inner node.
func (t *SortedTree) join(left, right *Hash) Hash {
	t.inner[0] = 1
	copy(t.inner[1:], left[:])
	copy(t.inner[1+HashSize:], right[:])
	return sha256.Sum256(t.inner[:])
}

// Size is the number of digests.
func (t *SortedTree) Size() uint64 { return t.size }

// Root is the root of the tree.
func (t *SortedTree) Root() Hash {
	if t.size == 0 {
		return EmptyRoot()
	}
	var root Hash
	for level, found := 0, false; level < len(t.nodes); level++ {
		switch {
		case t.size>>level&1 == 0:
		case !found:
			root, found = t.nodes[level], true
		default:
			root = t.join(&t.nodes[level], &root)
		}
	}
	return root
}
