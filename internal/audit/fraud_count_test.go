package audit_test

import (
	"slices"

	"github.com/riffle-dp/riffle/internal/audit"
	"github.com/riffle-dp/riffle/internal/bus"
	"github.com/riffle-dp/riffle/internal/testing/ledger"
	"github.com/riffle-dp/riffle/pkg/wire"
)

// countFrauds are what the analyzer counts and learns otherwise than from what left.
var countFrauds = []fraud{
	{
		name: "the noise's mean is removed wrongly", of: sums,
		plant: learnedAt(1, 1, func(v *wire.Learned) { v.Sums[0].Values[1] += 0.5 }),
		want:  []audit.What{audit.SumsWrong}, entry: "analyzer/6 learned",
	},
	{
		name: "the counts do not add up", of: sums,
		plant: countsAt(2, 1, func(c *wire.Counts) { c.Releases[0].Ones[0] = 1 << 19 }),
		want:  []audit.What{audit.CountsImpossible}, entry: "analyzer/11 counts",
	},
	{
		name: "a release is said to be destroyed", of: joint,
		plant: learnedAt(2, 0, func(v *wire.Learned) { v.Destroyed = true }),
		want:  []audit.What{audit.LearnedOther}, entry: "analyzer/6 learned",
	},
	{
		name: "a round is counted twice", of: joint,
		after: func(l *ledger.Ledger, _ *audit.Options) error {
			return again(l, bus.Analyzer, 5, func(c *wire.Counts) { c.Manifest = flip(c.Manifest) })
		},
		want: []audit.What{audit.DoubledCounts}, entry: "analyzer/6 counts",
	},
	{
		name: "a round is learned from twice", of: joint,
		after: func(l *ledger.Ledger, _ *audit.Options) error {
			return again(l, bus.Analyzer, 6, func(v *wire.Learned) { v.Iterate[0] += 0.1 })
		},
		want: []audit.What{audit.DoubledCounts}, entry: "analyzer/7 learned",
	},
	{
		name: "other reports are counted than were released", of: sums,
		plant: countsAt(1, 1, func(c *wire.Counts) { c.Reports++ }),
		want:  []audit.What{audit.ReportsDiffer}, entry: "analyzer/5 counts",
	},
	{
		name: "a destroyed cohort is counted", of: joint,
		plant: manifestAt(2, 0, func(m *wire.Manifest) {
			m.Outcome, m.Messages, m.NoiseMessages, m.Chunks = wire.Destroyed, 0, 0, 0
			m.ChunksDigest, m.MessagesRoot = nil, nil
		}),
		want: []audit.What{audit.DestroyedCounted}, entry: "analyzer/5 counts",
	},
	{
		name: "the analyzer refuses what it saw", of: sums,
		plant: countsAt(2, 0, refuse),
		want:  []audit.What{audit.ReleaseRefused}, entry: "analyzer/8 counts",
	},
	{
		name: "the analyzer refuses the sums of both servers", of: shares,
		plant: countsAt(1, 0, refuse),
		want:  []audit.What{audit.ReleaseRefused}, entry: "analyzer/3 counts",
	},
	{
		name: "a coordinate too many is counted", of: sums,
		plant: countsAt(1, 1, func(c *wire.Counts) {
			c.Releases[0].Ones = append(c.Releases[0].Ones, 0)
		}),
		want: []audit.What{audit.CountsShape}, entry: "analyzer/5 counts",
	},
	{
		name: "a release too many is counted", of: sums,
		plant: countsAt(1, 1, func(c *wire.Counts) {
			c.Releases = append(c.Releases, c.Releases[0])
		}),
		want: []audit.What{audit.CountsShape}, entry: "analyzer/5 counts",
	},
	{
		name: "reports are listed in an order that may say who sent which", of: each,
		plant: countsAt(1, 0, func(c *wire.Counts) {
			e := c.Releases[0].Entries
			c.Releases[0].Entries = slices.Concat(e[3:], e[:3])
		}),
		want: []audit.What{audit.CountsImpossible, audit.RecountDiffers}, entry: "analyzer/2 counts",
	},
	{
		name: "a report is changed that is listed", of: each,
		plant: countsAt(1, 0, func(c *wire.Counts) {
			e := c.Releases[0].Entries
			e[len(e)-3]++ // the last one, so that the order stays
		}),
		want: []audit.What{audit.RecountDiffers}, entry: "analyzer/2 counts",
	},
	{
		name: "a report is left out that was counted", of: each,
		plant: countsAt(1, 0, func(c *wire.Counts) { c.Releases[0].Entries = c.Releases[0].Entries[3:] }),
		want:  []audit.What{audit.RecountDiffers}, entry: "analyzer/2 counts",
	},
	{
		name: "sums are counted in place of reports", of: each,
		plant: countsAt(1, 0, func(c *wire.Counts) { c.Releases[0] = wire.ReleaseCounts{Ones: []uint64{9, 9, 9}} }),
		want:  []audit.What{audit.CountsShape, audit.RecountDiffers}, entry: "analyzer/2 counts",
	},
	{
		name: "it is learned from other counts", of: joint,
		plant: learnedAt(2, 0, func(v *wire.Learned) { v.Counts = flip(v.Counts) }),
		want:  []audit.What{audit.LearnedOther}, entry: "analyzer/6 learned",
	},
	{
		name: "the iterate is nudged", of: sums,
		plant: learnedAt(1, 1, func(v *wire.Learned) { v.Iterate[0] += 1e-3 }),
		want:  []audit.What{audit.IterateWrong}, entry: "analyzer/6 learned",
	},
	{
		name: "another policy is said to be learned", of: joint,
		plant: learnedAt(2, 0, func(v *wire.Learned) { v.Policy = flip(v.Policy) }),
		want:  []audit.What{audit.PolicyWrong}, entry: "analyzer/6 learned",
	},
	{
		name: "less is said to be spent", of: joint,
		plant: learnedAt(2, 0, func(v *wire.Learned) { v.Epsilon /= 2 }),
		want:  []audit.What{audit.EpsilonWrong}, entry: "analyzer/6 learned",
	},
}
