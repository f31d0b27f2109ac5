package shares

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/riffle-dp/riffle/internal/broker"
	"github.com/riffle-dp/riffle/internal/bus"
	"github.com/riffle-dp/riffle/internal/testing/testbed"
	"github.com/riffle-dp/riffle/internal/worker"
	devices "github.com/riffle-dp/riffle/pkg/channel"
	"github.com/riffle-dp/riffle/pkg/seal"
	"github.com/riffle-dp/riffle/pkg/wire"
)

// team is the lead of a role over the broker, which does nothing itself, with this many workers, of which the first
// dies in its first task.
func (d *deployment) team(role bus.Role, key *seal.HPKEKey, workers int, kind string, do worker.Handler) (
	lead *worker.Lead, did *atomic.Int64,
) {
	d.Helper()
	box, err := worker.NewSealer(role, [][]byte{key.Bytes()})
	d.must(err)
	process := func(conn *bus.Conn) worker.Config {
		return worker.Config{Tasks: conn.Tasks, Lead: conn.Lead, Sealer: box, Log: testbed.Log(),
			Metrics: prometheus.NewRegistry()}
	}
	run := func(f func(context.Context) error) {
		ctx, cancel := context.WithCancel(context.Background())
		ended := make(chan error, 1)
		go func() { ended <- f(ctx) }()
		d.Cleanup(func() {
			cancel()
			if err := <-ended; !errors.Is(err, context.Canceled) && !errors.Is(err, bus.ErrClosed) {
				d.Errorf("it ended with %v", err)
			}
		})
	}
	lead, did = worker.NewLead(process(d.Connect(role))), new(atomic.Int64)
	run(lead.Run)
	for i := range workers {
		conn := d.Connect(role)
		run(func(ctx context.Context) error {
			return worker.Serve(ctx, process(conn),
				worker.Handlers{kind: func(ctx context.Context, body []byte) ([]byte, error) {
					if i == 0 {
						go conn.Close()
						<-ctx.Done()
						return nil, context.Cause(ctx)
					}
					did.Add(1)
					return do(ctx, body)
				}})
		})
	}
	return lead, did
}

// Over a real broker, with three workers on each side of which one dies, the sums are those of all members.
func TestSharesAreWorkedOnOverABroker(t *testing.T) {
	t.Parallel()
	d := newDeployment(t, func(_ *broker.Options, p *bus.ProvisionOptions) { p.TaskWait = time.Second })
	shuffler, err := seal.GenerateHPKE()
	d.must(err)
	mix, prepared := d.team(bus.Shuffler, shuffler, 3, TaskPrepare, PrepareHandler())
	verifier := devices.NewVerifier(wire.Party{Deployment: testbed.Deployment, Key: d.Registrar.Public()})
	count, verified := d.team(bus.Analyzer, d.AnalyzerKey, 3, TaskVerify,
		VerifyHandler([]*seal.HPKEKey{d.AnalyzerKey}, verifier))
	s := d.newScene(size)
	s.mixing = func(m *Mixing) { m.Pool = mix }
	s.counting = func(c *Counting) { c.Pool = count }
	s.exact(s.released(s.run(), nil))
	if prepared.Load() == 0 || verified.Load() == 0 {
		t.Errorf("%d and %d tasks were done", prepared.Load(), verified.Load())
	}
}
