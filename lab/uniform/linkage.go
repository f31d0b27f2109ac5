package uniform

// neighbours bets on the distance of an item from the one before it, as both came: whether neighbours stay neighbours,
// and whether those that came together leave together.
type neighbours struct {
	bet
	counts [distances]int
}

func (t *neighbours) at(l *left, before, item int) {
	l.distances(before, &t.counts)
	t.step(0, t.counts[:], l.all, distance((item-before+l.size)%l.size, l.size))
}

// shifts bets on how far from its place an item came.
type shifts struct {
	bet
	counts [distances]int
}

func (t *shifts) at(l *left, place, item int) {
	l.distances(place, &t.counts)
	t.step(0, t.counts[:], l.all, distance((item-place+l.size)%l.size, l.size))
}

// nearby is how many items leave together where that is not known.
const nearby = 16

// reports bets on whether items of one report leave together, next to each other and in the same chunk, and on whether
// items leave by their place in their report.
type reports struct {
	next, chunk, within bet
	left                []int // of each report
	in                  []int // the last chunk that had an item of the report, from 1
	place               []int // of each item in its report
	places              [quarters]int
	group               []int
}

func (t *reports) add(r *Release) {
	n := len(r.Order)
	if r.Reports == nil {
		return
	}
	t.left, t.in, t.place = zeros(t.left, n), zeros(t.in, n), zeros(t.place, n)
	for item, report := range r.Reports {
		t.place[item] = t.left[report]
		t.left[report]++
	}
	t.group = zeros(t.group, n)
	t.places = [quarters]int{}
	for item, report := range r.Reports {
		t.group[item] = t.place[item] * quarters / t.left[report]
		t.places[t.group[item]]++
	}
	chunk, end, together, before := 0, 0, 0, -1
	for place, item := range r.Order {
		if place == end {
			length := nearby
			if chunk < len(r.Chunks) {
				length = r.Chunks[chunk]
			}
			chunk, end, together = chunk+1, end+length, 0
		}
		all, report := n-place, r.Reports[item]
		if before >= 0 {
			t.step(&t.next, t.left[before], all, report == before)
		}
		t.step(&t.chunk, together, all, t.in[report] == chunk)
		t.within.step(place*quarters/n, t.places[:], all, t.group[item])
		t.places[t.group[item]]--
		t.left[report]--
		if t.in[report] == chunk {
			together--
		} else {
			t.in[report] = chunk
			together += t.left[report]
		}
		before = report
	}
}

// step bets on whether the next item is one of those.
func (*reports) step(b *bet, those, all int, is bool) {
	class := 0
	if is {
		class = 1
	}
	b.step(0, []int{all - those, those}, all, class)
}

// zeros is n zeros, in the same memory if there is enough.
func zeros(s []int, n int) []int {
	if cap(s) < n {
		return make([]int, n)
	}
	s = s[:n]
	clear(s)
	return s
}

// repeats bets on whether a release follows the order of the last one of as many items.
type repeats struct {
	follows, stays bet
	last           map[int][]int32 // order by size
	after          []int           // what followed each item in it
	gone           []bool
}

// keptOrders is of how many sizes the last order is kept.
const keptOrders = 16

func (t *repeats) add(order []int) {
	n := len(order)
	last := t.last[n]
	if last != nil {
		t.after = zeros(t.after, n)
		for place, item := range last[:n-1] {
			t.after[item] = int(last[place+1])
		}
		t.after[last[n-1]] = int(last[0])
		if cap(t.gone) < n {
			t.gone = make([]bool, n)
		}
		t.gone = t.gone[:n]
		clear(t.gone)
		for place, item := range order {
			if place > 0 {
				t.step(&t.follows, t.after[order[place-1]], n-place, item)
			}
			t.step(&t.stays, int(last[place]), n-place, item)
			t.gone[item] = true
		}
	} else if t.last == nil {
		t.last = map[int][]int32{}
	}
	if last == nil && len(t.last) < keptOrders {
		last = make([]int32, n)
		t.last[n] = last
	}
	for place := range last {
		last[place] = int32(order[place])
	}
}

// step bets on whether the next item is that one.
func (t *repeats) step(b *bet, that, all, item int) {
	if t.gone[that] {
		return
	}
	class := 0
	if item == that {
		class = 1
	}
	b.step(0, []int{all - 1, 1}, all, class)
}
