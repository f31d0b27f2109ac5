package statistic_test

import (
	"errors"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/riffle-dp/riffle/pkg/glm/family"
	"github.com/riffle-dp/riffle/pkg/glm/statistic"
)

// asked is the answer to a question about arms of 3 numbers with rewards in [0, 1].
func asked(kind statistic.Kind, q *statistic.Question) statistic.Statistic {
	return statistic.Statistic{Kind: kind, Family: family.Logistic{}, ArmDim: 3, Question: q}
}

// quantities are so many of arms of 3 numbers, the reward among them.
func quantities(n int) (all []statistic.Quantity) {
	for i := range n {
		all = append(all, statistic.Quantity{Entries: []int{i % 3}, Low: -0.3, High: 0.2 + float64(i)/10})
	}
	all[n-1] = statistic.Quantity{Low: 0, High: 1}
	return all
}

// answers are statistics of every kind of question.
func answers() (all []statistic.Statistic) {
	for _, n := range []int{1, 2, 5} {
		all = append(all, asked(statistic.Mean, &statistic.Question{Name: "q", Of: quantities(n)}),
			asked(statistic.Fit, &statistic.Question{Name: "q", Of: quantities(n + 1)}),
			asked(statistic.Histogram, &statistic.Question{Name: "q", Of: quantities(n)}))
	}
	return append(all, asked(statistic.Histogram, &statistic.Question{Name: "q", Of: []statistic.Quantity{
		{Entries: []int{0, 2}, Low: -1, High: 1}}, Edges: []float64{-0.5, 0, 0.7}}))
}

// No two records, the null record among them, and no two reports of several decisions, are farther apart than the
// diameter of an answer, no number leaves its range, and the diameter is reached.
func TestAnswersHaveTheirBounds(t *testing.T) {
	rng := rand.New(rand.NewPCG(8, 1))
	for _, s := range answers() {
		b := bounds(t, s)
		if len(b.Lower) != s.Dim() {
			t.Fatalf("%s: bounds of %d numbers, vectors have %d", s.Kind, len(b.Lower), s.Dim())
		}
		widest, vectors := 0.0, [][]float64{make([]float64, s.Dim())}
		for range 400 {
			r := statistic.Record{Arm: make([]float64, 3), Reward: float64(rng.IntN(2))}
			for i := range r.Arm {
				r.Arm[i] = float64(rng.IntN(3)-1) / math.Sqrt(3) * (1 - rng.Float64()*float64(rng.IntN(2)))
			}
			v, err := s.Vector(nil, r)
			if err != nil {
				t.Fatal(err)
			}
			vectors = append(vectors, v)
		}
		two := make([]float64, s.Dim())
		for j := range two {
			two[j] = (vectors[1][j] + vectors[2][j]) / 2
		}
		for i, u := range append(vectors, two) {
			for _, v := range vectors[:i] {
				if broken := violation(b, u, v); broken != "" {
					t.Fatalf("%s of %d quantities: %s", s.Kind, len(s.Question.Of), broken)
				}
				widest = max(widest, distance(u, v))
			}
		}
		least := 0.99
		if s.Kind == statistic.Fit { // orthogonal vectors need an even number of entries of one size
			least = 0.9
		}
		if widest < least*b.Diameter {
			t.Errorf("%s of %d quantities: two are %v apart at most, the diameter is %v", s.Kind, len(s.Question.Of),
				widest, b.Diameter)
		}
	}
}

// The squares and the count of a mean cost nothing: the diameter is that of the quantities alone, and a heavier count
// or square would break it.
func TestCountAndSquaresOfAMeanAreFree(t *testing.T) {
	for m := 1; m <= 4; m++ {
		own := 2 * math.Sqrt(float64(m)) // of the quantities
		for _, f := range []float64{1, 1.02} {
			count := statistic.MeanCount(m) * f
			null := math.Sqrt(2*float64(m) + count*count)
			if (null <= own*(1+1e-12)) != (f == 1) {
				t.Errorf("%d quantities: the null record is %v away with %v of the count, they are %v apart", m, null,
					f, own)
			}
		}
	}
	for d := 0.0; d <= 2; d += 1e-3 {
		if got := d * d * (1 + (2-d)*(2-d)); got > 4+1e-12 {
			t.Fatalf("quantities %v apart give %v", d, got)
		}
	}
}

func TestAnswersByHand(t *testing.T) {
	r := statistic.Record{Arm: []float64{0.5, 0, -0.25}, Reward: 1}
	sum := statistic.Quantity{Entries: []int{0, 2}, Low: -0.5, High: 1.5} // 0.25, a quarter below the middle
	reward := statistic.Quantity{Low: 0, High: 2}                         // in the middle
	for _, c := range []struct {
		kind statistic.Kind
		q    statistic.Question
		want []float64
	}{
		{statistic.Mean, statistic.Question{Name: "q", Of: []statistic.Quantity{sum, reward}},
			[]float64{-0.25, 0.0625, 0, 0, 2}},
		{statistic.Mean, statistic.Question{Name: "q", Of: []statistic.Quantity{{Low: 2, High: 3}}},
			[]float64{-1, 1, math.Sqrt2}}, // clipped
		{statistic.Histogram,
			statistic.Question{Name: "q", Of: []statistic.Quantity{sum}, Edges: []float64{0, 0.25, 1}},
			[]float64{0, 0, 1, 0, 1}}, // on an edge: above it
		{statistic.Histogram, statistic.Question{Name: "q", Of: []statistic.Quantity{
			{Entries: []int{1}, High: 1}, {Entries: []int{0}, High: 1}}}, []float64{0, 1, 0, 1}},
		{statistic.Histogram, statistic.Question{Name: "q", Of: []statistic.Quantity{
			{Entries: []int{1}, High: 1}, {Entries: []int{2}, High: 1}}}, []float64{0, 0, 1, 1}},
		{statistic.Fit, statistic.Question{Name: "q", Of: []statistic.Quantity{sum, reward}},
			[]float64{1. / 3, -0.25 * math.Sqrt2 / 3, 0, 0.0625 / 3, 0, 0}},
	} {
		s := asked(c.kind, &c.q)
		got, err := s.Vector(nil, r)
		if err != nil || len(got) != len(c.want) {
			t.Fatalf("%s: %v, %v", c.kind, got, err)
		}
		for i := range got {
			if math.Abs(got[i]-c.want[i]) > 1e-12 {
				t.Errorf("%s: %v, want %v", c.kind, got, c.want)
				break
			}
		}
		if null, err := s.Vector(nil, statistic.Record{Null: true}); err != nil ||
			slices.ContainsFunc(null, func(v float64) bool { return v != 0 }) {
			t.Errorf("%s: the null record gives %v, %v", c.kind, null, err)
		}
	}
}

func TestQuestionsAreChecked(t *testing.T) {
	good := statistic.Quantity{Entries: []int{0, 2}, Low: -1, High: 1}
	of := func(all ...statistic.Quantity) statistic.Question {
		return statistic.Question{Name: "a-1", Of: all}
	}
	named := func(name string) statistic.Question { return statistic.Question{Name: name, Of: of(good).Of} }
	edged := func(edges ...float64) statistic.Question {
		return statistic.Question{Name: "a", Of: of(good).Of, Edges: edges}
	}
	for name, c := range map[string]struct {
		kind statistic.Kind
		q    statistic.Question
		says string
	}{
		"":                 {statistic.Mean, of(good), ""},
		"no name":          {statistic.Mean, named(""), "name"},
		"a strange name":   {statistic.Mean, named("A"), "name"},
		"a long name":      {statistic.Mean, named(strings.Repeat("a", 64)), "name"},
		"nothing":          {statistic.Mean, of(), "0 quantities"},
		"too much":         {statistic.Mean, of(slices.Repeat(of(good).Of, 17)...), "17 quantities"},
		"a fit on nothing": {statistic.Fit, of(good), "1 quantities"},
		"entry":            {statistic.Mean, of(statistic.Quantity{Entries: []int{3}, High: 1}), "entries"},
		"negative entry":   {statistic.Mean, of(statistic.Quantity{Entries: []int{-1}, High: 1}), "entries"},
		"entry twice":      {statistic.Mean, of(statistic.Quantity{Entries: []int{1, 1}, High: 1}), "entries"},
		"upside down":      {statistic.Mean, of(statistic.Quantity{Low: 1, High: -1}), "range"},
		"from infinity":    {statistic.Mean, of(statistic.Quantity{Low: math.Inf(-1), High: 1}), "range"},
		"too many cells":   {statistic.Histogram, of(slices.Repeat(of(good).Of, 128)...), "128 quantities"},
		"too long a fit":   {statistic.Fit, of(slices.Repeat(of(good).Of, 18)...), "18 quantities"},
		"too many edges":   {statistic.Histogram, edged(make([]float64, 128)...), "128 edges"},
		"no range":         {statistic.Mean, of(statistic.Quantity{Low: 1, High: 1}), "range"},
		"not a number":     {statistic.Mean, of(statistic.Quantity{Low: math.NaN(), High: 1}), "range"},
		"infinite":         {statistic.Mean, of(statistic.Quantity{Low: 0, High: math.Inf(1)}), "range"},
		"too wide":         {statistic.Mean, of(statistic.Quantity{Low: -1e308, High: 1e308}), "range"},
		"too fine":         {statistic.Mean, of(statistic.Quantity{Low: 1, High: math.Nextafter(1, 2)}), "range"},
		"subnormal":        {statistic.Mean, of(statistic.Quantity{High: math.SmallestNonzeroFloat64}), "range"},
		"edges of a mean":  {statistic.Mean, edged(0), "only a histogram"},
		"edges":            {statistic.Histogram, edged(-0.5, 0.5), ""},
		"edge outside":     {statistic.Histogram, edged(0, 1), "edge 1"},
		"edges descend":    {statistic.Histogram, edged(0.5, 0), "edge 1"},
		"no edge":          {statistic.Histogram, edged(math.NaN()), "edge 0"},
		"two with edges": {statistic.Histogram, statistic.Question{Name: "a", Of: of(good, good).Of,
			Edges: []float64{0}}, "2 quantities"},
	} {
		q := c.q
		err := q.Validate(c.kind, 3)
		if (err == nil) != (c.says == "") || err != nil && (!errors.Is(err, statistic.ErrInvalid) ||
			!strings.Contains(err.Error(), c.says)) {
			t.Errorf("%s: %v, want %q", name, err, c.says)
		}
	}
	if err := (*statistic.Question)(nil).Validate(statistic.Mean, 3); !errors.Is(err, statistic.ErrInvalid) {
		t.Error(err)
	}
	if _, err := asked(statistic.Mean, nil).Bounds(); err == nil {
		t.Error("an answer to no question has bounds")
	}
}
