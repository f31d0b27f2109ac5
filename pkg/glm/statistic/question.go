package statistic

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/riffle-dp/riffle/pkg/glm/family"
	"github.com/riffle-dp/riffle/pkg/glm/symmetric"
)

// Bounds of a question.
const (
	MaxQuestionName = 63 // bytes
	MaxQuantities   = 16 // of a mean or a fit; the outcome of a fit is one more
	MaxCells        = 128
)

// Question is what a panel is asked in an epoch in which it teaches the learner nothing: a mean, a histogram or a
// regression of public functions of a record, as the Kind of the statistic says. It is announced, and every bound
// follows from it alone.
type Question struct {
	Name string // 1 to MaxQuestionName of a-z, 0-9 and "-"; each question of a deployment has its own
	// Of are the quantities of a Mean; the one of a Histogram with Edges; the groups of one without; and the features
	// of a Fit, of which the last one is the outcome.
	Of []Quantity
	// Edges are between the cells of a Histogram of a number: each above the one before, inside the quantity's range. A
	// number on an edge is in the cell above it. Without any the cells are the groups of Of: a record is in the first
	// whose number is above 0, and in one more, the last, where there is none.
	Edges []float64
}

// Quantity is a number of a record: the sum of entries of the arm's vector, each counted once, or the reward. A number
// outside Low to High counts as the nearest inside.
type Quantity struct {
	Entries   []int // ascending; none: the reward
	Low, High float64
}

// Asked reports whether a statistic of this kind answers a Question.
func (k Kind) Asked() bool { return k == Mean || k == Histogram || k == Fit }

// Clone returns a copy that shares no memory with q; nil of nil.
func (q *Question) Clone() *Question {
	if q == nil {
		return nil
	}
	out := &Question{Name: q.Name, Of: slices.Clone(q.Of), Edges: slices.Clone(q.Edges)}
	for i := range out.Of {
		out.Of[i].Entries = slices.Clone(q.Of[i].Entries)
	}
	return out
}

// Cells is how many cells a histogram has.
func (q *Question) Cells() int {
	if len(q.Edges) > 0 {
		return len(q.Edges) + 1
	}
	return len(q.Of) + 1
}

// of is what a sum of entries or a reward is in units of half the range, from its middle: in [-1, 1].
func (q Quantity) of(r Record) float64 {
	return math.Max(-1, math.Min(1, (q.number(r)-q.Middle())/q.Half()))
}

// number is the quantity of a record whose arm has all entries.
func (q Quantity) number(r Record) float64 {
	if len(q.Entries) == 0 {
		return r.Reward
	}
	sum := 0.0
	for _, i := range q.Entries {
		sum += r.Arm[i]
	}
	return sum
}

// Middle is that of the range.
func (q Quantity) Middle() float64 { return q.Low + q.Half() }

// Half is half of the range's length.
func (q Quantity) Half() float64 { return (q.High - q.Low) / 2 }

// check says what is wrong with a quantity of arms of the dimension.
func (q Quantity) check(dimension int) error {
	for i, e := range q.Entries {
		if e < 0 || e >= dimension || i > 0 && e <= q.Entries[i-1] {
			return fmt.Errorf("its entries must be ascending, and from 0 to %d", dimension-1)
		}
	}
	half := q.Half()
	if !(half > 0) || !(math.Abs(q.Middle())/half < 1e9) { // nor is infinity below
		return fmt.Errorf("its range is from %v to %v: a range has finite ends that can be told apart", q.Low, q.High)
	}
	return nil
}

// Validate says what is wrong with a question whose answer is of a kind, about arms of the dimension. Errors wrap
// ErrInvalid.
func (q *Question) Validate(kind Kind, dimension int) error {
	wrong := func(format string, v ...any) error {
		return fmt.Errorf("%w: %s: %s", ErrInvalid, kind, fmt.Sprintf(format, v...))
	}
	if q == nil {
		return wrong("no question")
	}
	if n := len(q.Name); n < 1 || n > MaxQuestionName ||
		strings.Trim(q.Name, "abcdefghijklmnopqrstuvwxyz0123456789-") != "" {
		return wrong("a question's name is 1 to %d of a-z, 0-9 and -", MaxQuestionName)
	}
	for i, of := range q.Of {
		if err := of.check(dimension); err != nil {
			return wrong("quantity %d: %v", i, err)
		}
	}
	least, most := 1, MaxQuantities
	switch kind {
	case Histogram:
		most = MaxCells - 1
		if len(q.Edges) > 0 {
			most = 1
		}
	case Fit:
		least, most = 2, MaxQuantities+1
	}
	if n := len(q.Of); n < least || n > most {
		return wrong("it is of %d quantities, want %d to %d", n, least, most)
	}
	return q.checkEdges(kind, wrong)
}

func (q *Question) checkEdges(kind Kind, wrong func(string, ...any) error) error {
	if kind != Histogram {
		if len(q.Edges) > 0 {
			return wrong("only a histogram has edges")
		}
		return nil
	}
	if len(q.Edges) > MaxCells-1 {
		return wrong("it has %d edges, at most %d", len(q.Edges), MaxCells-1)
	}
	for i, e := range q.Edges {
		if !(e > q.Of[0].Low && e < q.Of[0].High) || i > 0 && !(e > q.Edges[i-1]) {
			return wrong("edge %d must be above the one before it, and inside %v to %v", i, q.Of[0].Low, q.Of[0].High)
		}
	}
	return nil
}

// MeanCount is what a record adds to the last number of a Mean of so many quantities, by which records are counted.
func MeanCount(quantities int) float64 { return math.Sqrt(2 * float64(quantities)) }

// dim is the length of the vectors of the question's answer.
func (q *Question) dim(kind Kind) int {
	switch {
	case q == nil:
		return 0
	case kind == Mean:
		return 2*len(q.Of) + 1
	case kind == Histogram:
		return q.Cells() + 1
	}
	return symmetric.Dim(len(q.Of) + 1)
}

// appendAnswer appends the answer of a record that is clipped and not null.
func (s Statistic) appendAnswer(dst []float64, r Record) []float64 {
	q := s.Question
	switch s.Kind {
	case Mean:
		for _, of := range q.Of {
			t := of.of(r)
			dst = append(dst, t, t*t)
		}
		return append(dst, MeanCount(len(q.Of)))
	case Histogram:
		from := len(dst)
		dst = append(dst, make([]float64, q.Cells()+1)...)
		dst[from+q.cell(r)], dst[len(dst)-1] = 1, 1
		return dst
	}
	u := make([]float64, 1, len(q.Of)+1)
	u[0] = 1
	for _, of := range q.Of {
		u = append(u, of.of(r))
	}
	dst = symmetric.AppendOuter(dst, 1/float64(len(u)), u, math.Sqrt2)
	clear(u)
	return dst
}

// cell is the one that a record is in.
func (q *Question) cell(r Record) int {
	if len(q.Edges) == 0 {
		n := slices.IndexFunc(q.Of, func(of Quantity) bool { return of.number(r) > 0 })
		if n < 0 {
			return len(q.Of)
		}
		return n
	}
	v := q.Of[0].number(r)
	n := 0
	for n < len(q.Edges) && v >= q.Edges[n] {
		n++
	}
	return n
}

// answerBounds encloses the answers of all records, and 0, that of the null record.
//
// Mean, with m quantities: the vectors are (t_1, t_1^2, .., t_m, t_m^2, sqrt(2m)) with |t_j| <= 1. Two of them are at
// squared distance sum (t-s)^2 (1 + (t+s)^2). With D = |t-s| <= 2 we have |t+s| <= 2-D, and D^2 (1 + (2-D)^2) <= 4,
// because D^2 (2-D)^2 <= (2-D)(2+D): for D < 2 that is D^2 (2-D) <= 2+D, whose left side is at most 1.19. From the null
// record it is sum (t^2 + t^4) + 2m <= 4m. So the squares, which say how much the quantities vary, and the number of
// records cost nothing beside the sums.
//
// Histogram: 1 in the record's cell, and 1. Two are at most sqrt 2 apart, and each is sqrt 2 from the null record.
//
// Fit: uu' for u = (1, t_1, .., t_m, y)/sqrt(m+2), of norm at most 1. See outerBounds.
func (s Statistic) answerBounds() Bounds {
	q := s.Question
	n := s.Dim()
	b := Bounds{Lower: make([]float64, n), Upper: make([]float64, n)}
	switch s.Kind {
	case Mean:
		for i := range q.Of {
			b.Lower[2*i], b.Upper[2*i], b.Upper[2*i+1] = -1, 1, 1
		}
		b.Upper[n-1] = MeanCount(len(q.Of))
		b.Diameter = 2 * math.Sqrt(float64(len(q.Of)))
	case Histogram:
		for i := range b.Upper {
			b.Upper[i] = 1
		}
		b.Diameter = math.Sqrt2
	default:
		size := len(q.Of) + 1
		b.Diameter = math.Sqrt2
		k, most := 0, 1/float64(size)
		for i := range size {
			b.Upper[k] = most
			k++
			for range size - i - 1 {
				b.Lower[k], b.Upper[k] = -most*math.Sqrt2, most*math.Sqrt2
				k++
			}
		}
	}
	return b
}

// RewardQuantity is the reward, over the whole range that the family gives it.
func RewardQuantity(f family.Response) Quantity {
	return Quantity{Low: f.MinReward(), High: f.MaxReward()}
}
