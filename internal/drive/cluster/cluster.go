// Package cluster runs a whole deployment on one machine: a broker inside this process, and each role as a process of
// its own with its own keys and its own rights on the broker. The demo and the end-to-end tests stand on it.
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

	"github.com/riffle-dp/riffle/internal/broker"
	"github.com/riffle-dp/riffle/internal/bus"
	"github.com/riffle-dp/riffle/internal/keyring"
)

// Options say what to run.
type Options struct {
	Dir        string   // keys, streams, state and logs; made if it does not exist
	Name       string   // of the deployment
	Executable string   // a program that runs a role given its name as first argument: riffle
	Hosts      []string // names of the randomizer hosts
	Devices    uint32   // that each host may enrol
	// Flags of the roles, besides those about keys, state and addresses.
	Analyzer, Shuffler, Randomizer []string
}

// Cluster is a running deployment.
type Cluster struct {
	o      Options
	broker *broker.Server

	mu        sync.Mutex
	processes map[string]*process
	used      map[string]Usage // of processes that have ended
}

// Names of the processes: a randomizer is named randomizer-<host>.
const (
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
	streams := broker.Options{Dir: filepath.Join(o.Dir, "broker"), MaxStore: maxStore}
	if c.broker, err = StartBroker(ctx, keys, streams, o.limits()); err != nil {
		return c, err
	}
	for _, name := range c.Names() {
		if err := c.StartProcess(ctx, name); err != nil {
			return c, err
		}
	}
	return c, nil
}

// maxStore is more than any disk has: a deployment on one machine writes megabytes, and must not be kept from starting
// because the free disk is less than what the limits would set aside.
const maxStore = 1 << 40

// limits are those of the broker's streams: each host has room for all its devices, and for reports of any plan. The
// hosts are this process's own, so no limit is set on all of them together.
func (o Options) limits() bus.ProvisionOptions {
	return bus.ProvisionOptions{
		HostReports: max(bus.DefaultHostReports, int64(o.Devices)), ReportSize: bus.MaxMessage, MaxReportBytes: -1,
	}
}

// StartBroker starts a broker for the users of a folder of keys and provisions its streams.
func StartBroker(ctx context.Context, keys string, o broker.Options, p bus.ProvisionOptions) (*broker.Server, error) {
	users, err := keyring.LoadUsers(keys)
	if err != nil {
		return nil, fmt.Errorf("broker: %w", err)
	}
	o.Users = map[bus.Role][]string{}
	for role, public := range users {
		o.Users[bus.Role(role)] = public
	}
	server, err := broker.Start(o)
	if err != nil {
		return nil, err
	}
	err = Provision(ctx, keys, server.URL(), p)
	if err != nil {
		server.Stop()
		return nil, fmt.Errorf("broker: %w", err)
	}
	return server, nil
}

// Provision creates the streams of the broker at url with the admin's key.
func Provision(ctx context.Context, keys, url string, p bus.ProvisionOptions) error {
	seed, err := keyring.LoadSeed(keys, keyring.Admin)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, startTime)
	defer cancel()
	admin, err := bus.Connect(ctx, bus.Options{URL: url, Role: bus.Admin, Seed: seed, Name: "provisioning"})
	if err != nil {
		return err
	}
	defer admin.Close()
	return bus.Provision(ctx, admin, p)
}

// Names lists the processes in the order in which they are started.
func (c *Cluster) Names() []string {
	names := []string{Shuffler, Analyzer}
	for _, h := range c.o.Hosts {
		names = append(names, randomizer+h)
	}
	return names
}

// URL is the broker's address.
func (c *Cluster) URL() string { return c.broker.URL() }

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

// Usage is what processes have used.
type Usage struct {
	CPU time.Duration // user and system time
}

// Used is the CPU time of a process so far, its killed predecessors included. Complete after Stop.
func (c *Cluster) Used(name string) Usage {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.used[name]
}

// Stop ends every process, first asking, then killing, and the broker. It can be called again.
func (c *Cluster) Stop() {
	c.mu.Lock()
	processes := c.processes
	c.processes = map[string]*process{}
	c.mu.Unlock()
	var wg sync.WaitGroup
	for name, p := range processes {
		wg.Go(func() {
			p.stop()
			c.account(name, p)
		})
	}
	wg.Wait()
	if c.broker != nil {
		c.broker.Stop()
	}
}

func (c *Cluster) account(name string, p *process) {
	c.mu.Lock()
	defer c.mu.Unlock()
	u := c.used[name]
	u.CPU += p.cpu()
	c.used[name] = u
}
