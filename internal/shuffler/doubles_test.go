package shuffler

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/riffle-dp/riffle/internal/channel"
	"github.com/riffle-dp/riffle/internal/role"
	"github.com/riffle-dp/riffle/pkg/wire"
)

// shifted is a clock that a test sets ahead or back.
type shifted struct {
	role.Clock
	by atomic.Int64 // nanoseconds
}

func (c *shifted) Now() time.Time { return c.Clock.Now().Add(time.Duration(c.by.Load())) }

// configured is the scene's configuration with its broker, at which the shuffler crashes if the test says so.
func (s *scene) configured() testConfig {
	c := s.config
	c.Bus = Over(s.broker.Streams)
	if s.wrap != nil {
		c.Bus = s.wrap(c.Bus)
	}
	if s.crash != nil {
		c.Bus = crashingBroker{c.Bus, s.crash}
	}
	return c
}

// crashingBroker fails after a step of a release that it has a part in.
type crashingBroker struct {
	Broker
	crash func(after string) error
}

func (b crashingBroker) PublishChunk(ctx context.Context, epoch uint64, round, index uint32, payload []byte) error {
	if err := b.crash(stepMixed); err != nil { // nothing leaves before what leaves is on disk
		return err
	}
	return b.after(stepChunk, b.Broker.PublishChunk(ctx, epoch, round, index, payload))
}

func (b crashingBroker) PublishRetained(ctx context.Context, epoch uint64, round, index uint32, sealed []byte,
	window time.Duration) error {
	return b.after(stepRetained, b.Broker.PublishRetained(ctx, epoch, round, index, sealed, window))
}

func (b crashingBroker) AppendAuditAfter(
	ctx context.Context, kind string, payload []byte, last uint64,
) (uint64, error) {
	step := stepAudited
	if kind == wire.KindCheckpoint {
		step = stepSigned
	}
	sequence, err := b.Broker.AppendAuditAfter(ctx, kind, payload, last)
	return sequence, b.after(step, err)
}

func (b crashingBroker) PublishManifest(ctx context.Context, epoch uint64, round uint32, payload []byte) error {
	return b.after(stepManifest, b.Broker.PublishManifest(ctx, epoch, round, payload))
}

func (b crashingBroker) after(step string, err error) error {
	if err != nil {
		return err
	}
	return b.crash(step)
}

// crashingChannel fails before or after the channel forgets a release, which comes after the reports are forgotten.
type crashingChannel struct {
	channel.Mixing
	crash func(after string) error
}

func (c crashingChannel) Forget(epoch uint64, round uint32) error {
	if err := c.crash(stepPurged); err != nil {
		return err
	}
	if err := c.Mixing.Forget(epoch, round); err != nil {
		return err
	}
	return c.crash(stepRemoved)
}
