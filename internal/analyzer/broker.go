package analyzer

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/riffle-dp/riffle/internal/bus"
	"github.com/riffle-dp/riffle/internal/channel"
	"github.com/riffle-dp/riffle/internal/channel/chunks"
	"github.com/riffle-dp/riffle/internal/channel/envelope"
	"github.com/riffle-dp/riffle/internal/channel/shares"
	"github.com/riffle-dp/riffle/internal/channel/shuffle"
	"github.com/riffle-dp/riffle/internal/channel/spill"
	"github.com/riffle-dp/riffle/internal/translog"
	devices "github.com/riffle-dp/riffle/pkg/channel"
	"github.com/riffle-dp/riffle/pkg/deployment"
	"github.com/riffle-dp/riffle/pkg/plan"
	"github.com/riffle-dp/riffle/pkg/wire"
)

// Broker is what the analyzer does at its broker. Over makes one; the handles of package bus document each method.
type Broker interface {
	ReadAnnouncements(ctx context.Context) ([]bus.Announcement, error)
	ReadAnnouncementsAt(ctx context.Context, epoch uint64, round uint32) ([]bus.Announcement, error)
	PutAnnouncement(ctx context.Context, epoch uint64, round uint32, payload []byte) error

	ReceiveMixed(ctx context.Context, handler func(*bus.Mixed)) error
	ReadManifest(ctx context.Context, epoch uint64, round uint32) ([]byte, error)
	chunks.Store

	// Of the channel of shares.
	ReadChunks(ctx context.Context, epoch uint64, round uint32, handler func(index uint32, payload []byte) error) error
	PublishPrepared(ctx context.Context, epoch uint64, round, index uint32, payload []byte) error
	PurgePrepared(ctx context.Context, epoch uint64, round uint32) error

	translog.Broker
	Audited(ctx context.Context, role bus.Role, kind string, payload []byte) (bool, error)
	ReadAudit(ctx context.Context, filter bus.AuditFilter, handler func(bus.Statement) error) error
}

// Over are the handles of a connection that the analyzer works with.
func Over(s bus.Streams) Broker {
	return struct {
		*bus.AnnouncementStream
		*bus.MixedStream
		*bus.PreparedStream
		*bus.AuditStream
	}{s.Announcements, s.Mixed, s.Prepared, s.Audit}
}

// provisionCondition is the readiness condition that the broker has the streams that the channel needs.
const provisionCondition = "provision"

// provisionPatience is how long a missing stream may stay missing before the analyzer says so: no longer than a person
// looks at the log of a role that was just started.
const provisionPatience = 2 * time.Second

// errNoPrepared says what to do about a broker that lacks the stream of the analyzer's answers.
var errNoPrepared = fmt.Errorf("analyzer: this broker has no stream for the analyzer's answers, as one that was "+
	"provisioned by a version without the channel %s: run riffle broker provision again; until then nothing is "+
	"announced",
	plan.Shares)

// awaitProvision checks, before anybody enrols, that the broker has what only the channel of shares needs: the stream
// of the analyzer's answers, and the right to it. A broker that was set up for a version without channels has neither,
// and in the other channels nobody misses them. While only the stream is missing it waits, since another run of riffle
// broker provision mends that, and says so in the log and in readiness.
func (c Config) awaitProvision(ctx context.Context) error {
	if c.Terms.Channel != plan.Shares {
		return nil
	}
	for missing := false; ; {
		limited, cancel := context.WithTimeout(ctx, provisionPatience)
		err := c.Bus.PurgePrepared(limited, 0, 0) // epochs begin at 1, so that nothing is stored there
		late := limited.Err() != nil
		cancel()
		switch {
		case err == nil:
			if missing {
				c.Log.Info().Msg("the broker is provisioned for the channel of shares now")
			}
			c.notice(provisionCondition, nil)
			return nil
		case errors.Is(err, bus.ErrForbidden):
			return fmt.Errorf("analyzer: this broker was set up for a version without the channel %s: let it read its "+
				"configuration again (riffle broker config), and run riffle broker provision again: %w", plan.Shares,
				err)
		case ctx.Err() != nil || !late: // a broker that is away is waited for, too: the connection tells of it
			return err
		case errors.Is(err, bus.ErrUnprovisioned) && !missing:
			missing = true
			unmet := fmt.Errorf("%w (%w)", errNoPrepared, err)
			c.Log.Error().Err(unmet).Msg("nothing is announced until the broker is provisioned")
			c.notice(provisionCondition, unmet)
		}
	}
}

// counting is the analyzer's side of the deployment's channel.
func (c Config) counting(
	broker logged, curated *deployment.Curated, past *past, scratch *spill.Store,
) (channel.Counting, error) {
	var participants *channel.Participants
	if c.Disk != nil && c.Terms.Channel != plan.Shuffle {
		var err error
		if participants, err = c.participants(past); err != nil {
			return nil, err
		}
	}
	verifier := devices.NewVerifier(wire.Party{Deployment: c.Deployment, Key: c.Registrar, Hosts: c.Hosts})
	switch c.Terms.Channel {
	case plan.Shares:
		return &shares.Counting{
			Deployment: c.Deployment, Identity: c.Identity, Participants: participants, SponsorShare: c.SponsorShare,
			Verifier: verifier, Broker: broker, Disk: c.Disk, Source: c.Source, Clock: c.Clock, Log: c.Log,
			Messages: c.Messages, Pool: c.Pool,
		}, nil
	case plan.Local, plan.Central:
		counting := &envelope.Counting{
			Receiver: chunks.Receiver[*envelope.Found]{
				Store: c.Bus, Spill: scratch, Pool: c.Pool, Held: c.workersMemory(), Clock: c.Clock, Log: c.Log,
			},
			Verifier: verifier, Participants: participants, SponsorShare: c.SponsorShare,
			Disk: c.Disk, Source: c.Source, Messages: c.Messages,
		}
		if curated != nil {
			reader := func() envelope.Curator { return newReader(curated, c.Source) }
			return &envelope.Curating{Counting: counting, New: reader}, nil
		}
		return counting, nil
	default:
		counting := &shuffle.Counting{Messages: c.Messages}
		counting.Store, counting.Spill, counting.Pool, counting.Held = c.Bus, scratch, c.Pool, c.workersMemory()
		counting.Clock, counting.Log = c.Clock, c.Log
		return counting, nil
	}
}

// participants is the memory of the devices that were counted. It must not be older than the counts that were signed.
func (c Config) participants(past *past) (*channel.Participants, error) {
	var counted []uint64
	for at, counts := range past.history.counts {
		if !counts.Destroyed {
			counted = append(counted, at.epoch)
		}
	}
	participants, err := channel.OpenParticipants(c.Disk, c.Deployment, counted)
	if err == nil {
		participants.Allow(c.Terms.Records, c.Terms.Period)
	}
	return participants, err
}
