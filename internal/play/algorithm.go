package play

import (
	"context"
	"fmt"
	"iter"

	"github.com/riffle-dp/riffle/internal/population"
)

// Algorithm is a bandit algorithm in one run. Choose and Learn alternate, person by person.
//
// Why it is neither a learner.Learner nor a learn.Program: these are the curator's side alone, while an algorithm plays
// both sides, so that one without a curator is one, too. Batched and Learned make algorithms of them.
type Algorithm interface {
	// Choose picks an arm for the next person, an index into arms. It must neither keep nor change arms.
	Choose(arms [][]float64) (int, error)
	// Learn takes the reward of the arm just chosen. It must not be called after an error of Choose.
	Learn(reward float64) error
}

// Sender is an algorithm for which devices send messages.
type Sender interface {
	// MessagesPerPerson is the mean so far: bit messages for the shuffle protocol, 1 for a report of another channel or
	// in the clear.
	MessagesPerPerson() float64
}

// Planner is an algorithm that sums through a planned channel.
type Planner interface{ Spent() Spent }

// Randomized is an algorithm that chooses at random and knows the probability of its choice.
type Randomized interface {
	// Propensity is the probability with which the last choice was made, in (0, 1].
	Propensity() float64
}

// Estimator is an algorithm that ends with an estimate of the parameter.
type Estimator interface {
	// Final is the last estimate, for greedy play on later people. The algorithm must not be used after it.
	Final() ([]float64, error)
}

// Score is the result of one run of an algorithm.
type Score struct {
	People int     `json:"people"` // decided for
	Regret float64 `json:"regret"` // summed over people: value of the best arm minus that of the played one
	Value  float64 `json:"value"`  // mean value of what was played
	// Course[i] is the regret after Marks[i] people. Marks ascend.
	Marks  []int     `json:"marks"`
	Course []float64 `json:"course"`
}

// Play runs an algorithm on the first horizon people and scores it. marks, ascending, are the numbers of people after
// which the regret is noted. progress, which may be nil, is called now and then with the number of people decided for
// since its last call. It is an error if there are fewer people than the horizon.
func Play(ctx context.Context, algorithm Algorithm, people iter.Seq2[population.Person, error], horizon int,
	marks []int,
	progress func(people int),
) (*Score, error) {
	if c, ok := algorithm.(interface{ Close() }); ok {
		defer c.Close()
	}
	s := &Score{}
	const every = 1024
	preparer, _ := algorithm.(Preparer)
	for some, err := range ahead(people, horizon, preparer) {
		for i, p := range some {
			if preparer != nil && preparer.Prepared() == 0 {
				preparer.Prepare(arms(some[i:]))
			}
			if err := s.decide(algorithm, p); err != nil {
				return nil, fmt.Errorf("simulate: person %d: %w", s.People, err)
			}
			s.People++
			if k := len(s.Marks); k < len(marks) && s.People == marks[k] {
				s.Marks, s.Course = append(s.Marks, s.People), append(s.Course, s.Regret)
			}
			if s.People%every == 0 {
				if err := context.Cause(ctx); err != nil {
					return nil, err
				}
				if progress != nil {
					progress(every)
				}
			}
		}
		if err != nil {
			return nil, err
		}
	}
	if s.People < horizon {
		return nil, fmt.Errorf("simulate: the population has %d people, fewer than the horizon of %d", s.People,
			horizon)
	}
	if progress != nil {
		progress(s.People % every)
	}
	s.Value /= float64(s.People)
	return s, nil
}

// ahead is the first horizon people in blocks, of one person each for an algorithm that prepares nothing. An error
// comes with the people before it.
func ahead(people iter.Seq2[population.Person, error], horizon int, preparer Preparer,
) iter.Seq2[[]population.Person, error] {
	size, room := 1, 1<<20 // people, and numbers in their arms: 8 MB
	if preparer != nil {
		size = 512
	}
	return func(yield func([]population.Person, error) bool) {
		block, seen, numbers := make([]population.Person, 0, size), 0, 0
		for p, err := range people {
			if err != nil {
				yield(block, err)
				return
			}
			block = append(block, p)
			if seen++; seen == horizon {
				break
			}
			for _, x := range p.Arms {
				numbers += len(x)
			}
			if len(block) == size || numbers >= room {
				if !yield(block, nil) {
					return
				}
				clear(block)
				block, numbers = block[:0], 0
			}
		}
		yield(block, nil)
	}
}

// arms are the arm sets of people.
func arms(people []population.Person) [][][]float64 {
	sets := make([][][]float64, len(people))
	for i, p := range people {
		sets[i] = p.Arms
	}
	return sets
}

// decide plays for one person.
func (s *Score) decide(algorithm Algorithm, p population.Person) error {
	arm, err := algorithm.Choose(p.Arms)
	if err != nil {
		return err
	}
	reward, err := p.Reward(arm)
	if err != nil {
		return err
	}
	if err := algorithm.Learn(reward); err != nil {
		return err
	}
	value, err := p.Value(arm)
	if err != nil {
		return err
	}
	s.Regret += p.Best() - value
	s.Value += value
	return nil
}
