package joint

import (
	"fmt"
	"math"
	"math/bits"

	"github.com/riffle-dp/riffle/pkg/mechanism"
	"github.com/riffle-dp/riffle/pkg/protocol"
)

// Nodes are the released nodes of a binary tree of sums, at most one for each level: Nodes[j] is the sum of 2^j leaves
// with its noise, in whole steps of the tree's grid. A node that a larger one covers is gone. They are public.
type Nodes [][]int64

// put stores the node that the t-th leaf (from 1) completes, and drops those that it covers.
func (n Nodes) put(t int, node []int64) Nodes {
	level := bits.TrailingZeros(uint(t))
	out := make(Nodes, max(len(n), level+1))
	copy(out, n)
	for j := range level {
		out[j] = nil
	}
	out[level] = node
	return out
}

// sum is that of the first t leaves with noise: of the nodes at the set bits of t, no more than bits.Len(t). The same
// nodes give the same sum, however often it is asked for.
func (n Nodes) sum(t, dim int) []int64 {
	out := make([]int64, dim)
	for j, node := range n {
		if t>>j&1 == 1 {
			for i, v := range node {
				out[i] += v
			}
		}
	}
	return out
}

// tree is the binary tree mechanism as its curator runs it (T.-H. H. Chan, E. Shi, D. Song, "Private and continual
// release of statistics", 2011; "Shuffle and joint differential privacy for generalized linear contextual bandits",
// section 6 and Lemma J.4): it releases all prefix sums of a stream of vectors. Every leaf completes one node. The node
// is noised once, and the noised node is what leaves: prefix sums are functions of the nodes that left, so that asking
// twice reveals nothing new, and a tree that is built again from the leaves and the stored nodes is the same tree.
//
// A leaf of T is in at most bits.Len(T) nodes. So if one record moves a leaf by at most D in the l2 norm, the whole
// stream of releases is bits.Len(T) times what one node gives, by composition of zCDP; later leaves may depend on
// earlier releases (Lemma Q.1).
//
// What differs from the paper: noise is discrete and exact, and isotropic in the coordinates in which a matrix has its
// Frobenius norm, where the paper adds (N + N')/sqrt 2, twice the variance that the same guarantee needs.
type tree struct {
	noise  mechanism.Noise
	grid   float64
	dim    int
	exact  [][]float64 // sums of the complete nodes that no other covers, by level
	leaves int
}

// push adds a leaf and returns the exact sum of the node that it completes.
func (t *tree) push(leaf []float64) []float64 {
	t.leaves++
	level := bits.TrailingZeros(uint(t.leaves))
	sum := make([]float64, t.dim)
	copy(sum, leaf)
	for j := range level {
		for i, v := range t.exact[j] {
			sum[i] += v
		}
		t.exact[j] = nil
	}
	for len(t.exact) <= level {
		t.exact = append(t.exact, nil)
	}
	t.exact[level] = sum
	return sum
}

// release noises a node's exact sum. It is called once for each node.
func (t *tree) release(sum []float64, src protocol.Source) ([]int64, error) {
	noised := append([]float64(nil), sum...)
	t.noise.Add(noised, src)
	node := make([]int64, t.dim)
	for i, v := range noised {
		steps := math.Round(v / t.grid)
		if !(math.Abs(steps) < mostSteps) {
			return nil, fmt.Errorf("joint: a node of the tree is %v steps of its grid", steps)
		}
		node[i] = int64(steps)
	}
	return node, nil
}

// mostSteps bounds what is released: whole numbers that a float64 holds exactly.
const mostSteps = 1 << 53

// gridOf is the step to which releases with this noise are rounded.
func gridOf(n mechanism.Noise) float64 {
	if g, ok := n.(mechanism.Gaussian); ok {
		return g.Grid()
	}
	return estimateGrid
}
