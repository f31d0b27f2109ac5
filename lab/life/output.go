package life

import (
	"encoding/json"
	"fmt"
	"io"
	"strconv"

	"github.com/jedib0t/go-pretty/v6/table"

	"github.com/riffle-dp/riffle/internal/chart"
	"github.com/riffle-dp/riffle/internal/world"
)

// Result is a comparison and what it was made of.
type Result struct {
	Setting world.Setting `json:"setting"`
	Rows    []world.Row   `json:"rows"`
}

// WriteJSON writes the result as one JSON object.
func (r Result) WriteJSON(w io.Writer) error {
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	return e.Encode(r)
}

// WriteTable writes the rows for a terminal, or as Markdown.
func (r Result) WriteTable(w io.Writer, markdown bool) error {
	changes := r.Setting.World.ChangeDay() > 0
	header := []any{"mode", "reports a person", "epochs", "cohort", "regret", "mean reward", "last week"}
	if changes {
		header = append(header, "days to learn", "to return")
	}
	if r.Setting.Control > 0 {
		header = append(header, "lift intervals that hold")
	}
	t := chart.Columns{Left: 1}.Table(header...)
	for _, row := range r.Rows {
		t.AppendRow(cells(row, changes, r.Setting.Control > 0))
	}
	text := t.Render()
	if markdown {
		text = t.RenderMarkdown()
	}
	if _, err := fmt.Fprintln(w, text); err != nil {
		return err
	}
	return r.notes(w)
}

func cells(row world.Row, changes, control bool) table.Row {
	with := func(v, se float64, decimals int) string {
		text := chart.Number(v, decimals)
		if row.Seeds > 1 {
			text += " ± " + chart.Number(se, decimals)
		}
		return text
	}
	count := func(n int) string {
		if n == 0 {
			return "-"
		}
		return chart.Number(float64(n), 0)
	}
	cohort := count(row.Panel)
	if row.Kind == world.Arrival {
		cohort = "grows"
	}
	line := table.Row{row.Mode, count(row.Records), count(row.Epochs), cohort, with(row.Regret, row.RegretSE, 0),
		with(row.Reward, row.RewardSE, 4), with(row.LastWeek, row.LastWeekSE, 4)}
	if changes {
		days := func(n *int) string {
			if n == nil {
				return "never"
			}
			return strconv.Itoa(*n)
		}
		if row.Kind == world.Uniform || row.Kind == world.Default {
			line = append(line, "-", "-")
		} else {
			line = append(line, days(row.Learned), days(row.Returned))
		}
	}
	if control {
		if row.Held == nil {
			return append(line, "-")
		}
		line = append(line, fmt.Sprintf("%.0f %%", 100**row.Held))
	}
	return line
}

// notes says what the table leaves out.
func (r Result) notes(w io.Writer) error {
	s := r.Setting
	if _, err := fmt.Fprintf(w, "\n%s people, %d days, %g decisions a person and day; every private mode: epsilon %g "+
		"for all that a person\ndoes in all days, delta %g, channel %s. Seeds: "+
		"%d.\n", chart.Number(float64(s.World.People), 0),
		s.World.Days, s.World.Rate, s.Epsilon, s.Delta, s.Channel, r.Rows[0].Seeds); err != nil {
		return err
	}
	for _, row := range r.Rows {
		if row.Kind == world.Panel && row.Records < row.R {
			if _, err := fmt.Fprintf(w, "%s: %d epochs of %d days end before the last day, so a person reports %d "+
				"times at most.\n", row.Mode, row.Epochs, row.KMax, row.Records); err != nil {
				return err
			}
		}
	}
	if best := Best(r.Rows); best != nil {
		if _, err := fmt.Fprintf(w, "Of the panels, the least regret: %s.\n", best.Mode); err != nil {
			return err
		}
	}
	return nil
}

// drawnDays is over how many days the picture's lines are means: days differ by who happens to decide.
const drawnDays = 3

// Picture is mean reward by day: one-record mode, for each K_max the R of least regret, and the yardsticks.
func (r Result) Picture() chart.Chart {
	of := r.Setting.World
	c := chart.Chart{Title: "What people get, day by day",
		Subtitle: fmt.Sprintf("%s people, epsilon %g for all that a person does", chart.Number(float64(of.People), 0),
			r.Setting.Epsilon),
		X: "day", Y: fmt.Sprintf("mean reward of a decision, mean of %d days", drawnDays)}
	if day := of.ChangeDay(); day > 0 {
		c.Subtitle += fmt.Sprintf("; the world changes on day %d", day)
	}
	c.YMin = r.Rows[0].ByDay[0]
	for _, row := range r.drawn() {
		line := chart.Series{Name: fmt.Sprintf("%s  %.3f", row.Mode, row.Reward)}
		for day := 0; day+drawnDays <= len(row.ByDay); day++ {
			line.X = append(line.X, float64(day)+float64(drawnDays+1)/2)
			line.Y = append(line.Y, sum(row.ByDay[day:day+drawnDays])/drawnDays)
			c.YMin = min(c.YMin, line.Y[day])
		}
		if row.Kind != world.Arrival && row.Kind != world.Panel {
			line.Colour, line.Dashed, line.Width = chart.Grey, true, 1.5
		}
		c.Series = append(c.Series, line)
	}
	return c
}

// drawn are the rows that fit into one readable picture.
func (r Result) drawn() (out []world.Row) {
	best := map[int]world.Row{}
	for _, row := range r.Rows {
		if b, ok := best[row.KMax]; row.Kind == world.Panel && (!ok || row.Regret < b.Regret) {
			best[row.KMax] = row
		}
	}
	for _, row := range r.Rows {
		if b := best[row.KMax]; row.Kind != world.Panel || b.R == row.R {
			out = append(out, row)
		}
	}
	return out
}
