package experiment

import (
	"bytes"
	"encoding/csv"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/jedib0t/go-pretty/v6/table"

	"github.com/riffle-dp/riffle/internal/chart"
	"github.com/riffle-dp/riffle/pkg/glm/family"
)

// span is the length of a family's range of rewards.
func span(name string, maxReward float64) float64 {
	least, most := family.RewardRange(name, maxReward)
	return most - least
}

// WriteJSON writes {"rows": [...], "summary": [...], "skipped": [...]}.
func (b *Bakeoff) WriteJSON(w io.Writer) error {
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	return e.Encode(b)
}

// WriteCSV writes a header and a line per row; cells that do not apply are empty.
func (b *Bakeoff) WriteCSV(w io.Writer) error {
	out := csv.NewWriter(w)
	number := func(v float64) string { return strconv.FormatFloat(v, 'g', 6, 64) }
	optional := func(v *float64) string {
		if v == nil {
			return ""
		}
		return number(*v)
	}
	lines := [][]string{{"world", "half", "source", "family", "dimension", "options", "people", "algorithm", "trust",
		"epsilon", "seeds", "over", "share_learning", "share_learning_se", "share_end", "share_end_se", "runs_below",
		"value", "final_value", "worst_final_value", "constant_value", "constant_final_value", "uniform_final_value",
		"nonprivate_final_value", "messages_per_user", "bytes_per_user", "refused"}}
	for _, r := range b.Rows {
		line := []string{r.World, r.Half, r.Source, r.Family, strconv.Itoa(r.Dimension), strconv.Itoa(r.Options),
			strconv.Itoa(r.People), r.Algorithm, string(r.Trust), optional(r.Epsilon), strconv.Itoa(r.Seeds), r.Over,
			optional(r.Learning), optional(r.LearningSE), optional(r.End), optional(r.EndSE)}
		if r.Refused == "" {
			line = append(line, strconv.Itoa(r.Below), number(r.Value), number(r.Final), number(r.Worst),
				number(r.Constant), number(r.EndConstant), number(r.EndUniform), number(r.EndGreedy),
				number(r.Messages), number(r.Bytes), "")
		} else {
			line = append(line, "", "", "", "", "", "", "", "", "", "", r.Refused)
		}
		lines = append(lines, line)
	}
	return out.WriteAll(lines)
}

// WriteTable writes the rows, what each learner keeps over the worlds of a half, and what a reader must know; as
// Markdown the rows come second.
func (b *Bakeoff) WriteTable(w io.Writer, markdown bool) error {
	t := chart.Columns{Left: 3}.Table("world", "half", "algorithm", "epsilon", "people", "d", "options", "over",
		"while learning", "last policy", "runs below", "value", "last value", "constant", "non-private")
	share := func(v, se *float64) string {
		switch {
		case v == nil:
			return "-"
		case se == nil:
			return fmt.Sprintf("%.2f", *v)
		}
		return fmt.Sprintf("%.2f ± %.2f", *v, *se)
	}
	for _, r := range b.Rows {
		epsilon := "-"
		if r.Epsilon != nil {
			epsilon = strconv.FormatFloat(*r.Epsilon, 'g', -1, 64)
		}
		line := table.Row{r.World, r.Half, r.Algorithm, epsilon, chart.Number(float64(r.People), 0), r.Dimension,
			r.Options}
		if r.Refused != "" {
			t.AppendRow(append(line, "", "refused", "refused"))
			continue
		}
		t.AppendRow(append(line, r.Over, share(r.Learning, r.LearningSE), share(r.End, r.EndSE),
			fmt.Sprintf("%d of %d", r.Below, r.Seeds), fmt.Sprintf("%.4f", r.Value), fmt.Sprintf("%.4f", r.Final),
			fmt.Sprintf("%.4f", r.EndConstant), fmt.Sprintf("%.4f", r.EndGreedy)))
	}
	sum := chart.Columns{Left: 2}.Table("algorithm", "half", "worlds", "while learning", "least learning",
		"losing worlds", "last policy", "least last", "in", "runs below", "most in one world")
	for _, s := range b.Summary {
		most := "0"
		if s.BelowMost > 0 {
			most = fmt.Sprintf("%d (%s)", s.BelowMost, s.BelowWorld)
		}
		learningSE, endSE := &s.LearningSE, &s.EndSE
		if s.Runs == s.Worlds { // one seed
			learningSE, endSE = nil, nil
		}
		sum.AppendRow(table.Row{s.Algorithm, s.Half, s.Worlds, share(&s.Learning, learningSE),
			fmt.Sprintf("%.2f", s.LearningLeast), s.Losing, share(&s.End, endSE), fmt.Sprintf("%.2f", s.EndLeast),
			s.EndWorld, fmt.Sprintf("%d of %d", s.Below, s.Runs), most})
	}
	rendered := []string{t.Render(), sum.Render()}
	if markdown {
		rendered = []string{sum.RenderMarkdown(), t.RenderMarkdown()} // the first is the one for a page
	}
	_, err := fmt.Fprintln(w, strings.Join(append(rendered, b.notes()...), "\n\n"))
	return err
}

// notes are what a reader of the table must know.
func (b *Bakeoff) notes() []string {
	all := []string{"Shares are gains over the best constant arm, divided by that of the last policy of the fully " +
		"sequential learner without privacy, nonprivate-greedy. Runs below: last policies worth less than what " +
		"gains are over. In means over worlds a share above 1 counts 1."}
	var uniform, best, nothing, refused []string
	for _, r := range b.Rows {
		switch {
		case r.Refused != "":
			refused = append(refused, fmt.Sprintf("%s on %s: %s", r.Algorithm, r.World, r.Refused))
		case r.Over == OverUniform && !slices.Contains(uniform, r.World):
			uniform = append(uniform, r.World)
		case r.Over == OverBest && !slices.Contains(best, r.World):
			best = append(best, r.World)
		case r.Over == "" && !slices.Contains(nothing, r.World):
			nothing = append(nothing, r.World)
		}
	}
	add := func(of []string, text, between string) {
		if len(of) > 0 {
			all = append(all, text+strings.Join(of, between))
		}
	}
	add(uniform, fmt.Sprintf("Gains are over uniform play where nonprivate-greedy gains less than %g of the rewards' "+
		"range, or than %d standard errors, over the best constant arm: ", leastGain, leastErrors), ", ")
	add(best, "Gains are over uniform play, and shares of that of each person's best arm, where nonprivate-greedy "+
		"gains as little over uniform play: ", ", ")
	add(nothing, "No share, since there is nothing to divide by: ", ", ")
	add(b.Skipped, "Skipped: ", ", ")
	add(refused, "Refused:\n  ", "\n  ")
	return all
}

// Save writes rows.json, rows.csv, table.txt, table.md and the picture into a folder, and returns the picture's paths.
func (b *Bakeoff) Save(folder, title string) ([]string, error) {
	if err := os.MkdirAll(folder, 0o755); err != nil {
		return nil, err
	}
	for name, write := range map[string]func(io.Writer) error{
		"rows.json": b.WriteJSON,
		"rows.csv":  b.WriteCSV,
		"table.txt": func(w io.Writer) error { return b.WriteTable(w, false) },
		"table.md":  func(w io.Writer) error { return b.WriteTable(w, true) },
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
	if len(b.Rows) == 0 { // every world is skipped
		return nil, nil
	}
	for _, name := range []string{"bakeoff.png", "bakeoff.svg"} {
		path := filepath.Join(folder, name)
		if err := b.Picture(title).Save(path); err != nil {
			return nil, err
		}
		paths = append(paths, path)
	}
	return paths, nil
}
