package audit

import (
	"bytes"
	"slices"

	"github.com/riffle-dp/riffle/pkg/deployment"
	"github.com/riffle-dp/riffle/pkg/plan"
	"github.com/riffle-dp/riffle/pkg/seal"
	"github.com/riffle-dp/riffle/pkg/wire"
)

// replay is the deployment once more: what the analyzer must announce and learn, from its configuration and the counts
// alone. From an entry on that leaves no state to go on from it judges nothing more.
type replay struct {
	*findings
	announced func(Announced)     // nil: nobody asks
	machine   *deployment.Machine // nil: nothing can be recomputed (any more)
	stated    []byte              // digest of the policy that the analyzer said last that it learned
}

// begin makes the machine that everything is compared with.
func (re *replay) begin(s *statement, v wire.Configuration) {
	var err error
	if re.machine, err = deployment.New(v); err != nil {
		re.wrong(ConfigurationRefused, s, "no plan follows from the configuration: %v", err)
		re.machine = nil
	}
}

// giveUp gives up recomputing.
func (re *replay) giveUp(s *statement) {
	if re.machine != nil {
		re.machine = nil
		re.report.note("Nothing after %s was recomputed: what is wrong there leaves no state to go on from.", s.name)
	}
}

// announce holds an announcement to the one that follows, and its policy to what the analyzer said that it learned,
// where that is not compared bit for bit with what is recomputed.
func (re *replay) announce(s *statement, a *plan.Announcement) {
	recomputed := re.follows(s, a)
	if recomputed && re.announced != nil {
		if e, err := re.machine.Estimate(); err == nil {
			re.announced(Announced{a, s.digest, e})
		}
	}
	if recomputed && !a.Final {
		re.machine.Announced(a, s.digest)
	}
	if re.stated == nil || recomputed && re.tolerance == 0 {
		return
	}
	if digest, err := wire.PolicyDigest(&a.Policy); err != nil || !bytes.Equal(digest[:], re.stated) {
		re.wrong(PolicyWrong, s, "the policy that the analyzer said it learned has the digest %x, the announced one %x",
			short(re.stated), short(digest[:]))
	}
}

// follows reports whether an announcement is the machine's, or of its shape, so that the audit can go on from it.
func (re *replay) follows(s *statement, a *plan.Announcement) bool {
	if re.machine == nil {
		return false
	}
	if a.Question != nil {
		if err := re.machine.Ask(a.Plan.AskedKind(), a.Question); err != nil {
			re.wrong(QuestionRefused, s, "it asks what cannot be asked here: %v", err)
			re.giveUp(s)
			return false
		}
	}
	own, err := re.machine.Next(a.AnalyzerKey, a.Commitment)
	if err != nil {
		re.wrong(WeakPlan, s, "no plan of this epoch keeps the terms: %v", err)
		re.giveUp(s)
		return false
	}
	own.Previous = a.Previous // what is wrong with it was told
	switch {
	case own.Final && !a.Final, own.Epoch == a.Epoch+1 && own.Round == 0 && a.Round > 0:
		re.wrong(MoreRounds, s, "round %d of epoch %d is beyond the plan: its last round was the one before", a.Round,
			a.Epoch)
	case a.Final && !own.Final:
		re.wrong(EndedEarly, s, "it says that it is the last one, and the configuration goes on with epoch %d",
			own.Epoch)
	case own.Epoch != a.Epoch || own.Round != a.Round:
		re.wrong(OutOfOrder, s, "next is round %d of epoch %d", own.Round, own.Epoch)
	default:
		if mine, err := digestOf(own); err == nil && mine == s.digest {
			return true
		}
		if re.differs(s, own, a) {
			return true
		}
	}
	re.giveUp(s)
	return false
}

// differs names what is another than it must be in an announcement at its place. It says whether the audit can go on.
func (re *replay) differs(s *statement, own, a *plan.Announcement) bool {
	if len(a.Plan.Rounds) > len(own.Plan.Rounds) {
		re.wrong(MoreRounds, s, "it plans %d rounds for a record, and %d follow from the configuration",
			len(a.Plan.Rounds),
			len(own.Plan.Rounds))
	}
	mine, theirs := *own, *a
	mine.Policy, theirs.Policy = a.Policy, a.Policy
	mine.Reference, theirs.Reference = nil, nil
	mine.Normalization, theirs.Normalization = nil, nil
	mine.Tree, theirs.Tree = nil, nil
	re.numbers(PlanChanged, s, "the plan, cohort, encodings or times", &mine, &theirs)
	re.numbers(ReferenceChanged, s, "the reference", [][]float64{own.Reference, own.Normalization},
		[][]float64{a.Reference, a.Normalization})
	re.numbers(ReferenceChanged, s, "the tree", own.Tree, a.Tree)
	re.numbers(PolicyChanged, s, "the policy", &own.Policy, &a.Policy)
	return isSameShape(own, a)
}

// isSameShape reports whether an announcement asks for the same numbers as another one, so that the learner can take
// them.
func isSameShape(own, a *plan.Announcement) bool {
	if own.Tree != nil && a.Tree != nil && (own.Tree.Open() != a.Tree.Open() || own.Tree.Depth() != a.Tree.Depth()) {
		return false
	}
	return own.Policy.Dimension == a.Policy.Dimension && (own.Plan.Curator == nil) == (a.Plan.Curator == nil) &&
		slices.EqualFunc(own.Plan.Rounds, a.Plan.Rounds, func(x, y plan.Round) bool {
			return slices.EqualFunc(x.Releases, y.Releases, func(x,
				y plan.Release) bool {
				return x.Statistic == y.Statistic
			})
		})
}

// absorb computes what follows from the counts of a round.
func (re *replay) absorb(s *statement, v *wire.Counts, r *round) {
	possible := re.possible(s, v, r.a)
	if v.Destroyed {
		re.report.Destroyed++
	} else {
		re.report.Releases++
	}
	switch {
	case re.machine == nil:
		return
	case !possible:
		re.giveUp(s)
		return
	}
	own := *v
	own.Announcement = r.digest[:] // what is wrong with it was told
	var err error
	if r.learned, err = re.machine.Absorb(&own, s.digest); err != nil {
		re.wrong(CountsImpossible, s, "nothing can be learned from the counts: %v", err)
		re.giveUp(s)
		return
	}
	if r.a.Question != nil && !v.Destroyed {
		if r.row.Answer, err = deployment.AnswerOf(r.a, r.learned.Sums, v.Reports); err != nil {
			re.wrong(CountsImpossible, s, "nothing is answered by the counts: %v", err)
		}
	}
	re.report.WrongShare = re.machine.WrongShare()
	if estimate, err := re.machine.Estimate(); err == nil {
		r.row.Coefficients, r.row.HalfWidth, r.row.Interval = estimate.Theta, estimate.HalfWidth, estimate.Interval
	}
}

// possible reports whether counts have the planned shape and can come of so many reports.
func (re *replay) possible(s *statement, v *wire.Counts, a *plan.Announcement) bool {
	if v.Destroyed {
		return true
	}
	if len(v.Releases) != len(a.Encodings) {
		re.wrong(CountsShape, s, "%d releases are counted, the round has %d", len(v.Releases), len(a.Encodings))
		return false
	}
	for i, one := range v.Releases {
		switch curated, pairs := a.Plan.Curator != nil, a.Plan.Pairs(); {
		case curated != (len(one.Curated) > 0) || pairs != (len(one.Entries) > 0):
			re.wrong(CountsShape, s, "release %d has counts of another sort than its plan", i)
			return false
		case !curated && !pairs && len(one.Ones) != len(a.Encodings[i].Coordinates):
			re.wrong(CountsShape, s, "release %d has counts of %d coordinates, planned are %d", i, len(one.Ones),
				len(a.Encodings[i].Coordinates))
			return false
		}
	}
	if a.Plan.Curator != nil {
		return true // the machine reads it, and says what is wrong
	}
	if _, err := deployment.Sums(a, v); err != nil {
		re.wrong(CountsImpossible, s, "the counts do not add up: %v", err)
		return false
	}
	return true
}

// learn holds what the analyzer says that it learned to what follows from the counts.
func (re *replay) learn(s *statement, v *wire.Learned, r *round) {
	re.stated = v.Policy
	own := r.learned
	if own == nil {
		return
	}
	same := re.numbers(SumsWrong, s, "the sums", own.Sums, v.Sums)
	same = re.numbers(IterateWrong, s, "the iterate", own.Iterate, v.Iterate) && same
	same = re.numbers(EpsilonWrong, s, "epsilon", [2]float64{own.Epsilon, own.EpsilonAlone},
		[2]float64{v.Epsilon, v.EpsilonAlone}) && same
	same = re.numbers(LiftWrong, s, "the lift", [2]*wire.Lift{own.Lift, own.Total},
		[2]*wire.Lift{v.Lift, v.Total}) && same
	same = re.numbers(ChangeWrong, s, "whether the world changed", own.Unchanged, v.Unchanged) && same
	if own.Action != v.Action {
		re.wrong(ActionWrong, s, "by the rules %s, and it says %s", acts(own.Action), acts(v.Action))
		same = false
	}
	if re.tolerance == 0 && !bytes.Equal(own.Policy, v.Policy) {
		re.wrong(PolicyWrong, s, "the next policy has the digest %x, recomputed %x", short(v.Policy),
			short(own.Policy))
		same = false
	}
	if r.row.Recomputed = same; same {
		re.report.PoliciesRecomputed++
	}
}

// acts is an action of the rules in words.
func acts(action string) string {
	if action == "" {
		return "nothing happens"
	}
	return "the action is " + action
}

// nobody signs statements of which only the digest is wanted, which is of the body alone.
var nobody = func() *seal.Identity {
	id, err := seal.NewIdentity(make([]byte, 32))
	if err != nil { // not reached: the seed has its length
		panic(err)
	}
	return id
}()

// digestOf is the digest that a statement has, whoever signs it.
func digestOf[T wire.Statement](s *T) ([32]byte, error) {
	_, digest, err := wire.Sign(s, nobody)
	return digest, err
}
