package audit_test

import (
	"slices"

	"github.com/riffle-dp/riffle/internal/audit"
	"github.com/riffle-dp/riffle/internal/bus"
	"github.com/riffle-dp/riffle/internal/testing/ledger"
	"github.com/riffle-dp/riffle/pkg/plan"
	"github.com/riffle-dp/riffle/pkg/seal"
	"github.com/riffle-dp/riffle/pkg/wire"
)

// releaseFrauds are what leaves the shuffler otherwise than it signs or than was announced, and what is kept of it.
var releaseFrauds = []fraud{
	{
		name: "a bit message is dropped", of: bits,
		plant: messagesAt(func(m [][]byte) [][]byte { return m[1:] }),
		want:  []audit.What{audit.MessageDropped}, entry: "shuffler/1 manifest",
	},
	{
		name: "a bit message is added", of: bits,
		plant: messagesAt(func(m [][]byte) [][]byte { return append(m, make([]byte, seal.BitSize)) }),
		want:  []audit.What{audit.MessageAdded}, entry: "shuffler/1 manifest",
	},
	{
		name: "a bit message is swapped", of: bits,
		plant: messagesAt(func(m [][]byte) [][]byte { m[5] = flip(m[5]); return m }),
		want:  []audit.What{audit.MessageSwapped}, entry: "shuffler/1 manifest",
	},
	{
		name: "a release is doubled", of: joint,
		after: func(l *ledger.Ledger, _ *audit.Options) error {
			return again(l, bus.Shuffler, 1, func(m *wire.Manifest) { m.ReportsDigest = flip(m.ReportsDigest) })
		},
		want: []audit.What{audit.DoubledRelease}, entry: "shuffler/2 manifest",
	},
	{
		name: "a release is below the minimum", of: sums,
		plant: both(
			manifestAt(1, 1, func(m *wire.Manifest) { m.Reports, m.Messages = 9, 9 }),
			countsAt(1, 1, func(c *wire.Counts) { c.Reports = 9 })),
		want: []audit.What{audit.BelowMinimum}, entry: "shuffler/1 manifest",
	},
	{
		name: "a manifest is edited afterwards", of: joint,
		after: func(l *ledger.Ledger, _ *audit.Options) error {
			return change(l, bus.Shuffler, 1, func(m *wire.Manifest) { m.ReportsDigest = flip(m.ReportsDigest) })
		},
		want: []audit.What{audit.ManifestReplaced}, entry: "shuffler/1 manifest",
	},
	{
		name: "a manifest is withheld", of: joint,
		after: one(func(l *ledger.Ledger) { drop(l, bus.Shuffler, 1, 1) }),
		want:  []audit.What{audit.ManifestMissing}, entry: "analyzer/5 counts",
	},
	{
		name: "a release is of a round that nobody announced", of: joint,
		after: func(l *ledger.Ledger, _ *audit.Options) error {
			return again(l, bus.Shuffler, 2, func(m *wire.Manifest) { m.Epoch = 9 })
		},
		want: []audit.What{audit.UnannouncedRelease}, entry: "shuffler/3 manifest",
	},
	{
		name: "reports for another announcement are released", of: joint,
		plant: manifestAt(2, 0, func(m *wire.Manifest) { m.Announcement = flip(m.Announcement) }),
		want:  []audit.What{audit.WrongAnnouncement}, entry: "shuffler/1 manifest",
	},
	{
		name: "a cohort has more devices than slots", of: joint,
		plant: manifestAt(2, 0, func(m *wire.Manifest) { m.Enrolled = 99 }),
		want:  []audit.What{audit.CohortExceeded}, entry: "shuffler/1 manifest",
	},
	{
		name: "newcomers report in a later round", of: sums,
		plant: both(func(o *ledger.Options) { o.Seed = 3 },
			manifestAt(1, 1, func(m *wire.Manifest) {
				m.Refused = []wire.Refused{
					{Reason: wire.RefusalRepeatedMessage, Reports: 3, TakenOut: m.Enrolled - m.Reports},
				}
			})),
		want: []audit.What{audit.Accounting}, entry: "shuffler/1 manifest",
	},
	{
		name: "a later round is of other devices", of: sums,
		plant: manifestAt(1, 1, func(m *wire.Manifest) { m.Enrolled-- }),
		want:  []audit.What{audit.Accounting}, entry: "shuffler/1 manifest",
	},
	{
		name: "a person's bits are sent twice, in another number", of: noise,
		plant: manifestAt(1, 1, func(m *wire.Manifest) { m.Messages += uint64(m.Reports) }),
		want:  []audit.What{audit.MessageCount}, entry: "shuffler/1 manifest",
	},
	{
		name: "the shuffler leaves out its noise", of: noise,
		plant: manifestAt(1, 1, func(m *wire.Manifest) {
			m.Messages, m.NoiseMessages = m.Messages-m.NoiseMessages, 0
		}),
		want: []audit.What{audit.NoiseCount}, entry: "shuffler/1 manifest",
	},
	{
		name: "no set is signed", of: shares,
		after: func(l *ledger.Ledger, _ *audit.Options) error {
			drop(l, bus.Analyzer, 2, 1)
			return nil
		},
		want: []audit.What{audit.SetMissing}, entry: "shuffler/1 manifest",
	},
	{
		name: "no share of the sums is signed for", of: shares,
		after: one(func(l *ledger.Ledger) { drop(l, bus.Shuffler, 0, 1) }),
		want:  []audit.What{audit.SetMissing}, entry: "shuffler/0 manifest",
	},
	{
		name: "a second set is signed", of: shares,
		after: func(l *ledger.Ledger, _ *audit.Options) error {
			return again(l, bus.Analyzer, 2, func(a *wire.Accepted) { a.Set = flip(a.Set) })
		},
		want: []audit.What{audit.SecondSet}, entry: "analyzer/3 accepted-1-0",
	},
	{
		name: "a second share leaves", of: shares,
		after: func(l *ledger.Ledger, _ *audit.Options) error {
			return again(l, bus.Shuffler, 0, func(s *wire.Summed) { s.Share = flip(s.Share) })
		},
		want: []audit.What{audit.SecondSet}, entry: "shuffler/1 summed-1-0",
	},
	{
		name: "the servers add up different sets", of: shares,
		plant: func(o *ledger.Options) {
			o.Tamper.Summed = func(s *wire.Summed) { s.Set = flip(s.Set) }
		},
		want: []audit.What{audit.SetsDiffer}, entry: "shuffler/1 manifest",
	},
	{
		name: "more reports are released than were accepted", of: shares,
		plant: func(o *ledger.Options) {
			o.Tamper.Summed = func(s *wire.Summed) { s.Reports-- }
			o.Tamper.Accepted = func(s *wire.Accepted) { s.Reports-- }
		},
		want:  []audit.What{audit.BelowMinimum, audit.PromiseExceeded, audit.SetsDiffer},
		entry: "shuffler/1 manifest",
	},
	{
		name: "the servers add up other numbers of reports", of: shares,
		plant: func(o *ledger.Options) {
			o.Tamper.Summed = func(s *wire.Summed) { s.Reports-- }
		},
		want:  []audit.What{audit.BelowMinimum, audit.PromiseExceeded, audit.SetsDiffer},
		entry: "shuffler/1 manifest",
	},
	{
		name: "a retained chunk takes the place of another number", of: bits,
		last: func(l *ledger.Ledger, _ *audit.Options) error {
			err := extraChunk(l)
			l.Dropped = map[ledger.Place]uint32{{Epoch: 1}: 0}
			return err
		},
		want: []audit.What{audit.MessageAdded}, entry: "shuffler/0 manifest",
	},
	{
		name: "a message is sent twice", of: bits,
		plant: func(o *ledger.Options) {
			o.Tamper.Sent = func(_ uint64, _ uint32, m [][]byte) [][]byte { m[3] = m[9]; return m }
		},
		want: []audit.What{audit.MessageCopied}, entry: "shuffler/0 manifest",
	},
	{
		name: "the messages leave in another order", of: bits,
		plant: messagesAt(func(m [][]byte) [][]byte { slices.Reverse(m); return m }),
		want:  []audit.What{audit.ChunksDiffer}, entry: "shuffler/1 manifest",
	},
	{
		name: "a retained chunk is exchanged", of: bits,
		last: one(func(l *ledger.Ledger) {
			c := l.Chunks[ledger.Place{Epoch: 1}]
			c[0] = c[1]
		}),
		want: []audit.What{audit.RetainedForged}, entry: "shuffler/0 manifest",
	},
	{
		name: "the counts are not those of the messages", of: bits,
		plant: countsAt(1, 1, func(c *wire.Counts) { c.Releases[0].Ones[0]-- }),
		want:  []audit.What{audit.RecountDiffers}, entry: "analyzer/5 counts",
	},
	{
		name: "a chunk that the manifest does not name is retained", of: bits,
		last: func(l *ledger.Ledger, _ *audit.Options) error {
			return extraChunk(l)
		},
		want: []audit.What{audit.MessageAdded}, entry: "shuffler/0 manifest",
	},
}

// extraChunk retains a chunk in the first round that its manifest does not name.
func extraChunk(l *ledger.Ledger) error {
	a, digest, err := wire.Open[plan.Announcement](l.Logs[bus.Analyzer][1].Signed, l.Bundle.AnalyzerParty())
	if err != nil {
		return err
	}
	chunks := l.Chunks[ledger.Place{Epoch: 1}]
	index := uint32(len(chunks))
	chunk, err := wire.BuildChunk(wire.Chunk{Epoch: 1, Index: index, Payload: make([]byte, seal.BitSize)})
	if err != nil {
		return err
	}
	sealed, err := seal.SealRetained(l.Auditor.Public(), seal.RetainedContext{
		Deployment: a.Deployment, Epoch: 1, Index: index, Announcement: digest,
	}, chunk)
	l.Chunks[ledger.Place{Epoch: 1}] = append(chunks, sealed)
	return err
}
