package uniform

import (
	"math"
	"math/rand/v2"
	"testing"
)

// eachOrder calls f with every order of n items.
func eachOrder(n int, f func(order []int)) {
	order := make([]int, n)
	var place func(at int)
	place = func(at int) {
		if at == n {
			f(order)
			return
		}
		for i := at; i < n; i++ {
			order[at], order[i] = order[i], order[at]
			place(at + 1)
			order[at], order[i] = order[i], order[at]
		}
	}
	for i := range order {
		order[i] = i
	}
	place(0)
}

// Behind no release each test has one, and behind the same releases, the wealth of each test over all orders of the
// next release has the mean that it had before, exactly: it is a martingale, whatever the test has learnt. That is why
// its p-values hold. The releases before are those of a bad shuffler, so that no bet is even.
func TestWealthIsAMartingale(t *testing.T) {
	if testing.Short() {
		t.Skip("nothing of it runs at the same time as anything else")
	}
	for _, shape := range []Shape{{Items: 2}, {Items: 5, Report: 2, Chunk: 3}, {Items: 6, Report: 3, Chunk: 2},
		{Items: 7}} {
		faults := []Fault{Identity, Modulo}
		if shape.Items > largestOrders {
			faults = faults[:1] // 5040 orders take a second
		}
		for _, fault := range faults {
			planted, err := Plant(fault, rand.NewChaCha8([32]byte{1}))
			if err != nil {
				t.Fatal(err)
			}
			var before []*Release
			for range 3 {
				before = append(before, planted.Shuffle(shape))
			}
			behind := func(next *Release) *Judge {
				j := New(0)
				for _, r := range before {
					if err := j.Add(r); err != nil {
						t.Fatal(err)
					}
				}
				if next != nil {
					if err := j.Add(next); err != nil {
						t.Fatal(err)
					}
				}
				return j
			}
			log := func(j *Judge, test string) float64 {
				if test == TestCells {
					return j.cells.log()
				}
				return j.log(test)
			}
			start := behind(nil)
			sums, firsts, orders := map[string]float64{}, map[string]float64{}, 0.0
			eachOrder(shape.Items, func(order []int) {
				next := planted.Shuffle(shape)
				copy(next.Order, order)
				j, first := behind(next), New(0)
				if err := first.Add(next); err != nil {
					t.Fatal(err)
				}
				for _, test := range tests {
					sums[test] += math.Exp(log(j, test))
					firsts[test] += math.Exp(log(first, test))
				}
				orders++
			})
			for _, test := range tests {
				want := math.Exp(log(start, test))
				if got := firsts[test] / orders; math.Abs(got-1) > 1e-9 {
					t.Errorf("%+v: the mean wealth of %q behind the first release is %v, not one", shape, test, got)
				}
				if got := sums[test] / orders; math.Abs(got/want-1) > 1e-9 {
					t.Errorf("%+v behind %q: the mean wealth of %q is %v, before it was %v", shape, fault, test, got,
						want)
				}
			}
		}
	}
}

// What is left of each class is counted as it is, for sets of any size: by this the probabilities of a bet add up to
// one.
func TestClassesAreCounted(t *testing.T) {
	rng := rand.New(rand.NewChaCha8([32]byte{2}))
	for _, n := range []int{2, 3, 4, 5, 8, 9, 16, 33, 64, 70, 257, 5001, 9000} {
		var l left
		l.fill(n)
		set := make([]bool, n)
		for i := range set {
			set[i] = rng.IntN(3) > 0
			if !set[i] {
				l.remove(i)
			}
		}
		for range 20 {
			from := rng.IntN(n)
			var got, want [distances]int
			l.distances(from, &got)
			below := 0
			for i, is := range set {
				if is {
					want[distance((i-from+n)%n, n)]++
					if i < from {
						below++
					}
				}
			}
			if got != want || l.below(from) != below {
				t.Fatalf("%d items, from %d: %v and %d below, want %v and %d", n, from, got, l.below(from), want, below)
			}
		}
	}
	for m := 1; m < 200; m++ {
		var got, want, counts [rankClasses]int
		for rank := range m {
			want[rankClass(rank, m, &counts)]++
			got = counts
		}
		if got != want {
			t.Errorf("ranks among %d: %v, want %v", m, got, want)
		}
	}
}

// The bets on single events have mean one over every number of times that an event can happen.
func TestBetaBinomialIsAMartingale(t *testing.T) {
	for _, n := range []int{1, 2, 17, 300} {
		for _, p := range []float64{0.5, 1.0 / 3, 1.0 / 64} {
			for _, strength := range strengths {
				sum := 0.0
				for k := range n + 1 {
					ways := -logBeta(float64(k)+1, float64(n-k)+1) - math.Log(float64(n)+1)
					sum += math.Exp(ways + float64(k)*math.Log(p) + float64(n-k)*math.Log1p(-p) +
						betaBinomial(k, n, p, strength))
				}
				if math.Abs(sum-1) > 1e-6 {
					t.Errorf("%d times with probability %v, strength %v: the mean is %v", n, p, strength, sum)
				}
			}
		}
	}
}
