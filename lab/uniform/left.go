package uniform

import "math/bits"

// left is the set of the items that have not come yet, with the number of those below any (Fenwick, "A new data
// structure for cumulative frequency tables", 1994).
type left struct {
	tree []int32
	size int // of the whole set
	all  int // that are left
}

// fill puts all numbers below n into the set.
func (l *left) fill(n int) {
	if cap(l.tree) < n+1 {
		l.tree = make([]int32, n+1)
	}
	l.tree, l.size, l.all = l.tree[:n+1], n, n
	for i := 1; i <= n; i++ {
		l.tree[i] = int32(i & -i)
	}
}

// remove takes one out.
func (l *left) remove(item int) {
	for i := item + 1; i <= l.size; i += i & -i {
		l.tree[i]--
	}
	l.all--
}

// below counts those that are smaller.
func (l *left) below(item int) (n int) {
	for i := min(item, l.size); i > 0; i &= i - 1 {
		n += int(l.tree[i])
	}
	return n
}

// around counts those from one number to another, the last not included, on the circle of all numbers. The first is not
// negative, and the distance at most the circle's.
func (l *left) around(from, to int) int {
	if from >= l.size {
		from, to = from-l.size, to-l.size
	}
	if to <= l.size {
		return l.below(to) - l.below(from)
	}
	return l.all - l.below(from) + l.below(to-l.size)
}

// The classes of distances on a circle: none, 1, 2, 3 to 4, 5 to 8 and so on in each direction, and far.
const (
	doublings = 12 // the last class of a direction ends at 2^11
	distances = 2*doublings + 2
	far       = distances - 1
)

// distance is the class of a distance forwards, on a circle of n.
func distance(d, n int) int {
	if d == 0 {
		return 0
	}
	class := 1
	if d > n/2 {
		d, class = n-d, 1+doublings
	}
	if k := bits.Len(uint(d - 1)); k < doublings {
		return class + k
	}
	return far
}

// distances counts those that are left by the class of their distance from a number.
func (l *left) distances(from int, counts *[distances]int) {
	n := l.size
	*counts = [distances]int{}
	counts[0] = l.around(from, from+1)
	rest := l.all - counts[0]
	for k, first, last := 0, 1, 1; k < doublings && first <= n-1; k, first, last = k+1, last+1, 2*last {
		if f, t := first, min(last, n/2); f <= t {
			counts[1+k] = l.around(from+f, from+t+1)
			rest -= counts[1+k]
		}
		if f, t := first, min(last, (n-1)/2); f <= t {
			counts[1+doublings+k] = l.around(from+n-t, from+n-f+1)
			rest -= counts[1+doublings+k]
		}
		if first > n/2 {
			break
		}
	}
	counts[far] = rest
}
