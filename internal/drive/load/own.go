package load

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/riffle-dp/riffle/internal/bus"
	"github.com/riffle-dp/riffle/internal/chart"
	"github.com/riffle-dp/riffle/internal/drive/cluster"
	"github.com/riffle-dp/riffle/internal/drive/crowd"
	"github.com/riffle-dp/riffle/internal/drive/inside"
	"github.com/riffle-dp/riffle/internal/drive/progress"
	"github.com/riffle-dp/riffle/internal/population"
	"github.com/riffle-dp/riffle/pkg/device"
	"github.com/riffle-dp/riffle/pkg/plan"
)

// Own says which deployment to start for a run: broker, shuffler and analyzer as processes of their own on this
// machine, and the people's devices inside this process, with the randomizer's own code and store.
type Own struct {
	Trust         plan.Channel
	ServerNoise   float64 // share of the noise that alone gives Epsilon, in [0, 1]
	NoDeviceNoise bool    // the servers' noise is all there is
	Epsilon       float64
	Delta         float64
	HostDevices   int    // devices of one host; 0: DefaultHostDevices
	Executable    string // riffle itself
	Dir           string // folder of keys, streams and logs; empty: a temporary one, which is removed

	Sync    bool     // the broker syncs the disk before every acknowledgement
	Environ []string // of broker and roles, besides this process's: KEY=VALUE
	// Running is called with the cluster once it runs, for those who disturb it; it returns at once.
	Running func(context.Context, *cluster.Cluster)
}

// DefaultHostDevices is how many devices a host of Own has. A host's memory grows with them, and one that is done is
// closed.
const DefaultHostDevices = 20_000

// The timing of Own: all people are one cohort, and devices' reports leave while later people come.
const (
	ownWindow    = 2 * time.Second
	ownJitter    = 500 * time.Millisecond
	ownGrace     = 10 * time.Minute
	ownEnrolment = 2 * time.Hour
	// ownConcurrency is how many people are served at the same time: they wait for disks more than they compute.
	ownConcurrency = 256
)

// Flags are those of the analyzer. All people are in one cohort.
func (own Own) Flags(info population.Info) []string {
	flag := func(name string, value any) string { return fmt.Sprintf("--%s=%v", name, value) }
	return []string{
		flag("learner-family", info.Family), flag("learner-max-reward", info.MaxReward),
		flag("learner-dimension", info.Dim), flag("learner-structure", strings.Join(info.Structure.Text(), ",")),
		flag("learner-radius", info.NormBound),
		flag("learner-horizon", info.People), flag("learner-first-cohort", info.People),
		flag("privacy-channel", own.Trust), flag("privacy-server-noise", own.ServerNoise),
		flag("privacy-device-noise", !own.NoDeviceNoise),
		flag("privacy-epsilon", own.Epsilon), flag("privacy-delta", own.Delta),
		flag("timing-reward-window", ownWindow), flag("timing-jitter", ownJitter), flag("timing-grace", ownGrace),
		flag("timing-enrolment", ownEnrolment), flag("max-report-size", 0),
	}
}

// limits are the devices'.
func (own Own) limits(o Options) device.Limits {
	l := device.DefaultLimits()
	l.Epsilon, l.Delta, l.Trust = own.Epsilon, own.Delta, []plan.Channel{own.Trust}
	l.MaxNorm, l.MaxMessages = max(l.MaxNorm, o.Population.Info().NormBound), 100_000
	return l
}

// RunOwn starts a deployment, plays all people of the population against it, and stops it.
func RunOwn(ctx context.Context, own Own, o Options) (result *Result, err error) {
	if own.Dir == "" {
		if own.Dir, err = os.MkdirTemp("", "riffle-load-"); err != nil {
			return nil, fmt.Errorf("load: %w", err)
		}
		defer os.RemoveAll(own.Dir)
	}
	if own.HostDevices == 0 {
		own.HostDevices = DefaultHostDevices
	}
	var hosts []string
	for n := 0; n*own.HostDevices < o.Population.Info().People; n++ {
		hosts = append(hosts, fmt.Sprintf("host%d", n+1))
	}
	all := hosts
	if o.Hostile.Host != "" {
		all = append(all[:len(all):len(all)], o.Hostile.Host)
	}
	o.Progress.Update(func(s *progress.State) { s.Phase = "starting" })
	before := cluster.Own()
	c, err := cluster.Start(ctx, cluster.Options{
		Dir: own.Dir, Name: "load", Executable: own.Executable, Hosts: all, Devices: uint32(own.HostDevices),
		Idle: true, Analyzer: own.Flags(o.Population.Info()), Sync: own.Sync, Environ: own.Environ,
	})
	if err != nil {
		return nil, err
	}
	defer c.Stop()
	o.Keys, o.Broker, o.APIs = c.Keys(), bus.Options{URL: c.URL()}, nil
	if o.Concurrency == 0 {
		o.Concurrency = ownConcurrency
	}
	for _, name := range c.Names() {
		o.Ops = append(o.Ops, c.Ops(name))
	}
	h, err := inside.Open(ctx, inside.Options{
		Keys: c.Keys(), Hosts: hosts, State: filepath.Join(own.Dir, "devices"), Broker: o.Broker, Limits: own.limits(o),
	})
	if err != nil {
		return nil, err
	}
	defer h.Close()
	o.Inside = h
	running, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	go func() {
		for crowd.Pause(running, time.Second) {
			if err := c.Failed(); err != nil {
				stop(err)
			}
		}
	}()
	if own.Running != nil {
		own.Running(running, c)
	}
	if result, err = Run(running, o); err != nil {
		return nil, errors.Join(err, c.Failed())
	}
	if failed := c.Failed(); failed != nil {
		return nil, fmt.Errorf("load: %w", failed)
	}
	h.Close()
	c.Stop()
	own.enterUsage(result, c, before)
	return result, nil
}

// enterUsage enters what the processes used.
func (own Own) enterUsage(r *Result, c *cluster.Cluster, before cluster.Usage) {
	r.Trust = string(own.Trust)
	people := float64(max(1, r.Decided))
	enter := func(name string, used cluster.Usage) float64 {
		cpu := used.CPU.Seconds()
		r.Processes = append(r.Processes, chart.Process{Name: name, CPUSeconds: cpu, PeakBytes: used.Peak})
		return cpu / people
	}
	r.Traffic = c.Traffic()
	now := cluster.Own()
	now.CPU -= before.CPU
	r.DeviceCPUSecondsPerUser = enter("devices and people", now)
	for _, name := range append([]string{cluster.Broker}, c.Names()...) {
		r.ServerCPUSecondsPerUser += enter(name, c.Used(name))
	}
}
