package role

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"
)

// Health is what a role knows about its own state: alive as long as it answers, ready while every condition is met and
// it was not asked to stop. Safe for concurrent use.
type Health struct {
	log        zerolog.Logger
	mu         sync.Mutex
	conditions map[string]error
	notes      []string
	stopping   bool
}

// A Condition is one thing that a role needs in order to do its work, such as its broker.
type Condition struct {
	health *Health
	name   string
}

var errNotYet = errors.New("not yet")

// Condition adds a condition, not met so far, or gives the one of that name.
func (h *Health) Condition(name string) *Condition {
	h.mu.Lock()
	defer h.mu.Unlock()
	if _, known := h.conditions[name]; !known {
		h.conditions[name] = errNotYet
	}
	return &Condition{health: h, name: name}
}

// Set says that the condition is met (nil), or why it is not. Each change is logged once, and /readyz shows the reason:
// it must not hold anything about a record.
func (c *Condition) Set(err error) {
	c.health.mu.Lock()
	before := c.health.conditions[c.name]
	c.health.conditions[c.name] = err
	c.health.mu.Unlock()
	switch {
	case err == nil && before != nil:
		c.health.log.Info().Str("condition", c.name).Msg("condition met")
	case err != nil && (before == nil || before.Error() != err.Error()):
		c.health.log.Warn().Str("condition", c.name).Err(err).Msg("condition not met")
	}
}

// Note has /readyz say something about a role that is ready: a line, which must not hold anything about a record.
func (h *Health) Note(line string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.notes = append(h.notes, line)
}

// ready is what /readyz says of a role that is ready.
func (h *Health) ready() string {
	h.mu.Lock()
	defer h.mu.Unlock()
	return strings.Join(append([]string{"ready"}, h.notes...), "\n") + "\n"
}

// Ready is nil if the role is ready; otherwise it names every condition that is not met.
func (h *Health) Ready() error {
	h.mu.Lock()
	defer h.mu.Unlock()
	var unmet []error
	if h.stopping {
		unmet = append(unmet, errors.New("stopping"))
	}
	for _, name := range slices.Sorted(maps.Keys(h.conditions)) {
		if err := h.conditions[name]; err != nil {
			unmet = append(unmet, fmt.Errorf("%s: %w", name, err))
		}
	}
	return errors.Join(unmet...)
}

func (h *Health) stop() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.stopping = true
}

// conditions shows on /metrics which conditions are met, of those that were named so far.
type conditions struct {
	health *Health
	role   string
}

var conditionDesc = prometheus.NewDesc("riffle_condition", "1 while the condition of the role's readiness is met; "+
	"/readyz says why it is not.", []string{"role", "condition"}, nil)

// Describe is for prometheus.
func (c conditions) Describe(ch chan<- *prometheus.Desc) { ch <- conditionDesc }

// Collect is for prometheus.
func (c conditions) Collect(ch chan<- prometheus.Metric) {
	c.health.mu.Lock()
	defer c.health.mu.Unlock()
	for name, err := range c.health.conditions {
		met := 0.0
		if err == nil {
			met = 1
		}
		ch <- prometheus.MustNewConstMetric(conditionDesc, prometheus.GaugeValue, met, c.role, name)
	}
}
