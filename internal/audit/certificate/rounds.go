package certificate

import (
	"bytes"
	"fmt"
	"math"

	"github.com/riffle-dp/riffle/pkg/channel/shuffle"
	"github.com/riffle-dp/riffle/pkg/deployment"
	"github.com/riffle-dp/riffle/pkg/plan"
	"github.com/riffle-dp/riffle/pkg/privacy"
	"github.com/riffle-dp/riffle/pkg/wire"
)

// tolerance is the relative difference of two numbers that rounding explains where they were computed on different
// processors (package deployment). On one they are equal.
const tolerance = 1e-9

func near(a, b float64) bool {
	return a == b || !math.IsInf(a, 0) && !math.IsInf(b, 0) &&
		math.Abs(a-b) <= tolerance*math.Max(math.Abs(a), math.Abs(b))
}

// checkPromise checks the announced plan against the terms.
func (x *examined) checkPromise() error {
	terms, a := x.configuration.Terms, x.rounds[0].announcement
	g, _, err := plan.Lifetime(a)
	if err != nil {
		return refuse("%w", err)
	}
	size := float64(a.Cohort.Size)
	minimum := max(terms.MinCohort, int(math.Ceil(size*(1-terms.DropOut))))
	dishonest := max(terms.DishonestReports, a.Dishonest(terms.Dishonest))
	switch eps := g.Epsilon(terms.Delta); {
	case !(eps <= terms.Epsilon*(1+tolerance)):
		return refuse("the plan gives epsilon %v at delta %g, the terms promise %v: it is weaker than was promised",
			eps,
			terms.Delta, terms.Epsilon)
	case a.Plan.Epsilon != terms.Epsilon || a.Plan.Delta != terms.Delta:
		return refuse("the plan claims (%v, %g), the terms are (%v, %g)", a.Plan.Epsilon, a.Plan.Delta, terms.Epsilon,
			terms.Delta)
	case !keepsPanelTerms(a.Plan, terms):
		return refuse("the plan's panel, decisions, records or period are not those of the terms")
	case a.Plan.Channel != terms.Channel:
		return refuse("the plan is for the channel %s, the terms are for %s", a.Plan.Channel, terms.Channel)
	case int(a.Cohort.Minimum) < minimum:
		return refuse("the smallest release may have %d reports, the terms ask for %d", a.Cohort.Minimum, minimum)
	case int(a.Cohort.MaxDishonest) < dishonest:
		return refuse("the plan leaves out the noise of %d reports, the terms ask for %d", a.Cohort.MaxDishonest,
			dishonest)
	}
	return nil
}

// keepsPanelTerms reports whether a plan draws its cohort, and bounds a person's part in the deployment, as the terms
// do.
func keepsPanelTerms(p plan.Plan, t plan.Terms) bool {
	if p.Panel == nil {
		return t.Registered == 0
	}
	return int(p.Panel.Registered) >= t.Registered && p.Panel.Dishonest >= t.Dishonest && t.Registered > 0 &&
		p.PerPerson() == max(1, t.Records) && int(p.Period) == t.Period && p.PerReport() == max(1, t.Decisions)
}

// check checks a round: that its statements name each other, and that their numbers fit.
func (x *examined) check(i int, r *round) error {
	a, m, c, l := r.announcement, r.manifest, r.counts, r.learned
	if _, err := plan.CheckRound(a); err != nil {
		return fmt.Errorf("the announcement: %w", err)
	}
	if a.Timing != x.configuration.Timing {
		return fmt.Errorf("the announcement has other times than the configuration")
	}
	for _, s := range []struct {
		what         string
		epoch        uint64
		round        uint32
		announcement []byte
	}{
		{"the manifest", m.Epoch, m.Round, m.Announcement}, {"the counts", c.Epoch, c.Round, c.Announcement},
		{"what was learned", l.Epoch, l.Round, l.Announcement},
	} {
		if s.epoch != a.Epoch || s.round != a.Round || !bytes.Equal(s.announcement, r.digests.announcement[:]) {
			return fmt.Errorf("%s is of another announcement", s.what)
		}
	}
	if !bytes.Equal(c.Manifest, r.digests.manifest[:]) {
		return fmt.Errorf("the counts are of another manifest")
	}
	if !bytes.Equal(l.Counts, r.digests.counts[:]) {
		return fmt.Errorf("what was learned follows from other counts")
	}
	if err := checkDrawn(r); err != nil {
		return err
	}
	if err := checkManifest(a, m); err != nil {
		return err
	}
	if err := checkCounts(r); err != nil {
		return err
	}
	if err := x.checkLearned(r); err != nil {
		return err
	}
	if i+1 == len(x.rounds) {
		return nil
	}
	next := x.rounds[i+1].announcement
	if policy, err := wire.PolicyDigest(&next.Policy); err != nil || !bytes.Equal(policy[:], l.Policy) {
		return fmt.Errorf("the next announcement has another policy than was learned")
	}
	return nil
}

func checkManifest(a *plan.Announcement, m *wire.Manifest) error {
	switch {
	case m.Enrolled > a.Cohort.Size:
		return fmt.Errorf("%d devices enrolled in a cohort of %d", m.Enrolled, a.Cohort.Size)
	case m.Outcome == wire.Destroyed && m.Messages > uint64(m.Reports)*uint64(a.ReportMessages())+shuffle.NoiseMessages(
		a):
		return fmt.Errorf("%d messages may have left, and %d reports and the planned noise hold fewer", m.Messages,
			m.Reports)
	case m.Outcome == wire.Destroyed:
		return nil
	case m.Reports < a.Cohort.Minimum:
		return fmt.Errorf("a release of %d reports, the announced minimum is %d", m.Reports, a.Cohort.Minimum)
	case m.NoiseMessages != shuffle.NoiseMessages(a):
		return fmt.Errorf("the shuffler added %d messages of noise, planned are %d", m.NoiseMessages,
			shuffle.NoiseMessages(a))
	case m.Messages != uint64(m.Reports)*uint64(a.ReportMessages())+m.NoiseMessages:
		return fmt.Errorf("%d messages left, planned are %d for each of %d reports, and %d of noise", m.Messages,
			a.ReportMessages(), m.Reports, m.NoiseMessages)
	}
	return nil
}

func checkCounts(r *round) error {
	a, m, c := r.announcement, r.manifest, r.counts
	if c.Reports != m.Reports {
		return fmt.Errorf("counts of %d reports, the manifest says %d", c.Reports, m.Reports)
	}
	if c.Destroyed {
		return nil
	}
	if m.Outcome != wire.Released {
		return fmt.Errorf("there are counts of a cohort that was destroyed")
	}
	if a.Plan.Channel != plan.Shares {
		if r.accepted != nil || r.summed != nil {
			return fmt.Errorf("an accepted set in the channel %s", a.Plan.Channel)
		}
		return nil
	}
	accepted, summed, announced := r.accepted, r.summed, r.digests.announcement[:]
	switch {
	case accepted == nil || summed == nil:
		return fmt.Errorf("counts of shares without an accepted set of either server")
	case !bytes.Equal(accepted.Announcement, announced) || !bytes.Equal(summed.Announcement, announced):
		return fmt.Errorf("an accepted set is of another announcement")
	case accepted.Reports != c.Reports || summed.Reports != c.Reports || !bytes.Equal(accepted.Set, summed.Set):
		return fmt.Errorf("the servers did not add up the same reports: accepted %d, summed %d, counted %d",
			accepted.Reports, summed.Reports, c.Reports)
	}
	return nil
}

// checkLearned recomputes the sums and both guarantees for the reports that came.
func (x *examined) checkLearned(r *round) error {
	a, c, l := r.announcement, r.counts, r.learned
	if l.Destroyed != c.Destroyed {
		return fmt.Errorf("the counts and what was learned do not agree whether the cohort was destroyed")
	}
	together, alone := x.guaranteesOfCounts(r)
	if !near(l.Epsilon, together) || !near(l.EpsilonAlone, alone) {
		return fmt.Errorf("what was learned states epsilon %v, and %v if no other device is honest; they are %v and %v",
			l.Epsilon, l.EpsilonAlone, together, alone)
	}
	if left, _ := x.guaranteesOfOutput(r); !(left <= x.configuration.Terms.Epsilon*(1+tolerance)) {
		return fmt.Errorf("epsilon of the reports that left is %v, promised is %v", left, x.configuration.Terms.Epsilon)
	}
	if l.Destroyed || a.Plan.Curator != nil {
		return nil
	}
	sums, err := deployment.Sums(a, c)
	if err != nil {
		return fmt.Errorf("the counts cannot be: %w", err)
	}
	if len(sums) != len(l.Sums) {
		return fmt.Errorf("sums of %d releases, there are %d", len(l.Sums), len(sums))
	}
	for i, sum := range sums {
		if !close(sum.Values, l.Sums[i].Values) || !close(sum.Variance, l.Sums[i].Variance) {
			return fmt.Errorf("the sums of release %d are not those that follow from the counts", i)
		}
	}
	return nil
}

// close compares sums. Those near zero are differences of large counts, so that their errors are those of the largest.
func close(a, b []float64) bool {
	if len(a) != len(b) {
		return false
	}
	largest := 1.0
	for _, v := range a {
		largest = math.Max(largest, math.Abs(v))
	}
	for i := range a {
		if !(math.Abs(a[i]-b[i]) <= tolerance*largest) {
			return false
		}
	}
	return true
}

// signedOutput is what was signed of what left of a round.
func (r *round) signedOutput() deployment.Signed {
	return deployment.Signed{Announcement: r.announcement, Manifest: r.manifest, Summed: r.summed, Counts: r.counts}
}

// guaranteesOfOutput is both guarantees of the epoch's whole plan with the reports of which something left, counted or
// not; 0 where nothing left.
func (x *examined) guaranteesOfOutput(r *round) (together, alone float64) {
	return r.signedOutput().Epsilon(x.configuration.Terms.Delta)
}

// guaranteesOfCounts is what the analyzer states: both guarantees with the reports that it counted; 0 where it counted
// nothing.
func (x *examined) guaranteesOfCounts(r *round) (together, alone float64) {
	if r.counts.Destroyed {
		return 0, 0
	}
	return x.epsilon(plan.GuaranteeWith(r.announcement, r.counts.Reports)), x.epsilon(plan.Alone(r.announcement))
}

// epsilon is that of a guarantee at the delta of the terms; +Inf where there is none.
func (x *examined) epsilon(g privacy.Guarantee, err error) float64 {
	if err != nil {
		return math.Inf(1)
	}
	return g.Epsilon(x.configuration.Terms.Delta)
}
