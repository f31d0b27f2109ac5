package audit

import (
	"bytes"
	"fmt"
	"slices"

	"github.com/riffle-dp/riffle/pkg/plan"
	"github.com/riffle-dp/riffle/pkg/privacy"
	"github.com/riffle-dp/riffle/pkg/seal"
	"github.com/riffle-dp/riffle/pkg/wire"
)

// announced holds an announcement against the one that follows from the configuration and the counts.
func (c *checker) announced(s *statement, a *plan.Announcement) error {
	if c.current != nil && (!c.current.known || c.ended) {
		before := c.current.a
		if before.Epoch == a.Epoch && before.Round == a.Round && before.Final == a.Final {
			c.wrong(OutOfOrder, s, "round %d of epoch %d was announced in %s already", a.Round, a.Epoch, c.current.name)
			return nil
		}
		c.wrong(OutOfOrder, s, "it was announced before round %d of epoch %d was over", before.Round, before.Epoch)
		c.lost(s)
		if err := c.left(c.current); err != nil {
			return err
		}
	}
	if !bytes.Equal(a.Previous, c.previous) {
		c.wrong(Unchained, s, "it names %x as the announcement before it, which is %x", short(a.Previous),
			short(c.previous))
	}
	c.keyed(s, a)
	c.committed(s, a)
	own := c.next(s, a)
	c.stands(s, a, own != nil)
	c.previous, c.ended = s.digest[:], a.Final
	if c.current == nil || c.current.a.Epoch != a.Epoch {
		c.before = nil
	}
	c.current = &round{statement: s, a: a, known: a.Final}
	if a.Final {
		return nil
	}
	if a.Round == 0 || c.promised == (promise{}) {
		c.promise(s, a)
	}
	c.current.row = Row{
		Epoch: a.Epoch, Round: a.Round, Size: a.Cohort.Size, Minimum: a.Cohort.Minimum, Announced: s.name,
		Refused: []Refused{}, Promised: privacy.Epsilon(c.promised.epsilon), Alone: privacy.Epsilon(c.promised.alone),
	}
	if own != nil {
		c.machine.Announced(a, s.digest)
	}
	return nil
}

// stands holds the announced policy to what the analyzer said that it learned, where that was not compared bit for bit
// with what this audit computed.
func (c *checker) stands(s *statement, a *plan.Announcement, recomputed bool) {
	if c.stated == nil || recomputed && c.o.Tolerance == 0 {
		return
	}
	if digest, err := wire.PolicyDigest(&a.Policy); err != nil || !bytes.Equal(digest[:], c.stated) {
		c.wrong(PolicyWrong, s, "the policy that the analyzer said it learned has the digest %x, the announced one %x",
			short(c.stated), short(digest[:]))
	}
}

// keyed refuses encryption keys that were rotated away: whoever has one can open what was sealed to it before.
func (c *checker) keyed(s *statement, a *plan.Announcement) {
	if a.Final || bytes.Equal(a.AnalyzerKey, c.key) {
		return
	}
	c.key = a.AnalyzerKey
	at := [seal.HPKEKeySize]byte(a.AnalyzerKey)
	if c.keys[at] {
		c.wrong(KeyReturned, s, "the analyzer's encryption key %x was announced before, and another one since",
			short(c.key))
	}
	c.keys[at] = true
}

// next compares an announcement with the machine's, which it returns; nil where there is none to go on from.
func (c *checker) next(s *statement, a *plan.Announcement) *plan.Announcement {
	if c.machine == nil {
		return nil
	}
	own, err := c.machine.Next(a.AnalyzerKey, a.Commitment)
	if err != nil {
		c.wrong(WeakPlan, s, "no plan of this epoch keeps the terms: %v", err)
		c.lost(s)
		return nil
	}
	own.Previous = a.Previous // what is wrong with it was told
	switch {
	case own.Final && !a.Final, own.Epoch == a.Epoch+1 && own.Round == 0 && a.Round > 0:
		c.wrong(MoreRounds, s, "round %d of epoch %d is beyond the plan: its last round was the one before", a.Round,
			a.Epoch)
	case a.Final && !own.Final:
		c.wrong(EndedEarly, s, "it says that it is the last one, and the configuration goes on with epoch %d",
			own.Epoch)
	case own.Epoch != a.Epoch || own.Round != a.Round:
		c.wrong(OutOfOrder, s, "next is round %d of epoch %d", own.Round, own.Epoch)
	default:
		if mine, err := digestOf(own); err == nil && mine == s.digest {
			return own
		}
		if c.differs(s, own, a) {
			return own
		}
	}
	c.lost(s)
	return nil
}

// differs names what is another than it must be in an announcement at its place. It says whether the audit can go on.
func (c *checker) differs(s *statement, own, a *plan.Announcement) bool {
	if len(a.Plan.Rounds) > len(own.Plan.Rounds) {
		c.wrong(MoreRounds, s, "it plans %d rounds for a record, and %d follow from the configuration",
			len(a.Plan.Rounds),
			len(own.Plan.Rounds))
	}
	mine, theirs := *own, *a
	mine.Policy, theirs.Policy = a.Policy, a.Policy
	mine.Reference, theirs.Reference = nil, nil
	c.numbers(PlanChanged, s, "the plan, cohort, encodings or times", &mine, &theirs)
	c.numbers(ReferenceChanged, s, "the reference", own.Reference, a.Reference)
	c.numbers(PolicyChanged, s, "the policy", &own.Policy, &a.Policy)
	return shaped(own, a)
}

// shaped reports whether an announcement asks for the same numbers as another one, so that the learner can take them.
func shaped(own, a *plan.Announcement) bool {
	return own.Policy.Dimension == a.Policy.Dimension && (own.Plan.Curator == nil) == (a.Plan.Curator == nil) &&
		slices.EqualFunc(own.Plan.Rounds, a.Plan.Rounds, func(x, y plan.Round) bool {
			return slices.EqualFunc(x.Releases, y.Releases, func(x,
				y plan.Release) bool {
				return x.Statistic == y.Statistic
			})
		})
}

// promise computes what the announced plan reveals, and compares it with what is promised.
func (c *checker) promise(s *statement, a *plan.Announcement) {
	delta := a.Plan.Delta
	if c.configuration != nil {
		delta = c.configuration.Terms.Delta
	}
	if c.report.Panel == nil {
		c.report.Panel = panelOf(a.Plan)
	}
	p, claim, err := guarantees(a, delta)
	if err != nil {
		c.wrong(WeakPlan, s, "the plan bounds nothing: %v", err)
	}
	c.promised = p
	c.planned(p)
	claim, p.epsilon, p.alone = claim*(1-c.o.Tolerance), p.epsilon*(1-c.o.Tolerance), p.alone*(1-c.o.Tolerance)
	switch t := c.configuration; {
	case err != nil:
	case !(claim <= a.Plan.Epsilon):
		c.wrong(WeakPlan, s, "it claims epsilon %v at delta %v, and its plan gives %v", a.Plan.Epsilon, a.Plan.Delta,
			claim)
	case t != nil && !(p.epsilon <= t.Terms.Epsilon):
		c.wrong(WeakPlan, s, "the terms promise epsilon %v at delta %v, and its plan gives %v", t.Terms.Epsilon, delta,
			p.epsilon)
	case t != nil && t.Terms.ServerNoise == 1 && a.Plan.Channel != plan.Local && !(p.alone <= t.Terms.Epsilon):
		c.wrong(WeakPlan, s, "the terms promise epsilon %v from the servers' noise alone, and its plan gives %v",
			t.Terms.Epsilon, p.alone)
	}
}

// guarantees are those of a plan over all releases that use a record of the epoch, and over all epochs that one device
// may report in, at delta and at the plan's own.
func guarantees(a *plan.Announcement, delta float64) (p promise, claim float64, err error) {
	g, alone, err := plan.Lifetime(a)
	p.epsilon, p.alone, claim = g.Epsilon(delta), alone.Epsilon(delta), g.Epsilon(a.Plan.Delta)
	return p, claim, err
}

// short is the start of a digest or key, enough to tell it from others.
func short(b []byte) []byte { return b[:min(len(b), 8)] }

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

// numbers reports a difference that rounding does not explain, or that the options do not tolerate.
func (c *checker) numbers(what What, s *statement, name string, want, got any) (same bool) {
	d := compare(want, got)
	switch {
	case d.path == "" && d.worst == 0:
		return true
	case d.path == "" && d.worst <= c.o.Tolerance:
		c.report.note("Numbers were compared with a relative tolerance of %v.", c.o.Tolerance)
		return true
	case d.path == "" && d.worst <= RoundingTolerance:
		c.wrong(what, s, "%s is not the recomputed one bit for bit: %s is %v, recomputed %v; all of it agrees to "+
			"%.1e, so if the analyzer runs on another processor architecture, allow for rounding: --tolerance %v", name,
			d.worstPath,
			d.got, d.want, d.worst, RoundingTolerance)
	case d.path == "":
		c.wrong(what, s, "%s does not follow from what is logged: %s is %v, recomputed %v", name, d.worstPath, d.got,
			d.want)
	default:
		c.wrong(what, s, "%s does not follow from what is logged: %s", name, fmt.Sprintf("%s %s", d.path, d.reason))
	}
	return false
}
