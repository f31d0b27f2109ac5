package joint_test

import (
	"math"
	"math/bits"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/riffle-dp/riffle/pkg/learn/joint"
	"github.com/riffle-dp/riffle/pkg/mechanism"
)

// Without noise a query is the running sum, of as many nodes as the number of leaves has bits set; every leaf is in at
// most bits.Len(T) nodes.
func TestTreeSumsItsLeaves(t *testing.T) {
	const leaves = 5000
	tree, sum := joint.NewTree(mechanism.None{}, 2), []float64{0, 0}
	covered := make([]int, leaves+1)
	for i := 1; i <= leaves; i++ {
		leaf := []float64{float64(i % 7), -float64(i % 5)}
		if err := tree.Push(leaf, nil); err != nil {
			t.Fatal(err)
		}
		for j, v := range leaf {
			sum[j] += v
		}
		if got := tree.Query(); !slices.Equal(got, sum) || tree.Used() != bits.OnesCount(uint(i)) {
			t.Fatalf("after %d leaves %v of %d nodes, want %v", i, got, tree.Used(), sum)
		}
		for l := i - i&-i + 1; l <= i; l++ {
			covered[l]++
		}
	}
	if most := slices.Max(covered); most != 13 {
		t.Errorf("a leaf is in %d nodes, want 13", most)
	}
}

// Every node is noised once: two queries are the same, and queries at 4 and 5 leaves share the node of the first four.
// The noise of a query at 3 leaves has twice the variance of a node's: over 20000 trees of 2 coordinates the ratio of
// variances has a standard error of 0.7 %, and 4 % is 5.6 of them (false alarm 2e-8); half the noise is off by 75 %.
func TestTreeNoisesEveryNodeOnce(t *testing.T) {
	src := rand.NewChaCha8([32]byte{1})
	const sigma, trees = 3.0, 20000
	squares := 0.0
	for range trees {
		tree := joint.NewTree(mechanism.Gaussian{Sigma: sigma}, 2)
		for range 3 {
			if err := tree.Push([]float64{1, 2}, src); err != nil {
				t.Fatal(err)
			}
		}
		for j, v := range tree.Query() {
			squares += (v - 3*float64(j+1)) * (v - 3*float64(j+1))
		}
	}
	if ratio := squares / (2 * trees) / (2 * sigma * sigma); math.Abs(ratio-1) > 0.04 {
		t.Errorf("the noise of two nodes has %v times its variance", ratio)
	}
	tree := joint.NewTree(mechanism.Gaussian{Sigma: sigma}, 2)
	for range 4 {
		if err := tree.Push([]float64{0, 0}, src); err != nil {
			t.Fatal(err)
		}
	}
	four := slices.Clone(tree.Nodes[2])
	if first, again := tree.Query(), tree.Query(); !slices.Equal(first, again) {
		t.Errorf("asked twice: %v and %v", first, again)
	}
	if err := tree.Push([]float64{0, 0}, src); err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(tree.Nodes[2], four) || slices.Equal(four, []int64{0, 0}) {
		t.Errorf("the node of the first four was %v and is %v", four, tree.Nodes[2])
	}
}

// The noise of all prefix sums of full streams stays below its bound (the bound may fail for 2 % of streams; here none
// of 5 fails unless noise is several times too large).
func TestMatrixNoiseIsBelowItsBound(t *testing.T) {
	if b := joint.MatrixNoise(1, 3, 13, 5000, 0.02); math.Abs(b-27.302859) > 1e-6 {
		t.Errorf("bound %v", b)
	}
	src, worst := rand.NewChaCha8([32]byte{2}), 0.0
	bound := joint.MatrixNoise(1, 2, 9, 300, 0.02)
	for range 5 {
		tree := joint.NewTree(mechanism.Gaussian{Sigma: 1}, 3)
		for range 300 {
			if err := tree.Push([]float64{0, 0, 0}, src); err != nil {
				t.Fatal(err)
			}
			q := tree.Query() // [[a, b], [b, c]] as (a, sqrt 2 b, c)
			middle, half := (q[0]+q[2])/2, math.Hypot((q[0]-q[2])/2, q[1]/math.Sqrt2)
			worst = max(worst, math.Abs(middle)+half)
		}
	}
	if worst > bound || worst < bound/5 {
		t.Errorf("the largest operator norm is %v, the bound %v", worst, bound)
	}
}
