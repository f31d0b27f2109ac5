package simulate

import (
	"context"
	"fmt"
	"iter"

	"github.com/riffle-dp/riffle/internal/lab/population"
)

// Player is one algorithm in one run. Choose and Learn alternate, person by person.
type Player interface {
	// Choose picks an arm for the next person, an index into arms. It must not keep or change arms.
	Choose(arms [][]float64) (int, error)
	// Learn takes the reward of the arm just chosen. It must not be called after an error of Choose.
	Learn(reward float64) error
}

// Sender is a player whose people's devices send messages.
type Sender interface {
	// MessagesPerPerson is the mean so far: bit messages for the shuffle protocol, one for a report in the clear or with local noise.
	MessagesPerPerson() float64
}

// Chancer is a player that chooses by chance and knows the odds.
type Chancer interface {
	// Propensity is the probability with which the last choice was made, in (0, 1].
	Propensity() float64
}

// Finisher is a player that ends with an estimate of the parameter.
type Finisher interface {
	// Final is the last estimate, to be followed greedily by whoever comes later. It flushes what was learnt; the player is over.
	Final() ([]float64, error)
}

// Score is what a run of a player came to, with its course.
type Score struct {
	People int       // decided for
	Regret float64   // summed over people: value of the best arm less that of the played one
	Value  float64   // mean value of what was played
	Marks  []int     // numbers of people, ascending
	Course []float64 // regret after so many people
}

// Play runs a player over the first horizon people and scores it. marks, ascending, say after how many people the regret is
// noted. progress, which may be nil, is called now and then with the people decided for since its last call.
func Play(ctx context.Context, player Player, people iter.Seq2[population.Person, error], horizon int, marks []int, progress func(people int)) (*Score, error) {
	s := &Score{}
	const every = 1024
	for p, err := range people {
		if err != nil {
			return nil, err
		}
		arm, err := player.Choose(p.Arms)
		if err != nil {
			return nil, fmt.Errorf("simulate: person %d: %w", s.People, err)
		}
		reward, err := p.Reward(arm)
		if err != nil {
			return nil, fmt.Errorf("simulate: person %d: %w", s.People, err)
		}
		if err := player.Learn(reward); err != nil {
			return nil, fmt.Errorf("simulate: person %d: %w", s.People, err)
		}
		value, err := p.Value(arm)
		if err != nil {
			return nil, err
		}
		s.Regret += p.Best() - value
		s.Value += value
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
		if s.People == horizon {
			break
		}
	}
	if s.People < horizon {
		return nil, fmt.Errorf("simulate: the population has %d people, fewer than the horizon of %d", s.People, horizon)
	}
	if progress != nil {
		progress(s.People % every)
	}
	s.Value /= float64(s.People)
	return s, nil
}
