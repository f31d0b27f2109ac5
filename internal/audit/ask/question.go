// Package ask is the operator's side of questions to a deployment's panels: it turns names of fields into a question,
// says what it would cost and how precise its answer would be, and shows what was answered. The question itself is
// pkg/glm/statistic's, and pkg/deployment asks and answers it.
package ask

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/riffle-dp/riffle/pkg/feature"
	"github.com/riffle-dp/riffle/pkg/glm/family"
	"github.com/riffle-dp/riffle/pkg/glm/statistic"
	"github.com/riffle-dp/riffle/pkg/strict"
	"github.com/riffle-dp/riffle/pkg/wire"
)

const (
	rewardField = "reward"
	defaultBins = 8
)

// fields turns names of fields into quantities, by what the deployment announces.
type fields struct {
	schema *feature.Schema // nil: arms are vectors
	c      wire.Configuration
}

// Wanted is what an operator asks.
type Wanted struct {
	Kind   statistic.Kind
	Name   string    // of the question
	Fields []string  // of a fit the outcome first
	Bins   int       // of a histogram of a number: ranges of equal width; 0: Edges, or defaultBins
	Edges  []float64 // of it, in the field's own units
}

// Question is what is asked of a deployment of this configuration. Errors say what to change.
func (w Wanted) Question(c wire.Configuration) (*statistic.Question, error) {
	of := fields{c: c}
	if len(c.Schema) > 0 {
		var err error
		if of.schema, err = feature.Open(c.Schema); err != nil {
			return nil, err
		}
	}
	q := &statistic.Question{Name: w.Name}
	if w.Kind == statistic.Histogram {
		return q, of.histogram(q, w.Fields[0], w.Bins, w.Edges)
	}
	for _, name := range w.Fields {
		n, err := of.number(name)
		if err != nil {
			return nil, err
		}
		q.Of = append(q.Of, n.Quantity)
	}
	if w.Kind == statistic.Fit { // the outcome is told first, and announced last
		q.Of = append(q.Of[1:], q.Of[0])
	}
	return q, nil
}

// ranged is a quantity with its range in the field's own units.
type ranged struct {
	statistic.Quantity
	low, high float64
}

func (f fields) number(name string) (ranged, error) {
	if name == rewardField {
		if f.schema != nil {
			if _, both := f.schema.Field(name); both {
				return ranged{}, fmt.Errorf("%s is a field of the schema as well as the reward, and cannot be asked "+
					"for", name)
			}
		}
		rewards, err := family.New(f.c.Learner.Family, f.c.Learner.MaxReward)
		if err != nil {
			return ranged{}, err
		}
		q := statistic.RewardQuantity(rewards)
		return ranged{q, q.Low, q.High}, nil
	}
	if f.schema == nil {
		n, err := f.entry(name)
		return ranged{n, -1, 1}, err
	}
	entries, err := f.schema.Sum(name)
	if err != nil {
		return ranged{}, f.refuse(name, err)
	}
	scale := f.schema.Scale()
	n := ranged{statistic.Quantity{Entries: entries, Low: -scale, High: scale}, 0, 1}
	if field, _ := f.schema.Field(name); field.Kind == feature.Number {
		n.low, n.high = *field.Low, *field.High
	}
	return n, nil
}

// entry is one number of an arm's vector, x0 for the first.
func (f fields) entry(name string) (statistic.Quantity, error) {
	i, err := strconv.Atoi(strings.TrimPrefix(name, "x"))
	if err != nil || !strings.HasPrefix(name, "x") || i < 0 || i >= f.c.Learner.Dimension {
		return statistic.Quantity{}, fmt.Errorf("%q: this deployment has no schema of features: ask for %s, or for "+
			"x0 to x%d, the numbers of the played arm's vector", name, rewardField, f.c.Learner.Dimension-1)
	}
	return statistic.Quantity{Entries: []int{i}, Low: -1, High: 1}, nil
}

// refuse says what is wrong with a field, and which there are.
func (f fields) refuse(name string, err error) error {
	if _, known := f.schema.Field(name); known {
		return fmt.Errorf("%s: %w", name, err)
	}
	return fmt.Errorf("%q is no field of this deployment: there are %s", name,
		strict.List(append(f.schema.FieldNames(), rewardField), "and"))
}

// histogram enters the cells of a field.
func (f fields) histogram(q *statistic.Question, name string, bins int, edges []float64) error {
	if f.schema != nil && name != rewardField {
		if _, groups, err := f.schema.Places(name); err == nil {
			if bins != 0 || len(edges) > 0 {
				return fmt.Errorf("%s has places of its own: leave out --bins and --edges", name)
			}
			for _, g := range groups {
				q.Of = append(q.Of, statistic.Quantity{Entries: g, Low: 0, High: f.schema.Scale()})
			}
			return nil
		} else if field, known := f.schema.Field(name); known && field.Kind != feature.Number &&
			field.Kind != feature.Flag {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	n, err := f.number(name)
	switch {
	case err != nil:
		return err
	case bins != 0 && len(edges) > 0:
		return errors.New("--bins cannot go with --edges: give one of them")
	case bins < 0 || bins == 1 || bins > statistic.MaxCells:
		return fmt.Errorf("--bins %d: want 2 to %d", bins, statistic.MaxCells)
	}
	if bins == 0 && len(edges) == 0 {
		bins = defaultBins
		if f.schema != nil {
			if field, _ := f.schema.Field(name); field.Kind == feature.Flag {
				bins = 2
			}
		}
	}
	for i := 1; i < bins; i++ {
		edges = append(edges, n.low+(n.high-n.low)*float64(i)/float64(bins))
	}
	q.Of = []statistic.Quantity{n.Quantity}
	for i, e := range edges {
		if !(e > n.low && e < n.high) || i > 0 && !(e > edges[i-1]) {
			return fmt.Errorf("--edges: %v must be above the edge before it, and inside the range %v to %v of %s", e,
				n.low, n.high, name)
		}
		q.Edges = append(q.Edges, n.Low+(n.High-n.Low)*(e-n.low)/(n.high-n.low))
	}
	return nil
}
