package experiment

import (
	"bytes"
	"encoding/csv"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"

	"github.com/jedib0t/go-pretty/v6/table"

	"github.com/riffle-dp/riffle/internal/chart"
)

// WriteJSON writes {"rows": [...]}.
func WriteJSON(w io.Writer, rows []Row) error {
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	if ofRegression(rows) {
		return e.Encode(map[string]any{"rows": errorRows(rows)})
	}
	return e.Encode(map[string]any{"rows": banditRows(rows)})
}

// banditRow is a Row in JSON. The delta of a guarantee that is pure epsilon is 0 and not left out, so that it is told
// from no guarantee.
type banditRow struct {
	Row
	Delta *float64 `json:"delta,omitempty"` // in place of that of Row
}

func banditRows(rows []Row) []banditRow {
	out := make([]banditRow, len(rows))
	for i, r := range rows {
		out[i] = banditRow{r, r.delta()}
	}
	return out
}

// delta is that of the row's guarantee, 0 if it is pure epsilon; nil without one.
func (r Row) delta() *float64 {
	if r.Epsilon == nil {
		return nil
	}
	return &r.Delta
}

// WriteCSV writes a header and a line per row; cells that do not apply are empty.
func WriteCSV(w io.Writer, rows []Row) error {
	if ofRegression(rows) {
		return writeErrorsCSV(w, rows)
	}
	out := csv.NewWriter(w)
	number := func(v float64) string { return strconv.FormatFloat(v, 'g', 10, 64) }
	optional := func(v *float64) string {
		if v == nil {
			return ""
		}
		return number(*v)
	}
	lines := [][]string{{
		"environment", "algorithm", "epsilon", "horizon", "seeds", "regret", "regret_se", "worst_regret",
		"messages_per_user",
		"value", "value_se", "final_value", "final_value_se", "worst_final_value",
		"trust", "bytes_per_user", "variance_ratio", "regret_over_central", "regret_over_central_se",
		"delta",
	}}
	named := func(r Row, v float64) string { // of rows whose channel is named
		if r.Trust == "" || v == 0 {
			return ""
		}
		return number(v)
	}
	for _, r := range rows {
		lines = append(lines, []string{
			r.Environment, r.Algorithm, optional(r.Epsilon), strconv.Itoa(r.Horizon), strconv.Itoa(r.Seeds),
			number(r.Regret), number(r.RegretSE), number(r.Worst), number(r.Messages),
			number(r.Value), number(r.ValueSE), optional(r.Final), optional(r.FinalSE), optional(r.FinalWorst),
			string(r.Trust), named(r, r.Bytes), named(r, r.VarianceRatio), named(r, r.OverCentral),
			named(r, r.OverCentralSE), optional(r.delta()),
		})
	}
	return out.WriteAll(lines)
}

// WriteTable writes the rows for a terminal, or as Markdown, and then the growth of regret if there are enough
// horizons.
func WriteTable(w io.Writer, rows []Row, markdown bool) error {
	if ofRegression(rows) {
		return writeErrorsTable(w, rows, markdown)
	}
	final, several, priced, central, floors, deltas := false, false, false, false, false, false
	changes := slices.ContainsFunc(rows, func(r Row) bool { return r.change > 0 })
	first := -1.0 // of the deltas
	for _, r := range rows {
		priced, central = priced || r.hasPrice(), central || r.OverCentral > 0
		if delta := r.delta(); delta != nil {
			deltas = deltas || first >= 0 && *delta != first
			first = *delta
		}
		final, floors = final || r.Final != nil, floors || r.Floor > 0
		several = several || r.Environment != rows[0].Environment
	}
	header := []any{"algorithm", "epsilon", "people", "seeds", "regret", "worst seed", "mean value", "messages"}
	columns := chart.Columns{Left: 1}
	if deltas {
		header = slices.Insert(header, 2, any("delta"))
	}
	if priced {
		header = append(header, "bytes", "CPU device", "CPU servers", "noise ratio")
	}
	if central {
		header = append(header, "regret over central's")
	}
	if floors {
		header = append(header, "floor of regret")
	}
	if several {
		header, columns.Left = append([]any{"environment"}, header...), 2
	}
	if final {
		header = append(header, "last policy", "its worst seed")
	}
	if changes {
		header = append(header, "people to learn", "to return")
	}
	spread := len(rows) > 0 && rows[0].Spread != nil
	if spread {
		header = append(header, "rounds spread")
	}
	t := columns.Table(header...)
	for _, r := range rows {
		epsilon := "-"
		if r.Epsilon != nil {
			epsilon = strconv.FormatFloat(*r.Epsilon, 'g', -1, 64)
		}
		line := table.Row{
			r.Algorithm, epsilon, chart.Number(float64(r.Horizon), 0), r.Seeds,
			r.regret(), figure(r.Worst), fmt.Sprintf("%.4f", r.Value), fmt.Sprintf("%.0f", r.Messages),
		}
		if deltas {
			delta := "-"
			if v := r.delta(); v != nil {
				delta = strconv.FormatFloat(*v, 'g', -1, 64)
			}
			line = slices.Insert(line, 2, any(delta))
		}
		if priced {
			line = append(line, r.costs()...)
		}
		if central {
			ratio := ""
			if r.OverCentral > 0 {
				ratio = fmt.Sprintf("%.3f ± %.3f", r.OverCentral, r.OverCentralSE)
			}
			line = append(line, ratio)
		}
		if floors {
			line = append(line, figure(r.Floor))
		}
		if several {
			line = append(table.Row{r.Environment}, line...)
		}
		if r.Final != nil {
			line = append(line, fmt.Sprintf("%.4f ± %.4f", *r.Final, *r.FinalSE), fmt.Sprintf("%.4f", *r.FinalWorst))
		}
		if changes {
			line = append(line, r.peopleCell(r.Learned), r.peopleCell(r.Returned))
		}
		if spread && r.Spread != nil {
			line = append(line, fmt.Sprintf("%.2f ± %.2f %%", 100**r.Spread, 100**r.SpreadSE))
		}
		t.AppendRow(line)
	}
	rendered := t.Render
	if markdown {
		rendered = t.RenderMarkdown
	}
	if _, err := fmt.Fprintln(w, rendered()); err != nil {
		return err
	}
	fits := Exponents(rows)
	if len(fits) > 0 {
		if _, err := fmt.Fprintln(w, "\nRegret grows like people to the power of"); err != nil {
			return err
		}
	}
	for _, f := range fits {
		if _, err := fmt.Fprintf(w, "  %-20s %.3f ± %.3f over %s to %s people (%s)\n", f.Algorithm, f.Power, f.SE,
			chart.Number(float64(f.From), 0), chart.Number(float64(f.To), 0), f.Condition); err != nil {
			return err
		}
	}
	return nil
}

// peopleCell is the cell of a number of people, of whom nil are never enough.
func (r Row) peopleCell(people *int) string {
	switch {
	case r.change == 0:
		return ""
	case people == nil:
		return "never"
	}
	return chart.Number(float64(*people), 0)
}

// regret is the cell of the mean regret. One seed has no standard error.
func (r Row) regret() string {
	if r.Seeds == 1 {
		return figure(r.Regret)
	}
	return fmt.Sprintf("%s ± %s", figure(r.Regret), figure(r.RegretSE))
}

// hasPrice reports whether it is known what the row's channel costs.
func (r Row) hasPrice() bool { return r.Trust != "" && r.Bytes > 0 }

// costs are the cells of what a row's channel costs; empty ones where that is not known.
func (r Row) costs() []any {
	if !r.hasPrice() {
		return []any{"", "", "", ""}
	}
	milliseconds := func(s float64) string {
		if s == 0 {
			return ""
		}
		return fmt.Sprintf("%.2f ms", 1e3*s)
	}
	return []any{chart.Number(r.Bytes, 0), milliseconds(r.DeviceCPU), milliseconds(r.ServerCPU),
		fmt.Sprintf("%.3f", r.VarianceRatio)}
}

func figure(v float64) string {
	if math.Abs(v) < 100 {
		return strconv.FormatFloat(v, 'f', 1, 64)
	}
	return chart.Number(v, 0)
}

// Save writes rows.json, rows.csv, table.txt, table.md and the charts into a folder, and returns the charts' paths.
func (e *Experiment) Save(folder string, rows []Row) ([]string, error) {
	if err := os.MkdirAll(folder, 0o755); err != nil {
		return nil, err
	}
	for name, write := range map[string]func(io.Writer) error{
		"rows.json": func(w io.Writer) error { return WriteJSON(w, rows) },
		"rows.csv":  func(w io.Writer) error { return WriteCSV(w, rows) },
		"table.txt": func(w io.Writer) error { return WriteTable(w, rows, false) },
		"table.md":  func(w io.Writer) error { return WriteTable(w, rows, true) },
	} {
		var content bytes.Buffer
		if err := write(&content); err != nil {
			return nil, err
		}
		if err := os.WriteFile(filepath.Join(folder, name), content.Bytes(), 0o644); err != nil {
			return nil, err
		}
	}
	var paths []string
	for name, chart := range e.Charts(rows) {
		path := filepath.Join(folder, name+".png")
		if err := chart.Save(path); err != nil {
			return nil, fmt.Errorf("%s: %w", path, err)
		}
		paths = append(paths, path)
	}
	return paths, nil
}
