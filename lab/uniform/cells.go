package uniform

import "math"

// cells bets on each single event of releases of one size: that an item comes to a place, that one comes right behind
// another one, that one comes before another one, and that one comes in the first half. Each event has a known
// probability, and a bet of its own whose belief is a beta law about it. The wealth is the mean of them all.
type cells struct {
	sizes []*sizeCells // by when they came first
	by    map[int]*sizeCells
}

// Sizes of releases whose events are counted: those of pairs have a number of events that is the square of it.
const (
	largestPairs  = 64
	largestHalves = 4096
	countedSizes  = 64
)

// sizeCells counts the events of the releases with n items.
type sizeCells struct {
	n, releases int
	place       []int32 // by item and place
	behind      []int32 // by item and the one behind it
	before      []int32 // by item and a later one that it is before
	half        []int32 // by item
	at          []int32 // place of each item
}

func (c *cells) add(order []int) {
	n := len(order)
	if n < 2 || n > largestHalves {
		return
	}
	s := c.by[n]
	if s == nil {
		if len(c.sizes) == countedSizes {
			return
		}
		s = &sizeCells{n: n, half: make([]int32, n), at: make([]int32, n)}
		if n <= largestPairs {
			s.place, s.behind, s.before = make([]int32, n*n), make([]int32, n*n), make([]int32, n*n)
		}
		if c.by == nil {
			c.by = map[int]*sizeCells{}
		}
		c.by[n], c.sizes = s, append(c.sizes, s)
	}
	s.releases++
	for place, item := range order {
		if place < n/2 {
			s.half[item]++
		}
	}
	if s.place == nil {
		return
	}
	for place, item := range order {
		s.place[item*n+place]++
		s.at[item] = int32(place)
		if place > 0 {
			s.behind[order[place-1]*n+item]++
		}
	}
	for i := range n {
		for j, row := i+1, s.before[i*n:]; j < n; j++ {
			if s.at[i] < s.at[j] {
				row[j]++
			}
		}
	}
}

// log is the logarithm of the mean wealth. Every size that comes has a share that was fixed beforehand, of which the
// first one has half; what no size has yet stays as it was.
func (c *cells) log() float64 {
	var logs []float64
	for i, s := range c.sizes {
		k := float64(i + 1)
		logs = append(logs, s.log()-math.Log(k*(k+1)))
	}
	return logSum(append(logs, -math.Log(float64(len(c.sizes)+1))))
}

// log is the logarithm of the mean over the kinds of events; those that are not counted keep what they began with.
// Items that stay, and the first and the last item at the ends, are kinds of their own: they are suspects before
// others.
func (s *sizeCells) log() float64 {
	n, logs := s.n, [6]float64{}
	end := func(i int) bool { return i == 0 || i == n-1 }
	logs[0] = s.mean(s.half, float64(n/2)/float64(n), nil)
	if s.place != nil {
		logs[1] = s.mean(s.place, 1/float64(n), nil)
		logs[2] = s.mean(s.behind, 1/float64(n), func(i, j int) bool { return i != j })
		logs[3] = s.mean(s.before, 0.5, func(i, j int) bool { return i < j })
		logs[4] = s.mean(s.place, 1/float64(n), func(i, j int) bool { return i == j })
		logs[5] = s.mean(s.place, 1/float64(n), func(i, j int) bool { return end(i) && end(j) })
	}
	return logMean(logs[:])
}

// mean is the logarithm of the mean wealth of events with probability p that happened so often; is tells which of n*n
// cells are events, nil: all are.
func (s *sizeCells) mean(counts []int32, p float64, is func(i, j int) bool) float64 {
	times := map[int32]int{} // how many events happened so often
	all := 0
	for i, count := range counts {
		if is == nil || is(i/s.n, i%s.n) {
			times[count]++
			all++
		}
	}
	if p <= 0 || p >= 1 || all == 0 {
		return 0
	}
	logs := make([]float64, 0, len(times)*len(strengths))
	for count, events := range times {
		for _, a := range strengths {
			logs = append(logs, math.Log(float64(events))+betaBinomial(int(count), s.releases, p, a))
		}
	}
	return logSum(logs) - math.Log(float64(all*len(strengths)))
}

// betaBinomial is the logarithm of how much likelier it is under a beta law of the probability, with mean p and the
// strength of that many sightings, than with probability p itself, that an event happens k times of n in a given order.
func betaBinomial(k, n int, p, strength float64) float64 {
	a, b := strength, strength*(1-p)/p
	hit, miss := float64(k), float64(n-k)
	return logBeta(a+hit, b+miss) - logBeta(a, b) - hit*math.Log(p) - miss*math.Log1p(-p)
}

func logBeta(a, b float64) float64 {
	x, _ := math.Lgamma(a)
	y, _ := math.Lgamma(b)
	z, _ := math.Lgamma(a + b)
	return x + y - z
}
