package ask_test

import (
	"reflect"
	"strings"
	"testing"

	"github.com/riffle-dp/riffle/internal/audit/ask"
	"github.com/riffle-dp/riffle/pkg/feature"
	"github.com/riffle-dp/riffle/pkg/glm/learner"
	"github.com/riffle-dp/riffle/pkg/glm/statistic"
	"github.com/riffle-dp/riffle/pkg/wire"
)

// A schema in which age stands beside ids alone, weight only beside age, and visits in a term of its own.
const schema = `{"version":1,"context":[{"name":"age","kind":"number","low":20,"high":80},
	{"name":"weight","kind":"number","low":40,"high":140},{"name":"member","kind":"flag"},
	{"name":"region","kind":"category","values":["north","south","west"],"baseline":true},
	{"name":"word","kind":"hashed","buckets":4}],
	"arms":[{"name":"id","kind":"category","values":["a","b"]},{"name":"size","kind":"buckets","thresholds":[1,2]}],
	"terms":[["id","age"],["age","weight"],["member"],["region"],["word"],["size"]]}`

func with(t *testing.T, text string) wire.Configuration {
	t.Helper()
	c := wire.Configuration{Learner: learner.Config{Dimension: 2, Family: "gaussian", MaxReward: 5}}
	if text == "" {
		return c
	}
	s, err := feature.Parse([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	c.Schema, c.Learner.Dimension = s.Canonical(), s.Dimension()
	return c
}

// Fields become the entries of vectors that hold them, wherever the schema puts them, with their ranges.
func TestFieldsBecomeQuantities(t *testing.T) {
	scale := 0.0
	if s, err := feature.Parse([]byte(schema)); err == nil {
		scale = s.Scale()
	}
	whole := func(entries ...int) statistic.Quantity {
		return statistic.Quantity{Entries: entries, Low: -scale, High: scale}
	}
	place := func(entries ...int) statistic.Quantity { return statistic.Quantity{Entries: entries, High: scale} }
	for _, c := range []struct {
		of   string
		w    ask.Wanted
		want statistic.Question
	}{
		{schema, ask.Wanted{Kind: statistic.Mean, Fields: []string{"age", "member", "reward"}},
			statistic.Question{Of: []statistic.Quantity{whole(0, 1), whole(3), {Low: 0, High: 5}}}},
		{schema, ask.Wanted{Kind: statistic.Fit, Fields: []string{"reward", "age"}},
			statistic.Question{Of: []statistic.Quantity{whole(0, 1), {Low: 0, High: 5}}}},
		{schema, ask.Wanted{Kind: statistic.Histogram, Fields: []string{"region"}},
			statistic.Question{Of: []statistic.Quantity{place(4), place(5)}}},
		{schema, ask.Wanted{Kind: statistic.Histogram, Fields: []string{"size"}},
			statistic.Question{Of: []statistic.Quantity{place(10), place(11), place(12)}}},
		{schema, ask.Wanted{Kind: statistic.Histogram, Fields: []string{"member"}},
			statistic.Question{Of: []statistic.Quantity{whole(3)}, Edges: []float64{0}}},
		{"", ask.Wanted{Kind: statistic.Histogram, Fields: []string{"x1"}, Edges: []float64{-0.5, 0.25}},
			statistic.Question{Of: []statistic.Quantity{{Entries: []int{1}, Low: -1, High: 1}},
				Edges: []float64{-0.5, 0.25}}},
		{"", ask.Wanted{Kind: statistic.Histogram, Fields: []string{"reward"}, Bins: 2},
			statistic.Question{Of: []statistic.Quantity{{Low: 0, High: 5}}, Edges: []float64{2.5}}},
	} {
		c.w.Name, c.want.Name = "a", "a"
		conf := with(t, c.of)
		got, err := c.w.Question(conf)
		if err != nil || !reflect.DeepEqual(got, &c.want) {
			t.Errorf("%v: %+v, want %+v, %v", c.w, got, c.want, err)
			continue
		}
		if err := got.Validate(c.w.Kind, conf.Learner.Dimension); err != nil {
			t.Errorf("%v: %v", c.w, err)
		}
	}
}

func TestFieldsThatCannotBeAskedFor(t *testing.T) {
	both := strings.ReplaceAll(schema, "weight", "reward")
	for _, c := range []struct {
		of, field, says string
		kind            statistic.Kind
	}{
		{schema, "weight", "only multiplied", statistic.Mean}, {schema, "region", "ask for its histogram", statistic.Mean},
		{schema, "word", "mean nothing", statistic.Histogram}, {schema, "height", "there are age, weight", statistic.Mean},
		{both, "reward", "as well as the reward", statistic.Mean}, {"", "age", "no schema", statistic.Mean},
		{"", "x2", "x0 to x1", statistic.Mean}, {"", "x-1", "x0 to x1", statistic.Mean},
		{"", "y0", "x0 to x1", statistic.Histogram},
	} {
		_, err := ask.Wanted{Kind: c.kind, Name: "a", Fields: []string{c.field}}.Question(with(t, c.of))
		if err == nil || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %v, want %q", c.field, err, c.says)
		}
	}
	w := ask.Wanted{Kind: statistic.Histogram, Name: "a", Fields: []string{"region"}, Bins: 3}
	if _, err := w.Question(with(t, schema)); err == nil || !strings.Contains(err.Error(), "places of its own") {
		t.Error(err)
	}
}
