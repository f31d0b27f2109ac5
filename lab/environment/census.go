package environment

import (
	"fmt"
	"iter"
	"maps"
	"math"
	"slices"
	"strings"

	"github.com/riffle-dp/riffle/internal/population"
	"github.com/riffle-dp/riffle/pkg/glm/family"
	"github.com/riffle-dp/riffle/pkg/glm/structure"
)

// decision is a choice among options made of the Adult census: the reward is 1 for the option that is true of the
// person. The option's block of an arm holds the context, scaled to norm 1.
type decision struct {
	options int
	label   func(population.Census) int
	context func(population.Census) []float64
}

// decisions are those of Census by name. Ranges are constants, and nothing is fitted to the data.
var decisions = map[string]decision{
	// How long a week somebody works: less than 40 hours, 40, or more. Most work 40.
	"hours": {3, func(c population.Census) int { return 1 + sign3(c.Hours-40) }, func(c population.Census) []float64 {
		return []float64{age(c), schooling(c), married(c), trade(c), earns(c), 1}
	}},
	// Whether somebody was never married, is married, or was.
	"marital": {3, wedlock, func(c population.Census) []float64 {
		return []float64{age(c), schooling(c), hours(c), earns(c), 1}
	}},
	// Which of six groups of schooling somebody has, from none to a doctorate.
	"schooling": {6, func(c population.Census) int {
		for i, most := range []float64{8, 9, 10, 12, 13} {
			if c.EducationNum <= most {
				return i
			}
		}
		return 5
	}, func(c population.Census) []float64 {
		return []float64{age(c), hours(c), trade(c), earns(c), 1}
	}},
	// Whether somebody works in management or a profession.
	"occupation": {2, func(c population.Census) int {
		if trade(c) > 0 {
			return 1
		}
		return 0
	}, func(c population.Census) []float64 {
		return []float64{age(c), schooling(c), hours(c), married(c), earns(c), age(c) * schooling(c), 1}
	}},
}

func sign3(v float64) int {
	switch {
	case v < 0:
		return -1
	case v > 0:
		return 1
	}
	return 0
}

func within(v float64) float64 { return math.Min(math.Max(v, -1), 1) }

func age(c population.Census) float64       { return within((c.Age - 35) / 15) }
func schooling(c population.Census) float64 { return within((c.EducationNum - 10) / 6) }
func hours(c population.Census) float64     { return within((c.Hours - 40) / 20) }

func earns(c population.Census) float64 {
	if c.Over50K {
		return 1
	}
	return -1
}

func wedlock(c population.Census) int {
	switch c.MaritalStatus {
	case "Never-married":
		return 0
	case "Married-civ-spouse", "Married-AF-spouse", "Married-spouse-absent":
		return 1
	}
	return 2
}

func married(c population.Census) float64 {
	if wedlock(c) == 1 {
		return 1
	}
	return -1
}

// trade is 1 for professions and management, and -1 for everything else.
func trade(c population.Census) float64 {
	switch c.Occupation {
	case "Exec-managerial", "Prof-specialty":
		return 1
	}
	return -1
}

// person is a row as a person.
func (d decision) person(c population.Census) population.Person {
	x := d.context(c)
	n := math.Sqrt(population.Dot(x, x))
	p := population.Person{Rewards: make([]float64, d.options)}
	for k := range d.options {
		arm := make([]float64, d.options*len(x))
		for i, v := range x {
			arm[k*len(x)+i] = v / n
		}
		p.Arms = append(p.Arms, arm)
	}
	p.Rewards[d.label(c)] = 1
	return p
}

// census is the population of a decision: people of the training file in an order of the seed, and those of the test
// file held out.
func (s Spec) census(seed uint64, people int) (*population.Population, error) {
	d, ok := decisions[s.Decision]
	if !ok {
		return nil, s.checkDecision()
	}
	rows, err := population.ReadAdult()
	if err != nil {
		return nil, err
	}
	var own, held []population.Census
	for _, r := range rows {
		if r.Test {
			held = append(held, r)
		} else {
			own = append(own, r)
		}
	}
	stream(seed, streamPool).Shuffle(len(own), func(i, j int) { own[i], own[j] = own[j], own[i] })
	if people > len(own) {
		return nil, fmt.Errorf("%w: %d people of the census, which has %d", ErrSpec, people, len(own))
	}
	if people > 0 {
		own = own[:people]
	}
	each := func(rows []population.Census) iter.Seq2[population.Person, error] {
		return func(yield func(population.Person, error) bool) {
			for _, r := range rows {
				if !yield(d.person(r), nil) {
					return
				}
			}
		}
	}
	return population.New(population.Info{Name: s.Label(), People: len(own), HeldOut: len(held), Dim: d.dimension(),
		Arms: d.options, Family: family.NameLogistic, MaxReward: 1, NormBound: population.AdultNormBound,
		Structure: structure.Options(d.options, d.dimension()/d.options)},
		each(own), each(held)), nil
}

func (d decision) dimension() int { return d.options * len(d.context(population.Census{})) }

func (s Spec) checkDecision() error {
	if _, ok := decisions[s.Decision]; ok == (s.Kind == Census) {
		return nil
	}
	return fmt.Errorf("%w: decision %q is for kind %s, one of %s", ErrSpec, s.Decision, Census,
		strings.Join(slices.Sorted(maps.Keys(decisions)), ", "))
}
