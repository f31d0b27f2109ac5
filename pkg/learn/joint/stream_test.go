package joint_test

import (
	"math"
	"math/bits"
	"math/rand/v2"
	"testing"

	"github.com/riffle-dp/riffle/pkg/learn/joint"
	"github.com/riffle-dp/riffle/pkg/mechanism"
)

// Without noise the sums are the prefix sums. With noise their error has the variance of as many draws as the prefix
// has nodes, in 1500 streams (17 %: 4.6 standard errors), and asking twice gives the same sum.
func TestStreamReleasesPrefixSums(t *testing.T) {
	if testing.Short() {
		t.Skip("nothing of it runs at the same time as anything else")
	}
	const leaves = 13
	src := rand.NewChaCha8([32]byte{5})
	var squares [leaves + 1]float64
	const streams, sigma = 1500, 2.
	for k := range streams {
		noise := mechanism.Noise(mechanism.Gaussian{Sigma: sigma})
		if k == 0 {
			noise = mechanism.None{}
		}
		s, err := joint.NewStream(1, noise, src)
		if err != nil {
			t.Fatal(err)
		}
		exact := 0.0
		for i := 1; i <= leaves; i++ {
			if err := s.Add([]float64{float64(i)}); err != nil {
				t.Fatal(err)
			}
			exact += float64(i)
			off := s.Sum()[0] - exact
			if s.Nodes() != bits.OnesCount(uint(i)) || s.Sum()[0]-exact != off || k == 0 && math.Abs(off) > 1e-6 {
				t.Fatalf("leaf %d: %d nodes, off by %v and %v", i, s.Nodes(), off, s.Sum()[0]-exact)
			}
			if k > 0 {
				squares[i] += off * off / (streams - 1)
			}
		}
	}
	for i := 1; i <= leaves; i++ {
		if ratio := squares[i] / (sigma * sigma * float64(bits.OnesCount(uint(i)))); math.Abs(ratio-1) > 0.17 {
			t.Errorf("leaf %d: variance over that of its nodes is %v", i, ratio)
		}
	}
	if joint.Depth(13) != 4 || joint.Depth(16) != 5 {
		t.Error("depth")
	}
}

func TestBadStreamsAreRefused(t *testing.T) {
	src := rand.NewChaCha8([32]byte{})
	for _, c := range []struct {
		dim   int
		noise mechanism.Noise
	}{{0, mechanism.None{}}, {2, mechanism.Laplace{Scale: 1}}, {2, nil}} {
		if _, err := joint.NewStream(c.dim, c.noise, src); err == nil {
			t.Errorf("%+v", c)
		}
	}
	if _, err := joint.NewStream(2, mechanism.Gaussian{Sigma: 1}, nil); err == nil {
		t.Error("no source")
	}
	s, err := joint.NewStream(2, mechanism.None{}, nil)
	if err != nil || s.Add([]float64{1}) == nil {
		t.Error("a short leaf", err)
	}
}
