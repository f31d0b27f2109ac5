package planner

import (
	"encoding/json"
	"fmt"
	"io"
	"math"
	"strings"

	"github.com/jedib0t/go-pretty/v6/table"

	"github.com/riffle-dp/riffle/internal/chart"
)

// WriteJSON writes the plan as one indented JSON object and a newline.
func (r *Panel) WriteJSON(w io.Writer) error {
	b, err := json.MarshalIndent(r, "", "  ")
	if err == nil {
		_, err = w.Write(append(b, '\n'))
	}
	if err != nil {
		return fmt.Errorf("planner: %w", err)
	}
	return nil
}

// WriteTable writes the plan for a terminal.
func (r *Panel) WriteTable(w io.Writer) error {
	var b strings.Builder
	fmt.Fprintf(&b, "Panels of %s, drawn from at least %s registered devices, in the channel %s.\n",
		plural(r.Size, "device",
			"devices"), number(r.Registered), r.Channel)
	fmt.Fprintf(&b, "A device reports in %s,\nwith up to %s in a report.\n\n", r.epochs(),
		plural(r.Decisions, "decision",
			"decisions"))
	if said := r.Account.text(); said != "" {
		b.WriteString(said + "\n")
	}
	t := chart.Columns{Left: 3}.Table("What", "how much", "what it means")
	for _, row := range []table.Row{
		{"epsilon, asked", fmt.Sprintf("%g", r.AskedEpsilon), fmt.Sprintf("at delta %g, of %s", r.Delta, r.unit())},
		{"epsilon, person", up(r.Epsilon), "what the plan gives for it"},
		{"epsilon, epoch", up(r.EpsilonEpoch), "of one epoch by itself"},
		{"epsilon, alone", spelled(r.EpsilonAlone), "of a person, if no other device is honest"},
		{"dishonest devices", fmt.Sprintf("%g %%", percent(r.Dishonest)), "of those in a pool, at most"},
		{"m, in a panel", number(r.MaxDishonest), "whose noise is not counted"},
		{"tail, epoch", fmt.Sprintf("%.3g", r.Tail), "probability of more than m, for every pool; paid by delta"},
		{"tail, person", fmt.Sprintf("%.3g", r.TailTotal), fmt.Sprintf("of %s", plural(r.Records, "epoch", "epochs"))},
		{"least reports", number(r.Minimum), "with fewer nothing may be released"},
		{"messages, bytes", fmt.Sprintf("%s, %s", number(r.MessagesPerUser), number(r.BytesPerUser)),
			"of one person in an epoch"},
	} {
		t.AppendRow(row)
	}
	b.WriteString(t.Render() + "\n\n" + r.releaseTable().Render() + "\n")
	if len(r.Choices) > 0 {
		b.WriteString("\n" + r.choiceTable().Render() + "\n")
	}
	b.WriteString("\n")
	b.WriteString(chart.Notes(r.notes()))
	_, err := io.WriteString(w, b.String())
	return err
}

// epochs says in how many epochs a device reports.
func (r *Panel) epochs() string {
	if r.Period > 0 {
		return fmt.Sprintf("up to %d of any %d epochs that follow each other", r.Records, r.Period)
	}
	return fmt.Sprintf("up to %s of the deployment", plural(r.Records, "epoch", "epochs"))
}

// unit is what epsilon is of.
func (r *Panel) unit() string {
	if r.Period > 0 {
		return fmt.Sprintf("all that a person does in a period of %d epochs", r.Period)
	}
	return "all that a person does in the deployment"
}

func (r *Panel) releaseTable() table.Writer {
	t := chart.Columns{Left: 1}.Table("Release", "coordinates", "error of a sum", "error in a decision", "noise ratio")
	for _, rel := range r.Releases {
		t.AppendRow(table.Row{rel.Statistic, rel.Coordinates, fmt.Sprintf("%.4g", rel.Deviation),
			fmt.Sprintf("%.4g", rel.PerDecision), fmt.Sprintf("%.3f", rel.VarianceRatio)})
	}
	return t
}

func (r *Panel) choiceTable() table.Writer {
	t := chart.Columns{}.Table("Decisions in a report", "of them made", "decisions lost", "noise", "tells")
	for _, c := range r.Choices {
		name := number(c.Decisions)
		if c.Decisions == r.Advised {
			name = "> " + name
		}
		t.AppendRow(table.Row{name, fmt.Sprintf("%.2f", c.Kept), fmt.Sprintf("%.1f %%", 100*c.Lost),
			fmt.Sprintf("%.2f", c.Noise), fmt.Sprintf("%.1f %%", 100*c.Information)})
	}
	return t
}

// notes say what the numbers mean and what they leave unsaid.
func (r *Panel) notes() []string {
	notes := []string{
		"Error: standard deviation of noise, at worst. Of a sum: of the reports' vectors, which are divided by the " +
			"decisions of a report. In a decision: of the mean over the decisions of a full cohort.",
		fmt.Sprintf("While one server is honest, the other cannot choose who of a pool is in the panel: if at most "+
			"%g %% of the pool are dishonest, more than %s of a panel are with probability %.2g at most. The "+
			"shuffler says who is in the pool: a malicious one can leave honest devices out, and nobody sees it. A "+
			"release that a server destroys is drawn again and pays "+
			"again.", percent(r.Dishonest), number(r.MaxDishonest), r.Tail),
	}
	if r.Period > 0 {
		notes = append(notes, fmt.Sprintf("Epsilon is the budget of each period of %d epochs: who stays longer "+
			"spends it again, and nothing bounds all periods together. With %s registered devices the pool always "+
			"has %s, whoever is drawn.",
			r.Period, number(r.Needed),
			number(r.Registered)))
	} else {
		notes = append(notes, fmt.Sprintf("A device that was in %s is not drawn again. So that the pool has %s "+
			"whoever is drawn, %s devices must be registered for the first epoch and %s more for each further one.",
			plural(r.Records, "panel", "panels"), number(r.Registered), number(r.Needed),
			number(int(math.Ceil(r.EachEpoch)))))
	}
	switch {
	case r.Advised > 0:
		notes = append(notes, fmt.Sprintf("Where people make %g decisions in an epoch on average (Poisson), reports "+
			"of up to %d tell most. A larger report has more noise in each decision, by the square of its size over "+
			"the decisions that are made; a smaller one loses decisions. Tells: information about the parameter, "+
			"from noise and sampling together.",
			r.MeanDecisions, r.Advised))
	default:
		notes = append(notes, "With --mean-decisions it says how many decisions a report should hold.")
	}
	if r.Control > 0 {
		notes = append(notes, fmt.Sprintf("%g %% of decisions get the default arm, and the release of rewards "+
			"compares them with the others.", percent(r.Control)))
	}
	return notes
}
