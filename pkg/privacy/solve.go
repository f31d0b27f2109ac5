package privacy

import (
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/riffle-dp/riffle/pkg/protocol"
)

// Defaults and limits of a Request.
const (
	// DefaultTailShare is the share of delta that all tails of all coordinates and releases of a record may take
	// together. A few per cent are a good balance: a larger share leaves less mu, a smaller one a worse certificate.
	DefaultTailShare = 0.02
	// DefaultVarianceRatio is the noise variance that a release may have, over that of a trusted curator's Gaussian
	// mechanism. 2 needs about half the messages of 1.2 and is hidden by the sampling error of a cohort.
	DefaultVarianceRatio = 2
	// MaxNoiseBits bounds the search for noise bits; beyond it the ratio no longer improves.
	MaxNoiseBits = 1 << 12
	// MaxLevels bounds the levels of a coordinate that is certified: up to here the arithmetic of encoding a value
	// (2^-32 + 2^-51*levels per coordinate, see protocol's Encoding.ShiftSlack) stays within the 2^-31 levels that the
	// certificate adds to every coordinate.
	MaxLevels = 1 << 18
)

// ErrRequest says that a field of a Request is out of range. It is wrapped with the field and its value.
var ErrRequest = errors.New("privacy: invalid request")

// Request describes the releases that will use one record, and what they may cost.
type Request struct {
	Epsilon, Delta float64 // the guarantee for one record over all its releases
	// Cohort is the number of reports expected; errors are predicted for it. MinCohort is the fewest that are ever
	// released and MaxDishonest the most of them that may withhold their noise: only the noise of MinCohort -
	// MaxDishonest devices counts.
	Cohort, MinCohort, MaxDishonest int
	// Releases are the vectors of all rounds in order, Shares their parts of the budget mu^2; a nil Shares divides it
	// evenly. Shares are scaled to sum to 1.
	Releases []Vector
	Shares   []float64

	TailShare float64 // 0: DefaultTailShare
	// VarianceRatio is the largest noise variance of a release, over that of a trusted curator's Gaussian mechanism
	// that divides the same budget by Shares. 0: the least that MaxMessages allows, or DefaultVarianceRatio without it.
	VarianceRatio float64
	// MaxShift caps diameter times scale, in levels: a release at the cap may miss VarianceRatio. 0: no cap.
	MaxShift  float64
	NoiseBits uint32 // fixes the noise bits; 0: searched
	// Biases are the biases to search; nil: one half only. If there are several, their halves serve too where budget is
	// left over.
	Biases      []protocol.Bias
	MaxMessages int // bit messages of one device over all releases; 0: no limit
	// ShiftOnly certifies each release by its shift alone, without the ranges of single coordinates. It is for later
	// rounds that are encoded at public iterates not known yet: their ranges may change while their shifts may not.
	ShiftOnly bool
	// Certify computes what releases with these encodings reveal together when the given number of devices is honest,
	// where that is less than the sum of what each reveals by itself, as CertifyJoint finds; the solver uses the
	// difference. Nil: the sum.
	Certify func(encodings []protocol.Encoding, honest int) (Guarantee, error)
}

// SolvedRelease is one release of a Solution.
type SolvedRelease struct {
	Statistic string            `json:"statistic"` // name of the vector
	Encoding  protocol.Encoding `json:"encoding"`
	Shift     float64           `json:"shift"` // diameter times scale: what the guarantee is computed from
	Guarantee Guarantee         `json:"guarantee"`
	Messages  int               `json:"messages"` // of one device
	// Deviation is the standard deviation of each released sum at worst, in data units; Central that of a trusted
	// curator's Gaussian mechanism which divides the same budget by the same shares; VarianceRatio the square of their
	// ratio.
	Deviation     float64 `json:"deviation"`
	Central       float64 `json:"central_deviation"`
	VarianceRatio float64 `json:"variance_ratio"`
	// Limit says what keeps the scale from being larger: the privacy budget, or something else that leaves budget to
	// spare.
	Limit Limit `json:"limit"`
	// What SolveSums adds. IdealRatio is the variance over that of Gaussian noise in the same place, certified in the same
	// way: one curator's, each server's where several add noise, or each device's where a device has no other protection.
	// ServerNoise is what each server must add, in noise bits per coordinate.
	IdealRatio  float64 `json:"ideal_ratio,omitempty"`
	ServerNoise uint64  `json:"server_noise,omitempty"`
	// Poison is by how many standard deviations of a coordinate's error one dishonest report can move that coordinate.
	Poison float64 `json:"poison,omitempty"`

	release Release
}

// Limit names what bounds the scale of a release.
type Limit string

const (
	// LimitPrivacy: a larger scale would exceed the release's part of the budget.
	LimitPrivacy Limit = "privacy"
	// LimitMessages: a larger scale would need more messages than are allowed or useful.
	LimitMessages Limit = "messages"
	// LimitShift: a larger scale would exceed MaxShift or MaxLevels. The privacy is better than asked.
	LimitShift Limit = "shift"
)

// Solution is what a Request costs and gives.
type Solution struct {
	Releases  []SolvedRelease `json:"releases"`
	Guarantee Guarantee       `json:"guarantee"`
	Epsilon   float64         `json:"epsilon"` // what the guarantee gives at Delta; at most what was asked
	Delta     float64         `json:"delta"`
	TailDelta float64         `json:"tail_delta"` // per coordinate
	Messages  int             `json:"messages"`   // of one device over all releases
	// Unused is the part of the budget mu^2 that no release can use, because each of them is limited by something else.
	Unused float64 `json:"unused_budget"`
	// EntryBits is the width of an entry of a report of numbers (SolveSums); 0 for bit messages.
	EntryBits int `json:"entry_bits,omitempty"`

	certify func(encodings []protocol.Encoding, honest int) (Guarantee, error)
}

// At is the guarantee of the solution when the given number of honest devices report: with the whole cohort present, it
// is better than promised. Fewer than one device is ErrRequest.
func (p Solution) At(honest int) (Guarantee, error) {
	if honest < 1 || len(p.Releases) == 0 {
		return NoGuarantee(), fmt.Errorf("%w: %d honest reports for %d releases", ErrRequest, honest, len(p.Releases))
	}
	if p.certify != nil {
		encodings := make([]protocol.Encoding, len(p.Releases))
		for i, rel := range p.Releases {
			encodings[i] = rel.Encoding
		}
		return p.certify(encodings, honest)
	}
	gs := make([]Guarantee, 0, len(p.Releases))
	for i, rel := range p.Releases {
		r := rel.release
		r.Noise = uint64(honest) * uint64(rel.Encoding.NoiseBits)
		if i > 0 && sameRelease(p.Releases[i-1], rel) {
			gs = append(gs, gs[i-1])
			continue
		}
		g, err := Certify(r)
		if err != nil {
			return NoGuarantee(), err
		}
		gs = append(gs, g)
	}
	return Compose(gs...), nil
}

func sameRelease(a, b SolvedRelease) bool {
	x, y := a.release, b.release
	return x.Shift == y.Shift && x.Bias == y.Bias && x.TailDelta == y.TailDelta &&
		a.Encoding.NoiseBits == b.Encoding.NoiseBits && slices.Equal(x.Blocks, y.Blocks)
}

// Infeasible says which constraint of a request cannot be met together with the others, and what would satisfy it.
type Infeasible struct {
	Constraint string // name of the binding field of Request
	Reason     string
	Remedy     string
	Messages   int // where MaxMessages is the constraint: the fewest that would do
}

func (e *Infeasible) Error() string {
	return fmt.Sprintf("privacy: no plan: %s: %s; %s", e.Constraint, e.Reason, e.Remedy)
}

// Solve finds the fewest bit messages of each release that meet the variance ratio within the budget, or the least
// common variance ratio within a number of messages, by searching noise bits, bias and scale. Among equal numbers of
// messages it takes the largest scale, that is the least error. What a release leaves of its part of the budget goes to
// those that the budget limits. The guarantee is computed from the encodings themselves, as a device does it.
//
// An *Infeasible error names the constraint that cannot be met; ErrRequest and ErrTarget mean a field out of range.
func Solve(r Request) (Solution, error) {
	s, err := newSolver(r)
	if err != nil {
		return Solution{}, err
	}
	return s.solve(r)
}

// Frontier is Solve for several variance ratios, for little more than the price of one: it shows what error costs in
// messages. Ratios that cannot be met are left out. MaxMessages does not apply; the other fields do.
func Frontier(r Request, ratios []float64) ([]Solution, error) {
	r.MaxMessages = 0
	s, err := newSolver(r)
	if err != nil {
		return nil, err
	}
	s.steps = quickSteps
	var out []Solution
	for _, ratio := range ratios {
		r.VarianceRatio = ratio
		p, err := s.solve(r)
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
	// jointMargin is the part of mu that is held back where releases are certified together: the bounds of how far they
	// can move together are accurate to 2e-3 of mu^2 (glm.JointSpread), and a device may find one that is larger by as
	// much.
	jointMargin = 1e-3
)

// solve answers a request that differs from the solver's own in VarianceRatio and MaxMessages at most.
//
// Every release first gets its share of the budget. If the releases reveal less than the budget together, because one
// of them is limited by something else or because no pair of records is far apart in all of them, all budgets are
// raised by a common factor until the releases' own certificate is at the budget. Every step takes only what is
// certified within the budget.
func (s *solver) solve(r Request) (Solution, error) {
	ratio := r.VarianceRatio
	if ratio == 0 && r.MaxMessages == 0 && r.NoiseBits == 0 {
		ratio = DefaultVarianceRatio
	}
	if ratio != 0 && !(ratio > 1) || math.IsInf(ratio, 1) {
		return Solution{}, &Infeasible{Constraint: "VarianceRatio",
			Reason: fmt.Sprintf("%v is not above the central Gaussian mechanism's variance, or not finite", ratio),
			Remedy: "ask for a finite ratio above 1; 1.2 is close to what any number of messages can give"}
	}
	try := func(factor float64) ([]option, Guarantee, error) {
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
			return nil, NoGuarantee(), err
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
	for range s.steps {
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

// total is the whole budget's mu.
func (s *solver) total() float64 {
	var sum float64
	for _, m := range s.budget.Mu {
		sum += m * m
	}
	return math.Sqrt(sum)
}

// hungry says whether a larger budget would let some release have a larger scale.
func hungry(options []option) bool {
	for _, o := range options {
		if o.limit == LimitPrivacy {
			return true
		}
	}
	return false
}

// together is what certified options reveal.
func (s *solver) together(options []option) (Guarantee, error) {
	if s.request.Certify == nil {
		gs := make([]Guarantee, len(options))
		for i, o := range options {
			gs[i] = o.guarantee
		}
		return Compose(gs...), nil
	}
	encodings := make([]protocol.Encoding, len(options))
	for i, o := range options {
		var err error
		if encodings[i], err = EncodingAt(s.request.Releases[i], o.scale, o.noiseBits, o.bias); err != nil {
			return NoGuarantee(), err
		}
	}
	return s.request.Certify(encodings, s.honest)
}

// better says whether a beats b: by messages first and error second, or the other way round.
func better(a, b []option, errorFirst bool) bool {
	x, y := summarise(a), summarise(b)
	if errorFirst && x.largest != y.largest {
		return x.largest < y.largest
	}
	if !errorFirst && x.messages != y.messages {
		return x.messages < y.messages
	}
	return x.product < y.product*(1-1e-9)
}

type summary struct {
	messages         int
	largest, product float64 // of the variance ratios
}

func summarise(options []option) summary {
	s := summary{product: 1}
	for _, o := range options {
		s.messages += o.messages
		s.largest = math.Max(s.largest, o.ratio)
		s.product *= o.ratio
	}
	return s
}

// solution turns options into a Solution and checks that it keeps its promise.
func (s *solver) solution(options []option, g Guarantee) (Solution, error) {
	r := s.request
	p := Solution{Delta: r.Delta, TailDelta: s.budget.TailDelta, Guarantee: g, certify: r.Certify}
	for i, o := range options {
		v := r.Releases[i]
		encoding, err := EncodingAt(v, o.scale, o.noiseBits, o.bias)
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
	if p.Epsilon = p.Guarantee.Epsilon(r.Delta); !(p.Epsilon <= r.Epsilon) {
		return Solution{}, fmt.Errorf("privacy: the solution's own certificate gives epsilon %v instead of %v: "+
			"this is a defect of the solver", p.Epsilon, r.Epsilon)
	}
	return p, nil
}
