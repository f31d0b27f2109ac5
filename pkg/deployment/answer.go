package deployment

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/riffle-dp/riffle/pkg/feature"
	"github.com/riffle-dp/riffle/pkg/glm/family"
	"github.com/riffle-dp/riffle/pkg/glm/statistic"
	"github.com/riffle-dp/riffle/pkg/learn/estimate"
	"github.com/riffle-dp/riffle/pkg/plan"
	"github.com/riffle-dp/riffle/pkg/wire"
)

// Answer is what a panel answered to a question. It is public: a function of the announcement and of the sums that were
// signed. Every interval is of 95 %, each for itself, and counts the noise and that the panel's decisions are a sample.
type Answer struct {
	Name    string         `json:"name"`
	Kind    statistic.Kind `json:"kind"`
	Epoch   uint64         `json:"epoch"`
	Reports uint32         `json:"reports"`
	// Count is how many decisions there were that something could be reported of: those of the panel's people in the
	// epoch, up to the plan's number of each, for which a reward came in time.
	Count  Estimated   `json:"count"`
	Values []Estimated `json:"values"`
}

// Estimated is a number with its interval.
type Estimated struct {
	Of    string  `json:"of"`
	Value float64 `json:"value"`
	Low   float64 `json:"low"`
	High  float64 `json:"high"`
	// Deviation is the standard deviation of the quantity itself over decisions, of a mean; 0 where it is not known.
	Deviation float64 `json:"deviation,omitempty"`
	// Unbounded says that the noise is too large to exclude any value: there is no interval, and Value means nothing.
	Unbounded bool `json:"unbounded,omitempty"`
}

// Spell is the value and the ends of its interval as people read them: with four digits, and from 1000 on as whole
// numbers. Each is "-" where there is no interval.
func (e Estimated) Spell() (value, low, high string) {
	if e.Unbounded {
		return "-", "-", "-"
	}
	of := func(v float64) string {
		if math.Abs(v) >= 1000 {
			return strconv.FormatFloat(v, 'f', 0, 64)
		}
		return strconv.FormatFloat(v, 'g', 4, 64)
	}
	return of(e.Value), of(e.Low), of(e.High)
}

// answerLevel is that of the intervals of answers, of which NormalQuantile is the quantile.
const answerLevel = 0.95

// AnswerOf is the answer in the sums of a round whose announcement asked a question.
//
// A mean, or a share of decisions, is the ratio r = T/N of two released sums with noise of known variances V_T and V_N:
// N counts decisions, so that who had nothing to report is in neither, and biases nothing. Its interval are the r of
// the range for which (T - rN)^2 <= z^2 (V_T + r^2 V_N + K W(r)), which is Fieller's (1954): the error of T - rN is the
// noise of both, and the sampling of decisions, W. For a mean W is Q - 2rT + r^2 N, Q the released sum of squares; for
// a share N r (1-r); both count as no less than 0. A person's K decisions at most may be alike, hence the factor: where
// K is 1 it is exact, and above it intervals are wider than 95 % where decisions of a person differ.
func AnswerOf(a *plan.Announcement, sums []wire.Sum, reports uint32) (*Answer, error) {
	kind := a.Plan.AskedKind()
	if err := a.CheckQuestion(); err != nil {
		return nil, err
	}
	if kind == "" || len(sums) != 1 {
		return nil, fmt.Errorf("deployment: %d sums of an epoch that asks %q", len(sums), kind)
	}
	of := statistic.Statistic{Kind: kind, ArmDim: a.Policy.Dimension, Question: a.Question}
	if n := of.Dim(); len(sums[0].Values) != n || len(sums[0].Variance) != n {
		return nil, fmt.Errorf("deployment: sums of %d numbers, the answer has %d", len(sums[0].Values), n)
	}
	in := answering{a: a, q: a.Question, s: sums[0], k: float64(a.Plan.PerReport())}
	in.schema, _ = feature.Open(a.Schema) // without one entries are told by number
	out := &Answer{Name: a.Question.Name, Kind: kind, Epoch: a.Epoch, Reports: reports}
	switch kind {
	case statistic.Mean:
		in.means(out)
	case statistic.Histogram:
		in.shares(out)
	default:
		if err := in.fit(out); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// answering is what an answer is made of.
type answering struct {
	a      *plan.Announcement
	q      *statistic.Question
	s      wire.Sum
	k      float64 // decisions of a report, at most
	schema *feature.Schema
}

// count is how many decisions there were, by the sum of entry i, to which each adds so much. Its interval is of the
// noise alone.
func (in answering) count(i int, each float64) (n, variance float64, told Estimated) {
	n, variance = in.s.Values[i]/each, in.s.Variance[i]/(each*each)
	half := NormalQuantile * math.Sqrt(variance)
	return n, variance, Estimated{Of: "decisions with a reward", Value: math.Max(0, n), Low: math.Max(0, n-half),
		High: math.Max(0, n+half)}
}

func (in answering) means(out *Answer) {
	last := len(in.s.Values) - 1
	n, variance, count := in.count(last, statistic.MeanCount(len(in.q.Of)))
	out.Count = count
	for j, of := range in.q.Of {
		t, square := in.s.Values[2*j], in.s.Values[2*j+1]
		r := ratio{t: t, n: n, vt: in.s.Variance[2*j], vn: variance,
			sampling: quadratic{in.k * square, -2 * in.k * t, in.k * n}}
		value, low, high := r.interval(-1, 1)
		unit := in.unit(of)
		to := func(t float64) float64 { return unit.zero + unit.one*(of.Middle()+of.Half()*t) }
		told := Estimated{Of: unit.name, Value: to(value), Low: to(low), High: to(high)}
		if n > 0 {
			told.Deviation = math.Sqrt(math.Max(0, math.Min(square/n, 1)-value*value)) * of.Half() * unit.one
		}
		out.Values = append(out.Values, told)
	}
}

func (in answering) shares(out *Answer) {
	cells := in.q.Cells()
	n, variance, count := in.count(cells, 1)
	out.Count = count
	for j, name := range in.cells() {
		r := ratio{t: in.s.Values[j], n: n, vt: in.s.Variance[j], vn: variance,
			sampling: quadratic{0, in.k * n, -in.k * n}}
		value, low, high := r.interval(0, 1)
		out.Values = append(out.Values, Estimated{Of: name, Value: value, Low: low, High: high})
	}
}

// fit tells the coefficients of the outcome, the last quantity, on the others: those of the numbers in their own units.
// Where the noise is too large to exclude anything, an interval has no ends.
func (in answering) fit(out *Answer) error {
	last := len(in.q.Of) - 1
	size := float64(last + 2)
	triangle := make([]float64, len(in.s.Values))
	for i, v := range in.s.Values {
		triangle[i] = v * size
	}
	_, _, out.Count = in.count(0, 1/size)
	of := estimate.Fit{Level: answerLevel}
	var names []string
	for _, q := range in.q.Of {
		u := in.unit(q)
		of.Features = append(of.Features, estimate.Range{Low: u.zero + u.one*q.Low, High: u.zero + u.one*q.High})
		names = append(names, u.name)
	}
	of.Target, of.Features = of.Features[last], of.Features[:last]
	fitted, err := of.Answered(triangle, slices.Max(in.s.Variance)*size*size, in.k)
	if err != nil {
		return fmt.Errorf("deployment: %w", err)
	}
	for i, c := range append([]estimate.Coefficient{fitted.Intercept}, fitted.Coefficients...) {
		told := Estimated{Of: names[last] + " at 0", Value: c.Value, Low: c.Low, High: c.High}
		if i > 0 {
			told.Of = names[last] + " per " + names[i-1]
		}
		if math.IsInf(c.Low, -1) || math.IsInf(c.High, 1) {
			told.Unbounded, told.Low, told.High = true, 0, 0
		}
		out.Values = append(out.Values, told)
	}
	return nil
}

// quadratic is c[0] + c[1] r + c[2] r^2.
type quadratic [3]float64

// ratio is that of two sums with noise.
type ratio struct {
	t, n, vt, vn float64
	sampling     quadratic
}

// interval is the estimate and its interval, within a range. The interval holds the estimate. Where the sums say too
// little of the ratio, it is the whole range. The sampling is estimated, and noise may bring it below 0. It counts as
// no less, so that the interval is around two sets: with it, and without.
func (r ratio) interval(least, most float64) (value, low, high float64) {
	inside := func(v float64) float64 { return math.Max(least, math.Min(most, v)) }
	if !(r.n > 0) {
		return inside((least + most) / 2), least, most
	}
	value = inside(r.t / r.n)
	low, high = value, value
	for _, sampling := range []quadratic{{}, r.sampling} {
		from, to, bounded := r.set(sampling)
		if !bounded {
			return value, least, most
		}
		low, high = math.Min(low, inside(from)), math.Max(high, inside(to))
	}
	return value, low, high
}

// set is Fieller's with the sampling; the ratio itself where it is empty.
func (r ratio) set(sampling quadratic) (from, to float64, bounded bool) {
	z := NormalQuantile * NormalQuantile
	// a r^2 + 2 b r + c <= 0
	a := r.n*r.n - z*(r.vn+sampling[2])
	b := -r.t*r.n - z*sampling[1]/2
	c := r.t*r.t - z*(r.vt+sampling[0])
	if !(a > 0) {
		return 0, 0, false
	}
	d := b*b - a*c
	if d < 0 {
		return r.t / r.n, r.t / r.n, true
	}
	half := math.Sqrt(d) / a
	return -b/a - half, -b/a + half, true
}

// unit is how a quantity is told: its name, and the linear function from the number on the device to its own units.
type unit struct {
	name      string
	zero, one float64
}

// unit names a quantity; one whose range is narrower than the whole is told with it, as what is outside counts as its
// ends.
func (in answering) unit(of statistic.Quantity) unit {
	u, low, high := in.whole(of)
	if of.Low > low || of.High < high {
		text := func(v float64) string { return strconv.FormatFloat(u.zero+u.one*v, 'g', 6, 64) }
		u.name += " within " + text(of.Low) + " to " + text(of.High)
	}
	return u
}

// whole is how a quantity is told, and its whole range on the device.
func (in answering) whole(of statistic.Quantity) (u unit, low, high float64) {
	if len(of.Entries) == 0 {
		low, high = family.RewardRange(in.a.Policy.Family, in.a.Policy.MaxReward)
		return unit{"reward", 0, 1}, low, high
	}
	if in.schema != nil {
		for _, name := range in.schema.FieldNames() {
			entries, err := in.schema.Sum(name)
			if err != nil || !slices.Equal(entries, of.Entries) {
				continue
			}
			scale := in.schema.Scale()
			if f, _ := in.schema.Field(name); f.Kind == feature.Number {
				half := (*f.High - *f.Low) / 2
				return unit{name, *f.Low + half, half / scale}, -scale, scale
			}
			return unit{name + " (share true)", 0.5, 0.5 / scale}, -scale, scale
		}
	}
	most := math.Sqrt(float64(len(of.Entries))) // of an arm of norm 1
	return unit{in.entries(of.Entries), 0, 1}, -most, most
}

// entries are told by the schema's names, or their numbers.
func (in answering) entries(of []int) string {
	var names []string
	var known []string
	if in.schema != nil {
		known = in.schema.Names()
	}
	for _, e := range of {
		if e < len(known) {
			names = append(names, known[e])
		} else {
			names = append(names, "x["+strconv.Itoa(e)+"]")
		}
	}
	return strings.Join(names, " + ")
}

// cells are the names of a histogram's.
func (in answering) cells() (names []string) {
	if len(in.q.Edges) == 0 {
		for i, g := range in.q.Of {
			names = append(names, in.group(i, g))
		}
		return append(names, "any other")
	}
	u, _, _ := in.whole(in.q.Of[0])
	text := func(v float64) string { return strconv.FormatFloat(u.zero+u.one*v, 'g', 6, 64) }
	names = append(names, u.name+" < "+text(in.q.Edges[0]))
	for i, e := range in.q.Edges[1:] {
		names = append(names, text(in.q.Edges[i])+" ≤ "+u.name+" < "+text(e))
	}
	return append(names, u.name+" ≥ "+text(in.q.Edges[len(in.q.Edges)-1]))
}

// group is the name of a place of a category or of buckets.
func (in answering) group(i int, of statistic.Quantity) string {
	if in.schema != nil {
		for _, field := range in.schema.FieldNames() {
			names, groups, err := in.schema.Places(field)
			if err == nil && i < len(groups) && slices.Equal(groups[i], of.Entries) {
				return names[i]
			}
		}
	}
	if len(of.Entries) == 0 {
		return "reward > 0"
	}
	return in.entries(of.Entries)
}

// ExpectedAnswer is the answer that can be expected of an announcement that asks a question, if each of the cohort's
// people has one decision with a reward and quantities are spread evenly over their ranges and one by one: what an
// operator sees of an answer's intervals before it is asked. Its values mean nothing.
func ExpectedAnswer(a *plan.Announcement) (*Answer, error) {
	kind, n := a.Plan.AskedKind(), float64(a.Cohort.Size)
	if err := a.CheckQuestion(); err != nil || kind == "" {
		return nil, fmt.Errorf("deployment: no question: %w", err)
	}
	const spread = 1.0 / 3 // of an even one, in units of half the range squared
	q := a.Question
	sum := wire.Sum{Variance: a.Encodings[0].Variance(uint64(a.Cohort.Size), a.Releases()[0].ServerNoise())}
	for i := range sum.Variance {
		sum.Variance[i] *= float64(a.Plan.PerReport() * a.Plan.PerReport())
	}
	switch kind {
	case statistic.Mean:
		for range q.Of {
			sum.Values = append(sum.Values, 0, n*spread)
		}
		sum.Values = append(sum.Values, n*statistic.MeanCount(len(q.Of)))
	case statistic.Histogram:
		for range q.Cells() {
			sum.Values = append(sum.Values, n/float64(q.Cells()))
		}
		sum.Values = append(sum.Values, n)
	default:
		size := len(q.Of) + 1
		for i := range size {
			for j := i; j < size; j++ {
				switch {
				case i == 0 && j == 0:
					sum.Values = append(sum.Values, n/float64(size))
				case i == j:
					sum.Values = append(sum.Values, n*spread/float64(size))
				default:
					sum.Values = append(sum.Values, 0)
				}
			}
		}
	}
	return AnswerOf(a, []wire.Sum{sum}, a.Cohort.Size)
}
