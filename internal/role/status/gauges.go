package status

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/riffle-dp/riffle/pkg/privacy"
)

// gauges shows snapshots on /metrics.
type gauges struct {
	read func() Snapshot
	all  []gauge
	over *prometheus.Desc
}

type gauge struct {
	desc *prometheus.Desc
	of   func(Snapshot) (float64, bool)
}

func newGauges(role string, read func() Snapshot) *gauges {
	g := &gauges{read: read}
	desc := func(name, help string, labels ...string) *prometheus.Desc {
		return prometheus.NewDesc("riffle_"+name, help, labels, prometheus.Labels{"role": role})
	}
	add := func(name, help string, of func(Snapshot) (float64, bool)) {
		g.all = append(g.all, gauge{desc(name, help), of})
	}
	always := func(f func(Snapshot) float64) func(Snapshot) (float64, bool) {
		return func(s Snapshot) (float64, bool) { return f(s), true }
	}
	cohort := func(f func(*Cohort) *int) func(Snapshot) (float64, bool) {
		return func(s Snapshot) (float64, bool) {
			if s.Cohort == nil {
				return 0, false
			}
			v := f(s.Cohort)
			if v == nil {
				return 0, false
			}
			return float64(*v), true
		}
	}
	number := func(n uint32) *int { v := int(n); return &v }
	budget := func(f func(*Budget) *privacy.Epsilon) func(Snapshot) (float64, bool) {
		return func(s Snapshot) (float64, bool) {
			if s.Budget == nil {
				return 0, false
			}
			v := f(s.Budget)
			if v == nil {
				return 0, false
			}
			return float64(*v), true
		}
	}
	add("epoch", "Epoch in force as this role knows it; 0 before the first.",
		always(func(s Snapshot) float64 { return float64(s.Epoch) }))
	add("round", "Round of the epoch, from 0.", always(func(s Snapshot) float64 { return float64(s.Round) }))
	add("final", "1 once the last policy is out.", always(func(s Snapshot) float64 {
		if s.Final {
			return 1
		}
		return 0
	}))
	add("cohort_size", "Slots of the epoch's cohort.", cohort(func(c *Cohort) *int { return number(c.Size) }))
	add("cohort_minimum", "Fewest reports that the cohort is released with.",
		cohort(func(c *Cohort) *int { return number(c.Minimum) }))
	add("cohort_enrolled", "Slots of the cohort that are taken.", cohort(func(c *Cohort) *int { return c.Enrolled }))
	add("cohort_reports", "Reports admitted in the open round.", cohort(func(c *Cohort) *int { return c.Reports }))
	add("reports_waiting", "Reports that the broker holds and the shuffler has not taken in, when it last asked.",
		cohort(func(c *Cohort) *int { return c.Waiting }))
	panel := func(f func(*Panel) *int) func(Snapshot) (float64, bool) {
		return func(s Snapshot) (float64, bool) {
			if s.Panel == nil {
				return 0, false
			}
			v := f(s.Panel)
			if v == nil {
				return 0, false
			}
			return float64(*v), true
		}
	}
	add("panel_registered", "Devices that registered for panels.", panel(func(p *Panel) *int { return &p.Registered }))
	add("panel_needed", "Fewest devices that the epoch's panel is drawn from.",
		panel(func(p *Panel) *int { return &p.Needed }))
	add("panel_pool", "Devices that the epoch's panel is drawn from; absent until that is fixed.",
		panel(func(p *Panel) *int { return p.Pool }))
	add("panel_drawn", "1 once the epoch's panel is drawn.", panel(func(p *Panel) *int {
		n := 0
		if p.Drawn {
			n = 1
		}
		return &n
	}))
	add("cohort_deadline_seconds", "When the open round is released or destroyed, in seconds since 1970; absent "+
		"while enrolment is open.", func(s Snapshot) (float64, bool) {
		if s.Cohort == nil || s.Cohort.Deadline == nil {
			return 0, false
		}
		return float64(s.Cohort.Deadline.UnixMilli()) / 1000, true
	})
	add("warnings", "Warnings on the status page: what an operator should look at although the role is ready.",
		always(func(s Snapshot) float64 { return float64(len(s.Warnings)) }))
	add("report_messages", "Messages of one report in the open round: bit messages in the channel shuffle, 1 in "+
		"others.",
		cohort(func(c *Cohort) *int { return &c.Messages }))
	add("plan_epsilon", "Largest epsilon that a plan so far promises its people, recomputed by this role; a "+
		"randomizer shows the plan in force.", budget(func(b *Budget) *privacy.Epsilon { return &b.Epsilon }))
	add("plan_epsilon_alone", "Largest epsilon that is left of a plan's promise if no other device is honest; +Inf if "+
		"nothing is.", budget(func(b *Budget) *privacy.Epsilon { return b.EpsilonAlone }))
	add("plan_delta", "Delta of that promise.", func(s Snapshot) (float64, bool) {
		if s.Budget == nil {
			return 0, false
		}
		return s.Budget.Delta, true
	})
	lift := func(f func(*Lift) float64) func(Snapshot) (float64, bool) {
		return func(s Snapshot) (float64, bool) {
			if s.Learned == nil || s.Learned.Total == nil {
				return 0, false
			}
			return f(s.Learned.Total), true
		}
	}
	add("lift", "How much larger a mean reward the policy brings than the default arm, over all epochs so far; absent "+
		"without a control group.", lift(func(l *Lift) float64 { return l.Lift }))
	add("lift_low", "Lower end of its 95 % interval.", lift(func(l *Lift) float64 { return l.Low }))
	add("lift_high", "Upper end of its 95 % interval.", lift(func(l *Lift) float64 { return l.High }))
	add("spent_epsilon", "Largest epsilon of an epoch of which something left the shuffler, with the reports that "+
		"left, counted or not.",
		budget(func(b *Budget) *privacy.Epsilon { return b.Spent }))
	last := func(f func(Round) float64) func(Snapshot) (float64, bool) {
		return func(s Snapshot) (float64, bool) {
			for i := len(s.Releases) - 1; i >= 0; i-- {
				if s.Releases[i].Outcome == Released {
					return f(s.Releases[i]), true
				}
			}
			return 0, false
		}
	}
	add("last_release_epsilon", "Epsilon of the latest release's epoch, with the reports that came.",
		last(func(r Round) float64 { return float64(r.Epsilon) }))
	add("last_release_reports", "Reports in the latest release.",
		last(func(r Round) float64 { return float64(r.Reports) }))
	add("devices", "Devices known to this host.", func(s Snapshot) (float64, bool) {
		if s.Devices == nil {
			return 0, false
		}
		return float64(s.Devices.Known), true
	})
	add("devices_capacity", "Devices that this host's credential covers.", func(s Snapshot) (float64, bool) {
		if s.Devices == nil {
			return 0, false
		}
		return float64(s.Devices.Capacity), true
	})
	g.over = desc("rounds_total", "Rounds that are over, by outcome: released, destroyed or refused.", "outcome")
	return g
}

// Describe is for prometheus.
func (g *gauges) Describe(ch chan<- *prometheus.Desc) {
	for _, x := range g.all {
		ch <- x.desc
	}
	ch <- g.over
}

// Collect is for prometheus.
func (g *gauges) Collect(ch chan<- prometheus.Metric) {
	s := g.read()
	for _, x := range g.all {
		if v, ok := x.of(s); ok {
			ch <- prometheus.MustNewConstMetric(x.desc, prometheus.GaugeValue, v)
		}
	}
	if s.Releases == nil {
		return
	}
	n := map[string]int{Released: 0, Destroyed: 0, Refused: 0}
	for _, r := range s.Releases {
		n[r.Outcome]++
	}
	for outcome, count := range n {
		ch <- prometheus.MustNewConstMetric(g.over, prometheus.CounterValue, float64(count), outcome)
	}
}
