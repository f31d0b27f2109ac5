package play

import (
	"fmt"
	"slices"

	"github.com/riffle-dp/riffle/pkg/learn"
	"github.com/riffle-dp/riffle/pkg/protocol"
)

// Learned plays a learner of package learn: people decide with the policy in force, and when as many as the question
// wants have decided, the channel answers it.
type Learned struct {
	learner *learn.Learner
	channel *Channel
	devices protocol.Source
	step    learn.Step
	records []learn.Record
	choice  learn.Choice
	arm     []float64
	people  int
}

// NewLearned starts with the learner's first question. It owns the learner.
func NewLearned(l *learn.Learner, c *Channel, devices protocol.Source) *Learned {
	return &Learned{learner: l, channel: c, devices: devices, step: l.Next()}
}

// Choose implements Algorithm.
func (l *Learned) Choose(arms [][]float64) (int, error) {
	choice, err := l.step.Policy.Decide(arms, l.devices)
	if err != nil {
		return 0, err
	}
	if choice.Arm < 0 || choice.Arm >= len(arms) {
		return 0, fmt.Errorf("simulate: a policy chose arm %d of %d", choice.Arm, len(arms))
	}
	l.choice, l.arm = choice, arms[choice.Arm]
	return choice.Arm, nil
}

// Propensity implements Randomized.
func (l *Learned) Propensity() float64 { return l.choice.Propensity }

// Learn implements Algorithm.
func (l *Learned) Learn(reward float64) error {
	l.people++
	if l.step.Done {
		return nil
	}
	l.records = append(l.records, learn.Record{Arm: l.arm, Reward: reward, Tag: l.choice.Tag})
	if len(l.records) < l.step.Question.People {
		return nil
	}
	answer, err := l.channel.Answer(l.step.Question, slices.Values(l.records))
	if err != nil {
		return err
	}
	answer.People = len(l.records)
	l.records = nil // an answer of records keeps them
	if err := l.learner.Absorb(answer); err != nil {
		return err
	}
	l.step = l.learner.Next()
	return nil
}

// MessagesPerPerson implements Sender.
func (l *Learned) MessagesPerPerson() float64 {
	return max(1, l.channel.messages/float64(max(1, l.people)))
}

// Close ends the learner.
func (l *Learned) Close() { l.learner.Close() }
