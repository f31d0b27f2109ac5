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

	"github.com/riffle-dp/riffle/internal/lab/evaluate"
	"github.com/riffle-dp/riffle/internal/lab/simulate"
	"github.com/riffle-dp/riffle/pkg/glm"
)

// logger writes every decision of a player with its odds and its reward.
type logger struct {
	simulate.Player
	odds simulate.Chancer
	out  *evaluate.Writer
	last evaluate.Decision
}

// Choose implements simulate.Player.
func (l *logger) Choose(arms [][]float64) (int, error) {
	arm, err := l.Player.Choose(arms)
	if err == nil {
		l.last = evaluate.Decision{Arms: slices.Clone(arms), Arm: arm, Propensity: l.odds.Propensity()}
	}
	return arm, err
}

// Learn implements simulate.Player.
func (l *logger) Learn(reward float64) error {
	l.last.Reward = reward
	if err := l.out.Write(l.last); err != nil {
		return err
	}
	return l.Player.Learn(reward)
}

// logged has the player's decisions written to a file in the folder, and its last policy beside it, when closed. A player that does not
// know its odds plays without a log.
func (j job) logged(player simulate.Player, folder string) (simulate.Player, func() error, error) {
	odds, ok := player.(simulate.Chancer)
	if folder == "" || !ok {
		return player, func() error { return nil }, nil
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
		last, ok := player.(interface{ FinalPolicy() (glm.Policy, error) })
		if err != nil || !ok {
			return err
		}
		p, err := last.FinalPolicy()
		if err != nil {
			return nil // interrupted: there is no last policy
		}
		text, err := json.MarshalIndent(p, "", "  ")
		if err != nil {
			return err
		}
		return os.WriteFile(path+".policy.json", append(text, '\n'), 0o644)
	}
	return &logger{Player: player, odds: odds, out: evaluate.NewWriter(lines)}, done, nil
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
