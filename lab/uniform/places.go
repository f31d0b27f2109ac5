package uniform

// largestOrders is how many items a release may have for all of its orders to be counted: there are 720 of six.
const largestOrders = 6

// orders bets on whole orders of few items.
type orders struct {
	bet
	ones [largestOrders + 1][]int // one order each that is left
}

func (o *orders) add(order []int) {
	n := len(order)
	if n < 2 || n > largestOrders {
		return
	}
	all, rank := 1, 0
	for i, a := range order {
		all *= i + 1
		smaller := 0
		for _, b := range order[i+1:] {
			if b < a {
				smaller++
			}
		}
		rank = rank*(n-i) + smaller
	}
	if o.ones[n] == nil {
		o.ones[n] = make([]int, all)
		for i := range o.ones[n] {
			o.ones[n][i] = 1
		}
	}
	o.step(n, o.ones[n], all, rank)
}

// places bets on which items come to which places. Both are cut into so many groups; where there are fewer items than
// groups, each is its own.
type places struct {
	bet
	groups int
	left   []int
}

func (t *places) add(order []int) {
	n := len(order)
	groups, first := t.groups, 0
	if n < groups { // rows of its own, behind those of all larger sizes and of all smaller ones
		groups, first = n, t.groups+n*(n-1)/2
	}
	if cap(t.left) < groups {
		t.left = make([]int, t.groups)
	}
	t.left = t.left[:groups]
	clear(t.left)
	for i := range n {
		t.left[i*groups/n]++
	}
	for place, item := range order {
		group := item * groups / n
		t.step(first+place*groups/n, t.left, n-place, group)
		t.left[group]--
	}
}

// rankClasses is how many classes there are of ranks among those that are left. Tables for that many or fewer are their
// own; others share those of their quarter of the release.
const (
	rankClasses = 16
	quarters    = 4
)

// rankRow is the row for a rank among m, at a place of n.
func rankRow(m, place, n int) int {
	if m <= rankClasses {
		return quarters + m
	}
	return place * quarters / n
}

// rankClass has the class of a rank among m, and how many ranks each class has.
func rankClass(rank, m int, counts *[rankClasses]int) (class int) {
	before := 0
	for k := range counts {
		end := ((k+1)*m + rankClasses - 1) / rankClasses // the first rank that is not of this class
		counts[k], before = end-before, end
	}
	return rank * rankClasses / m
}

// ranks bets on the rank of the item of each place among those that are left: whether orders rise or fall, and whether
// one item comes before another.
type ranks struct {
	bet
	counts [rankClasses]int
}

func (t *ranks) at(rank, m, place, n int) {
	if m < 2 {
		return
	}
	class := rankClass(rank, m, &t.counts)
	t.step(rankRow(m, place, n), t.counts[:], m, class)
}

// rises bets on whether the item of a place is above the one before it, by whether that one was.
type rises struct {
	bet
	counts [2]int
	rose   int
}

func (t *rises) at(l *left, before, item int) {
	t.counts[0] = l.below(before)
	t.counts[1] = l.all - t.counts[0]
	class := 0
	if item > before {
		class = 1
	}
	t.step(t.rose, t.counts[:], l.all, class)
	t.rose = class
}

// ownDraws is up to how many items the tables for each draw are their own.
const ownDraws = 64

// draws bets on the draws of the algorithm of Fisher and Yates that would have given the order: the remainder of a
// random word is no uniform draw. There is one law for all draws, and one for each.
type draws struct {
	shared, own bet
	items, at   []int // by index, and the index of each item
	counts      [rankClasses + 1]int
}

func (t *draws) add(order []int) {
	n := len(order)
	t.items, t.at = t.items[:0], t.at[:0]
	for i := range n {
		t.items, t.at = append(t.items, i), append(t.at, i)
	}
	for i := n - 1; i > 0; i-- {
		j := t.at[order[i]]
		last := t.items[i]
		t.items[j], t.at[last] = last, j
		var counts [rankClasses]int
		class := rankClasses // itself
		if j == i {
			rankClass(0, i, &counts)
		} else {
			class = rankClass(j, i, &counts)
		}
		copy(t.counts[:], counts[:])
		t.counts[rankClasses] = 1
		t.shared.step(i*quarters/n, t.counts[:], i+1, class)
		if i < ownDraws {
			t.own.step(i, t.counts[:], i+1, class)
		}
	}
}
