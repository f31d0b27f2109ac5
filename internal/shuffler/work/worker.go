// Package work is what the shuffler's workers do: open reports as they arrive, have the lead decide on them, and take a
// part of the mixing. A worker decides nothing, signs nothing and keeps nothing. The lead opens reports as they do
// (Envelopes), and answers their questions (Claim, Answer).
package work

import (
	"context"
	"sync"

	"github.com/rs/zerolog"

	"github.com/riffle-dp/riffle/internal/bus"
	"github.com/riffle-dp/riffle/internal/channel"
	"github.com/riffle-dp/riffle/internal/channel/shares"
	"github.com/riffle-dp/riffle/internal/channel/shuffle"
	"github.com/riffle-dp/riffle/internal/shuffler/cohort"
	"github.com/riffle-dp/riffle/internal/worker"
	"github.com/riffle-dp/riffle/pkg/plan"
	"github.com/riffle-dp/riffle/pkg/protocol"
	"github.com/riffle-dp/riffle/pkg/seal"
)

// Config is what a worker of the shuffler needs. It has neither identity nor state.
type Config struct {
	Deployment string
	Keys       []*seal.HPKEKey        // that reports may be sealed to, newest first
	Source     func() protocol.Source // a CSPRNG for each task
	Bus        Broker
	Log        zerolog.Logger
}

// Broker is what a worker does at its broker. Over makes one; the handles of package bus document each
// method.
type Broker interface {
	shuffle.SegmentStore
	shuffle.ChunkStore
	shuffle.RetainedStore
	ReceiveReports(ctx context.Context, handler func(*bus.Delivery)) error
	StoredReports(ctx context.Context, epoch uint64, round uint32, from uint64, fn func(uint64, []byte) error) error
}

// Over are the handles of a connection that a worker works with.
func Over(s bus.Streams) Broker {
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
	c         Config
	envelopes *Envelopes
	mixer     *shuffle.Mixer
	rounds    rounds
}

// New makes a worker. Its error is about the keys.
func New(c Config) (*Worker, error) {
	opener, err := seal.NewReportOpener(c.Keys...)
	if err != nil {
		return nil, err
	}
	w := &Worker{c: c, envelopes: NewEnvelopes(c.Deployment, opener, map[plan.Channel]channel.Mixing{})}
	for _, of := range plan.Channels() {
		w.envelopes.channels[of] = &shuffle.Mixing{Channel: of} // Parse is the same in every channel
	}
	w.mixer = &shuffle.Mixer{
		Deployment: c.Deployment, Reports: (&Run{w.envelopes, c.Bus.StoredReports}).Reports, Segments: c.Bus,
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

// rounds are those that a worker knows.
type rounds struct {
	mu    sync.Mutex
	known []cohort.Known
}

func (r *rounds) learn(known []cohort.Known) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.known = known
}

// layout is that of a round's reports; the zero layout if the round is not known.
func (r *rounds) layout(epoch uint64, round uint32) channel.Layout {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, k := range r.known {
		if k.Epoch == epoch && k.Round == round {
			return k.Layout
		}
	}
	return channel.Layout{}
}
