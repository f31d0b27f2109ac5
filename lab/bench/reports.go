package bench

import (
	"cmp"
	"context"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/riffle-dp/riffle/internal/bus"
	"github.com/riffle-dp/riffle/internal/drive/cluster"
	"github.com/riffle-dp/riffle/internal/drive/progress"
	"github.com/riffle-dp/riffle/internal/role/entropy"
	"github.com/riffle-dp/riffle/pkg/channel"
	"github.com/riffle-dp/riffle/pkg/channel/shuffle"
	"github.com/riffle-dp/riffle/pkg/plan"
	"github.com/riffle-dp/riffle/pkg/seal"
	"github.com/riffle-dp/riffle/pkg/wire"
)

// senders is how many devices ask or send at the same time: they wait for the broker more than they compute.
const senders = 96

// inTurn calls f for 0 to n-1, several at a time, and shows how far it is.
func (s *stand) inTurn(
	ctx context.Context, phase string, n, parallel int, f func(ctx context.Context, i int) error,
) error {
	s.Progress.Update(func(p *progress.State) { *p = progress.State{Phase: phase, AllWork: n} })
	g, ctx := errgroup.WithContext(ctx)
	var next, done atomic.Int64
	for range min(parallel, n) {
		g.Go(func() error {
			for {
				i := int(next.Add(1)) - 1
				if i >= n || ctx.Err() != nil {
					return context.Cause(ctx)
				}
				if err := f(ctx, i); err != nil {
					return err
				}
				if now := done.Add(1); now%256 == 0 {
					s.Progress.Update(func(p *progress.State) { p.Work = int(now) })
				}
			}
		})
	}
	return g.Wait()
}

// enrol takes a slot for every device.
func (s *stand) enrol(ctx context.Context) error {
	s.slots = make([]uint32, s.users)
	var once sync.Once
	err := s.inTurn(ctx, "enrolling", s.users, senders, func(ctx context.Context, i int) error {
		reply, err := s.enrolOne(ctx, uint32(i))
		if err != nil {
			return err
		}
		s.slots[i] = reply.Slot
		once.Do(func() { s.commitment = reply.Commitment })
		return nil
	})
	s.mark(markEnrolled)
	return err
}

// sum is a sum of messages that depends on no order: that of their first bytes as numbers, modulo 2^64.
func sum(payload []byte, size int) (all uint64) {
	for i := 0; i+size <= len(payload); i += size {
		all += binary.BigEndian.Uint64(payload[i:])
	}
	return all
}

// junkPayload is random bytes of a payload's length, another for every device. Nobody's privacy rests on them.
func junkPayload(size, device int) []byte {
	var key [32]byte
	binary.BigEndian.PutUint64(key[:], uint64(device))
	b := make([]byte, size)
	_, _ = rand.NewChaCha8(key).Read(b) // it has no error
	return b
}

// make seals the payloads of all devices, for this run and later ones with the same keys.
func (s *stand) make(ctx context.Context) error {
	s.keep.digest, s.keep.commitment = s.digest, s.commitment
	s.keep.payloads = make([][]byte, s.users)
	var vectors [][]float64
	for _, e := range s.announced.Encodings {
		vectors = append(vectors, make([]float64, len(e.Coordinates)))
	}
	return s.inTurn(ctx, "sealing", s.users, senders, func(_ context.Context, i int) (err error) {
		s.keep.payloads[i], err = s.device.Append(nil, channel.Sender{
			Identity: s.host.Identity, Credential: s.host.Credential, Number: uint32(i), Commitment: s.commitment,
		}, vectors, entropy.New())
		return err
	})
}

// report sends every device's report and waits until the shuffler has admitted them. It returns the sum of all
// messages.
func (s *stand) report(ctx context.Context) (uint64, error) {
	key, err := s.keySet(ctx)
	if err != nil {
		return 0, err
	}
	if s.keep != nil && s.keep.payloads == nil {
		err = s.make(ctx)
	} else if s.keep != nil {
		err = s.keep.same(s.digest, s.commitment)
	}
	if err != nil {
		return 0, err
	}
	s.mark(markEnrolled) // sealing is not the servers' work
	var all atomic.Uint64
	size := s.device.Size()
	within := seal.ReportContext{Deployment: standName, Epoch: s.announced.Epoch, Round: s.announced.Round}
	parallel := max(2, min(senders, 64<<20/size)) // so much memory at most
	err = s.inTurn(ctx, "reporting", s.users, parallel, func(ctx context.Context, i int) error {
		var payload []byte
		if s.keep != nil {
			payload = s.keep.payloads[i]
		} else {
			payload = junkPayload(size, i)
			if s.announced.Plan.Channel == plan.Shuffle {
				shuffle.WriteLabels(payload, s.announced.Encodings) // anything else is refused
			}
			all.Add(sum(payload, size/s.messages()))
		}
		report, err := wire.BuildReport(wire.Report{
			Announcement: s.digest, Epoch: s.announced.Epoch, Round: s.announced.Round, Slot: s.slots[i],
			Device: uint32(i), Payload: payload,
		}, s.host.Identity)
		if err != nil {
			return err
		}
		envelope, err := wire.SealReport(report, key, within)
		if err != nil {
			return err
		}
		id := hex.EncodeToString(binary.BigEndian.AppendUint32(nil, uint32(i)))
		return s.conns[bus.Randomizer].Reports.PublishReport(ctx, s.announced.Epoch, s.announced.Round, id, envelope)
	})
	if err != nil {
		return 0, err
	}
	s.mark(markSent)
	for {
		b, err := s.conns[bus.Shuffler].Reports.Backlog(ctx)
		if err != nil {
			return 0, err
		}
		if b.Waiting == 0 {
			s.mark(markAdmitted)
			return all.Load(), nil
		}
		if err := s.pause(ctx); err != nil {
			return 0, err
		}
	}
}

// pause waits a moment, or tells why the run cannot go on.
func (s *stand) pause(ctx context.Context) error {
	if err := s.c.Failed(); err != nil {
		return err
	}
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-time.After(20 * time.Millisecond):
		return nil
	}
}

// messages is how many messages a report has.
func (s *stand) messages() int {
	if n := s.announced.ReportMessages(); n > 0 {
		return n
	}
	return 1
}

// errLeft ends the reading of what the shuffler forwards.
var errLeft = errors.New("bench: the manifest has come")

// longSilence is how long the shuffler may send nothing while it releases a cohort: many times what the largest takes
// between the last report and the first chunk.
const longSilence = 10 * time.Minute

// receive plays the analyzer until the manifest comes: it reads all chunks and holds them against what was sent. A
// shuffler that sends nothing for too long ends it.
func (s *stand) receive(ctx context.Context, want uint64) error {
	got, messages := uint64(0), 0
	size := s.device.Size() / s.messages()
	var fault error
	run, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	silence := cmp.Or(s.silence, longSilence)
	var heard atomic.Pointer[time.Time]
	hear := func() { now := time.Now(); heard.Store(&now) }
	hear()
	var watching sync.WaitGroup
	watching.Go(func() { // a role that ended sends nothing any more
		for run.Err() == nil {
			if err := s.pause(run); err != nil {
				stop(err)
			} else if time.Since(*heard.Load()) > silence {
				stop(fmt.Errorf("bench: the shuffler sent nothing for %s; the end of its log:\n%s", silence,
					s.c.LastWords(cluster.Shuffler)))
			}
		}
	})
	err := s.conns[bus.Analyzer].Mixed.ReceiveMixed(run, func(m *bus.Mixed) {
		hear()
		if m.Manifest {
			s.mark(markLeft)
			manifest, _, err := wire.Open[wire.Manifest](m.Payload, s.host.Bundle.ShufflerParty())
			if err == nil && manifest.Outcome != wire.Released {
				err = errors.New("bench: the cohort was not released")
			}
			fault = errors.Join(fault, err, m.Ack())
			stop(errLeft)
			return
		}
		chunk, err := wire.ParseChunk(m.Payload)
		if err == nil {
			got, messages = got+sum(chunk.Payload, size), messages+len(chunk.Payload)/size
		}
		fault = errors.Join(fault, err, m.Ack())
		s.Progress.Update(func(p *progress.State) {
			*p = progress.State{Phase: "receiving", Work: messages, AllWork: s.users * s.messages()}
		})
	})
	stop(nil)
	watching.Wait()
	switch {
	case !errors.Is(context.Cause(run), errLeft):
		return errors.Join(err, context.Cause(run))
	case fault != nil:
		return fault
	case got != want || messages != s.users*s.messages():
		return fmt.Errorf("bench: %d of %d messages arrived, or others than were sent", messages, s.users*s.messages())
	}
	return nil
}

// awaitCounts waits for the analyzer's counts.
func (s *stand) awaitCounts(ctx context.Context) (*wire.Counts, error) {
	s.Progress.Update(func(p *progress.State) { *p = progress.State{Phase: "counting"} })
	for {
		var found *wire.Counts
		err := s.conns[bus.Auditor].Audit.ReadAudit(ctx, bus.AuditFilter{}, func(st bus.Statement) error {
			switch {
			case st.Role == bus.Shuffler && st.Kind == wire.KindManifest && s.marks[markLeft].used == nil:
				s.mark(markLeft)
			case st.Role == bus.Analyzer && st.Kind == wire.KindCounts && found == nil:
				c, _, err := wire.Open[wire.Counts](st.Payload, s.host.Bundle.AnalyzerParty())
				if err != nil {
					return err
				}
				found = c
			}
			return nil
		})
		if err != nil {
			return nil, err
		}
		if found != nil {
			s.mark(markCounted)
			if found.Destroyed {
				return nil, errors.New("bench: the cohort was destroyed")
			}
			return found, nil
		}
		if err := s.pause(ctx); err != nil {
			return nil, err
		}
	}
}
