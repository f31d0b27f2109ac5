package bench

import (
	"context"

	"github.com/riffle-dp/riffle/pkg/plan"
)

// Prices are what machines and networks are taken to cost, in US dollars. They are an assumption: what an operator pays
// depends on provider, region and contract.
type Prices struct {
	CPUHour float64 `json:"cpu_hour"` // one core for an hour
	GB      float64 `json:"gb"`       // 10^9 bytes that leave a trust domain
	Source  string  `json:"source"`
}

// Assumed prices: on-demand list prices of one large provider. A core is half of a machine with two.
const (
	assumedCPUHour = 0.0425 // half of 0.085 for a c6i.large
	assumedGB      = 0.09   // data transfer out to the internet, the first 10 TB of a month
	assumedSource  = "an assumption: AWS on-demand list prices, us-east-1, Linux, as known in 2024 and not looked up " +
		"again: c6i.large (2 vCPU) 0.085 dollars an hour, data transfer out 0.09 dollars a GB"
)

// DefaultPrices are the assumed ones.
func DefaultPrices() Prices { return Prices{assumedCPUHour, assumedGB, assumedSource} }

// million is the number of people that costs are for.
const million = 1e6

// Cost is what a million people cost, computed from what a person cost in the largest measured run.
type Cost struct {
	Channel   string `json:"channel"`
	Dimension int    `json:"dimension"`
	Users     int    `json:"users"` // of the run that it is computed from
	Messages  int    `json:"messages"`
	// Hours of one core, by role.
	Device   float64 `json:"device_cpu_hours"`
	Broker   float64 `json:"broker_cpu_hours"`
	Shuffler float64 `json:"shuffler_cpu_hours"`
	Analyzer float64 `json:"analyzer_cpu_hours"`
	// GB (10^9 bytes) by link.
	Up       float64 `json:"device_to_broker_gb"`
	Down     float64 `json:"broker_to_device_gb"`
	ToMix    float64 `json:"broker_to_shuffler_gb"`
	Mixed    float64 `json:"shuffler_to_broker_gb"`
	ToCount  float64 `json:"broker_to_analyzer_gb"`
	FromRole float64 `json:"analyzer_to_broker_gb"`
	// Dollars is for the servers' cores and for what leaves broker, shuffler and analyzer; devices are people's own.
	Dollars float64 `json:"dollars"`
	Source  string  `json:"source"`
}

// computeCost computes what a million people cost in each channel and dimension that was measured, and what the two
// servers of a vector sum cost alone.
func computeCost(_ context.Context, o Options, r *Result) error {
	for _, dim := range o.Dimensions {
		for _, c := range o.Channels {
			rows := map[string]*Row{}
			for _, role := range []string{RoleDevice, RoleBroker, RoleShuffler, RoleAnalyzer} {
				rows[role] = r.find(role, string(c), dim)
			}
			if rows[RoleDevice] == nil {
				continue
			}
			hours := func(role string) float64 { return rows[role].CPUSecondsPerUser * million / 3600 }
			gb := func(bytes float64) float64 { return bytes * million / 1e9 }
			d, s, a := rows[RoleDevice], rows[RoleShuffler], rows[RoleAnalyzer]
			cost := Cost{
				Channel: string(c), Dimension: dim, Users: d.Users, Messages: d.Messages,
				Device: hours(RoleDevice), Broker: hours(RoleBroker), Shuffler: hours(RoleShuffler),
				Analyzer: hours(RoleAnalyzer),
				Up:       gb(d.SentPerUser), Down: gb(d.ReceivedPerUser), ToMix: gb(s.ReceivedPerUser),
				Mixed:   gb(s.SentPerUser),
				ToCount: gb(a.ReceivedPerUser), FromRole: gb(a.SentPerUser), Source: FromComputed,
			}
			cost.Dollars = (cost.Broker+cost.Shuffler+cost.Analyzer)*r.Prices.CPUHour +
				(cost.Down+cost.ToMix+cost.Mixed+cost.ToCount+cost.FromRole)*r.Prices.GB
			r.Costs = append(r.Costs, cost)
		}
		if alone := r.prio3Alone(dim); alone != nil {
			r.Costs = append(r.Costs, *alone)
		}
	}
	return nil
}

// prio3Alone is the two servers of a vector sum without anything around it: no broker, envelopes, admission or logs.
// The leader has the shuffler's place and the helper the analyzer's.
func (r *Result) prio3Alone(dim int) *Cost {
	shard, prepare := r.Bounds.Of(prio3(boundShard, dim)), r.Bounds.Of(prio3(boundPrepare, dim))
	s, _, err := shapeOf(plan.Shares, dim, leastUsers*10)
	if shard == 0 || err != nil {
		return nil
	}
	up, between := prio3Bytes(s)
	c := &Cost{
		Channel: prio3Name, Dimension: dim, Users: 1, Messages: 1, Device: shard * million / 3600,
		Shuffler: prepare * million / 3600, Analyzer: prepare * million / 3600, Up: up * million / 1e9,
		Mixed: between * million / 1e9, ToCount: between * million / 1e9, Source: FromComputed,
	}
	c.Dollars = (c.Shuffler+c.Analyzer)*r.Prices.CPUHour + (c.Mixed+c.ToCount)*r.Prices.GB
	return c
}

// prio3Name is what tables call the vector sum alone.
const prio3Name = "Prio3SumVec alone"
