package shares

import (
	"bytes"
	"context"
	"io"

	"github.com/riffle-dp/riffle/internal/bus"
	"github.com/riffle-dp/riffle/internal/channel"
)

// toMix is the shuffler's broker.
func (s *scene) toMix() MixingBroker { return mixingOver(s.shuffler.Streams) }

// toCount is the analyzer's broker.
func (s *scene) toCount() CountingBroker { return countingOver(s.analyzer.Streams) }

func mixingOver(s bus.Streams) MixingBroker {
	return struct {
		*bus.MixedStream
		*bus.PreparedStream
		*bus.AuditStream
	}{s.Mixed, s.Prepared, s.Audit}
}

func countingOver(s bus.Streams) CountingBroker {
	return struct {
		*bus.MixedStream
		*bus.PreparedStream
		*bus.AuditStream
	}{s.Mixed, s.Prepared, s.Audit}
}

// recorded notes what the shuffler sends, and that it never sends two things under one name.
type recorded struct {
	MixingBroker
	s *scene
}

func (r recorded) PublishChunk(ctx context.Context, epoch uint64, round, index uint32, payload []byte) error {
	r.s.note(r.s.sent, index, payload)
	return r.MixingBroker.PublishChunk(ctx, epoch, round, index, payload)
}

type said struct {
	CountingBroker
	s *scene
}

func (r said) PublishPrepared(ctx context.Context, epoch uint64, round, index uint32, payload []byte) error {
	r.s.note(r.s.said, index, payload)
	return r.CountingBroker.PublishPrepared(ctx, epoch, round, index, payload)
}

func (s *scene) note(all map[uint32][]byte, index uint32, payload []byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if before, again := all[index]; again && !bytes.Equal(before, payload) {
		s.Errorf("message %d leaves with other bytes than before", index)
	}
	all[index] = bytes.Clone(payload)
}

// failing is a disk that crashes.
type failing struct {
	channel.Disk
	step func(what string) error
}

func (f failing) Store(name string, write func(io.Writer) error) error {
	if err := f.step("before " + name); err != nil {
		return err
	}
	if err := f.Disk.Store(name, write); err != nil {
		return err
	}
	return f.step("after " + name)
}
