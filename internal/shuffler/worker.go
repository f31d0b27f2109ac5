package shuffler

import (
	"context"

	"github.com/rs/zerolog"

	"github.com/riffle-dp/riffle/internal/bus"
	"github.com/riffle-dp/riffle/internal/channel"
	"github.com/riffle-dp/riffle/internal/channel/shares"
	"github.com/riffle-dp/riffle/internal/channel/shuffle"
	"github.com/riffle-dp/riffle/internal/role/worker"
	"github.com/riffle-dp/riffle/pkg/plan"
	"github.com/riffle-dp/riffle/pkg/protocol"
	"github.com/riffle-dp/riffle/pkg/seal"
)

// WorkerConfig is what a worker of the shuffler needs. It has neither identity nor state.
type WorkerConfig struct {
	Deployment string
	Keys       []*seal.HPKEKey        // that reports may be sealed to, newest first
	Source     func() protocol.Source // a CSPRNG for each task
	Bus        WorkerBroker
	Log        zerolog.Logger
}

// WorkerBroker is what a worker does at its broker. WorkerOver makes one; the handles of package bus document each
// method.
type WorkerBroker interface {
	shuffle.SegmentStore
	shuffle.ChunkStore
	shuffle.RetainedStore
	ReceiveReports(ctx context.Context, handler func(*bus.Delivery)) error
	StoredReports(ctx context.Context, epoch uint64, round uint32, from uint64, fn func(uint64, []byte) error) error
}

// WorkerOver are the handles of a connection that a worker works with.
func WorkerOver(s bus.Streams) WorkerBroker {
	return struct {
		*bus.SegmentStream
		*bus.MixedStream
		*bus.RetainedStream
		*bus.ReportStream
	}{s.Segments, s.Mixed, s.Retained, s.Reports}
}

// Worker is a part of the shuffler in a process of its own, or in the lead's. It opens reports and mixes; whether a
// report is admitted, and what becomes of a release, the lead decides.
type Worker struct {
	c         WorkerConfig
	envelopes *envelopes
	mixer     *shuffle.Mixer
	rounds    rounds
}

// NewWorker makes a worker. Its error is about the keys.
func NewWorker(c WorkerConfig) (*Worker, error) {
	opener, err := seal.NewReportOpener(c.Keys...)
	if err != nil {
		return nil, err
	}
	w := &Worker{c: c, envelopes: &envelopes{c.Deployment, opener, map[plan.Channel]channel.Mixing{}}}
	for _, of := range plan.Channels() {
		w.envelopes.channels[of] = &shuffle.Mixing{Channel: of} // Parse is the same in every channel
	}
	w.mixer = &shuffle.Mixer{
		Deployment: c.Deployment, Reports: (&run{w.envelopes, c.Bus.StoredReports}).reports, Segments: c.Bus,
		Chunks: c.Bus, Retained: c.Bus, Source: c.Source,
	}
	return w, nil
}

// Handlers are the tasks that a worker does: of the channels that mix, and of shares.
func (w *Worker) Handlers() worker.Handlers {
	all := w.mixer.Handlers()
	all[shares.TaskPrepare] = shares.PrepareHandler()
	return all
}
