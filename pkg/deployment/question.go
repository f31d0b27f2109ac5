package deployment

import (
	"encoding/json"
	"errors"
	"fmt"

	"github.com/riffle-dp/riffle/pkg/channel/registry"
	"github.com/riffle-dp/riffle/pkg/glm/family"
	"github.com/riffle-dp/riffle/pkg/glm/learner"
	"github.com/riffle-dp/riffle/pkg/glm/statistic"
	"github.com/riffle-dp/riffle/pkg/plan"
	"github.com/riffle-dp/riffle/pkg/strict"
)

// ErrQuestion wraps every reason not to ask a question.
var ErrQuestion = errors.New("deployment: the question cannot be asked")

// ErrAsked is the ErrQuestion that a question of this name was asked before.
var ErrAsked = fmt.Errorf("%w", ErrQuestion)

// Begins reports whether Next draws up the first round of an epoch, so that a question can be asked in it.
func (m *Machine) Begins() bool {
	return m.open == nil && m.first == nil && m.asked == nil && !m.step.Done
}

// Ask has the panel of the epoch that is announced next answer a question in place of teaching the learner: the policy
// in force stays, the learner is told nothing, and the epoch after it goes on where the one before it stood. The plan
// keeps the terms, so that the question costs a person who is in the panel what any epoch does: one of Terms.Records.
//
// The answer's kind is that of the plan's one release. Errors: ErrQuestion, with what is wrong; ErrOrder where an epoch
// has begun.
func (m *Machine) Ask(kind statistic.Kind, q *statistic.Question) error {
	if m.open != nil || m.first != nil || m.asked != nil {
		return fmt.Errorf("%w: a question is asked before its epoch begins", ErrOrder)
	}
	step, _, err := m.asking(kind, q)
	if err == nil {
		m.asked = step
	}
	return err
}

// Asking is what would be announced of a question's epoch, as far as its plan goes, if it were asked now; nothing is.
// payload is the length in bytes of the payload of a report. Errors: ErrQuestion.
func (m *Machine) Asking(kind statistic.Kind, q *statistic.Question) (a *plan.Announcement, payload int, err error) {
	_, a, err = m.asking(kind, q)
	if err != nil {
		return nil, 0, err
	}
	return a, registry.PayloadSize(m.c.Terms.Channel, a.Encodings), nil
}

// asking is the step of an epoch that asks a question: the learner's, but for what is released.
func (m *Machine) asking(kind statistic.Kind, q *statistic.Question) (*learner.Step, *plan.Announcement, error) {
	wrong := func(err error) (*learner.Step, *plan.Announcement, error) {
		return nil, nil, fmt.Errorf("%w: %w", ErrQuestion, err)
	}
	switch {
	case !kind.Asked():
		return wrong(fmt.Errorf("%q answers none: want %s, %s or %s", kind, statistic.Mean, statistic.Histogram,
			statistic.Fit))
	case m.step.Done:
		return wrong(errors.New("the last policy is out, and nobody reports any more"))
	case m.c.Terms.Registered == 0:
		return wrong(errors.New("questions are for panels of registered devices (admission.mode panel); in this " +
			"deployment each person reports once, to the learner"))
	}
	if err := q.Validate(kind, m.c.Learner.Dimension); err != nil {
		return wrong(err)
	}
	if m.names[q.Name] {
		return nil, nil, fmt.Errorf("%w: the name %q was given to a question before: give this one another", ErrAsked,
			q.Name)
	}
	rewards, err := family.New(m.c.Learner.Family, m.c.Learner.MaxReward)
	if err != nil {
		return wrong(err)
	}
	step := m.step
	step.Statistics = [][]statistic.Statistic{{{Kind: kind, Family: rewards, ArmDim: step.Policy.Dimension,
		Structure: step.Policy.Structure, Question: q.Clone()}}}
	step.Shares = [][]float64{{1}}
	a := &plan.Announcement{Epoch: m.epoch, Policy: step.Policy, Schema: m.c.Schema}
	a.Evaluate(step)
	if err := m.plan(a, step); err != nil {
		return wrong(err)
	}
	return &step, a, nil
}

// current is the step of the round that is announced next.
func (m *Machine) current() learner.Step {
	if m.asked != nil {
		return *m.asked
	}
	return m.step
}

// answered ends an epoch that asked a question.
func (m *Machine) answered() {
	m.names[m.asked.Statistics[0][0].Question.Name] = true
	m.asked = nil
}

// asked is a question as a file has it.
type asked struct {
	Ask   statistic.Kind `json:"ask"`
	Name  string         `json:"name"`
	Of    []askedOf      `json:"of"`
	Edges []float64      `json:"edges,omitempty"`
}

type askedOf struct {
	Entries []int   `json:"entries,omitempty"`
	Low     float64 `json:"low"`
	High    float64 `json:"high"`
}

// MaxQuestionFile bounds the bytes of a question's file.
const MaxQuestionFile = 64 << 10

// QuestionFile is a question as JSON, by which it is handed to an analyzer.
func QuestionFile(kind statistic.Kind, q *statistic.Question) ([]byte, error) {
	f := asked{Ask: kind, Name: q.Name, Edges: q.Edges}
	for _, of := range q.Of {
		f.Of = append(f.Of, askedOf(of))
	}
	out, err := json.MarshalIndent(f, "", "  ")
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrQuestion, err)
	}
	return append(out, '\n'), nil
}

// ReadQuestion reads what QuestionFile wrote. Whether it can be asked is for Machine.Ask. Errors: ErrQuestion.
func ReadQuestion(text []byte) (statistic.Kind, *statistic.Question, error) {
	var f asked
	if len(text) > MaxQuestionFile {
		return "", nil, fmt.Errorf("%w: its file has more than %d bytes", ErrQuestion, MaxQuestionFile)
	}
	if err := strict.Unmarshal(text, &f, strict.Options{}); err != nil {
		return "", nil, fmt.Errorf("%w: its file is not one that riffle ask writes: %w", ErrQuestion, err)
	}
	q := &statistic.Question{Name: f.Name, Edges: f.Edges}
	for _, of := range f.Of {
		q.Of = append(q.Of, statistic.Quantity(of))
	}
	return f.Ask, q, nil
}
