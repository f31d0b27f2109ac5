// Package cluster runs a whole deployment on one machine: the broker and each role as a process of its own, each role
// with its own keys and its own rights on the broker. The demo and the end-to-end tests rest on it.
//
// Everything lives in one folder. Stopping leaves nothing running, and so does the end of this process, however it
// ends.
package cluster

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/riffle-dp/riffle/internal/broker"
	"github.com/riffle-dp/riffle/internal/bus"
	"github.com/riffle-dp/riffle/internal/keyring"
	"github.com/riffle-dp/riffle/internal/keyring/keyfile"
)

// Options say what to run.
type Options struct {
	Dir  string // keys, streams, state and logs; made if it does not exist
	Name string // of the deployment
	// Executable is a program that runs a role given its name as first argument, and the broker given the words of
	// BrokerCommand: riffle.
	Executable string
	Hosts      []string // names of the randomizer hosts
	Devices    uint32   // that each host may enrol
	Idle       bool     // the hosts' keys are made, and no process runs them: their devices run elsewhere
	// names of processes that are not started: whoever started the cluster plays them, with their keys
	Without []string
	Keys    string // folder of keys, made if it does not exist; empty: keys in Dir
	// Workers is how many further processes a role has, by its name: Shuffler or Analyzer.
	Workers map[string]int
	Sync    bool     // the broker syncs the disk before every acknowledgement
	Environ []string // of the processes, besides this one's: KEY=VALUE
	// Flags of the roles, besides those about keys, state and addresses. Nil for the ingress: there is none.
	Analyzer, Shuffler, Randomizer, Ingress []string
}

// Cluster is a running deployment.
type Cluster struct {
	o    Options
	port int // of the broker; 0 until it was started

	mu        sync.Mutex
	processes map[string]*process
	used      map[string]Usage // of processes that have ended
	traffic   map[bus.Role]broker.Traffic
}

// Names of the processes: a randomizer is named randomizer-<host>, a worker shuffler-worker1.
const (
	Broker     = "broker"
	Shuffler   = "shuffler"
	Analyzer   = "analyzer"
	Ingress    = "ingress"
	hostPrefix = "randomizer-"
	worker     = "worker"
)

// startTime bounds how long a process may take to come up, on a machine with other work.
const startTime = 2 * time.Minute

// Start makes keys, starts the broker, provisions it and starts every role. What it starts ends with Stop.
func Start(ctx context.Context, o Options) (c *Cluster, err error) {
	if err := keyfile.Folder(o.Dir); err != nil {
		return nil, fmt.Errorf("cluster: %w", err)
	}
	hosts := make([]keyring.HostOptions, len(o.Hosts))
	for i, h := range o.Hosts {
		hosts[i] = keyring.HostOptions{Name: h, Devices: o.Devices}
	}
	if o.Keys == "" {
		o.Keys = filepath.Join(o.Dir, "keys")
	}
	if _, err := os.Stat(o.Keys); errors.Is(err, os.ErrNotExist) {
		if err := keyring.Generate(o.Keys, keyring.Options{Name: o.Name, Hosts: hosts}); err != nil {
			return nil, fmt.Errorf("cluster: keys: %w", err)
		}
	}
	for role, n := range o.Workers {
		if n == 0 {
			delete(o.Workers, role)
			continue
		}
		if err := keyring.MakeWorker(o.Keys, role, o.workerKeys(role)); err != nil {
			return nil, fmt.Errorf("cluster: keys of workers: %w", err)
		}
	}
	c = &Cluster{o: o, processes: map[string]*process{}, used: map[string]Usage{}}
	defer func() {
		if err != nil {
			c.Stop()
			c = nil
		}
	}()
	if err := c.StartProcess(ctx, Broker); err != nil {
		return c, err
	}
	if err := Provision(ctx, o.Keys, c.URL(), o.limits()); err != nil {
		return c, fmt.Errorf("cluster: broker: %w", err)
	}
	for _, name := range c.Names() {
		if err := c.StartProcess(ctx, name); err != nil {
			return c, err
		}
	}
	return c, nil
}

// workerKeys is the folder of keys of a role's workers.
func (o Options) workerKeys(role string) string { return filepath.Join(o.Dir, role+"-"+worker+"-keys") }

// limits are those of the broker's streams: each host has room for all its devices, and for reports of any plan. All
// processes are this one's own, so nothing limits all hosts together, nor what the shuffler forwards of a cohort.
func (o Options) limits() bus.ProvisionOptions {
	return bus.ProvisionOptions{
		HostReports: max(bus.DefaultHostReports, int64(o.Devices)), ReportSize: bus.MaxMessage, MaxReportBytes: -1,
		MaxMixedBytes: -1, MaxMixingBytes: -1, Workers: len(o.Workers) > 0,
	}
}

// Names lists the processes of roles in the order in which they are started.
func (c *Cluster) Names() []string {
	names := []string{Shuffler, Analyzer}
	for _, role := range []string{Shuffler, Analyzer} {
		for n := range c.o.Workers[role] {
			names = append(names, fmt.Sprintf("%s-%s%d", role, worker, n+1))
		}
	}
	if c.o.Ingress != nil {
		names = append(names, Ingress)
	}
	if !c.o.Idle {
		for _, h := range c.o.Hosts {
			names = append(names, hostPrefix+h)
		}
	}
	return slices.DeleteFunc(names, func(name string) bool { return slices.Contains(c.o.Without, name) })
}

// URL is the broker's address.
func (c *Cluster) URL() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return fmt.Sprintf("nats://127.0.0.1:%d", c.port)
}

// Keys is the folder of the deployment's keys.
func (c *Cluster) Keys() string { return c.o.Keys }

// APIs are the base URLs of the randomizers' APIs, in the order of the hosts.
func (c *Cluster) APIs() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	var urls []string
	for _, h := range c.o.Hosts {
		if p := c.processes[hostPrefix+h]; p != nil {
			urls = append(urls, "http://"+p.address("api.listen"))
		}
	}
	return urls
}

// IngressURL is where phones and web pages take part; empty where there is no ingress.
func (c *Cluster) IngressURL() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	if p := c.processes[Ingress]; p != nil {
		return "http://" + p.address("http.listen")
	}
	return ""
}

// Ops is the base URL of a process's ops listener.
func (c *Cluster) Ops(name string) string {
	c.mu.Lock()
	defer c.mu.Unlock()
	if p := c.processes[name]; p != nil {
		return "http://" + p.address("ops.listen")
	}
	return ""
}

// Failed returns why a process ended by itself, or nil while all that were started run. It does not count killed ones.
func (c *Cluster) Failed() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	var all []error
	for name, p := range c.processes {
		if err, over := p.over(); over {
			all = append(all, fmt.Errorf("%s ended: %w\n%s", name, err, p.lastWords()))
		}
	}
	return errors.Join(all...)
}

// LastWords are the last lines of the log of a process that runs; empty for others.
func (c *Cluster) LastWords(name string) string {
	c.mu.Lock()
	defer c.mu.Unlock()
	if p := c.processes[name]; p != nil {
		return p.lastWords()
	}
	return ""
}

// Own is what this process has used so far.
func Own() Usage { return own() }

// Usage is what processes have used.
type Usage struct {
	CPU  time.Duration // user and system time
	Peak int64         // largest resident set, in bytes; 0 where the system does not tell
}

// Used is what a process used, its killed predecessors included, as far as they have ended. Complete after Stop. The
// broker has the name Broker.
func (c *Cluster) Used(name string) Usage {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.used[name]
}

// Running is what a process used that runs, without its killed predecessors. It is false where that is not known: it
// does not run, or the system has no /proc.
func (c *Cluster) Running(name string) (Usage, bool) {
	c.mu.Lock()
	p := c.processes[name]
	c.mu.Unlock()
	if p == nil {
		return Usage{}, false
	}
	return running(p.cmd.Process.Pid)
}

// Traffic is what each role sent to the broker and received from it, as the broker counted it. It is known after Stop,
// and nil where the broker did not say.
func (c *Cluster) Traffic() map[bus.Role]broker.Traffic {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.traffic
}

// Stop ends every process, first asking, then killing, the broker last. It can be called again.
func (c *Cluster) Stop() {
	c.mu.Lock()
	processes := c.processes
	c.processes = map[string]*process{}
	c.mu.Unlock()
	var wg sync.WaitGroup
	server := processes[Broker] // the roles say farewell to it, so it is the last to end
	delete(processes, Broker)
	for name, p := range processes {
		wg.Go(func() {
			p.stop()
			c.account(name, p)
		})
	}
	wg.Wait()
	if server != nil {
		server.stop()
		c.account(Broker, server)
		server.mu.Lock()
		traffic := server.traffic
		server.mu.Unlock()
		c.mu.Lock()
		c.traffic = traffic
		c.mu.Unlock()
	}
}

func (c *Cluster) account(name string, p *process) {
	c.mu.Lock()
	defer c.mu.Unlock()
	u := c.used[name]
	now := p.usage()
	u.CPU, u.Peak = u.CPU+now.CPU, max(u.Peak, now.Peak)
	c.used[name] = u
}
