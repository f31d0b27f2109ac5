package replay

import (
	"github.com/riffle-dp/riffle/internal/play"
	"github.com/riffle-dp/riffle/internal/population/decisions"
	"github.com/riffle-dp/riffle/pkg/plan"
)

// PlannedOnce has the replays of all logs that are as long take the plans of this one.
func (o Options) PlannedOnce(log []decisions.Decision) (Options, error) {
	r, _, err := prepare(log, o)
	if err == nil {
		err = r.rehearse()
	}
	if err != nil {
		return o, err
	}
	o.planned = map[plan.Channel]play.Trust{}
	for _, t := range r.channels {
		o.planned[t.channel] = t.trust
	}
	return o, nil
}

// Trust is that of a channel after PlannedOnce.
func (o Options) Trust(c plan.Channel) play.Trust { return o.planned[c] }

// Seeded has coins and noise of its own.
func (o Options) Seeded(seed uint64) Options {
	o.seed = seed
	return o
}
