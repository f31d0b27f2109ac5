package bench

import (
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/riffle-dp/riffle/internal/drive/progress"
	"github.com/riffle-dp/riffle/pkg/plan"
	"github.com/riffle-dp/riffle/pkg/strict"
)

// Setup is what every run of a benchmark needs.
type Setup struct {
	Executable string // riffle itself
	Dir        string // folder for keys, streams and logs of the runs, which are removed
	Sync       bool   // the broker syncs the disk before every acknowledgement
	Progress   *progress.Progress
}

// Options say what is measured. Sections that have no sizes are left out.
type Options struct {
	Setup
	Channels []plan.Channel
	Users    []int // sizes of cohorts whose devices seal everything, ascending
	// Dimensions are of the people's arms: rows of the first one are measured at every size, of the others at the
	// first.
	Dimensions []int
	Junk       []int // sizes of cohorts whose reports are junk, ascending: the shuffler's part
	Mixed      []int // numbers of bit messages that one release mixes, ascending; of junk, in large reports
	Workers    []int // numbers of workers that shuffler and analyzer have beside their leads
	WorkUsers  int   // people of each run with workers; 0: there are none
	Kill       bool  // in runs with workers, one process is killed at random
	// Measure is for how long each bound is measured.
	Measure time.Duration
	Prices  Prices
	Mixer   Mixer // mixes in memory; nil: that is not measured
}

// DefaultOptions take about eleven minutes on two idle cores.
func DefaultOptions() Options {
	return Options{
		Channels: plan.Channels(), Users: []int{1000, 10_000}, Dimensions: []int{5, 10},
		Junk: []int{1000, 10_000, 100_000}, Mixed: []int{1e6, 1e7, 5e7}, Workers: []int{0, 1, 2, 4}, WorkUsers: 1000,
		Kill: true, Measure: time.Second, Prices: DefaultPrices(),
	}
}

// QuickOptions take seconds and touch everything once.
func QuickOptions() Options {
	o := DefaultOptions()
	o.Users, o.Dimensions, o.Junk, o.Mixed = []int{100}, []int{2}, []int{100, 200}, []int{20_000}
	o.Workers, o.WorkUsers, o.Measure = []int{0, 1}, 100, 50*time.Millisecond
	return o
}

// maxUsers bounds a cohort: what a device's number and a slot can be.
const maxUsers = 10_000_000

// Faults lists what is wrong.
func (o Options) Faults() (faults []error) {
	wrong := func(ok bool, format string, v ...any) {
		if !ok {
			faults = append(faults, fmt.Errorf(format, v...))
		}
	}
	for _, c := range o.Channels {
		wrong(slices.Contains(plan.Channels(), c), "channel %q: must be one of %s", c,
			strict.List(plan.Channels(), "and"))
	}
	for name, sizes := range map[string][]int{"users": o.Users, "junk": o.Junk} {
		wrong(slices.IsSorted(sizes), "%s %v: must ascend", name, sizes)
		for _, n := range sizes {
			wrong(n >= leastUsers && n <= maxUsers, "%s %d: must be %d to %d", name, n, leastUsers, maxUsers)
		}
	}
	wrong(slices.IsSorted(o.Mixed), "messages %v: must ascend", o.Mixed)
	for _, n := range o.Mixed {
		wrong(n >= 1000 && n <= 1e9, "messages %d: must be 1000 to 1,000,000,000", n)
	}
	wrong(len(o.Dimensions) > 0, "dimensions: at least one")
	for _, d := range o.Dimensions {
		wrong(d >= 1 && d <= 50, "dimension %d: must be 1 to 50", d)
	}
	for _, n := range o.Workers {
		wrong(n >= 0 && n <= 64, "workers %d: must be 0 to 64", n)
	}
	wrong(o.WorkUsers == 0 || o.WorkUsers >= leastUsers && o.WorkUsers <= maxUsers,
		"people with workers, %d: must be %d to %d", o.WorkUsers, leastUsers, maxUsers)
	wrong(o.Measure > 0, "measure %s: must be positive", o.Measure)
	return faults
}

// leastUsers is the smallest cohort that the shuffler releases by default, with some to spare for the plan.
const leastUsers = plan.DefaultMinCohort + 10

// Machine names what a run ran on.
type Machine struct {
	Processor string  `json:"processor"`
	Cores     int     `json:"cores"`
	Memory    int64   `json:"memory_bytes"` // 0: not known
	System    string  `json:"system"`
	Go        string  `json:"go"`
	Date      string  `json:"date"`
	Load      float64 `json:"load_before"` // mean number of running processes in the minute before; -1: not known
	Proc      bool    `json:"proc"`        // /proc told memory and processor time of running processes
}

// machine finds out where this process runs. What the system does not tell is left out.
func machine(now time.Time) Machine {
	m := Machine{
		Processor: "not known", Cores: runtime.NumCPU(), System: runtime.GOOS + "/" + runtime.GOARCH,
		Go: runtime.Version(), Date: now.UTC().Format(time.DateOnly), Load: -1,
	}
	field := func(path, name string) string {
		text, err := os.ReadFile(path)
		if err != nil {
			return ""
		}
		for line := range strings.Lines(string(text)) {
			if key, value, ok := strings.Cut(line, ":"); ok && strings.TrimSpace(key) == name {
				return strings.TrimSpace(value)
			}
		}
		return ""
	}
	if name := field("/proc/cpuinfo", "model name"); name != "" {
		m.Processor = name
	}
	var kibibytes int64
	if _, err := fmt.Sscanf(field("/proc/meminfo", "MemTotal"), "%d kB", &kibibytes); err == nil {
		m.Memory = kibibytes << 10
	}
	if text, err := os.ReadFile("/proc/loadavg"); err == nil {
		if _, err := fmt.Sscan(string(text), &m.Load); err == nil {
			m.Proc = true
		}
	}
	if math.IsNaN(m.Load) {
		m.Load = -1
	}
	return m
}

// Run measures all that the options ask for. If ctx ends early there is no result.
func Run(ctx context.Context, o Options) (*Result, error) {
	if err := errors.Join(o.Faults()...); err != nil {
		return nil, err
	}
	r := &Result{Machine: machine(time.Now()), Sync: o.Sync, Prices: o.Prices}
	for _, section := range []struct {
		name string
		do   func(context.Context, Options, *Result) error
	}{
		{"bounds", measureAll}, {"devices", runDevices}, {"junk", runJunk}, {"mixing", runMixed},
		{"mixing in memory", runInMemory}, {"workers", runWorkers},
		{"cost", computeCost}, {"comparison", compare},
	} {
		begin := time.Now()
		o.Progress.Note("%s", section.name)
		if err := section.do(ctx, o, r); err != nil {
			return nil, fmt.Errorf("bench: %s: %w", section.name, err)
		}
		r.Took = append(r.Took, Took{section.name, time.Since(begin).Seconds()})
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
	}
	return r, r.Check()
}
