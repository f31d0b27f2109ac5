package demo

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"

	"github.com/riffle-dp/riffle/internal/audit/effect"
	"github.com/riffle-dp/riffle/internal/chart"
	"github.com/riffle-dp/riffle/internal/drive/cluster"
	"github.com/riffle-dp/riffle/internal/play"
	"github.com/riffle-dp/riffle/internal/world"
	"github.com/riffle-dp/riffle/pkg/privacy"
)

// LifeResult is the result of a life. Its JSON form is a stable interface: keys are added, never renamed or removed.
type LifeResult struct {
	Setting world.Setting `json:"setting"`
	Seed    uint64        `json:"seed"` // of the world; the noise has none
	// Rows are the deployment and, on the same occasions, the yardsticks. Rewards and regret are expected ones, of the
	// arms that were played, in the policy and in the control group.
	Rows   []LifeRow    `json:"rows"`
	Epochs []*LifeEpoch `json:"epochs"`
	// Verdict reports whether the policy helps, as the deployment's own log shows.
	Verdict string `json:"verdict"`
	Change  int    `json:"change_day,omitempty"` // from 0, on which the world has changed
	// Late counts rewards that came after their window, and Reported the decisions that a report had room for.
	Late      int `json:"late_rewards"`
	Decisions int `json:"decisions"`
	Reported  int `json:"reported_decisions"`
	// of people whose report had left, on a machine that is too slow
	Over        int             `json:"decisions_after_report"`
	Processes   []chart.Process `json:"processes,omitempty"`
	WallSeconds float64         `json:"wall_seconds"`
}

// LifeRow is a row as riffle-lab simulate life has it, and what happened in each epoch.
type LifeRow struct {
	world.Row
	Actions []string `json:"actions,omitempty"` // of the rules, by epoch; empty: none
	// by epoch: how probable its sums are if the world is what it was; 1: not tested
	Unchanged []float64 `json:"unchanged,omitempty"`
}

// LifeEpoch is what the log says of an epoch, and when it was.
type LifeEpoch struct {
	effect.Epoch
	Day  int     `json:"day"`       // on which its policy began, from 0
	True float64 `json:"lift_true"` // in expected rewards of everybody's decisions in its days; known to the demo only
}

// The names of the rows. They are the kinds of riffle-lab simulate life, and one more.
const bestPossible world.Kind = "best possible"

// result sums the days up.
func (d *days) result(found *effect.Result) *LifeResult {
	s := d.o.Setting
	r := &LifeResult{Setting: s, Seed: d.o.Seed, Verdict: found.Verdict, Change: s.World.ChangeDay()}
	reward := func(k world.Kind, of func(day) float64) LifeRow {
		row := world.Row{Mode: string(k), Kind: k, Seeds: 1}
		total, regret := 0.0, 0.0
		for _, x := range d.by {
			n := float64(max(1, x.decisions))
			row.ByDay, row.RegretDay = append(row.ByDay, of(x)/n), append(row.RegretDay, (x.best-of(x))/n)
			total += of(x)
			regret += x.best - of(x)
		}
		row.Regret, row.Reward = regret, total/float64(max(1, r.Decisions))
		last, n := 0.0, 0
		for _, x := range d.by[max(0, len(d.by)-7):] {
			last += of(x)
			n += x.decisions
		}
		row.LastWeek = last / float64(max(1, n))
		return LifeRow{Row: row}
	}
	for _, x := range d.by {
		r.Decisions += x.decisions
		r.Late += x.late
		r.Reported += x.reported
		r.Over += x.over
	}
	own := reward(world.Panel, func(x day) float64 { return x.played })
	epsilon := float64(found.Epsilon)
	own.Mode, own.KMax, own.R = d.o.Mode.Name(), d.o.Mode.Decisions, d.o.Mode.Records
	own.Records, own.Panel, own.Epsilon, own.Delta = d.of.Records, d.of.Panel, &epsilon, found.Delta
	own.Learned, own.Returned = play.Return(own.RegretDay, r.Change)
	held := 0
	for i, e := range found.Epochs {
		x := &LifeEpoch{Epoch: e}
		if i < len(d.began) {
			x.Day = d.began[i]
			x.True = d.lift(x.Day)
		}
		r.Epochs = append(r.Epochs, x)
		if e.Reports > 0 {
			own.Epochs++
		}
		unchanged := 1.0
		if e.Unchanged != nil {
			unchanged = *e.Unchanged
		}
		own.Actions, own.Unchanged = append(own.Actions, e.Action), append(own.Unchanged, unchanged)
		if e.Lift == nil {
			continue
		}
		if e.Lift.Low <= x.True && x.True <= e.Lift.High {
			held++
		}
		own.LiftDay, own.LiftTrue = append(own.LiftDay, x.Day), append(own.LiftTrue, x.True)
		own.Lift, own.LiftLow = append(own.Lift, e.Lift.Lift), append(own.LiftLow, e.Lift.Low)
		own.LiftHigh = append(own.LiftHigh, e.Lift.High)
	}
	if n := len(own.Lift); n > 0 {
		share := float64(held) / float64(n)
		own.Held = &share
	}
	r.Rows = []LifeRow{own,
		reward(world.Default, func(x day) float64 { return x.standard }),
		reward(world.Uniform, func(x day) float64 { return x.uniform }),
		reward(bestPossible, func(x day) float64 { return x.best }),
	}
	return r
}

// lift is by how much the policy of the epoch that began on a day was better than the default arm. Those of the control
// group got the default arm, so that they add nothing.
func (d *days) lift(began int) float64 {
	gain, decisions := 0.0, 0
	for _, x := range d.by[began:min(began+d.of.Window, len(d.by))] {
		gain += x.played - x.standard
		decisions += x.decisions
	}
	return gain / float64(max(1, decisions)) / (1 - d.o.Setting.Control)
}

func (r *LifeResult) addProcess(name string, u cluster.Usage) {
	r.Processes = append(r.Processes, chart.Process{Name: name, CPUSeconds: u.CPU.Seconds(), PeakBytes: u.Peak})
}

// WriteJSON writes the result as one JSON object.
func (r *LifeResult) WriteJSON(w io.Writer) error {
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	return e.Encode(r)
}

// WriteTable writes the result for a terminal.
func (r *LifeResult) WriteTable(w io.Writer) error {
	t := chart.Columns{Left: 1}.Table(fmt.Sprintf("%s decisions in %d days", chart.Number(float64(r.Decisions), 0),
		len(r.Rows[0].ByDay)), "mean reward", "last week", "regret")
	for _, row := range r.Rows {
		t.AppendRow([]any{row.Mode, chart.Number(row.Reward, 4), chart.Number(row.LastWeek, 4),
			chart.Number(row.Regret, 0)})
	}
	e := chart.Columns{}.Table("epoch", "from day", "reports", "lift", "95 % interval", "true lift", "unchanged",
		"rules")
	for _, x := range r.Epochs {
		lift, interval, unchanged := "-", "-", "-"
		if x.Lift != nil {
			lift = fmt.Sprintf("%+.3f", x.Lift.Lift)
			interval = fmt.Sprintf("%+.3f to %+.3f", x.Lift.Low, x.Lift.High)
		}
		if x.Unchanged != nil {
			unchanged = fmt.Sprintf("%.2g", *x.Unchanged)
		}
		action := x.Action
		if x.Changed {
			action = "the world has changed " + action
		}
		e.AppendRow([]any{x.Epoch.Epoch, x.Day, x.Reports, lift, interval, fmt.Sprintf("%+.3f", x.True), unchanged,
			action})
	}
	own := r.Rows[0]
	seconds := 0.0
	for _, p := range r.Processes {
		seconds += p.CPUSeconds
	}
	_, err := fmt.Fprintf(w, "%s\n\n%s\n\n%s\n%s people; ε = %s at δ = %g for all that a person does in %d days, in "+
		"%d reports at most.\nReports had room for %s decisions; %s decisions and %s rewards came too late for "+
		"theirs.\n%.0f seconds, %.0f of CPU.\n",
		t.Render(), e.Render(), r.Verdict, chart.Number(float64(r.Setting.World.People), 0),
		privacy.Spell(*own.Epsilon),
		own.Delta, len(own.ByDay), own.Records, chart.Number(float64(r.Reported), 0), chart.Number(float64(r.Over), 0),
		chart.Number(float64(r.Late), 0),
		r.WallSeconds, seconds)
	return err
}

// SaveJSON writes the result into a file.
func (r *LifeResult) SaveJSON(path string) error {
	var b bytes.Buffer
	if err := r.WriteJSON(&b); err != nil {
		return err
	}
	return os.WriteFile(path, b.Bytes(), 0o644) //nolint:gosec // for whoever ran the demo
}
