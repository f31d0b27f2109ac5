package poison

import (
	"encoding/json"
	"fmt"
	"io"

	"github.com/jedib0t/go-pretty/v6/table"

	"github.com/riffle-dp/riffle/internal/chart"
)

// Result is a comparison and what it was made of.
type Result struct {
	Setting Setting `json:"setting"`
	Rows    []Row   `json:"rows"`
}

// WriteJSON writes the result as one JSON object.
func (r *Result) WriteJSON(w io.Writer) error {
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	return e.Encode(r)
}

// percent is a share for people.
func percent(share float64) string { return fmt.Sprintf("%.3g %%", 100*share) }

// WriteTable writes the rows for a terminal, or as Markdown.
func (r *Result) WriteTable(w io.Writer, markdown bool) error {
	t := chart.Columns{Left: 2}.Table("channel", "strategy", "dishonest", "regret", "added", "95 % interval",
		"bound (deviations)")
	for _, x := range r.Rows {
		regret := chart.Number(x.Regret, 0)
		if x.Seeds > 1 {
			regret += " ± " + chart.Number(x.RegretSE, 0)
		}
		line := table.Row{string(x.Trust), "none", "0", regret, "", "", ""}
		if x.Added != nil {
			line = table.Row{string(x.Trust), string(x.Strategy), percent(x.Dishonest), regret,
				chart.Number(*x.Added, 0), "",
				chart.Number(x.Bound, 1)}
		}
		if x.Low != nil {
			line[5] = chart.Number(*x.Low, 0) + " to " + chart.Number(*x.High, 0)
		}
		t.AppendRow(line)
	}
	text := t.Render()
	if markdown {
		text = t.RenderMarkdown()
	}
	s := r.Setting
	_, err := fmt.Fprintf(w, "%s\n\n%s people, %d numbers an arm, %d arms, epsilon %g, delta %g, seeds: %d. Added: "+
		"regret beyond that with honest devices.\nBound: the most by which the dishonest devices of a cohort could "+
		"move a released number, in standard\ndeviations of its error, in the cohort where that is largest.\n", text,
		chart.Number(float64(s.People), 0), s.Dimension, s.Arms, s.Epsilon, s.Delta, r.Rows[0].Seeds)
	return err
}

// worst is the row of the same channel and share that has the most regret.
func (r *Result) worst(of Row) Row {
	for _, x := range r.Rows {
		if x.Trust == of.Trust && x.Dishonest == of.Dishonest && x.Regret > of.Regret {
			of = x
		}
	}
	return of
}

// Picture is the regret under the strategy that hurts most over the share of dishonest devices, by channel, with a
// band of one standard error.
func (r *Result) Picture() chart.Chart {
	c := chart.Chart{Title: "What dishonest devices cost",
		Subtitle: fmt.Sprintf("%s people, epsilon %g, the strategy that hurts most",
			chart.Number(float64(r.Setting.People), 0), r.Setting.Epsilon),
		X: "share of dishonest devices", Y: "regret", LogY: true, Places: []string{"0"}}
	for _, share := range r.Setting.Shares {
		c.Places = append(c.Places, percent(share))
	}
	for _, honest := range r.Rows {
		if honest.Strategy != "" {
			continue
		}
		line := chart.Series{Name: string(honest.Trust), Dots: true}
		for i := range c.Places {
			x := honest
			if i > 0 {
				x.Dishonest, x.Regret = r.Setting.Shares[i-1], 0
				x = r.worst(x)
			}
			line.X, line.Y = append(line.X, float64(i+1)), append(line.Y, x.Regret)
			line.Low, line.High = append(line.Low, x.Regret-x.RegretSE), append(line.High, x.Regret+x.RegretSE)
		}
		c.Series = append(c.Series, line)
	}
	return c
}
