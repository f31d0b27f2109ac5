package statistic

import (
	"math"

	"github.com/riffle-dp/riffle/pkg/convex"
	"github.com/riffle-dp/riffle/pkg/glm/family"
	"github.com/riffle-dp/riffle/pkg/glm/symmetric"
)

// Bounds for arms that lie in one of several disjoint runs of coordinates, as those of "K options, each with weights of
// its own" do.
//
// Let theta_b be the part of theta on run b, and s the largest |theta_b|. An arm x of run b has <x,theta> =
// <x,theta_b>, so that its record is one of a problem with the parameter theta_b. In one more dimension there is a
// theta' of norm s whose part in the run is theta_b: no inner product changes. So whatever holds for every record of a
// problem with a parameter of norm s, in any dimension, holds for the records of every run, and for any two of one run.
// Two records of different runs are orthogonal: their squared distance is the sum of their squared lengths, of which
// each is at most the longest of its run.

// run is a run of coordinates and the part of theta there.
type run struct {
	at    []int
	theta []float64
	size  float64 // norm of theta
}

// disjoint are all runs of arms, nil where arms need not lie in one.
func (s Statistic) disjoint() (runs []run) {
	for _, at := range s.Structure.Disjoint(s.ArmDim) {
		r := run{at: at}
		for _, j := range at {
			r.theta = append(r.theta, s.Theta[j])
		}
		r.size = convex.Norm(r.theta)
		runs = append(runs, r)
	}
	return runs
}

// largest are the two largest sizes of at least two runs.
func largest(runs []run) (first, second float64) {
	for _, r := range runs {
		first, second = math.Max(first, r.size), math.Max(second, math.Min(first, r.size))
	}
	return first, second
}

// longest is the largest length of a gradient: |m x| with |x| <= 1, and m increases with <x,theta>.
func (g *gradientSet) longest() float64 {
	length := 0.0
	for _, m := range g.branches() {
		length = math.Max(length, m(1))
	}
	return length
}

// gradientBoundsOfRuns are gradientBounds where arms lie in one of the runs. Two of one run are within a ball of
// EnclosingBall(s); two of different runs are at most the hypotenuse of the largest lengths in two runs apart. A
// coordinate is bounded by that ball, whose centre lies at theta', and by the support of its own run.
func gradientBoundsOfRuns(f family.Response, runs []run, d int) Bounds {
	first, second := largest(runs)
	centre, radius := EnclosingBall(f, first)
	b := Bounds{Lower: make([]float64, d), Upper: make([]float64, d)}
	t := newAngles()
	var reach []float64
	for n, r := range runs {
		if n == 0 || r.size != runs[n-1].size {
			reach = (&gradientSet{f: f, size: r.size}).reach(t)
		}
		for k, j := range r.at {
			c, shift := direction(r.theta, r.size, k), centre*direction(r.theta, first, k)
			b.Upper[j] = math.Min(shift+radius, support(t, reach, c))
			b.Lower[j] = math.Max(shift-radius, -support(t, reach, -c))
		}
		width := 2 * radius
		if len(r.at) == 1 {
			width = math.Min(width, b.Upper[r.at[0]]-b.Lower[r.at[0]])
		}
		b.Diameter = math.Max(b.Diameter, width)
	}
	b.Diameter = math.Max(b.Diameter,
		math.Hypot((&gradientSet{f: f, size: first}).longest(), (&gradientSet{f: f, size: second}).longest()))
	return b
}

// hessianBoundsOfRuns are hessianBounds where arms lie in one of the runs, with 0 for the pairs of different runs. The
// length of mu' xx' is at most the largest weight w_b of x's run. Two of a run with |theta_b| = s are as hessianBounds
// has it; two of a smaller one are at most sqrt2 w_b apart, which is no more than the hypotenuse of w_b and of the
// weight of the run with s. A run of one coordinate has one number, between 0 and its bound.
func hessianBoundsOfRuns(f family.Response, runs []run, d int) Bounds {
	first, second := largest(runs)
	n := symmetric.Dim(d)
	b := Bounds{Lower: make([]float64, n), Upper: make([]float64, n)}
	_, clipped := family.ClipOf(f)
	var h *hessianSet
	weight := 0.0
	for m, r := range runs {
		if m == 0 || r.size != runs[m-1].size {
			if weight = f.MaxVariance(r.size); !clipped {
				h = newHessianSet(f, r.size)
			}
		}
		at := func(k int) float64 { return direction(r.theta, r.size, k) }
		for k, i := range r.at {
			for l, j := range r.at[k:] {
				p := entry(i, j, d)
				switch {
				case clipped && l == 0:
					b.Upper[p] = weight
				case clipped:
					b.Lower[p], b.Upper[p] = -weight/math.Sqrt2, weight/math.Sqrt2
				case l == 0:
					b.Upper[p] = h.square(at(k))
				default:
					b.Upper[p] = h.square((at(k)+at(k+l))/math.Sqrt2) / math.Sqrt2
					b.Lower[p] = -h.square((at(k)-at(k+l))/math.Sqrt2) / math.Sqrt2
				}
			}
		}
	}
	dims := len(runs[0].at)
	if dims == 1 {
		longest, next := 0.0, 0.0
		for _, r := range runs {
			u := b.Upper[entry(r.at[0], r.at[0], d)]
			longest, next = math.Max(longest, u), math.Max(next, math.Min(longest, u))
		}
		b.Diameter = math.Hypot(longest, next)
		return b
	}
	top := f.MaxVariance(first)
	same := math.Sqrt2 * top
	if !clipped {
		same = math.Min(same, newHessianSet(f, first).diameter(dims))
	}
	b.Diameter = math.Max(same, math.Hypot(top, math.Min(top, f.MaxVariance(second))))
	return b
}

// entry is the place of i <= j in the upper triangle of a d x d matrix.
func entry(i, j, d int) int { return i*d - i*(i-1)/2 + j - i }
