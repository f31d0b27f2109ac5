package joint

import (
	"fmt"
	"math/bits"

	"github.com/riffle-dp/riffle/pkg/mechanism"
	"github.com/riffle-dp/riffle/pkg/protocol"
)

// Stream releases the prefix sums of a stream of vectors through the tree of this package, for learners other than
// Algorithm 2. All that it releases together reveals of a record that moves one leaf by D what Depth(leaves) draws of
// the noise reveal of a vector that moves by D, which is what one draw reveals of a vector that moves by
// D sqrt(Depth(leaves)).
type Stream struct {
	tree  tree
	nodes Nodes
	src   protocol.Source
}

// Depth is the most nodes of which a leaf is part, and of which a prefix sum consists, in a stream of so many leaves.
func Depth(leaves int) int { return bits.Len(uint(leaves)) }

// NewStream starts a stream of vectors of a dimension. Noise that is not Gaussian is refused, except None.
func NewStream(dim int, noise mechanism.Noise, src protocol.Source) (*Stream, error) {
	_, none := noise.(mechanism.None)
	if _, gaussian := noise.(mechanism.Gaussian); !gaussian && !none || dim < 1 || src == nil && !none {
		return nil, fmt.Errorf("joint: a stream of dimension %d with noise %T needs Gaussian noise and a source", dim,
			noise)
	}
	return &Stream{tree: tree{noise: noise, grid: gridOf(noise), dim: dim}, src: src}, nil
}

// Add adds a leaf and releases the node that it completes.
func (s *Stream) Add(leaf []float64) error {
	if len(leaf) != s.tree.dim {
		return fmt.Errorf("joint: a leaf of %d coordinates, not %d", len(leaf), s.tree.dim)
	}
	node, err := s.tree.release(s.tree.push(leaf), s.src)
	if err != nil {
		return err
	}
	s.nodes = s.nodes.put(s.tree.leaves, node)
	return nil
}

// Sum is that of all leaves so far, of Nodes noised nodes. It reveals nothing new.
func (s *Stream) Sum() []float64 {
	return fromGrid(s.nodes.sum(s.tree.leaves, s.tree.dim), s.tree.grid)
}

// Nodes is of how many nodes Sum is the sum.
func (s *Stream) Nodes() int { return bits.OnesCount(uint(s.tree.leaves)) }
