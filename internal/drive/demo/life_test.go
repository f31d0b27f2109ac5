package demo

import (
	"bytes"
	"encoding/json"
	"io"
	"math"
	"path/filepath"
	"testing"
	"time"

	"github.com/riffle-dp/riffle/internal/audit"
	"github.com/riffle-dp/riffle/internal/drive/cluster"
	"github.com/riffle-dp/riffle/internal/drive/progress"
	"github.com/riffle-dp/riffle/internal/world"
	"github.com/riffle-dp/riffle/pkg/plan"
)

// few is a life of few people and days, whose guarantee says little.
func few() LifeOptions {
	return LifeOptions{
		Setting: world.Setting{
			World:   world.World{People: 120, Days: 10, Change: &world.Change{Kind: world.Abrupt}},
			Channel: plan.Shares, Epsilon: 8, Control: 0.05, HalfLife: 4, Alarm: 0.001,
		},
		Mode: world.Mode{Kind: world.Panel, Decisions: 3, Records: 2}, Seed: 1, Day: 600 * time.Millisecond, Hosts: 2,
		Progress: progress.New(io.Discard, progress.Options{Mode: progress.Quiet}),
	}
}

// Shuffler, analyzer and a host are killed in the middle of an epoch each, as by a power cut, and started again. Every
// epoch's panel reports in full, and the audit of the export finds nothing wrong.
func TestLifeSurvivesKilledProcesses(t *testing.T) {
	slow(t)
	o := few()
	o.Executable, o.Out, o.Keep = executable, t.TempDir(), true
	o.Export = filepath.Join(o.Out, "export")
	victims := []string{cluster.Shuffler, cluster.Analyzer, "randomizer-host1"}
	killed := 0
	o.Disturb = func(c *cluster.Cluster, epoch uint64) error {
		if int(epoch) > len(victims) {
			return nil
		}
		killed++
		victim := victims[epoch-1]
		return restarted(c, victim)
	}
	ctx := t.Context()
	r, err := RunLife(ctx, o)
	if err != nil {
		t.Fatalf("%v\n%s", err, logs(o.Out))
	}
	own := r.Rows[0]
	if killed != 3 || own.Epochs != 3 || len(own.Lift) != 3 || own.KMax != 3 || own.R != 2 || own.Panel < 50 {
		t.Errorf("%d killed; %+v", killed, own)
	}
	for i, e := range r.Epochs {
		if int(e.Reports) != own.Panel || e.Day != 3*i || e.Lift.Low > e.Lift.Lift || e.Lift.Lift > e.Lift.High {
			t.Errorf("epoch %d: %d of %d reports, %+v", i+1, e.Reports, own.Panel, e)
		}
	}
	if own.Epsilon == nil || *own.Epsilon > 8 || *own.Epsilon < 6 {
		t.Errorf("epsilon %v", own.Epsilon)
	}
	for _, row := range r.Rows {
		if len(row.ByDay) != 10 || row.Regret < 0 || row.Reward > r.Rows[3].Reward {
			t.Errorf("%+v", row)
		}
	}
	if r.Reported == 0 || r.Rows[3].Regret != 0 {
		t.Errorf("%+v", r)
	}
	folder, err := audit.OpenFolder(o.Export)
	if err != nil {
		t.Fatal(err)
	}
	keys, err := folder.Bundle()
	if err != nil {
		t.Fatal(err)
	}
	report, err := audit.Check(ctx, folder, audit.Options{Trust: keys})
	if err != nil || !report.OK || report.Running || report.Releases != 3 || report.Panel.Drawn != 3 {
		t.Errorf("%+v, %v", report, err)
	}
	if err := r.Picture().Save(filepath.Join(o.Out, "life.png")); err != nil {
		t.Error(err)
	}
	var b bytes.Buffer
	if err := r.WriteTable(&b); err != nil {
		t.Error(err)
	}
	keysOfJSON(t, r)
}

// keysOfJSON holds the keys that programs read.
func keysOfJSON(t *testing.T, r *LifeResult) {
	t.Helper()
	var b bytes.Buffer
	if err := r.WriteJSON(&b); err != nil {
		t.Fatal(err)
	}
	var read struct {
		Rows []map[string]any `json:"rows"`
	}
	if err := json.Unmarshal(b.Bytes(), &read); err != nil {
		t.Fatal(err)
	}
	for _, key := range []string{"mode", "k_max", "r", "epsilon", "regret", "mean_reward", "mean_reward_by_day", "lift",
		"lift_low", "lift_high", "lift_true", "actions", "unchanged"} {
		if _, ok := read.Rows[0][key]; !ok {
			t.Errorf("the JSON has no %s", key)
		}
	}
}

// What no deployment could be started with is refused before any process starts.
func TestLifesThatCannotBe(t *testing.T) {
	for name, change := range map[string]func(*LifeOptions){
		"no host":                  func(o *LifeOptions) { o.Hosts = 0 },
		"a day of no time":         func(o *LifeOptions) { o.Day = 0 },
		"no people":                func(o *LifeOptions) { o.Setting.World.People = 3 },
		"an epoch of all days":     func(o *LifeOptions) { o.Mode.Decisions = 10 },
		"no such channel":          func(o *LifeOptions) { o.Setting.Channel = "post" },
		"a guarantee for nobody":   func(o *LifeOptions) { o.Setting.Epsilon, o.Setting.Channel = 1e-7, plan.Shuffle },
		"an export to what exists": func(o *LifeOptions) { o.Export = "." },
	} {
		o := few()
		change(&o)
		if _, err := o.Check(); err == nil {
			t.Errorf("%s is not refused", name)
		}
	}
	if _, err := few().Check(); err != nil {
		t.Error(err)
	}
}

// Means of days do not mix the days before and after a change.
func TestSmoothedDaysEndAtTheChange(t *testing.T) {
	x, y := smooth([]float64{1, 1, 4, 8, 8, 8}, 3)
	want := []float64{1, 1, 2, 2.5, 8, 8, 8, 8}
	if len(x) != len(want) || x[0] != 0 || x[1] != 0.5 || x[7] != 6 {
		t.Fatalf("%v %v", x, y)
	}
	for i := range want {
		if math.Abs(y[i]-want[i]) > 1e-12 {
			t.Errorf("%v, want %v", y, want)
			break
		}
	}
}
