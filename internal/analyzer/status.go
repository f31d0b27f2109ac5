package analyzer

import (
	"fmt"

	"github.com/riffle-dp/riffle/internal/role/status"
	"github.com/riffle-dp/riffle/pkg/glm"
	"github.com/riffle-dp/riffle/pkg/plan"
)

// Steps whose time is measured.
const (
	stepRound    = "round"    // announcement to counts: people's time, the shuffler's and this role's
	stepLearning = "learning" // counts to the next policy
)

// Steps lists the steps whose time is measured.
func Steps() []string { return []string{stepRound, stepLearning} }

// announced notes what is in force.
func (z *Analyzer) announced(a *plan.Announcement, step glm.Step) error {
	messages, eps := 0, 0.0
	if !a.Final {
		messages = a.ReportMessages()
		g, err := plan.Guarantee(a, 0)
		if err != nil {
			return fmt.Errorf("analyzer: epoch %d: %w", a.Epoch, err)
		}
		eps = g.Epsilon(z.c.Terms.Delta)
	}
	z.note(func(p *Progress) {
		p.Epoch, p.Round, p.Final, p.Policy = a.Epoch, a.Round, a.Final, step.Policy
		p.Size, p.Minimum, p.Rounds, p.Messages = a.Cohort.Size, a.Cohort.Minimum, len(a.Plan.Rounds), messages
		p.Epsilon = max(p.Epsilon, eps)
	})
	return nil
}

// opened counts the bit messages of the round under way that are open.
func (z *Analyzer) opened() (messages int) {
	z.mu.Lock()
	counter := z.counter
	z.mu.Unlock()
	if counter == nil {
		return 0
	}
	counter.mu.Lock()
	defer counter.mu.Unlock()
	if counter.work != nil {
		for _, chunk := range counter.work.chunks {
			messages += chunk.messages
		}
	}
	return messages
}

// Snapshot describes the analyzer for people to look at. Everything in it was announced or counted.
func (z *Analyzer) Snapshot() status.Snapshot {
	p := z.Progress()
	out := status.Snapshot{
		Deployment: z.c.Deployment, Epoch: p.Epoch, Epochs: p.Epochs, Round: p.Round, Rounds: p.Rounds, Final: p.Final, Releases: []status.Round{},
	}
	if p.Size > 0 {
		opened := z.opened()
		out.Cohort = &status.Cohort{Size: p.Size, Minimum: p.Minimum, Messages: p.Messages, Opened: &opened}
	}
	spent := status.Epsilon(0)
	for _, r := range p.Releases {
		row := status.Round{Epoch: r.Epoch, Round: r.Round, Outcome: status.Destroyed, Reports: int(r.Reports)}
		if !r.Destroyed {
			row.Outcome, row.Messages, row.Epsilon = status.Released, r.Messages*int(r.Reports), status.Epsilon(r.Epsilon)
			spent = max(spent, row.Epsilon)
		}
		out.Releases = append(out.Releases, row)
	}
	if p.Epsilon > 0 {
		out.Budget = &status.Budget{Epsilon: status.Epsilon(p.Epsilon), Delta: z.c.Terms.Delta, Spent: &spent}
	}
	return out
}
