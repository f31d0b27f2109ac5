package experiment

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/riffle-dp/riffle/internal/play"
	"github.com/riffle-dp/riffle/internal/population/decisions"
	"github.com/riffle-dp/riffle/pkg/glm"
)

// logger writes every decision of an algorithm with its propensity and its reward.
type logger struct {
	play.Algorithm
	randomized play.Randomized
	out        *decisions.Writer
	last       decisions.Decision
}

// Choose implements play.Algorithm.
func (l *logger) Choose(arms [][]float64) (int, error) {
	arm, err := l.Algorithm.Choose(arms)
	if err == nil {
		l.last = decisions.Decision{Arms: slices.Clone(arms), Arm: arm, Propensity: l.randomized.Propensity()}
	}
	return arm, err
}

// Learn implements play.Algorithm.
func (l *logger) Learn(reward float64) error {
	l.last.Reward = reward
	if err := l.out.Write(l.last); err != nil {
		return err
	}
	return l.Algorithm.Learn(reward)
}

// withLog wraps an algorithm so that its decisions are written to a file in the folder. The function that it returns
// closes the file and writes the last policy to another. An algorithm that does not know its propensities plays without
// a log.
func (j job) withLog(algorithm play.Algorithm, folder string) (play.Algorithm, func() error, error) {
	randomized, ok := algorithm.(play.Randomized)
	if folder == "" || !ok {
		return algorithm, func() error { return nil }, nil
	}
	if err := os.MkdirAll(folder, 0o755); err != nil {
		return nil, nil, err
	}
	path := filepath.Join(folder, j.file())
	f, err := os.Create(path + ".jsonl")
	if err != nil {
		return nil, nil, err
	}
	lines := bufio.NewWriter(f)
	done := func() error {
		err := errors.Join(lines.Flush(), f.Close())
		last, ok := algorithm.(interface{ FinalPolicy() (glm.Policy, error) })
		if err != nil || !ok {
			return err
		}
		p, err := last.FinalPolicy()
		if err != nil {
			return nil // interrupted, so there is no last policy
		}
		text, err := json.MarshalIndent(p, "", "  ")
		if err != nil {
			return err
		}
		return os.WriteFile(path+".policy.json", append(text, '\n'), 0o644)
	}
	return &logger{Algorithm: algorithm, randomized: randomized, out: decisions.NewWriter(lines)}, done, nil
}

// file names the job's log.
func (j job) file() string {
	name := fmt.Sprintf("%s %s T=%d", j.Algorithm.Name, j.Environment.Label(), j.Horizon)
	if j.Epsilon > 0 {
		name += fmt.Sprintf(" epsilon=%g", j.Epsilon)
	}
	name += fmt.Sprintf(" seed=%d", j.Seed)
	return strings.Map(func(r rune) rune {
		switch {
		case r == ' ' || r == '/' || r == '\\' || r == ':':
			return '-'
		case r < ' ':
			return -1
		}
		return r
	}, name)
}
