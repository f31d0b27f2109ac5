package audit_test

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"testing"

	"github.com/riffle-dp/riffle/internal/audit"
	"github.com/riffle-dp/riffle/internal/bus"
	"github.com/riffle-dp/riffle/internal/testing/ledger"
	"github.com/riffle-dp/riffle/pkg/glm"
	"github.com/riffle-dp/riffle/pkg/plan"
	"github.com/riffle-dp/riffle/pkg/seal"
	"github.com/riffle-dp/riffle/pkg/wire"
)

// What frauds are planted in: deployments in which planning and learning are quick.
const (
	joint  = "joint"  // records to a curator, three epochs of one round
	sums   = "sums"   // the channel central, two epochs of three rounds
	bits   = "bits"   // the channel shuffle with retained bit messages
	shares = "shares" // the channel shares
	two    = "two"    // the channel shuffle with retained bit messages, two releases in a round
	noise  = "noise"  // the channel shuffle, with noise of the shuffler
	alone  = "alone"  // the same, with as much as gives the promise by itself
)

func configuration(name string) ledger.Options {
	o := ledger.Options{Seed: 7}
	switch name {
	case joint:
		o.Configuration = ledger.Small(glm.Joint, plan.Central, 3)
		o.Configuration.Batch = 12
	case panels, twice:
		o.Configuration = ledger.Living(plan.Central, map[string]int{panels: 1, twice: 2}[name])
	case sums:
		o.Configuration = ledger.Small(glm.Paper, plan.Central, 2)
	case bits:
		o.Configuration, o.Retain = ledger.Small(glm.Paper, plan.Shuffle, 2), true
	case two:
		o.Configuration, o.Retain = ledger.Small(glm.Practical, plan.Shuffle, 2), true
	case shares:
		o.Configuration = ledger.Small(glm.Paper, plan.Shares, 2)
	case noise, alone:
		o.Configuration = ledger.Small(glm.Paper, plan.Shuffle, 2)
		o.Configuration.Terms.ServerNoise = map[string]float64{noise: 0.5, alone: 1}[name]
	}
	return o
}

// fraud is what somebody did to a deployment's logs, and how the audit must name it.
type fraud struct {
	name  string
	of    string                                     // deployment
	plant func(*ledger.Options)                      // before statements are signed; may be nil
	after func(*ledger.Ledger, *audit.Options) error // to the finished logs, after which both are sealed; may be nil
	last  func(*ledger.Ledger, *audit.Options) error // after that; may be nil
	want  []audit.What
	entry string // of the first breach of the first kind
}

// at changes the statement of one round.
func at[T any](epoch uint64, round uint32, of func(*T) (uint64, uint32), f func(*T)) func(*T) {
	return func(s *T) {
		if e, r := of(s); e == epoch && r == round {
			f(s)
		}
	}
}

func manifestAt(epoch uint64, round uint32, f func(*wire.Manifest)) func(*ledger.Options) {
	return func(o *ledger.Options) {
		o.Tamper.Manifest = at(epoch, round, func(m *wire.Manifest) (uint64, uint32) { return m.Epoch, m.Round }, f)
	}
}

func countsAt(epoch uint64, round uint32, f func(*wire.Counts)) func(*ledger.Options) {
	return func(o *ledger.Options) {
		o.Tamper.Counts = at(epoch, round, func(m *wire.Counts) (uint64, uint32) { return m.Epoch, m.Round }, f)
	}
}

func learnedAt(epoch uint64, round uint32, f func(*wire.Learned)) func(*ledger.Options) {
	return func(o *ledger.Options) {
		o.Tamper.Learned = at(epoch, round, func(m *wire.Learned) (uint64, uint32) { return m.Epoch, m.Round }, f)
	}
}

func announcementAt(epoch uint64, round uint32, f func(*plan.Announcement)) func(*ledger.Options) {
	return func(o *ledger.Options) {
		o.Tamper.Announcement = at(epoch, round,
			func(m *plan.Announcement) (uint64, uint32) { return m.Epoch, m.Round }, f)
	}
}

// messagesAt changes what is retained of the second round.
func messagesAt(f func(messages [][]byte) [][]byte) func(*ledger.Options) {
	return func(o *ledger.Options) {
		o.Tamper.Messages = func(epoch uint64, round uint32, messages [][]byte) [][]byte {
			if epoch == 1 && round == 1 {
				return f(messages)
			}
			return messages
		}
	}
}

func both(all ...func(*ledger.Options)) func(*ledger.Options) {
	return func(o *ledger.Options) {
		for _, f := range all {
			f(o)
		}
	}
}

// change signs an entry anew.
func change[T plan.Announcement | wire.Manifest | wire.Counts | wire.Accepted | wire.Summed | wire.Configuration |
	wire.Learned | wire.Pool | wire.Draw](l *ledger.Ledger, role bus.Role, index int, f func(*T)) error {
	s, err := ledger.Open[T](l, role, index)
	if err != nil {
		return err
	}
	f(s)
	kind := l.Logs[role][index].Kind
	drop(l, role, index, 1)
	return ledger.Append(l, role, index, kind, s)
}

// again signs an entry anew, and keeps the old one before it.
func again[T plan.Announcement | wire.Manifest | wire.Counts | wire.Accepted | wire.Summed | wire.Configuration |
	wire.Learned | wire.Pool | wire.Draw](l *ledger.Ledger, role bus.Role, index int, f func(*T)) error {
	l.Logs[role] = slices.Insert(l.Logs[role], index, l.Logs[role][index])
	return change(l, role, index+1, f)
}

func drop(l *ledger.Ledger, role bus.Role, index, n int) {
	l.Logs[role] = slices.Delete(l.Logs[role], index, index+n)
}

func end(l *ledger.Ledger, role bus.Role) int { return len(l.Logs[role]) }

func flip(b []byte) []byte {
	b = slices.Clone(b)
	b[len(b)-1] ^= 1
	return b
}

// refuse has the analyzer sign that it does not count what the shuffler released.
func refuse(c *wire.Counts) { c.Destroyed, c.Releases = true, nil }

// twoFaces gives the audit a view of the shuffler's log in which the first manifest is another one.
func twoFaces(l *ledger.Ledger, o *audit.Options) error {
	other := *l
	other.Logs = map[bus.Role][]audit.Entry{bus.Shuffler: slices.Clone(l.Logs[bus.Shuffler])}
	if err := change(&other, bus.Shuffler, 0, func(m *wire.Manifest) { m.ReportsDigest = flip(m.ReportsDigest) }); err != nil {
		return err
	}
	note, err := other.Checkpointed(bus.Shuffler, 2)
	o.Views = []audit.View{{Name: "shuffler.witness.checkpoint", Checkpoints: map[bus.Role][]byte{bus.Shuffler: note}}}
	return err
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

// one makes a plant of a change that cannot fail.
func one(f func(*ledger.Ledger)) func(*ledger.Ledger, *audit.Options) error {
	return func(l *ledger.Ledger, _ *audit.Options) error {
		f(l)
		return nil
	}
}

var frauds = []fraud{
	// The sixteen that every audit must find.
	{"a bit message is dropped", bits, messagesAt(func(m [][]byte) [][]byte { return m[1:] }), nil, nil,
		[]audit.What{audit.MessageDropped}, "shuffler/1 manifest"},
	{"a bit message is added", bits, messagesAt(func(m [][]byte) [][]byte { return append(m, make([]byte, seal.BitSize)) }),
		nil, nil, []audit.What{audit.MessageAdded}, "shuffler/1 manifest"},
	{"a bit message is swapped", bits, messagesAt(func(m [][]byte) [][]byte { m[5] = flip(m[5]); return m }), nil, nil,
		[]audit.What{audit.MessageSwapped}, "shuffler/1 manifest"},
	{"a release is doubled", joint, nil, func(l *ledger.Ledger, _ *audit.Options) error {
		return again(l, bus.Shuffler, 1, func(m *wire.Manifest) { m.ReportsDigest = flip(m.ReportsDigest) })
	}, nil, []audit.What{audit.DoubledRelease}, "shuffler/2 manifest"},
	{"a release is below the minimum", sums, both(
		manifestAt(1, 1, func(m *wire.Manifest) { m.Reports, m.Messages = 9, 9 }),
		countsAt(1, 1, func(c *wire.Counts) { c.Reports = 9 })), nil, nil,
		[]audit.What{audit.BelowMinimum}, "shuffler/1 manifest"},
	{"a manifest is edited afterwards", joint, nil, func(l *ledger.Ledger, _ *audit.Options) error {
		return change(l, bus.Shuffler, 1, func(m *wire.Manifest) { m.ReportsDigest = flip(m.ReportsDigest) })
	}, nil, []audit.What{audit.ManifestReplaced}, "shuffler/1 manifest"},
	{"the log is rewound", joint, nil, nil, one(func(l *ledger.Ledger) { drop(l, bus.Analyzer, end(l, bus.Analyzer)-1, 1) }),
		[]audit.What{audit.LogRewound}, "analyzer.checkpoint"},
	{"the log shows two faces", joint, nil, nil, twoFaces, []audit.What{audit.SplitView}, "shuffler.witness.checkpoint"},
	{"the noise's mean is removed wrongly", sums, learnedAt(1, 1, func(v *wire.Learned) { v.Sums[0].Values[1] += 0.5 }),
		nil, nil, []audit.What{audit.SumsWrong}, "analyzer/6 learned"},
	{"the policy is nudged in one coordinate", sums, announcementAt(2, 0, func(a *plan.Announcement) {
		a.Policy.Theta[1] = math.Nextafter(a.Policy.Theta[1], 9)
	}), nil, nil, []audit.What{audit.PolicyChanged}, "analyzer/7 announcement"},
	{"more rounds than planned", sums, announcementAt(1, 0, func(a *plan.Announcement) {
		a.Plan.Rounds = append(a.Plan.Rounds, a.Plan.Rounds[len(a.Plan.Rounds)-1])
	}), nil, nil, []audit.What{audit.MoreRounds, audit.PlanChanged, audit.PromiseExceeded, audit.WeakPlan},
		"analyzer/1 announcement"},
	{"the plan is weaker than announced", sums, announcementAt(2, 0, func(a *plan.Announcement) {
		for _, r := range a.Plan.Rounds {
			r.Releases[0].AnalyzerNoise /= 2
		}
	}), nil, nil, []audit.What{audit.PlanChanged, audit.PromiseExceeded, audit.WeakPlan}, "analyzer/7 announcement"},
	{"a plan claims less than it gives", sums, announcementAt(2, 0, func(a *plan.Announcement) { a.Plan.Epsilon /= 2 }), nil,
		nil, []audit.What{audit.PlanChanged, audit.WeakPlan}, "analyzer/7 announcement"},
	{"the servers' noise alone is too little", alone, announcementAt(1, 0, func(a *plan.Announcement) {
		for _, r := range a.Plan.Rounds {
			r.Releases[0].ShufflerNoise /= 4
		}
	}), nil, nil, []audit.What{audit.PlanChanged, audit.WeakPlan}, "analyzer/1 announcement"},
	{"a release more is asked for than the learner wants", sums, nil, func(l *ledger.Ledger, _ *audit.Options) error {
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
		if _, digest, err = wire.Open[plan.Announcement](l.Logs[bus.Analyzer][7].Signed, l.Bundle.AnalyzerParty()); err != nil {
			return err
		}
		return change(l, bus.Analyzer, 8, func(c *wire.Counts) {
			c.Announcement, c.Releases = digest[:], append(c.Releases, c.Releases[0])
		})
	}, nil, []audit.What{audit.ManifestMissing, audit.PlanChanged, audit.PromiseExceeded, audit.WeakPlan},
		"analyzer/7 announcement"},
	{"the counts do not add up", sums, countsAt(2, 1, func(c *wire.Counts) { c.Releases[0].Ones[0] = 1 << 19 }), nil, nil,
		[]audit.What{audit.CountsImpossible}, "analyzer/11 counts"},
	{"a signature is forged", joint, nil, func(l *ledger.Ledger, _ *audit.Options) error {
		last := end(l, bus.Analyzer) - 1
		a, err := ledger.Open[plan.Announcement](l, bus.Analyzer, last)
		if err != nil {
			return err
		}
		l.Logs[bus.Analyzer][last].Signed, _, err = wire.Sign(a, l.Shuffler)
		return err
	}, nil, []audit.What{audit.ForgedSignature}, "analyzer/10 announcement"},
	{"a signing key has expired", joint, nil, one(func(l *ledger.Ledger) {
		l.Bundle.Until = map[string]uint64{"shuffler": 2}
	}), nil, []audit.What{audit.ExpiredKey}, "shuffler/2 manifest"},
	{"the learner's configuration is changed", joint, nil, func(l *ledger.Ledger, _ *audit.Options) error {
		c, err := ledger.Open[wire.Configuration](l, bus.Analyzer, 0)
		if err != nil {
			return err
		}
		c.Learner.Radius /= 2
		return ledger.Append(l, bus.Analyzer, 4, wire.KindConfiguration, c)
	}, nil, []audit.What{audit.ConfigurationChanged}, "analyzer/4 configuration"},

	// And what else can be done.
	{"another configuration is logged than runs", sums, func(o *ledger.Options) {
		o.Tamper.Configuration = func(c *wire.Configuration) { c.Terms.Epsilon, c.Learner.Epsilon = 2, 2 }
	}, nil, nil, []audit.What{audit.PlanChanged, audit.PromiseExceeded, audit.WeakPlan}, "analyzer/1 announcement"},
	{"a configuration from which nothing follows", joint, func(o *ledger.Options) {
		o.Tamper.Configuration = func(c *wire.Configuration) { c.Learner.Horizon = 1 }
	}, nil, nil, []audit.What{audit.ConfigurationRefused}, "analyzer/0 configuration"},
	{"no configuration is logged", joint, nil, one(func(l *ledger.Ledger) { drop(l, bus.Analyzer, 0, 1) }), nil,
		[]audit.What{audit.ConfigurationMissing}, "analyzer/0 announcement"},
	{"an announcement names no predecessor", joint, announcementAt(2, 0, func(a *plan.Announcement) {
		a.Previous = flip(a.Previous)
	}), nil, nil, []audit.What{audit.Unchained}, "analyzer/4 announcement"},
	{"a round goes on after the last", joint, nil, func(l *ledger.Ledger, _ *audit.Options) error {
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
	}, nil, []audit.What{audit.MoreRounds, audit.WeakPlan}, "analyzer/10 announcement"},
	{"a round is announced twice", joint, nil, func(l *ledger.Ledger, _ *audit.Options) error {
		return again(l, bus.Analyzer, 4, func(a *plan.Announcement) { a.Cohort.Minimum++ })
	}, nil, []audit.What{audit.OutOfOrder}, "analyzer/5 announcement"},
	{"a deployment ends early", joint, nil, func(l *ledger.Ledger, _ *audit.Options) error {
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
	}, nil, []audit.What{audit.EndedEarly}, "analyzer/7 announcement"},
	{"the reference is moved", sums, announcementAt(1, 1, func(a *plan.Announcement) { a.Reference[0] = math.Nextafter(a.Reference[0], 0) }), nil, nil,
		[]audit.What{audit.ReferenceChanged}, "analyzer/4 announcement"},
	{"a rotated key comes back", joint, both(func(o *ledger.Options) { o.Rotate = true }, func(o *ledger.Options) {
		var first []byte
		o.Tamper.Announcement = func(a *plan.Announcement) {
			if a.Epoch == 1 {
				first = a.AnalyzerKey
			}
			if a.Epoch == 3 {
				a.AnalyzerKey = first
			}
		}
	}), nil, nil, []audit.What{audit.KeyReturned}, "analyzer/7 announcement"},
	{"a manifest is withheld", joint, nil, one(func(l *ledger.Ledger) { drop(l, bus.Shuffler, 1, 1) }), nil,
		[]audit.What{audit.ManifestMissing}, "analyzer/5 counts"},
	{"a release is of a round that nobody announced", joint, nil, func(l *ledger.Ledger, _ *audit.Options) error {
		return again(l, bus.Shuffler, 2, func(m *wire.Manifest) { m.Epoch = 9 })
	}, nil, []audit.What{audit.UnannouncedRelease}, "shuffler/3 manifest"},
	{"reports for another announcement are released", joint,
		manifestAt(2, 0, func(m *wire.Manifest) { m.Announcement = flip(m.Announcement) }), nil, nil,
		[]audit.What{audit.WrongAnnouncement}, "shuffler/1 manifest"},
	{"a cohort has more devices than slots", joint, manifestAt(2, 0, func(m *wire.Manifest) { m.Enrolled = 99 }), nil, nil,
		[]audit.What{audit.CohortExceeded}, "shuffler/1 manifest"},
	{"newcomers report in a later round", sums, both(func(o *ledger.Options) { o.Seed = 3 },
		manifestAt(1, 1, func(m *wire.Manifest) {
			m.Refused = []wire.Refused{{Reason: wire.RefusalRepeatedMessage, Reports: 3, TakenOut: m.Enrolled - m.Reports}}
		})), nil, nil, []audit.What{audit.Accounting}, "shuffler/1 manifest"},
	{"a later round is of other devices", sums, manifestAt(1, 1, func(m *wire.Manifest) { m.Enrolled-- }), nil, nil,
		[]audit.What{audit.Accounting}, "shuffler/1 manifest"},
	{"a person's bits are sent twice, in another number", noise,
		manifestAt(1, 1, func(m *wire.Manifest) { m.Messages += uint64(m.Reports) }), nil, nil,
		[]audit.What{audit.MessageCount}, "shuffler/1 manifest"},
	{"the shuffler leaves out its noise", noise, manifestAt(1, 1, func(m *wire.Manifest) {
		m.Messages, m.NoiseMessages = m.Messages-m.NoiseMessages, 0
	}), nil, nil, []audit.What{audit.NoiseCount}, "shuffler/1 manifest"},
	{"no set is signed", shares, nil, func(l *ledger.Ledger, _ *audit.Options) error {
		drop(l, bus.Analyzer, 2, 1)
		return nil
	}, nil, []audit.What{audit.SetMissing}, "shuffler/1 manifest"},
	{"no share of the sums is signed for", shares, nil, one(func(l *ledger.Ledger) { drop(l, bus.Shuffler, 0, 1) }), nil,
		[]audit.What{audit.SetMissing}, "shuffler/0 manifest"},
	{"a second set is signed", shares, nil, func(l *ledger.Ledger, _ *audit.Options) error {
		return again(l, bus.Analyzer, 2, func(a *wire.Accepted) { a.Set = flip(a.Set) })
	}, nil, []audit.What{audit.SecondSet}, "analyzer/3 accepted-1-0"},
	{"a second share leaves", shares, nil, func(l *ledger.Ledger, _ *audit.Options) error {
		return again(l, bus.Shuffler, 0, func(s *wire.Summed) { s.Share = flip(s.Share) })
	}, nil, []audit.What{audit.SecondSet}, "shuffler/1 summed-1-0"},
	{"the servers add up different sets", shares, func(o *ledger.Options) {
		o.Tamper.Summed = func(s *wire.Summed) { s.Set = flip(s.Set) }
	}, nil, nil, []audit.What{audit.SetsDiffer}, "shuffler/1 manifest"},
	{"more reports are released than were accepted", shares, func(o *ledger.Options) {
		o.Tamper.Summed = func(s *wire.Summed) { s.Reports-- }
		o.Tamper.Accepted = func(s *wire.Accepted) { s.Reports-- }
	}, nil, nil, []audit.What{audit.BelowMinimum, audit.PromiseExceeded, audit.SetsDiffer}, "shuffler/1 manifest"},
	{"the servers add up other numbers of reports", shares, func(o *ledger.Options) {
		o.Tamper.Summed = func(s *wire.Summed) { s.Reports-- }
	}, nil, nil, []audit.What{audit.BelowMinimum, audit.PromiseExceeded, audit.SetsDiffer}, "shuffler/1 manifest"},
	{"a release is said to be destroyed", joint, learnedAt(2, 0, func(v *wire.Learned) { v.Destroyed = true }), nil, nil,
		[]audit.What{audit.LearnedOther}, "analyzer/6 learned"},
	{"a retained chunk takes the place of another number", bits, nil, nil, func(l *ledger.Ledger, _ *audit.Options) error {
		err := extraChunk(l)
		l.Dropped = map[ledger.Place]uint32{{Epoch: 1}: 0}
		return err
	}, []audit.What{audit.MessageAdded}, "shuffler/0 manifest"},
	{"a message is sent twice", bits, func(o *ledger.Options) {
		o.Tamper.Sent = func(_ uint64, _ uint32, m [][]byte) [][]byte { m[3] = m[9]; return m }
	}, nil, nil, []audit.What{audit.MessageCopied}, "shuffler/0 manifest"},
	{"the messages leave in another order", bits, messagesAt(func(m [][]byte) [][]byte { slices.Reverse(m); return m }), nil,
		nil, []audit.What{audit.ChunksDiffer}, "shuffler/1 manifest"},
	{"a retained chunk is exchanged", bits, nil, nil, one(func(l *ledger.Ledger) {
		c := l.Chunks[ledger.Place{Epoch: 1}]
		c[0] = c[1]
	}), []audit.What{audit.RetainedForged}, "shuffler/0 manifest"},
	{"the counts are not those of the messages", bits, countsAt(1, 1, func(c *wire.Counts) { c.Releases[0].Ones[0]-- }), nil,
		nil, []audit.What{audit.RecountDiffers}, "analyzer/5 counts"},
	{"a round is counted twice", joint, nil, func(l *ledger.Ledger, _ *audit.Options) error {
		return again(l, bus.Analyzer, 5, func(c *wire.Counts) { c.Manifest = flip(c.Manifest) })
	}, nil, []audit.What{audit.DoubledCounts}, "analyzer/6 counts"},
	{"a round is learned from twice", joint, nil, func(l *ledger.Ledger, _ *audit.Options) error {
		return again(l, bus.Analyzer, 6, func(v *wire.Learned) { v.Iterate[0] += 0.1 })
	}, nil, []audit.What{audit.DoubledCounts}, "analyzer/7 learned"},
	{"other reports are counted than were released", sums,
		countsAt(1, 1, func(c *wire.Counts) { c.Reports++ }), nil, nil, []audit.What{audit.ReportsDiffer}, "analyzer/5 counts"},
	{"a destroyed cohort is counted", joint, manifestAt(2, 0, func(m *wire.Manifest) {
		m.Outcome, m.Messages, m.NoiseMessages, m.Chunks = wire.Destroyed, 0, 0, 0
		m.ChunksDigest, m.MessagesRoot = nil, nil
	}), nil, nil, []audit.What{audit.DestroyedCounted}, "analyzer/5 counts"},
	{"the analyzer refuses what it saw", sums, countsAt(2, 0, refuse), nil, nil, []audit.What{audit.ReleaseRefused},
		"analyzer/8 counts"},
	{"the analyzer refuses the sums of both servers", shares, countsAt(1, 0, refuse), nil, nil,
		[]audit.What{audit.ReleaseRefused}, "analyzer/3 counts"},
	{"a coordinate too many is counted", sums, countsAt(1, 1, func(c *wire.Counts) {
		c.Releases[0].Ones = append(c.Releases[0].Ones, 0)
	}), nil, nil, []audit.What{audit.CountsShape}, "analyzer/5 counts"},
	{"a release too many is counted", sums, countsAt(1, 1, func(c *wire.Counts) {
		c.Releases = append(c.Releases, c.Releases[0])
	}), nil, nil, []audit.What{audit.CountsShape}, "analyzer/5 counts"},
	{"it is learned from other counts", joint, learnedAt(2, 0, func(v *wire.Learned) { v.Counts = flip(v.Counts) }), nil, nil,
		[]audit.What{audit.LearnedOther}, "analyzer/6 learned"},
	{"the iterate is nudged", sums, learnedAt(1, 1, func(v *wire.Learned) { v.Iterate[0] += 1e-3 }), nil, nil,
		[]audit.What{audit.IterateWrong}, "analyzer/6 learned"},
	{"another policy is said to be learned", joint, learnedAt(2, 0, func(v *wire.Learned) { v.Policy = flip(v.Policy) }), nil,
		nil, []audit.What{audit.PolicyWrong}, "analyzer/6 learned"},
	{"less is said to be spent", joint, learnedAt(2, 0, func(v *wire.Learned) { v.Epsilon /= 2 }), nil, nil,
		[]audit.What{audit.EpsilonWrong}, "analyzer/6 learned"},
	{"both logs are empty", joint, nil, nil, one(func(l *ledger.Ledger) {
		clear(l.Logs)
		clear(l.Checkpoints)
	}), []audit.What{audit.CheckpointMissing}, "analyzer.checkpoint"},
	{"a chunk that the manifest does not name is retained", bits, nil, nil, func(l *ledger.Ledger, _ *audit.Options) error {
		return extraChunk(l)
	}, []audit.What{audit.MessageAdded}, "shuffler/0 manifest"},
	{"an entry is changed in the log", joint, nil, nil, one(func(l *ledger.Ledger) {
		l.Logs[bus.Shuffler][1].Signed = flip(l.Logs[bus.Shuffler][1].Signed)
	}), []audit.What{audit.ForgedSignature, audit.LogAltered, audit.ManifestMissing}, "shuffler/1 manifest"},
	{"an entry stands under another kind", joint, nil, one(func(l *ledger.Ledger) {
		l.Logs[bus.Analyzer][10].Kind = wire.KindCounts
	}), nil, []audit.What{audit.Malformed}, "analyzer/10 counts"},
	{"an entry is of another deployment", joint, nil, func(l *ledger.Ledger, _ *audit.Options) error {
		return change(l, bus.Analyzer, 10, func(a *plan.Announcement) { a.Deployment = "elsewhere" })
	}, nil, []audit.What{audit.Malformed}, "analyzer/10 announcement"},
	{"an entry is added without a checkpoint", joint, nil, nil, func(l *ledger.Ledger, _ *audit.Options) error {
		return again(l, bus.Shuffler, 2, func(m *wire.Manifest) { m.ReportsDigest = flip(m.ReportsDigest) })
	}, []audit.What{audit.DoubledRelease, audit.Uncovered}, "shuffler/3 manifest"},
	{"a checkpoint is forged", joint, nil, nil, func(l *ledger.Ledger, _ *audit.Options) (err error) {
		l.Analyzer, l.Shuffler = l.Shuffler, l.Analyzer
		l.Checkpoints[bus.Shuffler], err = l.Checkpointed(bus.Shuffler, 3)
		return err
	}, []audit.What{audit.CheckpointForged, audit.CheckpointMissing}, "shuffler.checkpoint"},
	{"a witness saw a longer log", joint, nil, func(l *ledger.Ledger, o *audit.Options) error {
		note, err := l.Checkpointed(bus.Analyzer, end(l, bus.Analyzer))
		o.Views = []audit.View{{Name: "analyzer.witness.checkpoint", Checkpoints: map[bus.Role][]byte{bus.Analyzer: note}}}
		drop(l, bus.Analyzer, end(l, bus.Analyzer)-1, 1)
		return err
	}, nil, []audit.What{audit.LogRewound}, "analyzer.witness.checkpoint"},
}

// Every fraud is caught under its own name, and nothing else is reported. The entry is the proof.
func TestEveryFraudIsCaughtAndNamed(t *testing.T) {
	honest := map[string]*ledger.Ledger{}
	for _, f := range slices.Concat(frauds, operators, drawn) {
		t.Run(f.name, func(t *testing.T) {
			options := configuration(f.of)
			if f.plant != nil {
				f.plant(&options)
			} else if honest[f.of] == nil {
				honest[f.of] = made(t, options)
			}
			l, err := copied(honest[f.of]), error(nil)
			if f.plant != nil {
				l, err = ledger.Make(options)
			}
			var o audit.Options
			if err == nil && f.after != nil {
				if err = f.after(l, &o); err == nil {
					err = l.Seal()
				}
			}
			if err == nil && f.last != nil {
				err = f.last(l, &o)
			}
			if err != nil {
				t.Fatal(err)
			}
			o.Auditor, o.AnalyzerKeys = []*seal.HPKEKey{l.Auditor}, l.HPKE
			r := check(t, l, o)
			if got := whats(r); !slices.Equal(got, slices.Sorted(slices.Values(f.want))) || r.OK {
				t.Fatalf("named %v, want %v%s", got, f.want, list(r))
			}
			if r.Breaches[0].Entry != f.entry {
				t.Errorf("the first proof is %s, want %s%s", r.Breaches[0].Entry, f.entry, list(r))
			}
		})
	}
}

// copied is a ledger whose logs can be changed; nil of none.
func copied(l *ledger.Ledger) *ledger.Ledger {
	if l == nil {
		return nil
	}
	out := *l
	out.Logs, out.Chunks, out.Checkpoints = maps.Clone(l.Logs), maps.Clone(l.Chunks), maps.Clone(l.Checkpoints)
	for role, log := range l.Logs {
		out.Logs[role] = slices.Clone(log)
	}
	for place, chunks := range l.Chunks {
		out.Chunks[place] = slices.Clone(chunks)
	}
	return &out
}

// Every kind of breach is found by a fraud of the table, and explained.
func TestEveryBreachHasAFraud(t *testing.T) {
	var caught, explained []audit.What
	for _, f := range slices.Concat(frauds, drawn) {
		caught = append(caught, f.want...)
	}
	for _, e := range audit.Explanations() {
		if !slices.Contains(caught, e.What) && !slices.Contains(ofFolders, e.What) {
			t.Errorf("no fraud is named %s", e.What)
		}
		if slices.Contains(explained, e.What) || e.Means == "" || e.By == "" || e.Do == "" {
			t.Errorf("%s is explained twice, or by nothing", e.What)
		}
		explained = append(explained, e.What)
	}
	for _, what := range caught {
		if !slices.Contains(explained, what) {
			t.Errorf("%s is not explained", what)
		}
	}
}

// ofFolders are breaches of exports, which other tests find.
var ofFolders = []audit.What{audit.CertificateWrong}

func list(r *audit.Report) (text string) {
	for _, b := range r.Breaches {
		text += fmt.Sprintf("\n\t%s in %s (%s): %s", b.What, b.Entry, b.Release, b.Detail)
	}
	return text
}
