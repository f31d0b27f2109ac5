package joint_test

import (
	"errors"
	"math"
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"

	"github.com/riffle-dp/riffle/pkg/convex"
	"github.com/riffle-dp/riffle/pkg/learn/joint"
)

// A record that lies outside the unit ball or the range of rewards leaves what the nearest one within leaves: two
// curators of the same noise give out the same to the last digit, over a whole run with calls of both kinds. The trees
// and the gradients count on both.
func TestACuratorsRecordsAreClipped(t *testing.T) {
	for name, size := range map[string]float64{"arm": 9, "reward": 1} {
		s := small(13)
		s.Options = map[string]float64{"ridge": 0.7, "explore_calls": 40, "calls": 40, "iterations": 3}
		c := resolve(t, s, 1)
		far := joint.NewCurator(c, rand.NewChaCha8([32]byte{1, 25}))
		near := joint.NewCurator(c, rand.NewChaCha8([32]byte{1, 25}))
		rng, calls := rand.New(rand.NewPCG(25, 6)), map[string]int{}
		far.Watch(func(d joint.Draw) { calls[d.What]++ })
		for i := range s.Horizon {
			outside := records(rng, 1, 2, size)
			if name == "reward" {
				outside[0].Reward = 40 * (outside[0].Reward - 0.5)
			}
			within := slices.Clone(outside)
			within[0].Arm, _ = convex.ToUnitBall(slices.Clone(outside[0].Arm))
			within[0].Reward = math.Max(0, math.Min(1, outside[0].Reward))
			got, err := far.Absorb(outside)
			if err != nil {
				t.Fatal(err)
			}
			want, err := near.Absorb(within)
			if err != nil {
				t.Fatal(err)
			}
			if !reflect.DeepEqual(got, want) {
				t.Fatalf("%s: what leaves after record %d is that of a longer one", name, i)
			}
			for _, theta := range [][]float64{far.State().First, far.State().Second} {
				if length := convex.Norm(theta); length > s.Radius {
					t.Fatalf("%s: an estimate of norm %v left, the radius is %v", name, length, s.Radius)
				}
			}
		}
		if calls["first"] == 0 || calls["second"] == 0 {
			t.Errorf("%s: %v iterations of calls, want some of both kinds", name, calls)
		}
	}
}

// A leaf takes no more people than its batch, since a leaf is what one sees of so many people: more are refused before
// anything is drawn.
func TestALeafHasNoMoreThanItsBatch(t *testing.T) {
	s, rng := small(13), rand.New(rand.NewPCG(25, 6))
	c := resolve(t, s, 3)
	drawn := 0
	curator := joint.NewCurator(c, s.Noise)
	curator.Watch(func(joint.Draw) { drawn++ })
	if _, err := curator.Absorb(records(rng, 4, 2, 0.5)); !errors.Is(err, joint.ErrRelease) || drawn != 0 {
		t.Errorf("four records in a micro-batch of three: %v, and %d draws of noise", err, drawn)
	}
	if _, err := curator.Absorb(records(rng, 3, 2, 0.5)); err != nil || drawn == 0 {
		t.Errorf("three records in a micro-batch of three: %v, and %d draws of noise", err, drawn)
	}
}
