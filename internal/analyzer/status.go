package analyzer

import (
	"fmt"

	"github.com/riffle-dp/riffle/internal/role/status"
	"github.com/riffle-dp/riffle/pkg/feature"
	"github.com/riffle-dp/riffle/pkg/plan"
	"github.com/riffle-dp/riffle/pkg/privacy"
	"github.com/riffle-dp/riffle/pkg/wire"
)

// Steps whose time is measured.
const (
	stepRound    = "round"    // announcement to counts: the time that people, the shuffler and this role take
	stepLearning = "learning" // counts to the next policy
)

// Steps lists the steps whose time is measured.
func Steps() []string { return []string{stepRound, stepLearning} }

// noteAnnouncement notes what is in force.
func (z *Analyzer) noteAnnouncement(a *plan.Announcement) error {
	messages, eps, alone := 0, 0.0, 0.0
	if !a.Final {
		messages = a.ReportMessages()
		together, single, err := plan.Lifetime(a)
		if err != nil {
			return fmt.Errorf("analyzer: epoch %d: %w", a.Epoch, err)
		}
		eps, alone = together.Epsilon(z.c.Terms.Delta), single.Epsilon(z.c.Terms.Delta)
	}
	z.note(func(p *Progress) {
		p.Epoch, p.Round, p.Final, p.Policy = a.Epoch, a.Round, a.Final, a.Policy
		p.Size, p.Minimum, p.Rounds, p.Messages = a.Cohort.Size, a.Cohort.Minimum, len(a.Plan.Rounds), messages
		p.Epsilon, p.EpsilonAlone = max(p.Epsilon, eps), max(p.EpsilonAlone, alone)
		if !a.Final {
			p.Channel = a.Plan.Channel
		}
	})
	return nil
}

// messagesTaken counts the messages of the round under way that the channel took in.
func (z *Analyzer) messagesTaken() int {
	z.mu.Lock()
	counting := z.counting
	z.mu.Unlock()
	if counting == nil {
		return 0
	}
	return counting.Taken()
}

// Snapshot describes the analyzer for people to look at. Everything in it was announced or counted.
func (z *Analyzer) Snapshot() status.Snapshot {
	p := z.Progress()
	out := status.Snapshot{
		Deployment: z.c.Deployment, Epoch: p.Epoch, Epochs: p.Epochs, Round: p.Round, Rounds: p.Rounds, Final: p.Final,
		Releases: []status.Round{},
	}
	if p.WrongShare != "" {
		out.Warnings = append(out.Warnings, p.WrongShare)
	}
	if p.Size > 0 {
		taken := z.messagesTaken()
		out.Cohort = &status.Cohort{Size: p.Size, Minimum: p.Minimum, Messages: p.Messages, Opened: &taken}
	}
	spent := privacy.Epsilon(0)
	for _, r := range p.Releases {
		row := status.Round{
			Epoch: r.Epoch, Round: r.Round, Outcome: status.Released, Reports: int(r.Reports),
			Epsilon:  privacy.Epsilon(r.Epsilon),
			Messages: r.Messages * int(r.Reports), Moved: r.Moved, Influence: r.Influence,
		}
		switch {
		case r.Refused:
			row.Outcome = status.Refused
		case r.Destroyed:
			row.Outcome = status.Destroyed
		}
		spent = max(spent, row.Epsilon)
		out.Releases = append(out.Releases, row)
	}
	if p.Epsilon > 0 {
		out.Budget = &status.Budget{Epsilon: privacy.Epsilon(p.Epsilon), Delta: z.c.Terms.Delta, Spent: &spent}
		out.Budget.In(p.Channel, p.EpsilonAlone)
		if t := z.c.Terms; t.Registered > 0 {
			out.Budget.Records, out.Budget.Period, out.Budget.Decisions = max(1, t.Records), t.Period,
				max(1, t.Decisions)
		}
	}
	out.Answers = p.Answers
	if n := len(p.Learned); n > 0 {
		last := p.Learned[n-1]
		out.Learned = &status.Learned{
			Cohorts: last.Cohorts, Names: names(z.c.Schema), Interval: last.Interval,
			Predicted: status.Predicted(last.Predicted),
			Total:     lift(last.Total), Action: p.Action, Acted: p.Acted,
		}
		for _, l := range p.Learned {
			out.Learned.Epochs = append(out.Learned.Epochs, status.LearnedEpoch{
				Epoch: l.Epoch, Epsilon: privacy.Epsilon(l.Epsilon), Theta: l.Theta, HalfWidth: l.HalfWidth,
				Lift: lift(l.Lift), Unchanged: l.Unchanged, Action: l.Action,
			})
		}
	}
	return out
}

// names are what the coefficients stand for by an announced schema; nil without one.
func names(schema []byte) []string {
	if s, err := feature.Open(schema); err == nil {
		return s.Names()
	}
	return nil
}

// lift is one as it is shown; nil stays nil.
func lift(l *wire.Lift) *status.Lift {
	if l == nil {
		return nil
	}
	return &status.Lift{Treated: l.Treated, Control: l.Control, Lift: l.Lift, Low: l.Low, High: l.High}
}
