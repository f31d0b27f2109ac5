package load

import (
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"math"
	"slices"
	"strings"

	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/jedib0t/go-pretty/v6/text"

	"github.com/riffle-dp/riffle/internal/broker"
	"github.com/riffle-dp/riffle/internal/bus"
	"github.com/riffle-dp/riffle/internal/chart"
	"github.com/riffle-dp/riffle/pkg/privacy"
)

// Result is what a run came to. Its JSON form is a stable interface: keys are added, never renamed or removed.
type Result struct {
	Data    string  `json:"data"`
	Seconds float64 `json:"seconds"`

	Decided   int            `json:"decided"`
	Sampled   int            `json:"sampled"`
	Unsampled map[string]int `json:"unsampled"` // decided for without taking part, by reason
	DropOuts  int            `json:"drop_outs"`
	Rewarded  int            `json:"rewarded"`
	Rate      float64        `json:"rate"`
	PeakRate  float64        `json:"peak_rate"`
	Repeats   int            `json:"repeats"` // attempts beyond the first of each call
	Decisions Latency        `json:"decisions"`
	Rewards   Latency        `json:"rewards"`

	Regret        float64 `json:"regret"`
	UniformRegret float64 `json:"uniform_regret"`

	Refusals   []Refusal      `json:"refusals"`
	Unexpected int            `json:"unexpected"` // refusals that were not provoked
	Anomalies  map[string]int `json:"anomalies"`  // what must never happen

	Watched  bool      `json:"watched"` // the public record was read
	Final    bool      `json:"final"`
	Releases []Release `json:"releases"`
	Compared int       `json:"compared"`
	Epsilon  float64   `json:"epsilon"`
	MaxZ     float64   `json:"max_z"`
	// ChiSquare is over all compared coordinates of the run.
	ChiSquare   float64 `json:"chi_square"`
	Coordinates int     `json:"coordinates"`
	TooLarge    float64 `json:"p_too_large"`
	TooSmall    float64 `json:"p_too_small"`
	Enrolled    int     `json:"enrolled"`
	Reports     int     `json:"reports"` // in releases
	Absent      int     `json:"absent"`  // enrolled, in no release and in no destroyed cohort
	Destroyed   int     `json:"destroyed_cohorts"`
	Messages    uint64  `json:"messages"`

	Accounts     []Account     `json:"accounts"`
	Provocations []Provocation `json:"provocations"`
	Interrupted  bool          `json:"interrupted"`
	Unsettled    string        `json:"unsettled,omitempty"` // what was still open at the end
	Short        *Shortfall    `json:"short,omitempty"`     // the cohort that people ran out in; it is not waited for

	Goals []Verdict `json:"goals"`

	// Of a deployment that was started for the run; empty otherwise.
	Trust string `json:"trust,omitempty"`
	// WorkSeconds is the wall time from the first person's coming until everything was counted and learned from.
	WorkSeconds float64 `json:"work_seconds,omitempty"`
	// Traffic is what the roles sent to the broker and received from it, in bytes; the devices are the randomizer.
	Traffic   map[bus.Role]broker.Traffic `json:"traffic,omitempty"`
	Processes []chart.Process             `json:"processes,omitempty"`
	// DeviceCPUSecondsPerUser is of the process that holds the devices and plays their people, so it bounds the
	// devices' part from above; ServerCPUSecondsPerUser is of shuffler, analyzer and broker.
	DeviceCPUSecondsPerUser float64 `json:"device_cpu_seconds_per_user,omitempty"`
	ServerCPUSecondsPerUser float64 `json:"server_cpu_seconds_per_user,omitempty"`
}

// ifCompared is v where at least one release was compared.
func (r *Result) ifCompared(v float64) float64 {
	if r.Compared == 0 {
		return math.NaN()
	}
	return v
}

func (r *Result) ratio() float64 {
	if r.UniformRegret <= 0 {
		return math.NaN()
	}
	return r.Regret / r.UniformRegret
}

// losses counts reports and other items that nothing accounts for. Without the public record and the roles' accounts it
// is not known.
func (r *Result) losses() float64 {
	if !r.Watched || len(r.Accounts) == 0 {
		return math.NaN()
	}
	n := float64(r.Absent)
	for _, a := range r.Accounts {
		n += math.Abs(float64(a.Unaccounted))
	}
	return n
}

// Sound reports whether everything that was checked is as it should be, goals aside.
func (r *Result) Sound() bool {
	for _, rel := range r.Releases {
		if !rel.Sound() {
			return false
		}
	}
	return len(r.Anomalies) == 0 && (r.Compared == 0 || min(r.TooLarge, r.TooSmall) >= FalseAlarm)
}

// Missed lists the goals that were not met.
func (r *Result) Missed() []string {
	var out []string
	for _, v := range r.Goals {
		if v.Met {
			continue
		}
		if v.Value == nil {
			out = append(out, v.Goal+" (not measured)")
		} else {
			out = append(out, fmt.Sprintf("%s (it is %s)", v.Goal, v.text()))
		}
	}
	return out
}

// WriteJSON writes the result as one indented JSON object and a newline.
func (r *Result) WriteJSON(w io.Writer) error {
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	return e.Encode(r)
}

// WriteTable writes the result for people.
func (r *Result) WriteTable(w io.Writer) error {
	blocks := []table.Writer{r.peopleTable(), r.latencyTable()}
	if len(r.Refusals)+len(r.Anomalies) > 0 {
		blocks = append(blocks, r.refusalTable())
	}
	if len(r.Releases) > 0 {
		blocks = append(blocks, r.releaseTable())
	}
	if len(r.Provocations) > 0 {
		blocks = append(blocks, r.provocationTable())
	}
	if len(r.Accounts) > 0 {
		blocks = append(blocks, r.accountTable())
	}
	if len(r.Processes) > 0 {
		blocks = append(blocks, r.processTable())
	}
	if len(r.Goals) > 0 {
		blocks = append(blocks, r.goalTable())
	}
	for i, t := range blocks {
		if i > 0 {
			if _, err := fmt.Fprintln(w); err != nil {
				return err
			}
		}
		if _, err := fmt.Fprintln(w, t.Render()); err != nil {
			return err
		}
	}
	return nil
}

func newTable(header ...any) table.Writer {
	t := table.NewWriter()
	style := table.StyleLight
	style.Options = table.Options{SeparateHeader: true}
	style.Format.Header = text.FormatDefault
	t.SetStyle(style)
	t.AppendHeader(header)
	t.SetColumnConfigs(columns(len(header)))
	return t
}

// columns has names to the left and numbers to the right.
func columns(n int) []table.ColumnConfig {
	all := []table.ColumnConfig{{Number: 1, WidthMin: 30}}
	for i := 2; i <= n; i++ {
		all = append(all, table.ColumnConfig{Number: i, Align: text.AlignRight, AlignHeader: text.AlignRight})
	}
	return all
}

func (r *Result) processTable() table.Writer {
	t := newTable("Process ("+r.Trust+")", "CPU", "per person", "most memory")
	for _, p := range r.Processes {
		t.AppendRow(table.Row{p.Name, fmt.Sprintf("%.1f s", p.CPUSeconds),
			fmt.Sprintf("%.3f ms", 1000*p.CPUSeconds/float64(max(1, r.Decided))),
			fmt.Sprintf("%.0f MB", float64(p.PeakBytes)/1e6)})
	}
	return t
}

func (r *Result) peopleTable() table.Writer {
	t := newTable("People", "")
	t.AppendRow(table.Row{"decided for", r.Decided})
	t.AppendRow(table.Row{"of them sampled", r.Sampled})
	for _, reason := range slices.Sorted(maps.Keys(r.Unsampled)) {
		t.AppendRow(table.Row{"not sampled: " + reason, r.Unsampled[reason]})
	}
	t.AppendRow(table.Row{"rewards accepted", r.Rewarded})
	t.AppendRow(table.Row{"dropped out before the reward", r.DropOuts})
	if r.Destroyed > 0 {
		t.AppendRow(table.Row{"cohorts destroyed (too few reported)", r.Destroyed})
	}
	if s := r.Short; s != nil {
		of := fmt.Sprintf("%d of %d", s.Taken, s.Size)
		t.AppendRow(table.Row{fmt.Sprintf("epoch %d is short of people", s.Epoch), of})
	}
	if r.Epsilon > 0 {
		t.AppendRow(table.Row{"privacy, epsilon of the worst-off", privacy.Spell(r.Epsilon)})
	}
	t.AppendRow(table.Row{"people a second, mean", fmt.Sprintf("%.1f", r.Rate)})
	t.AppendRow(table.Row{"people a second, best second", fmt.Sprintf("%.0f", r.PeakRate)})
	t.AppendRow(table.Row{"calls made again", r.Repeats})
	if ratio := r.ratio(); !math.IsNaN(ratio) {
		t.AppendRow(table.Row{"regret", fmt.Sprintf("%.1f", r.Regret)})
		t.AppendRow(table.Row{"regret of uniform play", fmt.Sprintf("%.1f", r.UniformRegret)})
		t.AppendRow(table.Row{"ratio", fmt.Sprintf("%.3f", ratio)})
	}
	t.AppendRow(table.Row{"wall time", fmt.Sprintf("%.1f s", r.Seconds)})
	return t
}

func (r *Result) latencyTable() table.Writer {
	t := newTable("Milliseconds", "calls", "mean", "50%", "90%", "99%", "99.9%", "max")
	for _, l := range []struct {
		name string
		Latency
	}{{"decision", r.Decisions}, {"reward", r.Rewards}} {
		row := table.Row{l.name, l.Calls}
		for _, v := range []float64{l.Mean, l.P50, l.P90, l.P99, l.P999, l.Max} {
			row = append(row, fmt.Sprintf("%.1f", v))
		}
		t.AppendRow(row)
	}
	return t
}

func (r *Result) refusalTable() table.Writer {
	t := newTable("Refused", "reason", "times", "provoked")
	for _, f := range r.Refusals {
		t.AppendRow(table.Row{f.Item, f.Reason, f.Count, yes(f.Provoked)})
	}
	for _, what := range slices.Sorted(maps.Keys(r.Anomalies)) {
		t.AppendRow(table.Row{"ANOMALY: " + what, "", r.Anomalies[what], ""})
	}
	return t
}

func (r *Result) releaseTable() table.Writer {
	t := newTable("Released sums", "reports", "error", "bound", "largest z", "chi-square", "p", "verdict")
	words := table.ColumnConfig{Number: 8, Align: text.AlignLeft, AlignHeader: text.AlignLeft, WidthMax: 60}
	t.SetColumnConfigs(append(columns(7), words))
	test := func(sum float64, freedom int, large, small float64) table.Row {
		p := fmt.Sprintf("%.2g", min(large, small))
		return table.Row{fmt.Sprintf("%.1f of %d", sum, freedom), p, verdict(large, small)}
	}
	for _, rel := range r.Releases {
		name := fmt.Sprintf("epoch %d, round %d, %s", rel.Epoch, rel.Round, rel.Statistic)
		if !rel.Compared {
			t.AppendRow(table.Row{name, rel.Reports, "", "", "", "", "", "not comparable: " + rel.Why})
			continue
		}
		row := table.Row{name, rel.Reports}
		for _, v := range []float64{rel.Error, rel.Bound} {
			row = append(row, fmt.Sprintf("%.3g", v))
		}
		row = append(row, fmt.Sprintf("%.2f", rel.MaxZ))
		t.AppendRow(append(row, test(rel.ChiSquare, rel.Coordinates, rel.TooLarge, rel.TooSmall)...))
	}
	if r.Compared > 0 {
		row := table.Row{"all together", "", "", "", fmt.Sprintf("%.2f", r.MaxZ)}
		t.AppendRow(append(row, test(r.ChiSquare, r.Coordinates, r.TooLarge, r.TooSmall)...))
	}
	return t
}

func verdict(large, small float64) string {
	switch {
	case large < FalseAlarm:
		return "TOO LARGE: records lost or altered"
	case small < FalseAlarm:
		return "TOO SMALL: noise is missing"
	}
	return "as it should be"
}

func (r *Result) provocationTable() table.Writer {
	t := newTable("Hostile reports", "sent", "refused")
	for _, p := range r.Provocations {
		refused := any("not checked")
		if p.Refused != nil {
			refused = *p.Refused
		}
		t.AppendRow(table.Row{p.Reason, p.Sent, refused})
	}
	return t
}

func (r *Result) accountTable() table.Writer {
	t := newTable("Accounts of the roles", "received", "resumed", "released", "refused", "pending", "unaccounted")
	for _, a := range r.Accounts {
		name := a.Role + ": " + strings.ReplaceAll(a.Item, "_", " ")
		t.AppendRow(table.Row{name, a.Received, a.Resumed, a.Released, a.refusals(), a.Pending, a.Unaccounted})
	}
	return t
}

func (r *Result) goalTable() table.Writer {
	t := newTable("Goal", "measured", "met")
	for _, v := range r.Goals {
		value := "not measured"
		if v.Value != nil {
			value = v.text()
		}
		t.AppendRow(table.Row{v.Goal, value, yes(v.Met)})
	}
	return t
}

func yes(b bool) string {
	if b {
		return "yes"
	}
	return "NO"
}
