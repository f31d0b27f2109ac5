package bench

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/riffle-dp/riffle/internal/bus"
	"github.com/riffle-dp/riffle/internal/drive/cluster"
	"github.com/riffle-dp/riffle/pkg/plan"
)

// Working is one release through a shuffler and an analyzer with so many workers each, every process on one core at a
// time (GOMAXPROCS=1).
type Working struct {
	Channel  string `json:"channel"`
	Workers  int    `json:"workers"` // of the shuffler and of the analyzer
	Users    int    `json:"users"`
	Messages int    `json:"messages"`
	Killed   string `json:"killed,omitempty"` // the process that was killed and started again
	// KilledAfter is when it was killed, in seconds after the reports began to come.
	KilledAfter float64 `json:"killed_after_seconds,omitempty"`
	// Wall time, in seconds: reports admitted; from then to the manifest; from then to the counts.
	AdmitSeconds   float64 `json:"admit_seconds"`
	ReleaseSeconds float64 `json:"release_seconds"`
	CountSeconds   float64 `json:"count_seconds"`
	// MixedPerSecond and CountedPerSecond are messages a second of wall time: from the first report to the manifest,
	// and from the last admission to the counts.
	MixedPerSecond   float64 `json:"mixed_per_second"`
	CountedPerSecond float64 `json:"counted_per_second"`
	// Processor time of the lead and of all workers, in seconds.
	ShufflerCPU    float64 `json:"shuffler_cpu_seconds"`
	MixersCPU      float64 `json:"shuffler_workers_cpu_seconds"`
	AnalyzerCPU    float64 `json:"analyzer_cpu_seconds"`
	CountersCPU    float64 `json:"analyzer_workers_cpu_seconds"`
	ResidentBytes  int64   `json:"resident_bytes"`         // the most of any server process
	ResidentWorker int64   `json:"resident_bytes_workers"` // the most of any worker
	Same           bool    `json:"same"`                   // every sum is as in the first run with the same reports
}

// runWorkers takes the same reports through deployments with different numbers of workers.
func runWorkers(ctx context.Context, o Options, r *Result) error {
	if o.WorkUsers == 0 {
		return nil
	}
	for _, c := range []plan.Channel{plan.Shuffle, plan.Shares} {
		if slices.Contains(o.Channels, c) {
			if err := o.runWorkers(ctx, r, c); err != nil {
				return err
			}
		}
	}
	return nil
}

func (o Options) runWorkers(ctx context.Context, r *Result, c plan.Channel) error {
	folder, err := o.folderOf("kept")
	if err != nil {
		return err
	}
	defer os.RemoveAll(folder)
	keep := &kept{keys: filepath.Join(folder, "keys")}
	for _, n := range o.Workers {
		within := 0.0 // in which a process is killed: as long as it took with none killed
		for _, kill := range []bool{false, true} {
			if kill && !o.Kill {
				continue
			}
			o.Progress.Note("%s, %d workers of each role", c, n)
			var w *Working
			var rows []Row
			err := inHalfTheTime(within, func(within float64) (err error) {
				w, rows, err = o.work(ctx, r, c, n, keep, within)
				return err
			})
			if err == nil {
				within = w.AdmitSeconds + w.ReleaseSeconds + w.CountSeconds
			} else {
				return fmt.Errorf("%s with %d workers: %w", c, n, err)
			}
			if r.Workers = append(r.Workers, *w); !kill {
				r.Rows = append(r.Rows, rows...)
			}
		}
	}
	return nil
}

// work takes the kept reports, or new ones if none are kept yet, through one deployment. Where within is not 0, a
// process is killed in so many seconds from the first report on.
func (o Options) work(ctx context.Context, r *Result, c plan.Channel, workers int, keep *kept, within float64) (
	*Working, []Row, error,
) {
	s := &stand{
		Setup: o.Setup, users: o.WorkUsers, dim: o.Dimensions[0], channel: c, keep: keep,
		environ: []string{"GOMAXPROCS=1"},
		workers: map[string]int{cluster.Shuffler: workers, cluster.Analyzer: workers},
	}
	var err error
	if s.folder, err = o.folderOf("workers"); err != nil {
		return nil, nil, err
	}
	defer s.stop()
	if err := s.start(ctx); err != nil {
		return nil, nil, err
	}
	if err := s.enrol(ctx); err != nil {
		return nil, nil, err
	}
	out := &Working{Channel: string(c), Workers: workers, Users: o.WorkUsers, Messages: o.WorkUsers * s.messages()}
	killed := make(chan error, 1)
	if within > 0 {
		out.Killed, out.KilledAfter = s.victim(workers), soonEnough*within*rand.Float64()
		go func() { killed <- s.kill(ctx, out.Killed, out.KilledAfter) }()
	} else {
		killed <- nil
	}
	_, err = s.report(ctx)
	if err == nil {
		err = s.compareCounts(ctx, keep)
	}
	if dead := <-killed; err == nil {
		err = dead
	}
	if err != nil {
		return nil, nil, err
	}
	out.Same = true // settle compared
	m := s.marks
	out.AdmitSeconds, out.ReleaseSeconds = m.wall(markEnrolled, markAdmitted), m.wall(markAdmitted, markLeft)
	out.CountSeconds = m.wall(markLeft, markCounted)
	out.MixedPerSecond = float64(out.Messages) / m.wall(markEnrolled, markLeft)
	out.CountedPerSecond = float64(out.Messages) / m.wall(markAdmitted, markCounted)
	if err := out.inTime(m.wall(markEnrolled, markCounted)); err != nil {
		return nil, nil, err
	}
	return out, s.spent(r, out), nil
}

// spent stops the deployment and enters what its servers used.
func (s *stand) spent(r *Result, out *Working) []Row {
	names := s.c.Names()
	s.c.Stop()
	cpu, peak := map[string]float64{}, map[string]int64{}
	for _, name := range names {
		used := s.c.Used(name)
		role, _, worker := strings.Cut(name, "-")
		cpu[role], peak[role] = cpu[role]+used.CPU.Seconds(), max(peak[role], used.Peak)
		switch {
		case role == cluster.Shuffler && worker:
			out.MixersCPU += used.CPU.Seconds()
		case role == cluster.Shuffler:
			out.ShufflerCPU = used.CPU.Seconds()
		case worker:
			out.CountersCPU += used.CPU.Seconds()
		default:
			out.AnalyzerCPU = used.CPU.Seconds()
		}
		out.ResidentBytes = max(out.ResidentBytes, used.Peak)
		if worker {
			out.ResidentWorker = max(out.ResidentWorker, used.Peak)
		}
	}
	of, _, err := shapeOf(s.channel, s.dim, s.users)
	if err != nil { // it was announced
		return nil
	}
	bounds, traffic := r.bounds(of), s.c.Traffic()
	var rows []Row
	for _, role := range []string{RoleShuffler, RoleAnalyzer} {
		row := Row{Role: role, Channel: string(s.channel), Users: s.users, Dimension: s.dim, Messages: s.messages(),
			Source: FromKept, Workers: out.Workers, ResidentBytes: peak[role], Bound: bounds[role].what,
			WallSeconds: s.marks.wall(markOpen, markCounted)}
		row.traffic(traffic[bus.Role(role)])
		rows = append(rows, row.of(cpu[role], bounds[role].seconds))
	}
	return rows
}

// compareCounts waits for the counts and compares them with those of the first deployment.
func (s *stand) compareCounts(ctx context.Context, keep *kept) error {
	counts, err := s.awaitCounts(ctx)
	if err != nil {
		return err
	}
	if int(counts.Reports) != s.users {
		return fmt.Errorf("%d reports were counted, %d were sent", counts.Reports, s.users)
	}
	return keep.compare(counts)
}

// victim draws a worker, or a lead.
func (s *stand) victim(workers int) string {
	role := []string{cluster.Shuffler, cluster.Analyzer}[rand.IntN(2)]
	if n := rand.IntN(workers + 1); n > 0 {
		return fmt.Sprintf("%s-worker%d", role, n)
	}
	return role
}

// soonEnough is the part of the time without a kill in which a process is killed: what is killed when all is counted
// shows nothing.
const soonEnough = 0.8

// killTries is how often a run with a kill is made at most.
const killTries = 5

// inHalfTheTime makes a run in which a process is killed within so many seconds. Where it was faster than without a
// kill, and the kill too late, it is made again with half the time.
func inHalfTheTime(within float64, run func(within float64) error) error {
	err := run(within)
	for try := 1; try < killTries && errors.Is(err, errLate); try++ {
		within /= 2
		err = run(within)
	}
	return err
}

// errLate says that a process was to be killed when everything was counted already.
var errLate = errors.New("nothing is shown")

// inTime reports whether a process was killed before everything was counted; otherwise the error is errLate.
func (w *Working) inTime(taken float64) error {
	if w.Killed != "" && w.KilledAfter >= taken {
		return fmt.Errorf("bench: %s was to be killed after %.2f s, and all was counted after %.2f s: %w",
			w.Killed, w.KilledAfter, taken, errLate)
	}
	return nil
}

// down is how long a killed process is missing.
const down = 500 * time.Millisecond

// kill ends a process after so many seconds and starts it again.
func (s *stand) kill(ctx context.Context, name string, after float64) error {
	wait := func(d time.Duration) error {
		select {
		case <-time.After(d):
			return nil
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	if err := wait(time.Duration(after * float64(time.Second))); err != nil {
		return err
	}
	if err := s.c.Kill(name); err != nil {
		return err
	}
	if err := wait(down); err != nil {
		return err
	}
	return s.c.StartProcess(ctx, name)
}
