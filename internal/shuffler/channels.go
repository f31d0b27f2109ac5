package shuffler

import (
	"context"
	"errors"

	"github.com/rs/zerolog"

	"github.com/riffle-dp/riffle/internal/bus"
	"github.com/riffle-dp/riffle/internal/channel"
	"github.com/riffle-dp/riffle/internal/channel/shares"
	"github.com/riffle-dp/riffle/internal/channel/shuffle"
	"github.com/riffle-dp/riffle/internal/shuffler/work"
	"github.com/riffle-dp/riffle/internal/worker"
	"github.com/riffle-dp/riffle/pkg/plan"
	"github.com/riffle-dp/riffle/pkg/protocol"
	"github.com/riffle-dp/riffle/pkg/seal"
	"github.com/riffle-dp/riffle/pkg/wire"
)

// Channels mix releases, each those of its channel, and open what is sealed to the shuffler.
type Channels struct {
	of        map[plan.Channel]channel.Mixing
	envelopes *work.Envelopes
	broker    Broker
	retention *shuffle.Retention
}

// Mixing is what channels mix with.
type Mixing struct {
	Disk      channel.Disk
	Source    protocol.Source    // a CSPRNG
	Workers   worker.Pool        // do parts of it; nil: this process mixes alone. See Shuffler.Answers
	Retention *shuffle.Retention // of what is forwarded; nil: none. See Retention
}

// NewChannels makes all channels. Its error is about the keys.
func NewChannels(
	of Party, f Files, m Mixing, broker Broker, accounts Accounts, log zerolog.Logger,
) (*Channels, error) {
	opener, err := seal.NewReportOpener(of.Keys...)
	if err != nil {
		return nil, err
	}
	c := &Channels{of: map[plan.Channel]channel.Mixing{}, broker: broker, retention: m.Retention}
	c.envelopes = work.NewEnvelopes(of.Deployment, opener, c.of)
	var private [][]byte
	for _, k := range of.Keys {
		private = append(private, k.Bytes())
	}
	for _, mixed := range []plan.Channel{plan.Shuffle, plan.Local, plan.Central} {
		mixing := &shuffle.Mixing{
			Channel: mixed, Reports: c.reread, Chunks: broker, Disk: m.Disk, Store: f.Store, Source: m.Source,
		}
		if shuffle.Retainable(mixed) {
			mixing.Retain = m.Retention
		}
		if m.Workers != nil {
			mixing.Exchange = &shuffle.Exchange{Pool: m.Workers, Segments: broker, Chunks: broker, Keys: private}
		}
		c.of[mixed] = mixing
	}
	c.of[plan.Shares] = &shares.Mixing{
		Deployment: of.Deployment, Reports: c.reread, Broker: logged{broker, f.Log}, Disk: m.Disk, Source: m.Source,
		Identity: of.Identity, Analyzer: of.Analyzer, Log: log, Pool: m.Workers,
		Silent: func(err error) { accounts.notice(analyzerCondition, err) },
	}
	return c, nil
}

// reread reads the report of a release's member again: it is the channel's channel.Reports.
func (c *Channels) reread(ctx context.Context, r *channel.Release, m channel.Member) (*wire.Report, error) {
	envelope, err := c.broker.GetReport(ctx, m.Sequence)
	if errors.Is(err, bus.ErrGone) {
		return nil, work.Missing(m)
	}
	if err != nil {
		return nil, err
	}
	return c.envelopes.Again(envelope, r, m)
}

// analyzerCondition is the readiness condition that the analyzer answers, in a round whose release needs it, within
// shares.Patience.
const analyzerCondition = "analyzer"
