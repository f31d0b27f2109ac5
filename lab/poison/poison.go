// Package poison measures what dishonest devices cost the people of a deployment: the regret of its learner while a
// share of the devices report what hurts it most.
//
// Policies, learner, statistics, plans, encodings and noise are those of the deployed roles, in one process. A
// dishonest device can do here what its channel lets it do (plan.Influence), together with all others of its cohort;
// its own decisions are made and scored like anybody's, so that all runs have as many. It protects no one.
package poison

import (
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"iter"
	"math"
	"math/rand/v2"
	"slices"

	"github.com/riffle-dp/riffle/internal/play"
	"github.com/riffle-dp/riffle/internal/population"
	"github.com/riffle-dp/riffle/lab/environment"
	"github.com/riffle-dp/riffle/pkg/channel/simulated"
	"github.com/riffle-dp/riffle/pkg/glm/learner"
	"github.com/riffle-dp/riffle/pkg/glm/statistic"
	"github.com/riffle-dp/riffle/pkg/plan"
	"github.com/riffle-dp/riffle/pkg/protocol"
)

// ErrSetting wraps every reason to refuse a Setting.
var ErrSetting = errors.New("poison: bad setting")

// Strategy is what dishonest devices report.
type Strategy string

// The strategies.
const (
	// AllOnes sends ones only: the most that passes on every number at once.
	AllOnes Strategy = "all ones"
	// Flip follows the protocol with the reward turned around: the largest for the smallest. No channel can tell it.
	Flip Strategy = "flip the reward"
	// Promote moves the gradient as far as the channel lets it in the direction in which the estimate comes to prefer
	// the arms that are worst in truth, which the devices know. What they say of the Hessian is what the null record
	// says.
	Promote Strategy = "promote the worst"
)

// Strategies lists the strategies.
func Strategies() []Strategy { return []Strategy{AllOnes, Flip, Promote} }

// Setting is everything that a comparison depends on besides the program. The zero value of a field is its default.
type Setting struct {
	People    int     `json:"people"`    // who decide, one after the other, default 5000
	Dimension int     `json:"dimension"` // of an arm's vector, default 5
	Arms      int     `json:"arms"`      // drawn for each person from the unit ball, default 10
	Norm      float64 `json:"norm"`      // of the true parameter, and the learner's bound on it; default 3
	Epsilon   float64 `json:"epsilon"`   // of each person's guarantee, default plan.DefaultEpsilon
	Delta     float64 `json:"delta"`     // default plan.DefaultDelta
	// DishonestReports is how many of a cohort's reports the plan lets go without noise (plan.Terms).
	DishonestReports int            `json:"dishonest_reports"`
	Channels         []plan.Channel `json:"channels"` // default all
	Strategies       []Strategy     `json:"strategies"`
	// Shares of the devices that are dishonest, above 0 and below 1; default 0.1 %, 1 % and 5 %.
	Shares []float64 `json:"shares"`
}

// Resolve checks the setting and fills in the defaults. Errors wrap ErrSetting.
func (s Setting) Resolve() (Setting, error) {
	s.People, s.Dimension, s.Arms = cmp.Or(s.People, 5000), cmp.Or(s.Dimension, 5), cmp.Or(s.Arms, 10)
	s.Norm, s.Epsilon = cmp.Or(s.Norm, 3), cmp.Or(s.Epsilon, plan.DefaultEpsilon)
	s.Delta = cmp.Or(s.Delta, plan.DefaultDelta)
	if len(s.Channels) == 0 {
		s.Channels = plan.Channels()
	}
	if len(s.Strategies) == 0 {
		s.Strategies = Strategies()
	}
	if len(s.Shares) == 0 {
		s.Shares = []float64{0.001, 0.01, 0.05}
	}
	if s.DishonestReports < 0 {
		return s, fmt.Errorf("%w: %d dishonest reports are expected, want 0 or more", ErrSetting, s.DishonestReports)
	}
	if s.People < 1 || s.Dimension < 1 || s.Arms < 2 {
		return s, fmt.Errorf("%w: %d people, %d dimensions and %d arms: at least 1, 1 and 2 are needed", ErrSetting,
			s.People,
			s.Dimension, s.Arms)
	}
	for _, c := range s.Channels {
		if !slices.Contains(plan.Channels(), c) {
			return s, fmt.Errorf("%w: the channel %q is none of %v", ErrSetting, c, plan.Channels())
		}
	}
	for _, of := range s.Strategies {
		if !slices.Contains(Strategies(), of) {
			return s, fmt.Errorf("%w: the strategy %q is none of %q", ErrSetting, of, Strategies())
		}
	}
	for _, share := range s.Shares {
		if !(share > 0 && share < 1) {
			return s, fmt.Errorf("%w: a share %v of the devices, want one above 0 and below 1", ErrSetting, share)
		}
	}
	return s, nil
}

// stream is the random words of a run for one purpose.
func stream(seed uint64, purpose byte) *rand.ChaCha8 {
	key := [32]byte{8: purpose}
	binary.LittleEndian.PutUint64(key[:], seed)
	return rand.NewChaCha8(key)
}

// world is the people of a run, and who of them is dishonest. Runs of one seed have the same people, and whoever is
// dishonest in one share is in every larger one.
type world struct {
	*environment.Environment
	liars []bool // by person
}

func (s Setting) world(seed uint64, share float64) (*world, error) {
	spec := environment.Spec{Kind: environment.Ball, Dimension: s.Dimension, Arms: s.Arms, Norm: s.Norm}
	e, err := spec.Open(seed, s.People)
	if err != nil {
		return nil, err
	}
	w, coins := &world{Environment: e, liars: make([]bool, s.People)}, rand.New(stream(seed, 'l'))
	for i := range w.liars {
		w.liars[i] = coins.Float64() < share
	}
	return w, nil
}

// flipRewards is everybody, the dishonest ones with their rewards turned around. Their arms are worth what they are
// worth.
func (w *world) flipRewards() iter.Seq2[population.Person, error] {
	return func(yield func(population.Person, error) bool) {
		i, most := 0, w.Family.MinReward()+w.Family.MaxReward()
		for p, err := range w.People() {
			if err == nil && w.liars[i] {
				p.Rewards = slices.Clone(p.Rewards)
				for k, r := range p.Rewards {
					p.Rewards[k] = most - r
				}
			}
			i++
			if !yield(p, err) {
				return
			}
		}
	}
}

// attacked is a planned channel with dishonest devices in its cohorts, one after the other.
type attacked struct {
	terms    plan.Terms
	proposer *plan.Proposer
	strategy Strategy // AllOnes or Promote; others report as vectors
	liars    []bool   // of the people of this cohort and of those after it
	truth    []float64
	worst    float64 // the most that the devices of a cohort could do so far, in standard deviations (plan.Influence)
}

// Trust plans a cohort as the analyzer does.
func (c *attacked) trust(step learner.Step) (simulated.Channel, play.Cost, error) {
	if len(step.Statistics) != 1 {
		return nil, play.Cost{}, fmt.Errorf("poison: a cohort of %d rounds, where devices could answer each in "+
			"another way", len(step.Statistics))
	}
	p, err := c.proposer.Propose(step, c.terms)
	if err != nil {
		return nil, play.Cost{}, fmt.Errorf("poison: epoch %d of %d people: %w", step.Epoch, step.Cohort, err)
	}
	r := &round{a: p.Announced(step), strategy: c.strategy, truth: c.truth, liars: c.liars[:step.Cohort]}
	c.liars = c.liars[step.Cohort:]
	influence, err := r.a.Influence(r.dishonest(), uint32(step.Cohort))
	for _, of := range influence {
		c.worst = max(c.worst, of.Worst())
	}
	return r, play.CostOf(p), err
}

// round is one round with dishonest devices.
type round struct {
	a        *plan.Announcement
	strategy Strategy
	truth    []float64
	liars    []bool // by person
}

func (r *round) dishonest() (n int) {
	for _, is := range r.liars {
		if is {
			n++
		}
	}
	return n
}

// Aggregate implements simulated.Channel. The law is that of simulated.Integer, but for the reports of the dishonest
// devices, in whose place their entries are added. A count that reports and servers cannot make is cut, as the roles
// do.
func (r *round) Aggregate(cohort iter.Seq[simulated.Report], src protocol.Source) ([]simulated.Aggregate, error) {
	lies := r.entries()
	ones := make([][]uint64, len(r.a.Encodings))
	for i, e := range r.a.Encodings {
		ones[i] = make([]uint64, len(e.Coordinates))
	}
	reports, honest := 0, uint64(0)
	var levels []uint32
	for report := range cohort {
		if reports++; lies != nil && r.liars[reports-1] {
			continue
		}
		honest++
		for i, e := range r.a.Encodings {
			var err error
			if levels, err = e.Round(levels, report[i], src); err != nil {
				return nil, fmt.Errorf("poison: %w", err)
			}
			for j, level := range levels {
				ones[i][j] += uint64(level)
			}
		}
	}
	out := make([]simulated.Aggregate, len(ones))
	for i, e := range r.a.Encodings {
		servers := r.a.Releases()[i].ServerNoise()
		if err := errors.Join(e.AddNoise(ones[i], honest, src), e.AddServerNoise(ones[i], servers, src)); err != nil {
			return nil, fmt.Errorf("poison: %w", err)
		}
		for j := range ones[i] {
			if lies != nil {
				ones[i][j] += lies[i][j]
			}
			ones[i][j] = min(ones[i][j], uint64(reports)*uint64(e.MessagesAt(j))+servers)
		}
		sum, err := e.Decode(ones[i], uint64(reports), servers)
		if err != nil {
			return nil, fmt.Errorf("poison: %w", err)
		}
		out[i] = simulated.Aggregate{Sum: sum, Variance: e.Variance(uint64(reports), servers), Reports: reports}
	}
	return out, nil
}

// entries are what the dishonest devices of the round report together, by release and coordinate; nil if they report
// vectors like everybody.
func (r *round) entries() [][]uint64 {
	k := uint64(r.dishonest())
	if r.strategy != AllOnes && r.strategy != Promote {
		return nil
	}
	all := make([][]uint64, len(r.a.Encodings))
	for i, e := range r.a.Encodings {
		of := r.a.Releases()[i].Statistic
		for j, c := range e.Coordinates {
			most := uint64(e.MessagesAt(j))
			if r.a.Plan.Channel == plan.Shares {
				most = 1<<r.a.EntryBits() - 1
			}
			switch {
			case r.strategy == AllOnes:
				all[i] = append(all[i], k*most)
			case of != statistic.Gradient: // the null record, with the mean of the noise
				level := min(max(-c.Offset*e.Scale, 0), float64(c.Levels)) + float64(e.NoiseBits)*e.Bias.Float()
				all[i] = append(all[i], k*uint64(math.Round(level)))
			case r.truth[j] > 0: // the step is against the gradient, and so against the truth
				all[i] = append(all[i], k*most)
			default:
				all[i] = append(all[i], 0)
			}
		}
	}
	return all
}
