package deployment

import (
	"bytes"
	"errors"
	"fmt"

	"github.com/riffle-dp/riffle/pkg/feature"
	"github.com/riffle-dp/riffle/pkg/glm"
	"github.com/riffle-dp/riffle/pkg/glm/family"
	"github.com/riffle-dp/riffle/pkg/glm/learner"
	"github.com/riffle-dp/riffle/pkg/wire"
)

// comparison is what a machine remembers of its control group.
type comparison struct {
	window []learner.Lift // of the newest epochs that released, since the rules did anything; at most Rules.Window
	total  *learner.Lift  // of all epochs that released; nil: none did
	over   bool           // the policy was stopped
}

// lasts refuses a configuration whose parts say different things of panels, of decisions in one report or of a control
// group.
func lasts(c wire.Configuration) error {
	p, t := c.Learner.Practical, c.Terms
	panels := t.Registered > 0
	switch {
	case panels != (p.Panel > 0):
		return fmt.Errorf("deployment: %w: the learner's cohorts have %d people as panels, and the terms draw from %d "+
			"registered devices: give both or none", learner.ErrConfig, p.Panel, t.Registered)
	case panels && c.Learner.Profile != glm.Practical:
		return fmt.Errorf("deployment: %w: panels need the profile %s, not %s", learner.ErrConfig, glm.Practical,
			c.Learner.Profile)
	case panels && t.Registered < p.Panel:
		return fmt.Errorf("deployment: %w: a panel of %d cannot be drawn from %d registered devices", learner.ErrConfig,
			p.Panel, t.Registered)
	case max(1, p.Decisions) != max(1, t.Decisions):
		return fmt.Errorf("deployment: %w: a report has %d decisions for the learner and %d by the terms",
			learner.ErrConfig,
			max(1, p.Decisions), max(1, t.Decisions))
	case !panels && (t.Records > 1 || t.Period > 0 || t.Decisions > 1):
		return fmt.Errorf("deployment: %w: several decisions or epochs of one person need panels", learner.ErrConfig)
	case t.Records < 0 || t.Period < 0 || t.Decisions < 0 || t.Period > 0 && t.Period < max(1, t.Records):
		return fmt.Errorf("deployment: %w: %d records in %d epochs", learner.ErrConfig, t.Records, t.Period)
	case p.Control > 0 && c.Learner.Profile != glm.Practical:
		return fmt.Errorf("deployment: %w: a control group needs the profile %s", learner.ErrConfig, glm.Practical)
	case p.Control == 0 && (c.Rules.Rollback != nil || c.Rules.Stop != nil):
		return fmt.Errorf("deployment: %w: rules on the lift need a control group", learner.ErrConfig)
	case c.Rules.Window < 0:
		return fmt.Errorf("deployment: %w: a window of %d epochs", learner.ErrConfig, c.Rules.Window)
	}
	return schema(c)
}

// schema refuses a schema of features that is not in its canonical form, or whose vectors are of another dimension.
func schema(c wire.Configuration) error {
	if len(c.Schema) == 0 {
		return nil
	}
	s, err := feature.Parse(c.Schema)
	switch {
	case err != nil:
		return fmt.Errorf("deployment: the schema of features: %w", err)
	case !bytes.Equal(s.Canonical(), c.Schema):
		return fmt.Errorf("deployment: %w: the schema of features is not in its canonical form", learner.ErrConfig)
	case s.Dimension() != c.Learner.Dimension:
		return fmt.Errorf("deployment: %w: the schema makes vectors of %d numbers, the learner's dimension is %d",
			learner.ErrConfig, s.Dimension(), c.Learner.Dimension)
	}
	return nil
}

// extension is by how many people a horizon that is over is extended: with panels, whose cohorts keep their size, by as
// many as it had at first; else to twice as many. 0: not at all.
func (m *Machine) extension(l *learner.Learner) int {
	more, most := l.Config().Horizon+m.c.Learner.Horizon, mostPeople // 2T after T, 4T after 3T
	if m.c.Terms.Registered > 0 {
		more, most = m.c.Learner.Horizon, 1<<40-l.Config().Horizon
	}
	if more > most {
		return 0
	}
	return more
}

// compare enters what the release of rewards says of the policy and the control group, applies the rules to it, and
// says what they did.
//
// The rules look at the lift over the last Window epochs that released, and at nothing as long as there are fewer. Stop
// comes before Rollback. After either the window begins anew: what was taken back is not held against what took its
// place. Where there is no earlier policy nothing is taken back.
func (m *Machine) compare(l *learner.Learner, rewards learner.Aggregate, out *wire.Learned) error {
	family, err := family.New(m.c.Learner.Family, m.c.Learner.MaxReward)
	if err != nil {
		return err
	}
	lift, err := learner.NewLift(rewards, family, m.c.Learner.Practical.Control)
	if err != nil {
		return err
	}
	c := &m.compared
	total := lift
	if c.total != nil {
		total = c.total.Add(lift)
	}
	c.total = &total
	out.Lift, out.Total = liftOf(lift), liftOf(total)
	c.window = append(c.window, lift)
	if n := max(1, m.c.Rules.Window); len(c.window) > n {
		c.window = c.window[len(c.window)-n:]
	} else if len(c.window) < n {
		return nil
	}
	over := c.window[0]
	for _, one := range c.window[1:] {
		over = over.Add(one)
	}
	out.Action, err = m.apply(l, liftOf(over).High)
	return err
}

// apply applies the rules to the upper end of the lift's interval.
func (m *Machine) apply(l *learner.Learner, high float64) (action string, err error) {
	c, r := &m.compared, m.c.Rules
	switch {
	case c.over:
		return "", nil
	case r.Stop != nil && high < *r.Stop:
		l.Stop()
		c.over, c.window = true, nil
		return wire.ActionStop, nil
	case r.Rollback != nil && high < *r.Rollback:
		if err := l.Rollback(); errors.Is(err, learner.ErrRollback) {
			return "", nil
		} else if err != nil {
			return "", err
		}
		c.window = nil
		return wire.ActionRollback, nil
	}
	return "", nil
}

// liftOf is a lift as statements have it.
func liftOf(l learner.Lift) *wire.Lift {
	return &wire.Lift{
		Reports: uint64(l.Reports), Decisions: l.Decisions, Treated: l.Treated, Control: l.Control, Lift: l.Lift,
		Low: l.Low, High: l.High,
	}
}

// WrongShare says why no lift of the deployment may be relied on: the released sums of all epochs so far would be too
// improbable if decisions fell into the control group with the announced share (learner.Lift.Chance). Empty where they
// are not, or there is no control group.
func (m *Machine) WrongShare() string {
	total := m.compared.total
	if total == nil {
		return ""
	}
	p := total.Chance()
	if p >= learner.ShareLevel {
		return ""
	}
	return fmt.Sprintf("The size of the control group cannot be chance: if each decision that a reward came for fell "+
		"into it with the announced share %g, sums like these had a probability of at most %.1g. Rely on no lift: "+
		"coins fall otherwise, rewards of one group are lost, or reports are made up. See that apps use the arm that "+
		"the device gives them, and that rewards of every arm come back.", m.c.Learner.Practical.Control, p)
}
