package audit_test

import (
	"slices"

	"github.com/riffle-dp/riffle/internal/audit"
	"github.com/riffle-dp/riffle/internal/bus"
	"github.com/riffle-dp/riffle/internal/testing/ledger"
	"github.com/riffle-dp/riffle/pkg/plan"
	"github.com/riffle-dp/riffle/pkg/wire"
)

// logFrauds are what a copy or a role does to its log, whatever is in it.
var logFrauds = []fraud{
	{
		name: "the log is rewound", of: joint,
		last: one(func(l *ledger.Ledger) { drop(l, bus.Analyzer, end(l, bus.Analyzer)-1, 1) }),
		want: []audit.What{audit.LogRewound}, entry: "analyzer.checkpoint",
	},
	{
		name: "the log shows two faces", of: joint,
		last: twoFaces,
		want: []audit.What{audit.SplitView}, entry: "shuffler.witness.checkpoint",
	},
	{
		name: "a signature is forged", of: joint,
		after: func(l *ledger.Ledger, _ *audit.Options) error {
			last := end(l, bus.Analyzer) - 1
			a, err := ledger.Open[plan.Announcement](l, bus.Analyzer, last)
			if err != nil {
				return err
			}
			l.Logs[bus.Analyzer][last].Signed, _, err = wire.Sign(a, l.Shuffler)
			return err
		},
		want: []audit.What{audit.ForgedSignature}, entry: "analyzer/10 announcement",
	},
	{
		name: "a signing key has expired", of: joint,
		after: one(func(l *ledger.Ledger) {
			l.Bundle.Until = map[string]uint64{"shuffler": 2}
		}),
		want: []audit.What{audit.ExpiredKey}, entry: "shuffler/2 manifest",
	},
	{
		name: "both logs are empty", of: joint,
		last: one(func(l *ledger.Ledger) {
			clear(l.Logs)
			clear(l.Checkpoints)
		}),
		want: []audit.What{audit.CheckpointMissing}, entry: "analyzer.checkpoint",
	},
	{
		name: "an entry is changed in the log", of: joint,
		last: one(func(l *ledger.Ledger) {
			l.Logs[bus.Shuffler][1].Signed = flip(l.Logs[bus.Shuffler][1].Signed)
		}),
		want:  []audit.What{audit.ForgedSignature, audit.LogAltered, audit.ManifestMissing},
		entry: "shuffler/1 manifest",
	},
	{
		name: "an entry is appended under another kind", of: joint,
		after: one(func(l *ledger.Ledger) {
			l.Logs[bus.Analyzer][10].Kind = wire.KindCounts
		}),
		want: []audit.What{audit.Malformed}, entry: "analyzer/10 counts",
	},
	{
		name: "an entry is of another deployment", of: joint,
		after: func(l *ledger.Ledger, _ *audit.Options) error {
			return change(l, bus.Analyzer, 10, func(a *plan.Announcement) { a.Deployment = "elsewhere" })
		},
		want: []audit.What{audit.Malformed}, entry: "analyzer/10 announcement",
	},
	{
		name: "an entry is added without a checkpoint", of: joint,
		last: func(l *ledger.Ledger, _ *audit.Options) error {
			return again(l, bus.Shuffler, 2, func(m *wire.Manifest) { m.ReportsDigest = flip(m.ReportsDigest) })
		},
		want: []audit.What{audit.DoubledRelease, audit.Uncovered}, entry: "shuffler/3 manifest",
	},
	{
		name: "a checkpoint is forged", of: joint,
		last: func(l *ledger.Ledger, _ *audit.Options) (err error) {
			l.Analyzer, l.Shuffler = l.Shuffler, l.Analyzer
			l.Checkpoints[bus.Shuffler], err = l.CheckpointAt(bus.Shuffler, 3)
			return err
		},
		want: []audit.What{audit.CheckpointForged, audit.CheckpointMissing}, entry: "shuffler.checkpoint",
	},
	{
		name: "a witness saw a longer log", of: joint,
		after: func(l *ledger.Ledger, o *audit.Options) error {
			note, err := l.CheckpointAt(bus.Analyzer, end(l, bus.Analyzer))
			o.Views = []audit.View{
				{Name: "analyzer.witness.checkpoint", Checkpoints: map[bus.Role][]byte{bus.Analyzer: note}},
			}
			drop(l, bus.Analyzer, end(l, bus.Analyzer)-1, 1)
			return err
		},
		want: []audit.What{audit.LogRewound}, entry: "analyzer.witness.checkpoint",
	},
}

// twoFaces gives the audit a view of the shuffler's log in which the first manifest is another one.
func twoFaces(l *ledger.Ledger, o *audit.Options) error {
	other := *l
	other.Logs = map[bus.Role][]audit.Entry{bus.Shuffler: slices.Clone(l.Logs[bus.Shuffler])}
	err := change(&other, bus.Shuffler, 0, func(m *wire.Manifest) { m.ReportsDigest = flip(m.ReportsDigest) })
	if err != nil {
		return err
	}
	note, err := other.CheckpointAt(bus.Shuffler, 2)
	o.Views = []audit.View{{Name: "shuffler.witness.checkpoint", Checkpoints: map[bus.Role][]byte{bus.Shuffler: note}}}
	return err
}
