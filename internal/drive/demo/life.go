package demo

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/riffle-dp/riffle/internal/analyzer"
	"github.com/riffle-dp/riffle/internal/audit"
	"github.com/riffle-dp/riffle/internal/audit/effect"
	"github.com/riffle-dp/riffle/internal/config"
	"github.com/riffle-dp/riffle/internal/drive/cluster"
	"github.com/riffle-dp/riffle/internal/drive/progress"
	"github.com/riffle-dp/riffle/internal/world"
	"github.com/riffle-dp/riffle/pkg/glm"
)

// LifeOptions say what deployment of panels to run over the days of a world.
type LifeOptions struct {
	// Setting is the world, the guarantee of a person for all days, and the learner's settings.
	Setting world.Setting
	// Mode is one of panels: how many days an epoch has, and in how many a person reports.
	Mode       world.Mode
	Seed       uint64        // of the world; the noise and the draw of panels have none
	Day        time.Duration // length of a day, at least
	Hosts      int           // randomizer processes
	Executable string        // riffle itself
	Out        string        // folder of the results
	Keep       bool          // keep the deployment's folder under Out
	Export     string        // folder that the deployment's logs are exported to; empty: none
	Progress   *progress.Progress
	// Disturb, which may be nil, is called in each epoch when half of its days are over. Tests kill processes there.
	Disturb func(c *cluster.Cluster, epoch uint64) error
}

// lifeJitter is over how long the reports of an epoch are spread.
func (o LifeOptions) lifeJitter() time.Duration {
	return min(max(o.Day/2, 200*time.Millisecond), 5*time.Second)
}

// spare is how much longer an epoch's reward window is than its days: devices learn of the draw one after the other,
// and the last rewards of a day come late on a busy machine.
func (o LifeOptions) spare() time.Duration {
	return o.Day + o.lifeJitter() + time.Duration(o.Setting.World.People)*time.Second/1500
}

// settings are the analyzer's.
func (o LifeOptions) settings() (analyzer.Settings, world.Schedule, error) {
	w, s := o.Setting.World, analyzer.DefaultSettings()
	of, err := o.Mode.Schedule(w)
	if err != nil {
		return s, of, err
	}
	l, p := &s.Learner, &s.Privacy
	l.Profile, l.Family, l.Dimension, l.Radius = string(glm.Practical), world.Family, w.Dimension, w.Norm
	l.Horizon = of.Panel * of.Epochs
	l.HalfLife, l.Alarm = o.Setting.HalfLife, o.Setting.Alarm
	l.Control, l.ControlShare, l.Caution = o.Setting.Control, o.Setting.ControlShare, o.Setting.Caution
	p.Channel, p.Epsilon, p.Delta = string(o.Setting.Channel), o.Setting.Epsilon, o.Setting.Delta
	p.Dishonest, p.Records, p.Decisions = o.Setting.Dishonest, of.Records, o.Mode.Decisions
	p.MinCohort = min(p.MinCohort, of.Panel)
	s.Admission.Mode, s.Admission.Panel, s.Admission.Registered = "panel", of.Panel, of.Pool
	s.State = "state" // the cluster gives it a folder
	s.Timing = analyzer.TimingSettings{
		RewardWindow: time.Duration(of.Window)*o.Day + o.spare(), Jitter: o.lifeJitter(), Grace: grace,
		RoundWindow: roundWindow,
	}
	s.MaxReportSize = 0 // the cluster's broker stores reports of any size
	return s, of, nil
}

// lifeFlags are the settings as the analyzer's process takes them.
func lifeFlags(s analyzer.Settings) []string {
	l, p, a, t := s.Learner, s.Privacy, s.Admission, s.Timing
	return flags(
		"learner.profile", l.Profile, "learner.family", l.Family, "learner.dimension", l.Dimension,
		"learner.radius", l.Radius, "learner.horizon", l.Horizon, "learner.half_life", l.HalfLife,
		"learner.alarm", l.Alarm, "learner.control", l.Control, "learner.control_share", l.ControlShare,
		"learner.caution", l.Caution, "admission.mode", a.Mode, "admission.panel", a.Panel,
		"admission.registered", a.Registered, "privacy.channel", p.Channel, "privacy.epsilon", p.Epsilon,
		"privacy.delta", p.Delta, "privacy.dishonest", p.Dishonest, "privacy.records", p.Records,
		"privacy.decisions", p.Decisions, "privacy.min_cohort", p.MinCohort, "timing.reward_window", t.RewardWindow,
		"timing.jitter", t.Jitter, "timing.grace", t.Grace, "timing.round_window", t.RoundWindow,
		"max_report_size", s.MaxReportSize,
	)
}

// Check lists everything that no deployment could be started with, and returns the options with their defaults.
func (o LifeOptions) Check() (LifeOptions, error) {
	setting, err := o.Setting.Resolve()
	if err != nil {
		return o, fmt.Errorf("nothing was started: %w", err)
	}
	o.Setting = setting
	s, _, err := o.settings()
	if err != nil {
		return o, fmt.Errorf("nothing was started: %w", err)
	}
	faults := append(s.Learner.Validate(), s.Privacy.Validate()...)
	faults = append(faults, s.Admission.Validate()...)
	if len(faults) == 0 {
		faults = s.Validate()
	}
	if o.Hosts < 1 {
		faults = append(faults, fmt.Errorf("hosts = %d must be at least 1", o.Hosts))
	}
	if o.Day < 100*time.Millisecond || o.Day > time.Hour {
		faults = append(faults, fmt.Errorf("day = %s must be between 100ms and 1h", o.Day))
	}
	if len(faults) > 0 {
		return o, fmt.Errorf("nothing was started: %w", &config.Error{Faults: faults})
	}
	if err := s.Feasible(); err != nil {
		return o, fmt.Errorf("nothing was started, because no plan keeps this promise with %d people: %w",
			o.Setting.World.People, err)
	}
	if o.Export != "" {
		if err := audit.CheckDestination(o.Export); err != nil {
			return o, fmt.Errorf("nothing was started: %w", err)
		}
	}
	return o, nil
}

// RunLife runs the deployment over all days of the world.
func RunLife(ctx context.Context, o LifeOptions) (*LifeResult, error) {
	begin := time.Now()
	o, err := o.Check()
	if err != nil {
		return nil, err
	}
	settings, of, err := o.settings()
	if err != nil {
		return nil, err
	}
	if err := os.MkdirAll(o.Out, 0o755); err != nil {
		return nil, fmt.Errorf("demo: %w", err)
	}
	dir := filepath.Join(o.Out, "deployment-"+begin.Format("20060102-150405"))
	if !o.Keep {
		if dir, err = os.MkdirTemp("", "riffle-demo-"); err != nil {
			return nil, fmt.Errorf("demo: %w", err)
		}
		defer os.RemoveAll(dir)
	}
	o.Progress.Update(func(s *progress.State) { s.Phase = "starting" })
	var hosts []string
	for i := range o.Hosts {
		hosts = append(hosts, fmt.Sprintf("host%d", i+1))
	}
	c, err := cluster.Start(ctx, cluster.Options{
		Dir: dir, Name: "demo", Executable: o.Executable, Hosts: hosts, Devices: uint32(o.Setting.World.People),
		Analyzer: lifeFlags(settings),
		Shuffler: flags("min_cohort", min(50, of.Panel)),
		Randomizer: flags("limits.epsilon", o.Setting.Epsilon, "limits.delta", o.Setting.Delta,
			"limits.trust", o.Setting.Channel, "limits.max_norm", max(10, o.Setting.World.Norm),
			"limits.min_cohort", min(50, of.Panel), "limits.max_messages", 100000),
	})
	if err != nil {
		return nil, err
	}
	defer c.Stop()
	w, err := watch(ctx, c)
	if err != nil {
		return nil, err
	}
	defer w.close()
	d, err := newDays(c, o, of)
	if err != nil {
		return nil, err
	}
	if err := d.live(ctx); err != nil {
		return nil, err
	}
	o.Progress.Update(func(s *progress.State) { s.Phase, s.Work = "auditing", s.AllWork })
	found, err := w.effect(ctx)
	if err != nil {
		return nil, fmt.Errorf("demo: %w", err)
	}
	ran := time.Since(begin)
	if o.Export != "" {
		o.Progress.Update(func(s *progress.State) { s.Phase = "exporting" })
		if err := w.export(ctx, o.Export); err != nil {
			return nil, fmt.Errorf("demo: export: %w", err)
		}
	}
	c.Stop()
	r := d.result(found)
	r.WallSeconds = ran.Seconds()
	for _, name := range append([]string{cluster.Broker}, c.Names()...) {
		r.addProcess(name, c.Used(name))
	}
	if !found.OK {
		return r, errors.New("demo: the audit of the run found breaches; see the export with riffle audit")
	}
	return r, nil
}

// effect audits the run, and says what its control group shows.
func (w *watcher) effect(ctx context.Context) (*effect.Result, error) {
	live, err := audit.NewLive(ctx, audit.Over(w.conn.Streams), w.bundle)
	if err != nil {
		return nil, err
	}
	var rows []audit.Row
	found, err := audit.Check(ctx, live, audit.Options{Trust: w.bundle,
		Row: func(r audit.Row) { rows = append(rows, r) }})
	if err != nil {
		return nil, err
	}
	found.Rounds = rows
	return effect.Of(found), nil
}
