package replay

import (
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

	uncertain float64 // standard error of Learning
}

// total is the variance. A part of learning below 0 does not count: it is mostly error, and would make intervals too
// narrow.
func (p Parts) total() float64 { return p.Direct + max(p.Learning, 0) + p.Chance }

// freedom is the number of degrees of freedom: those with which Student's law is that of a variance as uncertain as
// this sum (Satterthwaite's rule). The part of learning has the uncertainty that its groups show.
func (p Parts) freedom(rows, rounds int) float64 {
	n, q := float64(rows-1), float64(rounds-1)
	v := p.total()
	if v == 0 {
		return n
	}
	return max(leastFreedom, v*v/(p.Direct*p.Direct/n+p.uncertain*p.uncertain/2+p.Chance*p.Chance/q))
}

// leastFreedom is enough however uncertain the part of learning is, because a total is never below the other parts:
// where these are .4 to .6 of its mean, with a normal error of .4 to 1 of it, intervals of 95 % hold in .94 to .97.
// A log cannot say whether its part of learning is 0 or that large. Where it is about 0, the floor of the total makes
// up for its error: 1.96 standard errors would do, and intervals hold more (see TestIntervalsHoldLiveRuns).
const leastFreedom = 8

// parts are those of a figure whose rows have these values: their mean scores, or what they are above something else.
//
// What two averages over rounds have in common by chance is subtracted from their product, so that products of
// contrasts with each other, and with scores of runs in which a group was judged, are unbiased.
//
// Direct holds what is left in a row's mean of the rounds' chance, which Chance holds too: with 10 rounds it makes
// intervals 1 to 9 % wider. It is not taken out, because where runs end far apart they hold less often than they say.
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
	terms := make([]float64, groups)
	for g := range groups {
		contrasts, own := make([]float64, len(rests)), make([]float64, len(rests))
		for q, rest := range rests {
			fold := r.o.folds(q)
			own[q] = rest[g]
			for h, v := range rest {
				if h == g {
					continue
				}
				in := -both
				if fold[h] != fold[g] {
					in = 1 - both
				}
				// A contrast is with the mean of the other groups, and a rest lacks its part of the rounds' mean.
				const centred = (groups - 1.0) / groups
				contrasts[q] += centred * rounds / (rounds - 1) * v * in / (both * (1 - both) * (groups - 1))
			}
		}
		b := stat.Mean(contrasts, nil)
		square := b*b - stat.Variance(contrasts, nil)/rounds
		product := (perGroup[g]-mean)*b - stat.Covariance(own, contrasts, nil)/rounds + both*square
		terms[g] = learned * (2*product/groups + learned*square) * groups / (groups - 1)
		p.Learning += terms[g]
	}
	p.uncertain = math.Sqrt(groups * stat.Variance(terms, nil))
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
		for _, parts := range []Parts{o.Parts, p} {
			if v := parts.freedom(n, r.o.Rounds); o.Freedom == 0 || v < o.Freedom {
				o.Freedom = v
			}
		}
	}
	return o, nil
}
