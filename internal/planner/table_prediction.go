package planner

import (
	"fmt"
	"strings"

	"github.com/jedib0t/go-pretty/v6/table"

	"github.com/riffle-dp/riffle/internal/chart"
	"github.com/riffle-dp/riffle/internal/planner/predict"
)

// text writes the prediction for a terminal.
func (p *Predicted) text() string {
	var b strings.Builder
	t := chart.Columns{}.Table("What is learnt\nif the\neffect is", "best\nconstant", "gain\nwhile\nlearning",
		"gain of\nthe last\npolicy", "gain\nwithout\nprivacy", "kept\nwhile\nlearning", "kept\nat the\nend",
		"better\nafter", "runs\nbelow")
	for _, c := range p.Cases {
		name := c.Name
		if c.Effect > 0 {
			name = fmt.Sprintf("%s: %.3g", c.Name, c.Effect)
		}
		out := c.Outcome
		if out == nil {
			t.AppendRow(table.Row{name, "not possible"})
			continue
		}
		better := "never"
		switch {
		case out.Better != nil:
			better = number(*out.Better)
		case out.Simulated < out.Horizon:
			better = "> " + number(out.Simulated)
		}
		t.AppendRow(table.Row{name, fmt.Sprintf("%.3f", out.Constant), below(&out.Learning), below(&out.Last),
			below(&out.Clear), portion(out.ShareLearning), portion(out.ShareLast), better,
			fmt.Sprintf("%d of %d", out.Below, out.Runs)})
	}
	b.WriteString(t.Render() + "\n\n")
	b.WriteString(map[Verdict]string{WorthRunning: "WORTH RUNNING", DoNotRun: "DO NOT RUN THIS",
		Undecided: "UNDECIDED"}[p.Verdict] + "\n" + chart.Notes(p.Reasons))
	if len(p.Changes) > 0 {
		b.WriteString("\n" + p.changeTable().Render() + "\n")
	}
	return b.String()
}

func (p *Predicted) changeTable() table.Writer {
	t := chart.Columns{}.Table("Instead", "gain of the\nlast policy", "worth\nrunning", "people of\na run")
	for _, c := range p.Changes {
		row := table.Row{c.What, "", "no plan", ""}
		if c.Gain != nil {
			row = table.Row{c.What, plusMinus(c.Gain), map[bool]string{true: "yes", false: "no"}[c.Worth],
				number(c.Simulated)}
			if c.Simulated < c.Users {
				if !c.Worth { // what was not simulated is no reason not to run
					row[2] = string(Undecided)
				}
				row[3] = fmt.Sprintf("first %s", number(c.Simulated))
			}
		}
		t.AppendRow(row)
	}
	return t
}

// notes say what the prediction's numbers mean, and what they rest on.
func (p *Predicted) notes() []string {
	var notes []string
	notes = append(notes, fmt.Sprintf("Prediction: the learner and the noise of this plan (channel %s) in simulated "+
		"deployments in which everybody reports. Gain: mean reward over that of the best constant option, which is "+
		"the same for everybody. Without privacy: the last policy of a learner that sees every record of the same "+
		"people, of whom the first tenth got random options and each later one the best so far; kept is the share "+
		"of its gain, which can be above 100 %%. Better after: so many people after whom every policy beats "+
		"the constant option, in the mean less one standard error of runs. Runs below: those whose "+
		"last policy is worse than it.",
		p.Trust))
	notes = append(notes, p.People)
	for _, c := range p.Cases {
		if c.Outcome != nil && c.Simulated < c.Horizon {
			notes = append(notes, fmt.Sprintf("Only the first %s of %s people were simulated, in %d runs, which "+
				"bounds the time. The last policy is the one after them; what the others add is not in it.",
				number(c.Simulated), number(c.Horizon), c.Runs))
			break
		}
	}
	return notes
}

// people says in words who comes.
func (o Options) people(p *Predicted) string {
	if log := p.Log; log != nil {
		return fmt.Sprintf("People are drawn from the log's %s decisions, with repetition; rewards follow the "+
			"family's model fitted to it, without noise. In the model the best option of each person exceeds the best "+
			"constant one by %.3g; choosing by a fit to half of the log gains %.3g in a fit to the other half, which "+
			"chance does not make larger. What is printed describes the log: it is for those who hold it.",
			number(log.Decisions), log.Effect, log.Checked)
	}
	who := fmt.Sprintf("each of %d options is described by %s of its own, drawn anew for each person, so that no "+
		"option is best for everybody; all share one vector of weights",
		p.Options, plural(o.arms(), "number", "numbers"))
	if p.Context > 0 {
		who = fmt.Sprintf("each has a context of %s, the last a constant, and each of %d options has its own weights "+
			"for it; half of what separates options is the same for everybody, or less where the effect is out of "+
			"reach otherwise", plural(p.Context, "number", "numbers"), p.Options)
	}
	return fmt.Sprintf("People are assumed: %s. Rewards follow the family: where they do not, less is learnt. Effect: "+
		"by how much the option that is best for a person exceeds the best constant one, on average.", who)
}

func plusMinus(e *predict.Estimate) string { return fmt.Sprintf("%+.3f +- %.3f", e.Mean, e.Error) }

// below is plusMinus with the error below.
func below(e *predict.Estimate) string { return fmt.Sprintf("%+.3f\n+- %.3f", e.Mean, e.Error) }

// portion is a share that is kept.
func portion(e *predict.Estimate) string {
	switch {
	case e == nil:
		return "-" // there is nothing to keep
	case e.Mean <= 0:
		return "none"
	}
	return fmt.Sprintf("%.0f %%", 100*e.Mean)
}

func capital(s string) string { return strings.ToUpper(s[:1]) + s[1:] }
