package shuffler

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/riffle-dp/riffle/internal/bus"
	"github.com/riffle-dp/riffle/internal/role/outcome"
	"github.com/riffle-dp/riffle/pkg/wire"
)

// errMember says that an admitted report can no longer be had, or is not what was admitted.
var errMember = errors.New("shuffler: an admitted report is gone")

// errOthers says that messages of the round left before, permuted otherwise or with other members, by a shuffler whose state is lost. One
// release has one membership, so nothing of this one may follow.
var errOthers = errors.New("shuffler: other messages of this round left before: the state folder is older than what this shuffler has sent; restored from a backup?")

// releaseCondition is the readiness condition that what is due leaves.
const releaseCondition = "release"

// release watches the open round and carries out what is committed, one round at a time.
func (s *Shuffler) release(ctx context.Context) error {
	ticker := time.NewTicker(tick)
	defer ticker.Stop()
	var looked look
	for {
		clear, err := s.consistent(ctx, &looked)
		if ctx.Err() == nil && (err != nil || clear) { // what is not clear was told already
			s.notice(historyCondition, err)
		}
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case errors.Is(err, errFatal):
			return err
		case err != nil:
			s.c.Log.Error().Err(err).Msg("the broker is not held against the journal; tried again")
			if !pause(ctx, retryPause) {
				return ctx.Err()
			}
			continue
		case !clear:
			if !pause(ctx, tick) {
				return ctx.Err()
			}
			continue
		}
		if err := s.commit(ctx); err != nil {
			return err
		}
		s.mu.Lock()
		r, ok := s.state.Unfinished()
		s.mu.Unlock()
		if ok {
			switch err := s.carryOut(ctx, r); {
			case ctx.Err() != nil:
				return ctx.Err()
			case errors.Is(err, errFatal):
				return err
			case err != nil:
				why := s.c.Reports.Retried(fmt.Errorf("%w: %w", Interrupted, err))
				s.c.Log.Error().Err(err).Str(outcome.Field, string(why)).Uint64("epoch", r.Epoch).Uint32("round", r.Round).Msg("release is tried again")
				s.notice(releaseCondition, fmt.Errorf("round %d of epoch %d is committed and cannot be carried out: %w", r.Round, r.Epoch, err))
				if !pause(ctx, retryPause) {
					return ctx.Err()
				}
			default:
				s.notice(releaseCondition, nil)
			}
			continue
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-ticker.C:
		case <-s.wake:
		}
	}
}

// commit fixes the open round's membership if its time has come. Its error is fatal.
func (s *Shuffler) commit(ctx context.Context) error {
	s.mu.Lock()
	m, late := s.moment()
	r := s.state.Due(m)
	at, fixed := s.state.deadline(m.Now, m.Resumed)
	f, _ := s.state.Filling()
	s.mu.Unlock()
	s.notice(deadlineCondition, late)
	if r == nil && fixed && !m.Now.Before(at) {
		if m.TakenIn = s.takenIn(ctx, mark{epoch: f.Epoch, round: uint32(f.Round), deadline: at}); !m.TakenIn {
			return nil
		}
		s.mu.Lock()
		r = s.state.Due(m)
		s.mu.Unlock()
	}
	if r == nil {
		return nil
	}
	if whole, err := s.sift(ctx, r); err != nil || !whole {
		return err
	}
	err := s.decide(func(state *State) (*Event, error) { return state.Commit(r), nil })
	s.dominated() // of a cohort that did not fill it is known only now
	return err
}

// The steps of carrying out a release, each of which a crash may follow.
const (
	stepMixed    = "mixed"    // the permuted messages are on disk
	stepChunk    = "chunk"    // a chunk has left
	stepAudited  = "audited"  // the manifest is in the audit log
	stepManifest = "manifest" // the manifest has left
	stepPurged   = "purged"   // the reports are forgotten
	stepRemoved  = "removed"  // the permuted messages are forgotten
)

// carryOut does what the committed round's outcome says, up to its manifest. It can be repeated after any failure: what left before
// leaves again byte for byte, and nothing else ever does.
func (s *Shuffler) carryOut(ctx context.Context, r *Release) error {
	defer s.c.Steps.Since(stepRelease, time.Now())
	spool := spoolOf(s.c.StateDir, r)
	// Once the manifest is out the analyzer may have counted the chunks and dropped them: they must not come back.
	m, err := s.manifest(ctx, r.Epoch, r.Round)
	switch {
	case err != nil:
		return err
	case m == nil:
		if left, err := s.leave(ctx, r, spool); err != nil || !left {
			return err
		}
	default:
		if line, err := s.adopt(m); err != nil {
			return err
		} else if line != "" {
			s.stale([]string{line})
			return nil
		}
	}
	if err := s.passed(stepManifest); err != nil {
		return err
	}
	if err := s.forget(ctx, r); err != nil {
		return err
	}
	if err := s.passed(stepPurged); err != nil {
		return err
	}
	if err := spool.remove(); err != nil {
		return err
	}
	if err := s.passed(stepRemoved); err != nil {
		return err
	}
	if err := s.decide(func(*State) (*Event, error) { return &Event{Finished: &Finished{Round: r.Round}}, nil }); err != nil {
		return err
	}
	s.gone(r.Outcome, len(r.Members), r.Messages*len(r.Members))
	s.c.Log.Info().Uint64("epoch", r.Epoch).Uint32("round", r.Round).Stringer("outcome", r.Outcome).Int("reports", len(r.Members)).
		Uint32("enrolled", r.Enrolled).Int("messages", r.Messages*len(r.Members)).Msg("round finished")
	return nil
}

// gone accounts for the reports of a round that is over.
func (s *Shuffler) gone(o wire.Outcome, reports, messages int) {
	if o == wire.Released {
		s.c.Reports.Released(reports)
		s.c.Messages.Released(messages)
	} else {
		s.c.Reports.Refused(Destroyed, reports)
		s.c.Messages.Refused(Destroyed, messages)
	}
}

// leave sends what the outcome says and the manifest behind it; left is false where the release turned out to be impossible and is
// committed to destruction instead. The manifest stands in the audit log before the analyzer can see it: nobody acts on what is not
// logged. It depends on the release and its spool alone and is signed deterministically, so a retry appends and sends the same bytes,
// and either is stored once.
func (s *Shuffler) leave(ctx context.Context, r *Release, spool spool) (left bool, err error) {
	manifest := &wire.Manifest{
		Deployment: s.c.Deployment, Epoch: r.Epoch, Round: r.Round, Announcement: r.Announcement[:], Outcome: r.Outcome,
		Enrolled: r.Enrolled, Reports: uint32(len(r.Members)),
	}
	if r.Outcome == wire.Released {
		if len(r.Members) < int(r.Minimum) { // Commit decides this; it must hold whatever led here
			return false, fatal(fmt.Errorf("round %d of epoch %d is committed to a release of %d reports, below the minimum of %d", r.Round, r.Epoch, len(r.Members), r.Minimum))
		}
		mixed, err := spool.exists()
		if err != nil {
			return false, err
		}
		if !mixed {
			if err := s.mix(ctx, r, spool); errors.Is(err, errMember) {
				return false, s.destroy(r, err) // nothing has left: the spool is the only way out, and it was never whole
			} else if err != nil {
				return false, err
			}
		}
		if err := s.passed(stepMixed); err != nil {
			return false, err
		}
		if err := s.forward(ctx, r, spool, manifest); errors.Is(err, errOthers) {
			return false, s.destroy(r, err)
		} else if err != nil {
			return false, err
		}
	}
	signed, _, err := wire.Sign(manifest, s.c.Identity)
	if err != nil {
		return false, fatal(err)
	}
	if err := s.c.Bus.AppendAudit(ctx, "manifest", signed); err != nil {
		return false, err
	}
	if err := s.passed(stepAudited); err != nil {
		return false, err
	}
	return true, s.c.Bus.PublishManifest(ctx, r.Epoch, r.Round, signed)
}

// destroy commits a release of which nothing has left to destruction.
func (s *Shuffler) destroy(r *Release, why error) error {
	s.c.Log.Error().Err(why).Str(outcome.Field, string(Destroyed)).Uint64("epoch", r.Epoch).Uint32("round", r.Round).Msg("release is destroyed")
	return s.decide(func(*State) (*Event, error) {
		return &Event{Committed: &Committed{Round: r.Round, Outcome: wire.Destroyed}}, nil
	})
}

// passed is where tests crash the shuffler.
func (s *Shuffler) passed(step string) error {
	if s.crash == nil {
		return nil
	}
	return s.crash(step)
}

// mix spools the bit messages of the committed reports in a uniformly random order.
func (s *Shuffler) mix(ctx context.Context, r *Release, spool spool) (err error) {
	g := s.gathered
	s.gathered = nil
	if !g.of(r) { // this process did not commit it
		if g, err = s.gather(ctx, r, nil); err != nil {
			return err
		}
		if slots := g.repeated(); len(slots) > 0 {
			return fmt.Errorf("%w: %d reports repeat a bit message, which was not so when they were committed", errMember, len(slots))
		}
	}
	return spool.write(g.bits, s.c.Source)
}

// forward sends the spooled messages and completes the manifest with what was sent.
func (s *Shuffler) forward(ctx context.Context, r *Release, spool spool, manifest *wire.Manifest) error {
	var chunks [][32]byte
	messages, err := spool.chunks(s.chunk, func(index uint32, bits []byte) error {
		chunk, err := wire.BuildChunk(wire.Chunk{Epoch: r.Epoch, Round: r.Round, Index: index, Bits: bits})
		if err != nil {
			return fatal(err)
		}
		chunks = append(chunks, wire.ChunkDigest(chunk))
		err = s.c.Bus.PublishChunk(ctx, r.Epoch, r.Round, index, chunk)
		if index == 0 && errors.Is(err, bus.ErrExists) {
			return errOthers
		}
		if err != nil {
			return err
		}
		return s.passed(stepChunk)
	})
	if err != nil {
		return err
	}
	reports := make([][32]byte, len(r.Members))
	for i, m := range r.Members {
		reports[i] = m.Digest
	}
	all, members := wire.ChunksDigest(chunks), wire.ReportsDigest(reports)
	manifest.Messages, manifest.Chunks, manifest.ChunksDigest, manifest.ReportsDigest = messages, uint32(len(chunks)), all[:], members[:]
	return nil
}

// pause waits, and tells whether the context still lives.
func pause(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-t.C:
		return true
	}
}
