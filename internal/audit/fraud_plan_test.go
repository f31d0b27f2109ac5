package audit_test

import (
	"math"

	"github.com/riffle-dp/riffle/internal/audit"
	"github.com/riffle-dp/riffle/internal/bus"
	"github.com/riffle-dp/riffle/internal/testing/ledger"
	"github.com/riffle-dp/riffle/pkg/plan"
	"github.com/riffle-dp/riffle/pkg/wire"
)

// planFrauds are what the analyzer configures and announces otherwise than it must.
var planFrauds = []fraud{
	{
		name: "the policy is nudged in one coordinate", of: sums,
		plant: announcementAt(2, 0, func(a *plan.Announcement) {
			a.Policy.Theta[1] = math.Nextafter(a.Policy.Theta[1], 9)
		}),
		want: []audit.What{audit.PolicyChanged}, entry: "analyzer/7 announcement",
	},
	{
		name: "more rounds than planned", of: sums,
		plant: announcementAt(1, 0, func(a *plan.Announcement) {
			a.Plan.Rounds = append(a.Plan.Rounds, a.Plan.Rounds[len(a.Plan.Rounds)-1])
		}),
		want:  []audit.What{audit.MoreRounds, audit.PlanChanged, audit.PromiseExceeded, audit.WeakPlan},
		entry: "analyzer/1 announcement",
	},
	{
		name: "the plan is weaker than announced", of: sums,
		plant: announcementAt(2, 0, func(a *plan.Announcement) {
			for _, r := range a.Plan.Rounds {
				r.Releases[0].AnalyzerNoise /= 2
			}
		}),
		want:  []audit.What{audit.PlanChanged, audit.PromiseExceeded, audit.WeakPlan},
		entry: "analyzer/7 announcement",
	},
	{
		name: "a plan claims less than it gives", of: sums,
		plant: announcementAt(2, 0, func(a *plan.Announcement) { a.Plan.Epsilon /= 2 }),
		want:  []audit.What{audit.PlanChanged, audit.WeakPlan}, entry: "analyzer/7 announcement",
	},
	{
		name: "the servers' noise alone is too little", of: alone,
		plant: announcementAt(1, 0, func(a *plan.Announcement) {
			for _, r := range a.Plan.Rounds {
				r.Releases[0].ShufflerNoise /= 4
			}
		}),
		want: []audit.What{audit.PlanChanged, audit.WeakPlan}, entry: "analyzer/1 announcement",
	},
	{
		name: "a release more is asked for than the learner wants", of: sums,
		after: func(l *ledger.Ledger, _ *audit.Options) error {
			drop(l, bus.Analyzer, 9, end(l, bus.Analyzer)-9)
			drop(l, bus.Shuffler, 2, end(l, bus.Shuffler)-2)
			var digest [32]byte
			err := change(l, bus.Analyzer, 7, func(a *plan.Announcement) {
				first := &a.Plan.Rounds[0]
				first.Releases = append(first.Releases, first.Releases[0])
				a.Encodings = append(a.Encodings, a.Encodings[0])
			})
			if err != nil {
				return err
			}
			signed := l.Logs[bus.Analyzer][7].Signed
			if _, digest, err = wire.Open[plan.Announcement](signed, l.Bundle.AnalyzerParty()); err != nil {
				return err
			}
			return change(l, bus.Analyzer, 8, func(c *wire.Counts) {
				c.Announcement, c.Releases = digest[:], append(c.Releases, c.Releases[0])
			})
		},
		want:  []audit.What{audit.ManifestMissing, audit.PlanChanged, audit.PromiseExceeded, audit.WeakPlan},
		entry: "analyzer/7 announcement",
	},
	{
		name: "the learner's configuration is changed", of: joint,
		after: func(l *ledger.Ledger, _ *audit.Options) error {
			c, err := ledger.Open[wire.Configuration](l, bus.Analyzer, 0)
			if err != nil {
				return err
			}
			c.Learner.Radius /= 2
			return ledger.Append(l, bus.Analyzer, 4, wire.KindConfiguration, c)
		},
		want: []audit.What{audit.ConfigurationChanged}, entry: "analyzer/4 configuration",
	},
	{
		name: "another configuration is logged than runs", of: sums,
		plant: func(o *ledger.Options) {
			o.Tamper.Configuration = func(c *wire.Configuration) { c.Terms.Epsilon, c.Learner.Epsilon = 2, 2 }
		},
		want:  []audit.What{audit.PlanChanged, audit.PromiseExceeded, audit.WeakPlan},
		entry: "analyzer/1 announcement",
	},
	{
		name: "a configuration from which nothing follows", of: joint,
		plant: func(o *ledger.Options) {
			o.Tamper.Configuration = func(c *wire.Configuration) { c.Learner.Horizon = 1 }
		},
		want: []audit.What{audit.ConfigurationRefused}, entry: "analyzer/0 configuration",
	},
	{
		name: "no configuration is logged", of: joint,
		after: one(func(l *ledger.Ledger) { drop(l, bus.Analyzer, 0, 1) }),
		want:  []audit.What{audit.ConfigurationMissing}, entry: "analyzer/0 announcement",
	},
	{
		name: "an announcement names no predecessor", of: joint,
		plant: announcementAt(2, 0, func(a *plan.Announcement) {
			a.Previous = flip(a.Previous)
		}),
		want: []audit.What{audit.Unchained}, entry: "analyzer/4 announcement",
	},
	{
		name: "a round goes on after the last", of: joint,
		after: func(l *ledger.Ledger, _ *audit.Options) error {
			a, err := ledger.Open[plan.Announcement](l, bus.Analyzer, 7)
			if err != nil {
				return err
			}
			_, digest, err := wire.Sign(a, l.Analyzer)
			if err != nil {
				return err
			}
			final, err := ledger.Open[plan.Announcement](l, bus.Analyzer, 10)
			if err != nil {
				return err
			}
			more := a.Clone()
			more.Epoch, more.Previous, more.Policy = 4, digest[:], final.Policy
			drop(l, bus.Analyzer, 10, 1)
			return ledger.Append(l, bus.Analyzer, 10, wire.KindAnnouncement, more)
		},
		want: []audit.What{audit.MoreRounds, audit.WeakPlan}, entry: "analyzer/10 announcement",
	},
	{
		name: "a round is announced twice", of: joint,
		after: func(l *ledger.Ledger, _ *audit.Options) error {
			return again(l, bus.Analyzer, 4, func(a *plan.Announcement) { a.Cohort.Minimum++ })
		},
		want: []audit.What{audit.OutOfOrder}, entry: "analyzer/5 announcement",
	},
	{
		name: "a deployment ends early", of: joint,
		after: func(l *ledger.Ledger, _ *audit.Options) error {
			final, err := ledger.Open[plan.Announcement](l, bus.Analyzer, 10)
			if err != nil {
				return err
			}
			third, err := ledger.Open[plan.Announcement](l, bus.Analyzer, 7)
			if err != nil {
				return err
			}
			final.Epoch, final.Previous, final.Policy = 3, third.Previous, third.Policy
			drop(l, bus.Analyzer, 7, 4)
			drop(l, bus.Shuffler, 2, 1)
			return ledger.Append(l, bus.Analyzer, 7, wire.KindAnnouncement, final)
		},
		want: []audit.What{audit.EndedEarly}, entry: "analyzer/7 announcement",
	},
	{
		name: "the reference is moved", of: sums,
		plant: announcementAt(1, 1, func(a *plan.Announcement) { a.Reference[0] = math.Nextafter(a.Reference[0], 0) }),
		want:  []audit.What{audit.ReferenceChanged}, entry: "analyzer/4 announcement",
	},
	{
		name: "a rotated key comes back", of: joint,
		plant: both(func(o *ledger.Options) { o.Rotate = true }, func(o *ledger.Options) {
			var first []byte
			o.Tamper.Announcement = func(a *plan.Announcement) {
				if a.Epoch == 1 {
					first = a.AnalyzerKey
				}
				if a.Epoch == 3 {
					a.AnalyzerKey = first
				}
			}
		}),
		want: []audit.What{audit.KeyReturned}, entry: "analyzer/7 announcement",
	},
}
