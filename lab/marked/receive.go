package marked

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/riffle-dp/riffle/internal/bus"
	"github.com/riffle-dp/riffle/lab/uniform"
	"github.com/riffle-dp/riffle/pkg/seal"
	"github.com/riffle-dp/riffle/pkg/wire"
)

// place is where a message came from.
type place struct {
	report [views]int // its number
	within int        // the report
}

// of tells where a message came from; false: it is none of this epoch's.
func (r *Run) of(message []byte) (place, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	p, ok := r.marks[string(message)]
	return p, ok
}

// nothing reports whether nothing of the round is at the broker.
func (r *Run) nothing(ctx context.Context) (is bool, err error) {
	is = true
	err = r.d.Connect[bus.Analyzer].Mixed.ReadChunks(ctx, r.announced.Epoch, r.announced.Round,
		func(uint32, []byte) error {
			is = false
			return nil
		})
	return is, err
}

// receive reads what the shuffler forwards up to the manifest.
func (r *Run) receive(ctx context.Context) (*Round, error) {
	var order []place
	var chunks []int
	seen := map[uint32]bool{}
	for {
		var m *bus.Mixed
		select {
		case m = <-r.mixed:
		case <-time.After(r.o.Patience):
			return nil, fmt.Errorf("%w: %v without a word after the last report", ErrSilent, r.o.Patience)
		case <-r.over:
			return nil, r.err
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
		if m.Epoch != r.announced.Epoch || !m.Manifest && seen[m.Index] {
			if err := m.Ack(); err != nil { // it came again
				return nil, err
			}
			continue
		}
		if m.Manifest {
			return r.round(m, order, chunks)
		}
		chunk, err := wire.ParseChunk(m.Payload)
		if err != nil {
			return nil, err
		}
		seen[m.Index] = true
		marked := 0
		for message := range slices.Chunk(chunk.Payload, seal.BitSize) {
			if p, ok := r.of(message); ok { // else it is the shuffler's noise
				order = append(order, p)
				marked++
			}
		}
		if marked > 0 {
			chunks = append(chunks, marked)
		}
		if err := m.Ack(); err != nil {
			return nil, err
		}
	}
}

// round puts together what was seen.
func (r *Run) round(m *bus.Mixed, order []place, chunks []int) (*Round, error) {
	manifest, _, err := wire.Open[wire.Manifest](m.Payload, wire.Party{Deployment: r.d.Name, Key: r.d.Shuffler})
	if err = errors.Join(err, m.Ack()); err != nil {
		return nil, err
	}
	each := r.Messages()
	want := r.o.People * each
	if manifest.Outcome != wire.Released || len(order) != want || int(manifest.Reports) != r.o.People ||
		manifest.Messages != uint64(want)+manifest.NoiseMessages {
		return nil, fmt.Errorf("%w: %d of %d messages left, the manifest says %d and %d of noise, of %d reports of %d",
			ErrOther, len(order), want, manifest.Messages, manifest.NoiseMessages, manifest.Reports, r.o.People)
	}
	out := &Round{Shape: uniform.Shape{Items: want, Report: each}}
	if len(chunks) > 1 {
		out.Shape.Chunk = chunks[0]
	}
	var reports []int
	for i := range want {
		reports = append(reports, i/each)
	}
	for view := range out.Orders {
		release := &uniform.Release{Reports: reports, Chunks: chunks}
		for _, p := range order {
			release.Order = append(release.Order, p.report[view]*each+p.within)
		}
		if err := release.Check(); err != nil {
			return nil, fmt.Errorf("marked: %s: %w", Views()[view], err)
		}
		out.Orders[view] = release
	}
	return out, nil
}
