package calibrate

import (
	"errors"
	"fmt"
	"math"

	"github.com/riffle-dp/riffle/pkg/privacy"
	"github.com/riffle-dp/riffle/pkg/protocol"
)

// Bits finds the fewest bit messages of each release that meet the variance ratio within the budget, or the least
// common variance ratio within a number of messages, by searching noise bits, bias and scale. Among equal numbers of
// messages it takes the largest scale, that is the least error. What a release leaves of its part of the budget goes to
// those that the budget limits. The guarantee is computed from the encodings themselves, as a device does it.
//
// An *Infeasible error names the constraint that cannot be met; privacy.ErrRequest and privacy.ErrTarget mean a field
// out of range.
func Bits(r Request) (Solution, error) {
	s, err := newSolver(r)
	if err != nil {
		return Solution{}, err
	}
	return s.solve(r, relaxSteps)
}

// Frontier is Bits for several variance ratios, for little more than the price of one: it shows what error costs in
// messages. Ratios that cannot be met are left out. MaxMessages does not apply; the other fields do.
func Frontier(r Request, ratios []float64) ([]Solution, error) {
	r.MaxMessages = 0
	s, err := newSolver(r)
	if err != nil {
		return nil, err
	}
	var out []Solution
	for _, ratio := range ratios {
		r.VarianceRatio = ratio
		p, err := s.solve(r, quickSteps)
		var infeasible *Infeasible
		switch {
		case err == nil:
			out = append(out, p)
		case !errors.As(err, &infeasible):
			return nil, err
		}
	}
	return out, nil
}

// Limits of the search for a common factor of all budgets.
const (
	relaxSteps  = 8
	quickSteps  = 2     // of a point of a frontier
	relaxEnough = 0.998 // of the budget
)

// solve answers a request that differs from the solver's own in VarianceRatio and MaxMessages at most.
//
// Every release first gets its share of the budget. If the releases reveal less than the budget together, because one
// of them is limited by something else or because no pair of records is far apart in all of them, all budgets are
// raised by a common factor until the releases' own certificate is at the budget. Every step takes only what is
// certified within the budget.
func (s *solver) solve(r Request, steps int) (Solution, error) {
	ratio := r.VarianceRatio
	if ratio == 0 && r.MaxMessages == 0 && r.NoiseBits == 0 {
		ratio = DefaultVarianceRatio
	}
	if ratio != 0 && !(ratio > 1) || math.IsInf(ratio, 1) {
		return Solution{}, &Infeasible{Constraint: "VarianceRatio",
			Reason: fmt.Sprintf("%v is not above the central Gaussian mechanism's variance, or not finite", ratio),
			Remedy: "ask for a finite ratio above 1; 1.2 is close to what any number of messages can give"}
	}
	try := func(factor float64) ([]option, privacy.Guarantee, error) {
		mu := make([]float64, len(s.budget.Mu))
		for i, m := range s.budget.Mu {
			mu[i] = m * factor
		}
		var options []option
		var err error
		if ratio == 0 {
			options, err = s.leastVariance(mu, r.MaxMessages)
		} else {
			options, err = s.fewestMessages(mu, ratio, r.MaxMessages)
		}
		if err != nil {
			return nil, privacy.NoGuarantee(), err
		}
		g, err := s.together(options)
		return options, g, err
	}
	best, g, err := try(1)
	if err != nil {
		return Solution{}, err
	}
	budget, least := s.total(), math.Inf(1)
	for _, m := range s.budget.Mu {
		least = math.Min(least, m)
	}
	goal := budget
	if r.Certify != nil {
		goal *= 1 - jointMargin
	}
	bestG := g
	factor, lo, hi := 1.0, 1.0, budget/least
	for range steps {
		if !hungry(best) || bestG.Mu >= relaxEnough*goal || hi-lo < 1e-4 {
			break
		}
		next := factor * goal / g.Mu * (1 - 1e-5)
		if !(next > lo && next < hi) {
			next = (lo + hi) / 2
		}
		factor = next
		var options []option
		options, g, err = try(factor)
		var infeasible *Infeasible
		switch {
		case errors.As(err, &infeasible):
			return s.solution(best, bestG)
		case err != nil:
			return Solution{}, err
		case g.Mu > goal:
			hi = factor
			continue
		}
		lo = factor
		if better(options, best, ratio == 0) {
			best, bestG = options, g
		}
	}
	return s.solution(best, bestG)
}

// fewestMessages answers a request for a variance ratio.
func (s *solver) fewestMessages(mu []float64, ratio float64, most int) ([]option, error) {
	options, total, err := s.cheapestAll(mu, ratio)
	if err != nil {
		return nil, err
	}
	if most > 0 && total > most {
		remedy := fmt.Sprintf("allow %d messages, a larger cohort, or a larger variance ratio", total)
		if reached, err := s.leastVariance(mu, most); err == nil {
			remedy = fmt.Sprintf("allow %d messages or a variance ratio of %.3f",
				total, math.Ceil(summarise(reached).largest*1000)/1000)
		}
		return nil, &Infeasible{Constraint: "MaxMessages", Remedy: remedy, Messages: total,
			Reason: fmt.Sprintf("a variance ratio of %g needs %d messages per device, %d are allowed",
				ratio, total, most)}
	}
	return s.finish(mu, options)
}

// total is the whole budget's mu.
func (s *solver) total() float64 {
	var sum float64
	for _, m := range s.budget.Mu {
		sum += m * m
	}
	return math.Sqrt(sum)
}

// together is what certified options reveal.
func (s *solver) together(options []option) (privacy.Guarantee, error) {
	if s.request.Certify == nil {
		gs := make([]privacy.Guarantee, len(options))
		for i, o := range options {
			gs[i] = o.guarantee
		}
		return privacy.Compose(gs...), nil
	}
	encodings := make([]protocol.Encoding, len(options))
	for i, o := range options {
		var err error
		if encodings[i], err = privacy.EncodingAt(s.request.Releases[i], o.scale, o.noiseBits, o.bias); err != nil {
			return privacy.NoGuarantee(), err
		}
	}
	return s.request.Certify(encodings, s.honest)
}

// solution turns options into a Solution and checks that it keeps its promise.
func (s *solver) solution(options []option, g privacy.Guarantee) (Solution, error) {
	r := s.request
	p := Solution{Delta: r.Delta, TailDelta: s.budget.TailDelta, Guarantee: g, certify: r.Certify}
	for i, o := range options {
		v := r.Releases[i]
		encoding, err := privacy.EncodingAt(v, o.scale, o.noiseBits, o.bias)
		if err != nil {
			return Solution{}, err
		}
		release, err := s.release(v, encoding)
		if err != nil {
			return Solution{}, err
		}
		variance, central := s.variance(o.noiseBits, o.bias, o.scale), v.Diameter/s.budget.Mu[i]
		p.Releases = append(p.Releases, SolvedRelease{
			Statistic: v.Name, Encoding: encoding, Shift: release.Shift, Guarantee: o.guarantee,
			Messages: encoding.Messages(), Deviation: math.Sqrt(variance), Central: central,
			VarianceRatio: variance / (central * central), Limit: o.limit, release: release,
		})
		p.Messages += encoding.Messages()
	}
	p.Unused = math.Max(0, 1-g.Mu*g.Mu/(s.total()*s.total()))
	if p.Epsilon = p.Guarantee.Epsilon(r.Delta); !(p.Epsilon <= r.Epsilon*(1-privacy.Agreement)) {
		return Solution{}, fmt.Errorf("privacy: the solution's own certificate gives epsilon %v instead of %v: "+
			"this is a defect of the solver", p.Epsilon, r.Epsilon)
	}
	return p, nil
}
