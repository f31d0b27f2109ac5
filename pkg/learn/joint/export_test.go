package joint

import (
	"github.com/riffle-dp/riffle/pkg/glm/symmetric"
	"github.com/riffle-dp/riffle/pkg/mechanism"
	"github.com/riffle-dp/riffle/pkg/protocol"
)

// Draw is one addition of noise.
type Draw struct {
	What  string
	Leaf  int
	Noise mechanism.Noise
	Theta []float64
}

// Watch has every draw told.
func (c *Curator) Watch(f func(Draw)) {
	c.drawn = func(d draw) { f(Draw{What: d.what, Leaf: d.leaf, Noise: d.noise, Theta: d.theta}) }
}

// Tree is the curator's tree with the nodes that it gave out.
type Tree struct {
	tree  tree
	Nodes Nodes
	Count int
}

func NewTree(noise mechanism.Noise, dim int) *Tree {
	return &Tree{tree: tree{noise: noise, grid: gridOf(noise), dim: dim}}
}

func (t *Tree) Push(leaf []float64, src protocol.Source) error {
	node, err := t.tree.release(t.tree.push(leaf), src)
	t.Count++
	t.Nodes = t.Nodes.put(t.Count, node)
	return err
}

func (t *Tree) Query() []float64 { return fromGrid(t.Nodes.sum(t.Count, t.tree.dim), t.tree.grid) }

func (t *Tree) Used() (nodes int) {
	for j := range t.Nodes {
		if t.Count>>j&1 == 1 {
			nodes++
		}
	}
	return nodes
}

// Leaf is the leaf that a record with a weight adds to a tree.
func Leaf(weight float64, x []float64) []float64 {
	out := make([]float64, symmetric.Dim(len(x)))
	addOuter(out, weight, x)
	return out
}

func (c Config) LeafDistances() (v, h float64) { return c.leafV().replaced.L2, c.leafH().replaced.L2 }

var (
	Exceeds             = exceeds
	SimpleRho           = simpleRho
	PerCall             = perCall
	MatrixNoise         = matrixNoise
	SelfNormalised      = selfNormalised
	DescentError        = descentError
	GradientSensitivity = gradientSensitivity
)
