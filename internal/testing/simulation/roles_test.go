package simulation

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"

	"github.com/rs/zerolog"

	"github.com/riffle-dp/riffle/internal/analyzer"
	"github.com/riffle-dp/riffle/internal/bus"
	"github.com/riffle-dp/riffle/internal/randomizer"
	"github.com/riffle-dp/riffle/internal/shuffler"
	"github.com/riffle-dp/riffle/internal/testing/testbed"
	"github.com/riffle-dp/riffle/internal/translog"
	"github.com/riffle-dp/riffle/pkg/device"
	"github.com/riffle-dp/riffle/pkg/plan"
	"github.com/riffle-dp/riffle/pkg/protocol"
	"github.com/riffle-dp/riffle/pkg/wire"
)

// build makes a role with its real code, and returns what runs it.
func (w *World) build(i *incarnation) (run func(context.Context) error, err error) {
	log := w.logger(i.p.name)
	switch i.p.role {
	case bus.Shuffler:
		return w.buildShuffler(i, log)
	case bus.Analyzer:
		return w.buildAnalyzer(i, log)
	default:
		return w.buildHost(i, log)
	}
}

func (w *World) buildShuffler(i *incarnation, log zerolog.Logger) (func(context.Context) error, error) {
	held := func(count func(*shuffler.Shuffler) int64) func() int64 {
		return func() int64 {
			if i.shuffler == nil {
				return 0
			}
			return count(i.shuffler)
		}
	}
	of := shuffler.Party{
		Deployment: testbed.Deployment, Analyzer: w.keys.analyzer.Public(), Registrar: w.keys.registrar.Public(),
		Identity: w.keys.shuffler, Keys: w.keys.reports,
	}
	by := shuffler.DefaultPolicy()
	by.MinCohort, by.Compact = least, compactAfter
	told := shuffler.Accounts{
		Reports:    i.account("report", held((*shuffler.Shuffler).Held), shuffler.Reasons()),
		Enrolments: i.account("enrolment", nil, shuffler.Reasons()),
		Messages:   i.account("message", held((*shuffler.Shuffler).HeldMessages), shuffler.Reasons()),
		Notice:     i.notice,
	}
	broker, source := shufflerBroker{shuffler.Over(i.conn.Streams), i}, w.source(i)
	logged, err := translog.New(translog.Config{
		Deployment: of.Deployment, Role: bus.Shuffler, Identity: of.Identity, Broker: broker,
		Journal: newLedger(i, "log"),
		Log:     log,
	})
	if err != nil {
		return nil, err
	}
	store, err := shuffler.OpenStore(w.scratch, 1)
	if err != nil {
		return nil, errors.Join(err, logged.Close())
	}
	files := shuffler.Files{Journal: newLedger(i, journalFile), Log: logged, Store: store}
	mixing := shuffler.Mixing{Disk: folder{i}, Source: source}
	channels, err := shuffler.NewChannels(of, files, mixing, broker, told, log)
	if err != nil {
		return nil, errors.Join(err, files.Close())
	}
	s, err := shuffler.New(of, by, files, channels, broker, told, i.p.clock, source, log)
	if err != nil {
		return nil, err
	}
	i.shuffler = s
	return s.Run, nil
}

func (w *World) buildAnalyzer(i *incarnation, log zerolog.Logger) (func(context.Context) error, error) {
	z, err := analyzer.New(analyzer.Config{
		Deployment: testbed.Deployment, Identity: w.keys.analyzer, Keys: w.keys.messages,
		Shuffler: w.keys.shuffler.Public(), Registrar: w.keys.registrar.Public(), Learner: w.learner(),
		Terms:  w.terms(),
		Timing: w.timing(), Bus: analyzerBroker{analyzer.Over(i.conn.Streams), i}, LogJournal: newLedger(i, "log"),
		Disk:   folder{i},
		Memory: 4 << 20, Scratch: w.scratch, Source: w.source(i), Clock: i.p.clock, Log: log, Notice: i.notice,
		Messages: i.account("message", nil, analyzer.Reasons()),
	})
	if err != nil {
		return nil, err
	}
	i.analyzer = z
	return z.Run, nil
}

func (w *World) buildHost(i *incarnation, log zerolog.Logger) (func(context.Context) error, error) {
	keys := w.keys.hosts[i.p.name]
	pending := func() int64 {
		if i.host == nil {
			return 0
		}
		return i.host.Pending()
	}
	asking := func() int64 {
		if i.host == nil {
			return 0
		}
		return i.host.Asking()
	}
	h, err := randomizer.New(randomizer.Config{
		Deployment: testbed.Deployment, Analyzer: w.keys.analyzer.Public(), Shuffler: w.keys.shuffler.Public(),
		Identity: keys.identity, Credential: keys.credential, Devices: capacity, Store: store{i},
		Limits: device.Limits{
			Trust: plan.Channels(), Epsilon: epsilon, Delta: delta, MinCohort: least, MaxReleases: 8, MaxNorm: 10,
			MaxMessages: 1000, Records: w.records(),
		},
		Source: func() protocol.Source { return w.source(i) }, Bus: hostBroker{randomizer.Over(i.conn.Streams), i},
		Clock: i.p.clock, Log: log,
		Reports:    i.account("report", pending, randomizer.Reasons()),
		Enrolments: i.account("enrolment", asking, randomizer.EnrolmentReasons()),
	})
	if err != nil {
		return nil, err
	}
	i.host = h
	return h.Run, nil
}

// source is a seeded source of its own for a process.
func (w *World) source(i *incarnation) protocol.Source {
	w.mu.Lock()
	defer w.mu.Unlock()
	i.p.sources++
	var seed [32]byte
	copy(seed[:], fmt.Sprintf("%d %d %s", w.list.Seed, i.p.sources, i.p.name))
	return rand.NewChaCha8(seed)
}

// shufflerBroker shows the oracle what leaves the shuffler.
type shufflerBroker struct {
	shuffler.Broker
	i *incarnation
}

func (b shufflerBroker) PublishChunk(ctx context.Context, epoch uint64, round, index uint32, payload []byte) error {
	b.i.w.oracle.chunk(b.i, epoch, round, index, payload)
	err := b.Broker.PublishChunk(ctx, epoch, round, index, payload)
	if other := new(bus.ExistsError); errors.As(err, &other) {
		b.i.w.oracle.taken(epoch, round, index, other.Stored)
	}
	return err
}

func (b shufflerBroker) PurgeReports(ctx context.Context, upTo uint64) error {
	b.i.w.oracle.forgotten(b.i, upTo)
	return b.Broker.PurgeReports(ctx, upTo)
}

func (b shufflerBroker) PublishManifest(ctx context.Context, epoch uint64, round uint32, payload []byte) error {
	b.i.w.oracle.manifest(b.i, payload, true)
	return b.Broker.PublishManifest(ctx, epoch, round, payload)
}

func (b shufflerBroker) AppendAuditAfter(
	ctx context.Context, kind string, payload []byte, last uint64,
) (uint64, error) {
	if kind == wire.KindManifest {
		b.i.w.oracle.manifest(b.i, payload, false)
	}
	return b.Broker.AppendAuditAfter(ctx, kind, payload, last)
}

// analyzerBroker shows the oracle what leaves the analyzer.
type analyzerBroker struct {
	analyzer.Broker
	i *incarnation
}

func (b analyzerBroker) PutAnnouncement(ctx context.Context, epoch uint64, round uint32, payload []byte) error {
	b.i.w.oracle.announcement(b.i, payload)
	return b.Broker.PutAnnouncement(ctx, epoch, round, payload)
}

func (b analyzerBroker) AppendAuditAfter(
	ctx context.Context, kind string, payload []byte, last uint64,
) (uint64, error) {
	if kind == wire.KindCounts {
		b.i.w.oracle.counts(b.i, payload)
	}
	return b.Broker.AppendAuditAfter(ctx, kind, payload, last)
}

// hostBroker shows the oracle what leaves a host.
type hostBroker struct {
	randomizer.Broker
	i *incarnation
}

func (b hostBroker) PublishReport(ctx context.Context, epoch uint64, round uint32, id string, envelope []byte) error {
	b.i.w.oracle.report(b.i, epoch, round, envelope)
	return b.Broker.PublishReport(ctx, epoch, round, id, envelope)
}
