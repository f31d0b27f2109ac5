package worker

import (
	"fmt"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/riffle-dp/riffle/internal/bus"
)

// What became of tasks, as a lead or a worker counts it.
const (
	outcomeHere        = "done_here"   // of a lead: done in its own process
	outcomeDone        = "done"        // a worker's result was taken
	outcomeFailed      = "failed"      // the handler could not
	outcomeRedelivered = "redelivered" // of a lead: begun again by another worker
	outcomeReissued    = "reissued"    // of a lead: stored again, because nobody was heard of
	outcomeUnwanted    = "unwanted"    // somebody else did it, or another lead
	outcomeReturned    = "returned"    // of a worker: given back
	outcomeRefused     = "refused"     // a message that no process of this role sealed, or not with these keys
)

var outcomes = []string{outcomeHere, outcomeDone, outcomeFailed, outcomeRedelivered, outcomeReissued, outcomeUnwanted,
	outcomeReturned, outcomeRefused}

// counters are sums: nothing in them says which task it was.
type counters struct {
	tasks *prometheus.CounterVec
	live  prometheus.Collector
}

// newCounters makes the metrics of a role's process; live is how many processes it hears of.
func newCounters(role bus.Role, live func() float64) *counters {
	labels := prometheus.Labels{"role": string(role)}
	c := &counters{
		tasks: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "riffle_worker_tasks_total", ConstLabels: labels,
			Help: "Tasks of the role's workers, by what became of them."}, []string{"outcome"}),
		live: prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: "riffle_worker_peers", ConstLabels: labels,
			Help: "At a lead: workers that were heard of lately. At a worker: 1 while the lead answers."}, live),
	}
	for _, o := range outcomes {
		c.tasks.WithLabelValues(o)
	}
	return c
}

func (c *counters) add(outcome string) { c.tasks.WithLabelValues(outcome).Inc() }

func (c *counters) register(reg prometheus.Registerer) error {
	if reg == nil {
		return nil
	}
	for _, m := range []prometheus.Collector{c.tasks, c.live} {
		if err := reg.Register(m); err != nil {
			return fmt.Errorf("worker: %w", err)
		}
	}
	return nil
}
