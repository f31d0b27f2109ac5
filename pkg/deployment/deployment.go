// Package deployment is the public side of a deployment: the machine that goes from a configuration to announcements,
// and from counts to what was learned and the next announcement. It sees nothing but what is signed and public, draws
// no random numbers and reads no clock. The analyzer runs it, and so does anybody who audits the analyzer: both come to
// the same announcements and sums, bit for bit.
//
// Bit for bit holds between programs of one processor architecture. On another one the compiler may fuse
// multiplications with additions, and linear algebra may add in another order: results then agree to rounding errors.
package deployment

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/riffle-dp/riffle/pkg/glm"
	"github.com/riffle-dp/riffle/pkg/glm/learner"
	"github.com/riffle-dp/riffle/pkg/glm/statistic"
	"github.com/riffle-dp/riffle/pkg/learn/program"
	"github.com/riffle-dp/riffle/pkg/plan"
	"github.com/riffle-dp/riffle/pkg/wire"
)

// Machine is a deployment's state: a function of its configuration, of the questions that it was given, and of the
// counts that it absorbed. It is not safe for concurrent use.
//
//	for {
//		err := m.Ask(kind, question)      // if the epoch asks one
//		a, err := m.Next(key, commitment) // what is announced
//		m.Announced(a, digest)            // the digest of the signed announcement
//		if a.Final { break }
//		learned, err := m.Absorb(counts, digest)
//	}
type Machine struct {
	c       wire.Configuration
	learner Learner
	largest int // bytes of the largest payload of a report that is planned

	epoch    uint64
	step     learner.Step
	first    *plan.Announcement // of the epoch; nil before its first round
	open     *plan.Announcement // announced and not absorbed yet
	previous []byte             // digest of the last announcement
	compared comparison
	asked    *learner.Step   // of the epoch that is next or under way, if it asks a question
	names    map[string]bool // of the questions before it
}

// Errors that a Machine's methods wrap.
var (
	// ErrOther says that counts belong to another announcement than the last.
	ErrOther = errors.New("deployment: the counts belong to another announcement")
	// ErrOrder says that a method was called out of order.
	ErrOrder = errors.New("deployment: out of order")
)

// New checks a configuration as a whole: the learner's, and that a plan can be made for every cohort of its schedule.
func New(c wire.Configuration) (*Machine, error) {
	if p := c.Learner.Profile; c.Anytime && cmp.Or(p, glm.Practical) != glm.Practical {
		return nil, fmt.Errorf("deployment: %w: the %s profile is made for one horizon", learner.ErrExtend, p)
	}
	c.Terms.Channel = cmp.Or(c.Terms.Channel, plan.Shuffle)
	if err := lasts(c); err != nil {
		return nil, err
	}
	learner, largest, err := Feasible(c)
	if err != nil {
		return nil, err
	}
	if c.Learner, err = resolved(c.Learner, learner); err != nil { // not reached: Feasible made a learner of it
		return nil, err
	}
	m := &Machine{c: c, learner: learner, largest: largest, epoch: 1, names: map[string]bool{}}
	m.step, err = m.next()
	return m, err
}

// resolved fills in the defaults, so that a later version with other defaults comes to the same.
func resolved(c learner.Config, l Learner) (learner.Config, error) {
	if l, ok := l.(*program.Learner); ok {
		return l.Config(), nil
	}
	profile := c.Profile
	if profile == glm.Joint {
		c.Profile = glm.Practical // whose rules for what they have in common are the same
	}
	c, err := c.Resolve()
	if profile == glm.Joint {
		c.Profile = profile
	}
	return c, err
}

// Configuration is the one that New was given, with the defaults filled in.
func (m *Machine) Configuration() wire.Configuration { return m.c }

// Schedule lists the people of each cohort, those that are over included. It grows where the configuration is Anytime.
func (m *Machine) Schedule() []int { return m.learner.Schedule() }

// LargestPayload is the length in bytes of the payload of the largest report that is planned.
func (m *Machine) LargestPayload() int { return m.largest }

// Curated is the learner of the profile joint; nil in others.
func (m *Machine) Curated() *Curated {
	l, _ := m.learner.(*Curated)
	return l
}

// Position is the epoch that Next draws up a round of, and the digest of the announcement before it; empty for the
// first.
func (m *Machine) Position() (epoch uint64, previous []byte) { return m.epoch, m.previous }

// Next draws up what is announced next. key is the analyzer's HPKE public key, which is left out of the last one, and
// commitment the analyzer's to its contribution to the seed of the panel (panel.Commit), which is left out where there
// is none.
//
// Errors: of planning; one that says so where the plan gives less than the terms promise.
func (m *Machine) Next(key, commitment []byte) (*plan.Announcement, error) {
	if m.open != nil {
		return nil, fmt.Errorf("%w: round %d of epoch %d is not over", ErrOrder, m.open.Round, m.open.Epoch)
	}
	step := m.current()
	a := &plan.Announcement{
		Deployment: m.c.Deployment, Epoch: m.epoch, Round: uint32(step.Round), Previous: m.previous,
		Policy: step.Policy, Final: step.Done, Schema: m.c.Schema,
	}
	if step.Done {
		return a, nil
	}
	a.Timing, a.AnalyzerKey = m.c.Timing, key
	a.Evaluate(step)
	if m.first == nil {
		if err := m.plan(a, step); err != nil {
			return nil, err
		}
		if a.Plan.Panel != nil {
			a.Commitment = commitment
		}
		return a, nil
	}
	a.Plan, a.Cohort = m.first.Plan, m.first.Cohort
	var err error
	if a.Encodings, err = plan.Encode(m.first.Plan, step); err != nil {
		return nil, fmt.Errorf("deployment: round %d of epoch %d: %w", a.Round, a.Epoch, err)
	}
	return a, nil
}

// plan enters the plan of the epoch that the announcement begins.
func (m *Machine) plan(a *plan.Announcement, step learner.Step) error {
	p, err := Propose(m.learner, step, m.c.Terms)
	if err != nil {
		return fmt.Errorf("deployment: epoch %d: %w", m.epoch, err)
	}
	a.Plan, a.Cohort, a.Encodings = p.Plan, p.Cohort, p.Encodings
	g, _, err := plan.Lifetime(a)
	if err != nil {
		return fmt.Errorf("deployment: epoch %d: %w", m.epoch, err)
	}
	if eps := g.Epsilon(m.c.Terms.Delta); !(eps <= m.c.Terms.Epsilon) {
		return fmt.Errorf("deployment: epoch %d: the plan gives epsilon %v, configured is %v",
			m.epoch, eps, m.c.Terms.Epsilon)
	}
	return nil
}

// reference is the public point at which the step's statistics are evaluated; the last policy's estimate where none
// are.
func reference(step learner.Step) []float64 {
	if step.Done {
		return step.Policy.Theta
	}
	var a plan.Announcement
	a.Evaluate(step)
	return a.Reference
}

// Announced says that what Next drew up was announced, and its digest. Its AnalyzerKey may be another one by now.
func (m *Machine) Announced(a *plan.Announcement, digest [32]byte) {
	m.previous = digest[:]
	if a.Final {
		return
	}
	m.open = a
	if a.Round == 0 {
		m.first = a
	}
}

// Absorb takes the counts of the round that was announced last. What it returns has no Version; digest is that of the
// signed counts. After an error the machine is used no more.
//
// Errors: ErrOther; ErrOrder; or what is wrong with the counts.
func (m *Machine) Absorb(counts *wire.Counts, digest [32]byte) (*wire.Learned, error) {
	a := m.open
	if a == nil {
		return nil, fmt.Errorf("%w: no round is open", ErrOrder)
	}
	if counts.Epoch != a.Epoch || counts.Round != a.Round || !bytes.Equal(counts.Announcement, m.previous) {
		return nil, fmt.Errorf("%w: round %d of epoch %d, announced is round %d of epoch %d",
			ErrOther, counts.Round, counts.Epoch, a.Round, a.Epoch)
	}
	out := &wire.Learned{
		Deployment: a.Deployment, Epoch: a.Epoch, Round: a.Round, Announcement: m.previous, Counts: digest[:],
		Destroyed: counts.Destroyed,
	}
	if err := m.absorb(a, counts, out); err != nil {
		return nil, fmt.Errorf("deployment: round %d of epoch %d: %w", a.Round, a.Epoch, err)
	}
	if m.asked != nil {
		m.answered()
	}
	var err error
	if m.step, err = m.next(); err != nil {
		return nil, err
	}
	if m.open = nil; m.step.Round == 0 {
		m.epoch, m.first = m.epoch+1, nil
	}
	policy, err := wire.PolicyDigest(&m.step.Policy)
	if err != nil {
		return nil, err
	}
	out.Policy, out.Iterate = policy[:], slices.Clone(reference(m.step))
	return out, nil
}

// absorb gives counts to the learner, unless they answer a question, and enters the sums and the guarantee.
func (m *Machine) absorb(a *plan.Announcement, counts *wire.Counts, out *wire.Learned) (err error) {
	if counts.Destroyed {
		if m.asked != nil {
			return nil
		}
		return m.learner.Destroyed()
	}
	out.Epsilon, out.EpsilonAlone = math.Inf(1), math.Inf(1) // as long as nothing bounds them
	if g, err := plan.GuaranteeWith(a, counts.Reports); err == nil {
		out.Epsilon = g.Epsilon(m.c.Terms.Delta)
	}
	if g, err := plan.Alone(a); err == nil {
		out.EpsilonAlone = g.Epsilon(m.c.Terms.Delta)
	}
	if l := m.Curated(); l != nil {
		if len(counts.Releases) != 1 {
			return fmt.Errorf("counts of %d releases of records", len(counts.Releases))
		}
		return l.Absorb(counts.Releases[0].Curated)
	}
	rows, err := pairsOf(a, counts)
	if err != nil {
		return err
	}
	if out.Sums, err = sumsOf(a, counts, rows); err != nil {
		return err
	}
	// another announcement was made than Next's
	step := m.current()
	if want := len(step.Statistics[step.Round]); len(out.Sums) != want {
		return fmt.Errorf("%d releases were announced, %d were asked for", len(out.Sums), want)
	}
	if m.asked != nil {
		return nil
	}
	aggregates := make([]learner.Aggregate, len(out.Sums))
	for i, sum := range out.Sums {
		kind := m.step.Statistics[m.step.Round][i].Kind
		aggregates[i] = learner.Aggregate{Kind: kind, Sum: sum.Values, Variance: sum.Variance,
			Reports:   int(counts.Reports),
			Decisions: a.Plan.PerReport()}
	}
	if rows != nil {
		if aggregates[0].Each, err = rows.reports(a); err != nil {
			return err
		}
		aggregates[0].Reports = len(rows)
	}
	sums, ok := m.learner.(program.Sums)
	if !ok { // not reached: the curator's learner is the only other one
		return fmt.Errorf("%T takes no sums", m.learner)
	}
	if err := sums.Absorb(aggregates); err != nil {
		return err
	}
	l, ok := m.learner.(*learner.Learner)
	if !ok {
		return nil
	}
	out.Unchanged = l.Unchanged()
	for _, of := range aggregates {
		if of.Kind == statistic.Rewards {
			return m.compare(l, of, out)
		}
	}
	return nil
}

// Sums removes the expected noise from counts, of devices and of servers: one sum for each release of the round, in
// units of decisions. A report is divided by the most decisions that it can hold, so that the sum of reports is
// multiplied by that number, and its variance by the square. It refuses counts that this number of reports cannot give.
// Those of pairs are what the listed reports add up to.
func Sums(a *plan.Announcement, counts *wire.Counts) ([]wire.Sum, error) {
	rows, err := pairsOf(a, counts)
	if err != nil {
		return nil, err
	}
	return sumsOf(a, counts, rows)
}

// sumsOf is Sums of counts whose reports are these rows; nil: they list none.
func sumsOf(a *plan.Announcement, counts *wire.Counts, rows pairs) (sums []wire.Sum, err error) {
	releases := a.Releases()
	if len(counts.Releases) != len(a.Encodings) || len(releases) != len(a.Encodings) {
		return nil, fmt.Errorf("%d releases have counts, the round has %d", len(counts.Releases), len(a.Encodings))
	}
	decisions := float64(a.Plan.PerReport())
	for i, e := range a.Encodings {
		noise := releases[i].ServerNoise()
		ones, reports := counts.Releases[i].Ones, uint64(counts.Reports)
		if rows != nil {
			ones, reports = rows.ones(), uint64(len(rows))
		}
		values, err := e.Decode(ones, reports, noise)
		if err != nil {
			return nil, fmt.Errorf("release %d: %w", i, err)
		}
		variance := e.Variance(reports, noise)
		for j := range values {
			values[j] *= decisions
			variance[j] *= decisions * decisions
		}
		sums = append(sums, wire.Sum{Values: values, Variance: variance})
	}
	return sums, nil
}
