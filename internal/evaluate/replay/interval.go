package replay

import (
	"fmt"
	"math"

	"gonum.org/v1/gonum/stat"
	"gonum.org/v1/gonum/stat/distuv"

	"github.com/riffle-dp/riffle/internal/evaluate"
)

// Parts are the parts of an estimate's variance: see the package.
type Parts struct {
	Direct   float64 `json:"direct"`
	Learning float64 `json:"learning"`
	Chance   float64 `json:"chance"`
}

// total is the variance, which is no less than half of its direct part: the part of learning, which may be below 0, is
// itself uncertain.
func (p Parts) total() float64 { return p.Direct + max(p.Learning, -p.Direct/2) + p.Chance }

// freedom is the number of degrees of freedom, by Satterthwaite's rule. It is that of the part with the fewest at
// least: where a part of learning below 0 makes the sum small, the rule would find fewer than any part has.
func (p Parts) freedom(rows, rounds int) float64 {
	n, q := float64(rows-1), float64(rounds-1)
	v := p.total()
	if v == 0 {
		return n
	}
	parts := p.Direct*p.Direct/n + p.Learning*p.Learning/(groups-1) + p.Chance*p.Chance/q
	return max(min(q, groups-1, n), v*v/parts)
}

// parts are those of a figure whose rows have these values: their mean scores, or what they are above something else.
func (r *replayer) parts(f *figure, values []float64) (p Parts) {
	n, rounds := float64(len(values)), float64(len(f.groups))
	p.Direct = stat.Variance(values, nil) / n
	perGroup, sizes := make([]float64, groups), make([]float64, groups)
	for i, v := range values {
		perGroup[r.group[i]] += v
		sizes[r.group[i]]++
	}
	for g := range perGroup {
		perGroup[g] /= sizes[g]
	}
	mean := stat.Mean(perGroup, nil)
	rests, means := f.rests()
	p.Chance = stat.Variance(means, nil) / rounds

	// both is the chance that a group was learnt from where another one is judged.
	const both = learned * groups / (groups - 1)
	for g := range groups {
		contrasts := make([]float64, len(rests))
		for q, rest := range rests {
			fold := r.o.folds(q)
			for h, v := range rest {
				if h == g {
					continue
				}
				in := -both
				if fold[h] != fold[g] {
					in = 1 - both
				}
				contrasts[q] += v * in / (both * (1 - both) * (groups - 1))
			}
		}
		b := stat.Mean(contrasts, nil) * (groups - 1) / groups
		noise := stat.Variance(contrasts, nil) / rounds
		direct := (perGroup[g] - mean + both*b) / groups
		p.Learning += learned * (2*direct*b + learned*b*b - noise*(2*both/groups+learned)) * groups / (groups - 1)
	}
	return p
}

// rests are the scores of groups in each round without what is the group's or the round's own; means are the rounds'.
func (f *figure) rests() (rests [][]float64, means []float64) {
	perGroup := make([]float64, groups)
	for _, scores := range f.groups {
		means = append(means, stat.Mean(scores, nil))
		for g, s := range scores {
			perGroup[g] += s / float64(len(f.groups))
		}
	}
	all := stat.Mean(means, nil)
	for q, scores := range f.groups {
		rest := make([]float64, groups)
		for g, s := range scores {
			rest[g] = s - perGroup[g] - means[q] + all
		}
		rests = append(rests, rest)
	}
	return rests, means
}

// quantile is that of Student's law for the confidence.
func (r *replayer) quantile(p Parts) float64 {
	return distuv.StudentsT{Sigma: 1, Nu: p.freedom(len(r.log), r.o.Rounds)}.Quantile((1 + r.o.Confidence) / 2)
}

// baselines values what was played, and uniform play.
func (r *replayer) baselines(into *Result) error {
	n := len(r.log)
	rewards, scores, ones, even := make([]float64, n), make([]float64, n), make([]float64, n), make([]float64, n)
	for i, d := range r.log {
		p, err := evaluate.Uniform(d.Arms)
		if err != nil {
			return err
		}
		rewards[i], ones[i] = d.Reward, d.Propensity
		scores[i], even[i] = r.judge.Score(i, p), p[d.Arm]
	}
	for _, one := range []struct {
		into   *evaluate.Estimate
		values []float64
		played []float64
	}{{&into.Logged, rewards, ones}, {&into.Uniform, scores, even}} {
		over, err := r.judge.Overlap(one.played)
		if err != nil {
			return err
		}
		p := Parts{Direct: stat.Variance(one.values, nil) / float64(n)}
		*one.into = r.judge.Mean(over, stat.Mean(one.values, nil), math.Sqrt(p.Direct), r.quantile(p))
	}
	return nil
}

// supported refuses a log whose propensities do not fit how often each arm was played: the weights of a policy that
// always plays one arm have a mean of 1. What the learner plays need not show it, where arms change their places.
func (r *replayer) supported() error {
	most := 0
	for _, d := range r.log {
		most = max(most, len(d.Arms))
	}
	for arm := range most {
		played := make([]float64, len(r.log))
		for i, d := range r.log {
			if d.Arm == arm || d.Arm == 0 && arm >= len(d.Arms) {
				played[i] = 1
			}
		}
		if _, err := r.judge.Overlap(played); err != nil {
			return fmt.Errorf("play of arm %d alone: %w", arm, err)
		}
	}
	return nil
}

// outcome is what a channel's rounds say together.
func (r *replayer) outcome(t *tried) (*Outcome, error) {
	o := &Outcome{Trust: t.channel}
	if t.infeasible != nil {
		o.Infeasible = t.infeasible.Error()
		return o, nil
	}
	o.Cohorts = r.cohorts
	rounds := float64(r.o.Rounds)
	for k, into := range []struct {
		value, over *evaluate.Estimate
		overlap     **evaluate.Overlap
	}{{&o.Learning, &o.LearningOver, &o.LearningOverlap}, {&o.Last, &o.LastOver, &o.Overlap}} {
		f, n := &t.figures[k], len(r.log)
		scores, gains, played := make([]float64, n), make([]float64, n), make([]float64, n)
		for i, d := range r.log {
			scores[i], played[i] = f.scores[i]/rounds, f.played[i]/rounds
			gains[i] = scores[i] - d.Reward
		}
		over, err := r.judge.Overlap(played)
		if err != nil {
			return nil, err
		}
		*into.overlap = over
		o.Parts = r.parts(f, scores)
		*into.value = r.judge.Mean(over, stat.Mean(scores, nil), math.Sqrt(o.Parts.total()), r.quantile(o.Parts))
		p := r.parts(f, gains)
		*into.over = r.judge.Difference(over, stat.Mean(gains, nil), math.Sqrt(p.total()), r.quantile(p))
		if o.Doubt == "" {
			o.Doubt = over.Doubt()
		}
	}
	return o, nil
}
