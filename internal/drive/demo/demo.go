// Package demo runs a whole deployment on one machine over a population, and reports what it cost and gained.
//
// The people of the population come to be decided for through the same API that an app would use, and their devices
// live in randomizer processes. No process but a randomizer sees a record. The reward of an arm that was not played is
// seen by the demo's own scoring only.
//
// The seed of the population never reaches a device's noise: two runs on the same people have the same baselines and
// differ in all that depends on what was released.
//
// Options that the analyzer would refuse are refused before any process starts, by the analyzer's own check; the demo
// imports the analyzer for nothing else.
package demo

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/riffle-dp/riffle/internal/analyzer"
	"github.com/riffle-dp/riffle/internal/audit"
	"github.com/riffle-dp/riffle/internal/chart"
	"github.com/riffle-dp/riffle/internal/config"
	"github.com/riffle-dp/riffle/internal/drive/cluster"
	"github.com/riffle-dp/riffle/internal/drive/progress"
	"github.com/riffle-dp/riffle/internal/play"
	"github.com/riffle-dp/riffle/internal/population"
	"github.com/riffle-dp/riffle/pkg/glm"
	"github.com/riffle-dp/riffle/pkg/glm/family"
	"github.com/riffle-dp/riffle/pkg/glm/learner"
	"github.com/riffle-dp/riffle/pkg/learn/program"
	"github.com/riffle-dp/riffle/pkg/plan"
	"github.com/riffle-dp/riffle/pkg/privacy/calibrate"
)

// Options say what to run.
type Options struct {
	Population *population.Population
	Seed       uint64 // of the population, for the report, and of the baseline's coins
	Map        string // feature map of the census, for the report
	Features   string // file of the schema that made the arms, which is announced; empty: there is none
	Profile    string // of the learner: a glm.Profile. glm.Joint needs Trust plan.Central
	Epsilon    float64
	Delta      float64
	// Trust is the channel; empty: plan.Shuffle. ServerNoise is the share of the noise that alone gives Epsilon which
	// servers add, in [0, 1]; NoDeviceNoise leaves out the devices' own.
	Trust         plan.Channel
	ServerNoise   float64
	NoDeviceNoise bool
	Hosts         int    // randomizer processes
	Executable    string // riffle itself
	Out           string // folder of the results
	Keep          bool   // keep the deployment's folder (keys, logs, streams) under Out
	Export        string // folder that the deployment's logs are exported to, for an audit; empty: none
	Progress      *progress.Progress
	// Disturb, which may be nil, is called once in each epoch, when half of its people were decided for. Tests kill
	// processes there.
	Disturb func(c *cluster.Cluster, epoch uint64) error
}

// The demo's timing. A complete cohort is released at once, so the grace matters only on a machine that cannot keep up
// with the encryption.
const (
	grace       = 5 * time.Minute
	roundWindow = 10 * time.Second
	enrolment   = 2 * time.Minute
	curvePoints = 200
)

// window is the reward window of a channel and the jitter of its reports, which are as short as two busy processors
// allow: a reward is told right after its decision, and comes too late only where the processes that make reports keep
// the processors from those that answer. A report of shuffle keeps one for milliseconds, one of any other channel for
// less than one.
func window(c plan.Channel) (reward, jitter time.Duration) {
	if c == plan.Shuffle {
		return 3 * time.Second, 500 * time.Millisecond
	}
	return 700 * time.Millisecond, 200 * time.Millisecond
}

func (o Options) trust() plan.Channel { return cmp.Or(o.Trust, plan.Shuffle) }

// settings are the analyzer's.
func (o Options) settings() analyzer.Settings {
	info, s := o.Population.Info(), analyzer.DefaultSettings()
	l, p := &s.Learner, &s.Privacy
	l.Profile, l.Family, l.MaxReward = o.Profile, info.Family, info.MaxReward
	l.Dimension, l.Radius, l.Horizon = info.Dim, info.NormBound, info.People
	if s.Features = o.Features; s.Features == "" {
		l.Structure = info.Structure.Text()
	}
	p.Epsilon, p.Delta = o.Epsilon, o.Delta
	p.Channel, p.ServerNoise, p.DeviceNoise = string(o.trust()), o.ServerNoise, !o.NoDeviceNoise
	s.State = "state" // the cluster gives it a folder
	if glm.Profile(o.Profile).Program() {
		l.Arms = info.Arms
	}
	if glm.Profile(o.Profile) == glm.Paper {
		p.MaxMessages = 0 // its rounds take as many messages as the learner's advice on noise asks for
	}
	reward, jitter := window(o.trust())
	s.Timing = analyzer.TimingSettings{
		RewardWindow: reward, Jitter: jitter, Grace: grace, RoundWindow: roundWindow, Enrolment: enrolment,
	}
	s.MaxReportSize = 0 // the cluster's broker stores reports of any size
	return s
}

// flags are a role's flags for configuration keys, which alternate with their values.
func flags(keysAndValues ...any) (out []string) {
	for i := 0; i < len(keysAndValues); i += 2 {
		key := strings.NewReplacer(".", "-", "_", "-").Replace(keysAndValues[i].(string))
		out = append(out, fmt.Sprintf("--%s=%v", key, keysAndValues[i+1]))
	}
	return out
}

// analyzerFlags are the settings as the analyzer's process takes them.
func (o Options) analyzerFlags() []string {
	s := o.settings()
	l, p, t := s.Learner, s.Privacy, s.Timing
	return flags(
		"learner.profile", l.Profile, "learner.family", l.Family, "learner.max_reward", l.MaxReward,
		"learner.dimension", l.Dimension, "learner.structure", strings.Join(l.Structure, ","),
		"features", s.Features, "learner.radius", l.Radius, "learner.horizon", l.Horizon, "learner.arms", l.Arms,
		"privacy.channel", p.Channel, "privacy.server_noise", p.ServerNoise, "privacy.device_noise", p.DeviceNoise,
		"privacy.epsilon", p.Epsilon, "privacy.delta", p.Delta, "privacy.max_messages", p.MaxMessages,
		"timing.reward_window", t.RewardWindow, "timing.jitter", t.Jitter, "timing.grace", t.Grace,
		"timing.round_window", t.RoundWindow, "timing.enrolment", t.Enrolment, "max_report_size", s.MaxReportSize,
	)
}

// Check lists everything that no deployment could be started with. unreadable is why there is no population; nil if
// there is one.
func (o Options) Check(unreadable error) error {
	var faults []error
	if unreadable != nil {
		valid := population.Info{People: 1 << 20, Dim: 1, Family: family.NameLogistic, MaxReward: 1, NormBound: 1}
		faults, o.Population = append(faults, unreadable), population.New(valid, nil, nil)
	}
	s := o.settings()
	faults = append(append(faults, s.Learner.Validate()...), s.Privacy.Validate()...)
	if len(faults) == 0 {
		faults = s.Validate()
	}
	if o.Hosts < 1 {
		faults = append(faults, config.Wrong("--hosts", o.Hosts, "must be at least 1"))
	}
	for _, err := range faults {
		var fault *config.Fault
		if errors.As(err, &fault) {
			fault.Called(flagOf)
		}
	}
	if len(faults) > 0 {
		return fmt.Errorf("nothing was started: %w", &config.Error{Faults: faults})
	}
	err := s.Feasible()
	if errors.Is(err, program.ErrRefused) {
		return fmt.Errorf("nothing was started: %w", err)
	}
	if err != nil {
		return fmt.Errorf("nothing was started: no plan keeps this promise with %d people: %w",
			o.Population.Info().People,
			explain(err))
	}
	return nil
}

// flagOf are the flags of riffle demo that set the analyzer's keys.
var flagOf = map[string]string{
	"profile": "--learner", "learner.profile": "--learner", "privacy.channel": "--trust", "family": "--family",
	"max_reward": "--max-reward", "radius": "--norm-bound",
	"horizon": "--users", "epsilon": "--epsilon", "delta": "--delta", "channel": "--trust",
	"server_noise": "--server-noise", "device_noise": "--no-device-noise",
}

// explain says what to do about a plan that cannot be, by the flags of riffle demo.
func explain(err error) error {
	var no *calibrate.Infeasible
	if !errors.As(err, &no) {
		return err
	}
	switch no.Constraint {
	case "MinCohort", "Cohort":
		return fmt.Errorf("%s; give more people: --users", no.Reason)
	case "MaxMessages":
		return fmt.Errorf("%s; --trust shares has no bit messages", no.Reason)
	}
	return fmt.Errorf("%s; %s", no.Reason, no.Remedy)
}

// Run runs the deployment to its last policy.
func Run(ctx context.Context, o Options) (*chart.Result, []chart.Regret, error) {
	begin := time.Now()
	if err := o.Check(nil); err != nil {
		return nil, nil, err
	}
	if o.Export != "" {
		if err := audit.CheckDestination(o.Export); err != nil {
			return nil, nil, fmt.Errorf("nothing was started: %w", err)
		}
	}
	if err := os.MkdirAll(o.Out, 0o755); err != nil {
		return nil, nil, fmt.Errorf("demo: %w", err)
	}
	info := o.Population.Info()
	dir := filepath.Join(o.Out, "deployment-"+begin.Format("20060102-150405"))
	if !o.Keep {
		var err error
		if dir, err = os.MkdirTemp("", "riffle-demo-"); err != nil {
			return nil, nil, fmt.Errorf("demo: %w", err)
		}
		defer os.RemoveAll(dir)
	}
	o.Progress.Update(func(s *progress.State) { s.Phase, s.Total = "starting", 0 })
	pace, err := paceOf(o)
	if err != nil {
		return nil, nil, err
	}
	hosts := make([]string, o.Hosts)
	for i := range hosts {
		hosts[i] = fmt.Sprintf("host%d", i+1)
	}
	c, err := cluster.Start(ctx, cluster.Options{
		Dir: dir, Name: "demo", Executable: o.Executable, Hosts: hosts, Devices: uint32(info.People),
		Analyzer: o.analyzerFlags(),
		Randomizer: flags("limits.epsilon", o.Epsilon, "limits.delta", o.Delta, "limits.trust", o.trust(),
			"limits.max_norm", max(10, info.NormBound), "limits.max_messages", 100000),
	})
	if err != nil {
		return nil, nil, err
	}
	defer c.Stop()
	w, err := watch(ctx, c)
	if err != nil {
		return nil, nil, err
	}
	defer w.close()
	o.Progress.Note("Watch it: %s/ (shuffler) and %s/ (analyzer)", c.Ops(cluster.Shuffler), c.Ops(cluster.Analyzer))
	people := newAudience(c, o, pace)
	if err := people.drive(ctx); err != nil {
		return nil, nil, err
	}
	people.observe(ctx) // reports were counted since the last look
	o.Progress.Update(func(s *progress.State) { s.Phase, s.Work = "stopping", s.AllWork })
	released, err := w.releases(ctx)
	if err != nil {
		return nil, nil, err
	}
	ran := time.Since(begin)
	if o.Export != "" {
		o.Progress.Update(func(s *progress.State) { s.Phase = "exporting" })
		if err := w.export(ctx, o.Export); err != nil {
			return nil, nil, fmt.Errorf("demo: export: %w", err)
		}
	}
	exported := time.Since(begin) - ran
	c.Stop()
	result := &chart.Result{
		Data: info.Name, Map: o.Map, Family: info.Family, Profile: o.Profile, Seed: o.Seed, Users: info.People,
		Dim: info.Dim, Arms: info.Arms, Clipped: info.Clipping.People, Delta: o.Delta, Trust: string(o.trust()),
		WallSeconds: (time.Since(begin) - exported).Seconds(),
	}
	if result.VarianceRatio, err = o.settings().NoiseRatio(); err != nil {
		return nil, nil, fmt.Errorf("demo: %w", err)
	}
	fill(result, released)
	enterUsage(result, c)
	o.Progress.Update(func(s *progress.State) { s.Phase, s.Done, s.Work, s.AllWork, s.Unit = "comparing", 0, 0, 0, 0 })
	curves, err := compare(ctx, o, people.played, released.final, result)
	return result, curves, err
}

// enterUsage enters what the processes used.
func enterUsage(result *chart.Result, c *cluster.Cluster) {
	people := float64(result.Users)
	for _, name := range append([]string{cluster.Broker}, c.Names()...) {
		used := c.Used(name)
		cpu := used.CPU.Seconds()
		result.Processes = append(result.Processes, chart.Process{Name: name, CPUSeconds: cpu, PeakBytes: used.Peak})
		switch name {
		case cluster.Shuffler, cluster.Analyzer:
			result.CPUSecondsPerUser += cpu / people
			result.ServerCPUSecondsPerUser += cpu / people
		case cluster.Broker:
			result.ServerCPUSecondsPerUser += cpu / people
		default:
			result.CPUSecondsPerUser += cpu / people
			result.DeviceCPUSecondsPerUser += cpu / people
		}
	}
}

// compare scores the run and its baselines on the same people.
func compare(
	ctx context.Context, o Options, played []int, final *glm.Policy, result *chart.Result,
) ([]chart.Regret, error) {
	info, people := o.Population.Info(), o.Population.People
	best, _, err := population.BestConstant(people())
	if err != nil {
		return nil, err
	}
	coins := rand.NewChaCha8(seed(o.Seed, 1))
	profile := glm.Profile(o.Profile)
	if profile == glm.Joint { // whose learner is another, so that the practical one without noise is beside it
		profile = glm.Practical
	}
	own := learner.Config{
		Profile: profile, Family: info.Family, MaxReward: info.MaxReward, Dimension: info.Dim,
		Structure: info.Structure, Radius: info.NormBound, Horizon: info.People, Epsilon: o.Epsilon, Delta: o.Delta,
		MinCohort: o.settings().Privacy.MinCohort,
	}
	if profile.Program() {
		own.Program = &learner.ProgramConfig{Arms: info.Arms}
	}
	plain, err := play.Run(ctx, own, people(), play.Exact, coins, coins, func(decided int) {
		o.Progress.Update(func(s *progress.State) { s.Done = decided })
	})
	if err != nil {
		return nil, fmt.Errorf("demo: non-private baseline: %w", err)
	}
	curves, err := population.Regrets(people(), curvePoints,
		population.Replay(played), population.Replay(plain.Played), population.Uniform(), population.Constant(best))
	if err != nil {
		return nil, err
	}
	names := []string{result.Name(), "Non-private", "Uniform", "Best constant"}
	var shown []chart.Regret
	for i, c := range curves {
		shown = append(shown, chart.Regret{Name: names[i], People: c.People, Regret: c.Regret})
	}
	without := curves[1].Total()
	result.Regret, result.NonPrivateRegret = curves[0].Total(), &without
	result.UniformRegret, result.ConstantRegret = curves[2].Total(), curves[3].Total()
	if info.HeldOut == 0 {
		return shown, nil
	}
	return shown, value(o.Population, best, final, result)
}

// value scores the last policy on the people held out.
func value(p *population.Population, best int, final *glm.Policy, result *chart.Result) error {
	info := p.Info()
	family, err := family.New(info.Family, info.MaxReward)
	if err != nil {
		return err
	}
	fit, err := population.Fit(p.People(), info.Dim, family)
	if err != nil {
		return fmt.Errorf("demo: non-private fit: %w", err)
	}
	for _, v := range []struct {
		into   **float64
		player population.Policy
	}{
		{&result.PolicyValue, population.Choose(func(arms [][]float64) (int, error) {
			d, err := final.DecideFor(arms, glm.Choice{Unrecorded: true}, nil)
			return d.Arm, err
		})},
		{&result.ConstantValue, population.Constant(best)},
		{&result.NonPrivateValue, population.Greedy(fit)},
	} {
		mean, err := population.Value(p.Holdout(), v.player)
		if err != nil {
			return err
		}
		*v.into = &mean
	}
	result.HeldOut = info.HeldOut
	return nil
}

func seed(s, stream uint64) (key [32]byte) {
	for i := range 8 {
		key[i], key[8+i] = byte(s>>(8*i)), byte(stream>>(8*i))
	}
	return key
}
