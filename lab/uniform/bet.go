package uniform

import "math"

// strengths are how many expected sightings a bet takes for granted at the uniform rate before it believes what it
// sees. A weak belief finds gross faults at once, and a strong one does not lose its wealth to chance while it gathers
// what shows a small one: a deviation by the share x needs about 1/x^2.
var strengths = [...]float64{1, 16, 256, 4096}

// wealth is what the bets of all strengths have, each of which began with one.
type wealth struct {
	log     [len(strengths)]float64
	product [len(strengths)]float64 // of factors that are not in log yet
	begun   bool
}

// fold is how far a product may get from one before its logarithm is taken.
const fold = 1e100

// times multiplies what the bet of a strength has.
func (w *wealth) times(strength int, factor float64) {
	if !w.begun {
		for i := range w.product {
			w.product[i] = 1
		}
		w.begun = true
	}
	p := w.product[strength] * factor
	if p > fold || p < 1/fold {
		w.log[strength] += math.Log(p)
		p = 1
	}
	w.product[strength] = p
}

// logs appends the logarithms.
func (w *wealth) logs(all []float64) []float64 {
	for i, l := range w.log {
		if w.begun {
			l += math.Log(w.product[i])
		}
		all = append(all, l)
	}
	return all
}

// bet learns how often each class of items comes, in each row of its table. Rows are for circumstances that are known
// before the item is.
type bet struct {
	wealth
	rows []*row
}

// row has how often each class came, and how often it was expected to.
type row struct{ seen, expected []float64 }

// step bets on the class of the next item. left is how many items of each class are left, all their sum.
func (b *bet) step(at int, left []int, all, class int) {
	if left[class] == all {
		return // nothing is uncertain
	}
	for at >= len(b.rows) {
		b.rows = append(b.rows, nil)
	}
	r := b.rows[at]
	if r == nil {
		r = &row{make([]float64, len(left)), make([]float64, len(left))}
		b.rows[at] = r
	}
	var sums [len(strengths)]float64
	each := 1 / float64(all)
	for k, n := range left {
		if n == 0 {
			continue
		}
		count := float64(n)
		for s, a := range strengths {
			sums[s] += count * (r.seen[k] + a) / (r.expected[k] + a)
		}
	}
	for s, a := range strengths {
		b.times(s, (r.seen[class]+a)/(r.expected[class]+a)*float64(all)/sums[s])
	}
	for k, n := range left {
		r.expected[k] += float64(n) * each
	}
	r.seen[class]++
}

// reset begins anew.
func (b *bet) reset() {
	b.wealth = wealth{}
	for _, r := range b.rows {
		if r != nil {
			clear(r.seen)
			clear(r.expected)
		}
	}
}

// logMean is the logarithm of the mean of what the logarithms are of.
func logMean(logs []float64) float64 { return logSum(logs) - math.Log(float64(len(logs))) }

// logSum is the logarithm of the sum.
func logSum(logs []float64) float64 {
	most := math.Inf(-1)
	for _, l := range logs {
		most = max(most, l)
	}
	if math.IsInf(most, -1) {
		return most
	}
	sum := 0.0
	for _, l := range logs {
		sum += math.Exp(l - most)
	}
	return most + math.Log(sum)
}
