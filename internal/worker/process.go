package worker

import (
	"context"
	"fmt"
	"runtime"

	"golang.org/x/sync/errgroup"

	"github.com/riffle-dp/riffle/internal/bus"
	"github.com/riffle-dp/riffle/internal/config"
	"github.com/riffle-dp/riffle/internal/role"
)

// LeadSettings are a role's configuration keys about its workers.
type LeadSettings struct {
	Enabled bool `key:"enabled" doc:"Whether further processes of this role do parts of its work: see docs/scaling.md. The broker must be provisioned with --workers. While no worker is heard of the role is not ready, and does all the work itself if workers.inside allows it."`
	Inside  int  `key:"inside" doc:"With workers: how many of their tasks this process does at a time itself. -1: as many as it has processors; 0: none, so that nothing is mixed or counted without workers."`
}

// DefaultLead is a role without workers.
func DefaultLead() LeadSettings { return LeadSettings{Inside: -1} }

// Validate lists what is wrong.
func (s LeadSettings) Validate() (faults []error) {
	if s.Inside < -1 {
		faults = append(faults, config.Wrong("inside", s.Inside, "must be at least -1"))
	}
	return faults
}

// Places is how many tasks the lead's process does at a time; at least 1 where there are no workers.
func (s LeadSettings) Places() int {
	if s.Inside < 0 || !s.Enabled {
		return runtime.GOMAXPROCS(0)
	}
	return s.Inside
}

// workersCondition is the readiness condition of a lead that a worker is heard of.
const workersCondition = "peers"

// Lead makes the lead of a role that has workers, whose private HPKE keys are the secrets. It is nil where the settings
// say that there are none.
func (s LeadSettings) Lead(env *role.Env, streams bus.Streams, secrets [][]byte, h Handlers) (*Lead, error) {
	if !s.Enabled {
		return nil, nil
	}
	sealer, err := NewSealer(streams.Role(), secrets)
	if err != nil {
		return nil, err
	}
	return NewLead(Config{
		Tasks: streams.Tasks, Lead: streams.Lead, Sealer: sealer, Handlers: h, Inside: s.Places(), Log: env.Log,
		Metrics: env.Metrics,
		Notice:  env.Health.Condition(workersCondition).Set,
	}), nil
}

// Settings are the configuration of a worker's process.
type Settings struct {
	Keys     string              `key:"keys" doc:"Folder made by riffle keygen worker: the bundle, and of the role the encryption keys and the credential for the broker. A folder with the role's identity in it is refused." required:"true"`
	Parallel int                 `key:"parallel" doc:"Tasks that are done at a time. 0: one for each processor, as far as memory allows."`
	Memory   int                 `key:"memory" doc:"MiB of memory that tasks may take together. It bounds how many are done at a time."`
	Broker   role.BrokerSettings `key:"broker"`
}

// DefaultMemory is how many MiB the tasks of a worker take together at most.
const DefaultMemory = 512

// Validate lists what is wrong.
func (s Settings) Validate() (faults []error) {
	if s.Parallel < 0 {
		faults = append(faults, config.Wrong("parallel", s.Parallel, "must be at least 0"))
	}
	if s.Memory < 1 {
		faults = append(faults, config.Wrong("memory", s.Memory, "must be at least 1"))
	}
	return faults
}

// places is how many tasks are done at a time that take so many MiB each.
func (s Settings) places(each int) int {
	n := s.Memory / each
	if s.Parallel > 0 {
		return min(s.Parallel, n)
	}
	return min(runtime.GOMAXPROCS(0), n)
}

// Process is what a role says of its workers.
type Process struct {
	Role       bus.Role
	Short      string // one line
	Long       string // what a worker of it does
	OpsListen  string // default of ops.listen
	TaskMemory int    // MiB that one task takes at most
	// ShowProcess has /metrics show what the process takes: see role.Env.ShowProcess for who may.
	ShowProcess bool
	// Load reads the role's keys for workers from a folder.
	Load func(folder string) (*Member, error)
}

// Member is what a process must have to be a worker of its role, and what it then does.
type Member struct {
	Seed    []byte   // its credential for the broker
	Secrets [][]byte // the role's private HPKE keys, newest first
	// Work returns what the worker can do, and what it does beside its tasks, if not nil, until its context ends.
	Work func(env *role.Env, streams bus.Streams, lead Asker) (Handlers, func(context.Context) error, error)
}

// leadCondition is the readiness condition of a worker that its lead answers.
const leadCondition = "lead"

// Command describes a role's worker to the start-up shell.
func (p Process) Command() role.Role[Settings] {
	return role.Role[Settings]{
		Name: string(p.Role) + "-worker", Use: "work", Short: p.Short, Long: p.Long, OpsListen: p.OpsListen,
		Defaults: Settings{Memory: DefaultMemory, Broker: role.DefaultBroker()},
		Prepare:  p.prepare,
		Faults: func(s Settings) []error {
			_, err := p.load(s)
			return config.FaultsOf(err)
		},
	}
}

func (p Process) load(s Settings) (*Member, error) {
	m, err := p.Load(s.Keys)
	if err != nil {
		return nil, config.Wrong("keys", s.Keys, "cannot be used").From(err)
	}
	if s.places(p.TaskMemory) < 1 {
		must := fmt.Sprintf("must be at least %d, which is what one task takes", p.TaskMemory)
		return nil, config.Wrong("memory", s.Memory, must)
	}
	return m, nil
}

func (p Process) prepare(env *role.Env, s Settings) (role.Serve, error) {
	m, err := p.load(s)
	if err != nil {
		return nil, err
	}
	sealer, err := NewSealer(p.Role, m.Secrets)
	if err != nil {
		return nil, err
	}
	if p.ShowProcess {
		if err := env.ShowProcess(); err != nil {
			return nil, err
		}
	}
	lead := env.Health.Condition(leadCondition)
	return func(ctx context.Context) error {
		conn, err := role.Attach(ctx, env, p.Role, s.Broker, m.Seed)
		if err != nil {
			return err
		}
		defer conn.Close()
		w := NewWorker(Config{
			Tasks: conn.Tasks, Lead: conn.Lead, Sealer: sealer, Parallel: s.places(p.TaskMemory), Log: env.Log,
			Metrics: env.Metrics, Notice: lead.Set,
		})
		handlers, beside, err := m.Work(env, conn.Streams, w)
		if err != nil {
			return err
		}
		g, ctx := errgroup.WithContext(ctx)
		g.Go(func() error { return w.Serve(ctx, handlers) })
		if beside != nil {
			g.Go(func() error { return beside(ctx) })
		}
		return g.Wait()
	}, nil
}
