package predict

import (
	"fmt"
	"math"
	"math/rand/v2"

	"github.com/riffle-dp/riffle/internal/population"
	"github.com/riffle-dp/riffle/pkg/convex"
	"github.com/riffle-dp/riffle/pkg/glm/family"
)

// Decision is one line of a log: the options that could be played, the one that was, and its reward.
type Decision struct {
	Arms   [][]float64
	Arm    int
	Reward float64
}

// Logged is the people of a log: their options are drawn from its lines, with repetition, and their rewards follow a
// model fitted to it.
type Logged struct {
	family   family.Family
	lines    [][][]float64
	theta    []float64
	constant int
	facts    LogFacts
}

// LogFacts describe the model of a log. They describe the people in the log, without any noise: they are for those who
// hold it. Their JSON form is a stable interface.
type LogFacts struct {
	Decisions int `json:"decisions"`
	Options   int `json:"options"` // that every decision has
	// Effect is what the fitted model says: by how much the option that it holds best for a person exceeds the best
	// constant one. The ridge takes away what the log does not tell from chance, so that it is too small in a small
	// log: of .1 among 3 options with a context of 3, .02 on average from 160 decisions, .05 from 320, .09 from 1500.
	Effect float64 `json:"effect"`
	// Checked is the gain of choosing by a fit to one half of the log, valued by a fit to the other half, which chance
	// does not make larger: the mean over both ways.
	Checked float64 `json:"checked_effect"`
}

// FromLog fits the family's model to the decisions of a log, with the ridge with which a fit to one half predicts the
// other one best. The fit has no noise. Vectors longer than 1 are scaled to 1, as devices do.
func FromLog(decisions []Decision, f family.Family) (*Logged, error) {
	if len(decisions) < 2 {
		return nil, fmt.Errorf("%w: a log of %d decisions: at least 2 are needed to fit a model", ErrOptions,
			len(decisions))
	}
	l := &Logged{family: f}
	played, rewards := make([][]float64, 0, len(decisions)), make([]float64, 0, len(decisions))
	l.facts = LogFacts{Decisions: len(decisions), Options: math.MaxInt}
	for _, d := range decisions {
		arms := make([][]float64, len(d.Arms))
		for i, x := range d.Arms {
			arms[i], _ = convex.ToUnitBall(x)
		}
		l.lines = append(l.lines, arms)
		l.facts.Options = min(l.facts.Options, len(arms))
		played, rewards = append(played, arms[d.Arm]), append(rewards, d.Reward)
	}
	if l.facts.Options < 2 {
		return nil, fmt.Errorf("%w: a decision of the log has one option: there must be 2 or more to choose from",
			ErrOptions)
	}
	zero := make([]float64, l.Dimension())
	ridge, halves, err := chooseRidge(f, played, rewards, zero)
	if err != nil {
		return nil, fmt.Errorf("predict: fit to half of the log: %w", err)
	}
	if l.theta, err = fit(f, played, rewards, ridge, zero, logTolerance); err != nil {
		return nil, fmt.Errorf("predict: fit to the log: %w", err)
	}
	l.constant, l.facts.Effect = l.gain(l.lines, l.theta, l.theta)
	for h, theta := range halves {
		_, gain := l.gain(l.lines, theta, halves[1-h])
		l.facts.Checked += gain / 2
	}
	return l, nil
}

// Dimension is that of the log's vectors.
func (l *Logged) Dimension() int { return len(l.lines[0][0]) }

// Facts describe the log.
func (l *Logged) Facts() LogFacts { return l.facts }

// gain is that of choosing by one parameter over the option that is best for everybody, both valued by another one.
func (l *Logged) gain(lines [][][]float64, choose, value []float64) (constant int, gain float64) {
	sums, chosen := make([]float64, l.facts.Options), 0.0
	for _, arms := range lines {
		a, _ := population.GreedyArm(arms, choose)
		chosen += clampedMean(l.family, convex.Dot(arms[a], value))
		for k := range sums {
			sums[k] += clampedMean(l.family, convex.Dot(arms[k], value))
		}
	}
	for k, s := range sums {
		if s > sums[constant] {
			constant = k
		}
	}
	return constant, (chosen - sums[constant]) / float64(len(lines))
}

// world implements Source: every run has the same model and people of its own.
func (l *Logged) world(int) (*world, error) {
	return &world{model: family.Environment{Family: l.family, Theta: l.theta}, constant: l.constant,
		norm: convex.Norm(l.theta),
		draw: func(r *rand.Rand) [][]float64 { return l.lines[r.IntN(len(l.lines))] }}, nil
}

// ridges are those tried for a log.
var ridges = []float64{0.01, 0.03, 0.1, 0.3, 1, 3, 10, 30, 100}

// chooseRidge is the ridge for which fits to the halves of the records, every other one, have the least loss on the
// respective other half; and these fits.
func chooseRidge(f family.Family, arms [][]float64, rewards, start []float64) (ridge float64, halves [2][]float64,
	err error) {
	var parts [2][][]float64
	var got [2][]float64
	for i, x := range arms {
		parts[i%2], got[i%2] = append(parts[i%2], x), append(got[i%2], rewards[i])
	}
	least := math.Inf(1)
	for _, tried := range ridges {
		var fits [2][]float64
		loss := 0.0
		for h := range fits {
			if fits[h], err = fit(f, parts[h], got[h], tried, start, logTolerance); err != nil {
				return 0, halves, err
			}
			for i, x := range parts[1-h] {
				loss += family.Loss(f, convex.Dot(x, fits[h]), got[1-h][i])
			}
		}
		if loss < least {
			least, ridge, halves = loss, tried, fits
		}
	}
	return ridge, halves, nil
}
