package role

import (
	"fmt"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// Steps measures how long the steps of a role's work take: riffle_step_seconds{role, step} on /metrics. Only steps
// whose time says nothing about a record may be measured. A nil *Steps measures nothing.
type Steps struct {
	clock Clock
	times map[string]prometheus.Observer
}

// stepBuckets reach from half a millisecond to four minutes.
var stepBuckets = prometheus.ExponentialBuckets(0.0005, 2, 19)

// NewSteps registers the steps of the role that env surrounds. They are measured by its clock.
func NewSteps(env *Env, names ...string) (*Steps, error) {
	vec := prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Name: "riffle_step_seconds", Help: "Time that one step of the role's work took.",
		ConstLabels: prometheus.Labels{"role": env.Name}, Buckets: stepBuckets,
	}, []string{"step"})
	if err := env.Metrics.Register(vec); err != nil {
		return nil, fmt.Errorf("steps of %s: %w", env.Name, err)
	}
	s := &Steps{clock: env.Clock, times: map[string]prometheus.Observer{}}
	for _, name := range names {
		s.times[name] = vec.WithLabelValues(name)
	}
	return s, nil
}

// Since counts a step that began at a time of the role's clock and ends now. A step that was not declared panics.
func (s *Steps) Since(step string, begin time.Time) {
	if s != nil {
		s.times[step].Observe(s.clock.Now().Sub(begin).Seconds())
	}
}
