// Package cluster runs a whole deployment on one machine: the broker and each role as a process of its own, each role
// with its own keys and its own rights on the broker. The demo and the end-to-end tests stand on it.
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
	"sync"
	"time"

	"github.com/riffle-dp/riffle/internal/bus"
	"github.com/riffle-dp/riffle/internal/keyring"
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
	// Flags of the roles, besides those about keys, state and addresses.
	Analyzer, Shuffler, Randomizer []string
}

// Cluster is a running deployment.
type Cluster struct {
	o    Options
	port int // of the broker; 0 until it was started

	mu        sync.Mutex
	processes map[string]*process
	used      map[string]Usage // of processes that have ended
}

// Names of the processes: a randomizer is named randomizer-<host>.
const (
	Broker     = "broker"
	Shuffler   = "shuffler"
	Analyzer   = "analyzer"
	randomizer = "randomizer-"
)

// startTime bounds how long a process may take to come up.
const startTime = 30 * time.Second

// Start makes keys, starts the broker, provisions it and starts every role. What it starts ends with Stop.
func Start(ctx context.Context, o Options) (c *Cluster, err error) {
	keys := filepath.Join(o.Dir, "keys")
	if err := os.MkdirAll(o.Dir, 0o700); err != nil {
		return nil, fmt.Errorf("cluster: %w", err)
	}
	hosts := make([]keyring.HostOptions, len(o.Hosts))
	for i, h := range o.Hosts {
		hosts[i] = keyring.HostOptions{Name: h, Devices: o.Devices}
	}
	if err := keyring.Generate(keys, keyring.Options{Name: o.Name, Hosts: hosts}); err != nil {
		return nil, fmt.Errorf("cluster: keys: %w", err)
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
	if err := Provision(ctx, keys, c.URL(), o.limits()); err != nil {
		return c, fmt.Errorf("cluster: broker: %w", err)
	}
	for _, name := range c.Names() {
		if err := c.StartProcess(ctx, name); err != nil {
			return c, err
		}
	}
	return c, nil
}

// limits are those of the broker's streams: each host has room for all its devices, and for reports of any plan. The
// hosts are this process's own, so no limit is set on all of them together.
func (o Options) limits() bus.ProvisionOptions {
	return bus.ProvisionOptions{
		HostReports: max(bus.DefaultHostReports, int64(o.Devices)), ReportSize: bus.MaxMessage, MaxReportBytes: -1,
	}
}

// Names lists the processes of roles in the order in which they are started.
func (c *Cluster) Names() []string {
	names := []string{Shuffler, Analyzer}
	if c.o.Idle {
		return names
	}
	for _, h := range c.o.Hosts {
		names = append(names, randomizer+h)
	}
	return names
}

// URL is the broker's address.
func (c *Cluster) URL() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return fmt.Sprintf("nats://127.0.0.1:%d", c.port)
}

// Keys is the folder of the deployment's keys.
func (c *Cluster) Keys() string { return filepath.Join(c.o.Dir, "keys") }

// APIs are the base URLs of the randomizers' APIs, in the order of the hosts.
func (c *Cluster) APIs() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	var urls []string
	for _, h := range c.o.Hosts {
		if p := c.processes[randomizer+h]; p != nil {
			urls = append(urls, "http://"+p.address("api.listen"))
		}
	}
	return urls
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
