package regression

import (
	"fmt"
	"math"

	"github.com/riffle-dp/riffle/internal/play"
	"github.com/riffle-dp/riffle/pkg/learn"
	"github.com/riffle-dp/riffle/pkg/plan"
)

// Task is one run of one estimator: everything that its result depends on except the code.
type Task struct {
	Data      Spec               `json:"data"`
	Estimator string             `json:"estimator"`
	Trust     plan.Channel       `json:"trust"`
	Variant   string             `json:"variant,omitempty"`
	Options   map[string]float64 `json:"options,omitempty"`
	People    int                `json:"people"`  // 0: all of the data
	Epsilon   float64            `json:"epsilon"` // 0: no privacy
	Delta     float64            `json:"delta"`
	Failure   float64            `json:"failure"` // of the model's bound
	Seed      uint64             `json:"seed"`
}

// Result is the score of a run.
type Result struct {
	Score
	People int `json:"people"` // who were there to be asked
}

// Run runs a task.
func Run(t Task) (*Result, error) {
	data, err := t.Data.Open(t.Seed, t.People, t.Epsilon)
	if err != nil {
		return nil, err
	}
	if t.People == 0 {
		t.People = data.People
	}
	model, err := t.Fit(data)
	if err != nil {
		return nil, err
	}
	return &Result{Score: data.Score(model), People: t.People}, nil
}

// Fit learns a model from the next people of the data. Its noise comes from a generator of the seed: it protects no
// one.
func (t Task) Fit(data *Data) (learn.Model, error) {
	estimator, err := Find(t.Estimator, t.Trust)
	if err != nil {
		return nil, err
	}
	noise := stream(t.Seed, t.People, 'n')
	s := learn.Setting{Family: data.Family, Dimension: data.Dim, Arms: 1, Horizon: t.People, Radius: data.Radius,
		Epsilon: t.Epsilon, Delta: t.Delta, Failure: t.Failure, Noise: noise, Variant: t.Variant, Options: t.Options}
	if t.Trust == play.Clear {
		s.Epsilon = math.Inf(1)
	}
	channel := &play.Channel{Trust: t.Trust, Epsilon: s.Epsilon, Delta: t.Delta, Noise: noise}
	left := t.People
	model, err := estimator(s, t.People, func(q learn.Question) (learn.Answer, error) {
		if q.People < 1 || q.People > left {
			return learn.Answer{}, fmt.Errorf("%w: the estimator asks %d people, and %d are left", ErrData, q.People,
				left)
		}
		left -= q.People
		people, err := data.Draw(q.People)
		if err != nil {
			return learn.Answer{}, err
		}
		answer, err := channel.Answer(q, people)
		if err != nil {
			return answer, err
		}
		return answer, q.Check(answer)
	})
	if err != nil {
		return nil, fmt.Errorf("regression: %s over %s: %w", t.Estimator, t.Trust, err)
	}
	return model, nil
}
