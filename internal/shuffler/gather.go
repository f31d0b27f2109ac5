package shuffler

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/riffle-dp/riffle/internal/bus"
	"github.com/riffle-dp/riffle/pkg/seal"
	"github.com/riffle-dp/riffle/pkg/wire"
)

// gathered are the bit messages of a round's members, in memory between the decision who they are and the spool.
type gathered struct {
	release *Release
	bits    [][seal.BitSize]byte // member by member
}

// of tells whether these are the messages of that release.
func (g *gathered) of(r *Release) bool {
	return g != nil && g.release.Epoch == r.Epoch && g.release.Round == r.Round && slices.Equal(g.release.Members, r.Members)
}

// gather reads the bit messages of the release's members. What known holds of them already is not read again: nil, or the messages of
// some of the same round's members.
func (s *Shuffler) gather(ctx context.Context, r *Release, known *gathered) (*gathered, error) {
	g := &gathered{release: r, bits: make([][seal.BitSize]byte, 0, len(r.Members)*r.Messages)}
	at := map[Member]int{}
	if known != nil && known.release.Epoch == r.Epoch && known.release.Round == r.Round {
		for i, m := range known.release.Members {
			at[m] = i * r.Messages
		}
	}
	for _, m := range r.Members {
		if i, ok := at[m]; ok {
			g.bits = append(g.bits, known.bits[i:i+r.Messages]...)
			continue
		}
		envelope, err := s.c.Bus.GetReport(ctx, m.Sequence)
		if errors.Is(err, bus.ErrGone) {
			return nil, fmt.Errorf("%w: slot %d: the broker does not have it any more; its data was lost, set back, or purged by somebody else", errMember, m.Slot)
		}
		if err != nil {
			return nil, err
		}
		report, digest, err := s.open(envelope, r.Epoch, r.Round, r.Messages)
		if err != nil || digest != m.Digest {
			return nil, fmt.Errorf("%w: slot %d: the broker has another report in its place; its data was set back, and written anew since", errMember, m.Slot)
		}
		for at := 0; at < len(report.Bits); at += seal.BitSize {
			g.bits = append(g.bits, [seal.BitSize]byte(report.Bits[at:]))
		}
	}
	return g, nil
}

// repeated are the members of whose bit messages one stands in the release twice, by slot: within their report, or in another one.
//
// A copy would shift a count without adding the noise that an honest message brings, so the analyzer refuses a release that has one; and
// who could make it refuse could destroy every cohort. So no such report may get that far, and none is destroyed but those that take
// part in the repetition. They are all refused, the first as well as the rest: each bit message is made with a key pair of its own,
// drawn from the system's generator, and seen by nobody but its device's host and this shuffler until the release is out. So whoever
// holds the same one is, or conspired with, a host that does not follow the protocol, and no honest person's report can be among them.
//
// Messages are compared by their public keys: two that share one are never both honest, whether or not the rest is equal, so that this
// finds all that the analyzer could object to. It is done over the messages that are about to be mixed, which are in memory anyway, and
// costs four bytes for each of them (one has 52) while it lasts.
func (g *gathered) repeated() (slots []uint32) {
	order := make([]uint32, len(g.bits))
	for i := range order {
		order[i] = uint32(i)
	}
	key := func(i uint32) []byte { return g.bits[i][:seal.EncapsulatedSize] }
	slices.SortFunc(order, func(a, b uint32) int { return bytes.Compare(key(a), key(b)) })
	for i := 1; i < len(order); i++ {
		if a, b := order[i-1], order[i]; bytes.Equal(key(a), key(b)) {
			slots = append(slots, g.slot(a), g.slot(b))
		}
	}
	slices.SortFunc(slots, cmp.Compare)
	return slices.Compact(slots)
}

// slot is whose the message with this index is.
func (g *gathered) slot(message uint32) uint32 {
	return g.release.Members[int(message)/g.release.Messages].Slot
}

// sift makes sure that no bit message of the release that is due stands in it twice, before anybody is committed to it. It tells whether
// the release can be committed as it is; if not, it is due again in a moment, with the members that are left. Its error is fatal.
//
// Who is refused here depends on ciphertexts that no honest device sends, never on a record.
func (s *Shuffler) sift(ctx context.Context, r *Release) (whole bool, err error) {
	if r.Outcome != wire.Released {
		return true, nil // nothing of it leaves
	}
	if s.gathered, err = s.gather(ctx, r, s.gathered); err != nil {
		if errors.Is(err, errMember) {
			return true, nil // it is committed, and destroyed when it is carried out
		}
		s.c.Log.Warn().Err(err).Uint64("epoch", r.Epoch).Uint32("round", r.Round).Msg("reports of the release that is due are not read; tried again")
		s.notice(releaseCondition, fmt.Errorf("round %d of epoch %d is due and its reports cannot be read: %w", r.Round, r.Epoch, err))
		return false, nil
	}
	s.notice(releaseCondition, nil)
	slots := s.gathered.repeated()
	if len(slots) == 0 {
		return true, nil
	}
	s.gathered = nil
	err = s.decide(func(*State) (*Event, error) { return &Event{Excluded: &Excluded{Round: r.Round, Slots: slots}}, nil })
	if err != nil {
		return false, err
	}
	why := s.c.Reports.Refused(reason(wire.RefusalRepeatedMessage), len(slots))
	s.c.Messages.Refused(reason(wire.RefusalRepeatedMessage), len(slots)*r.Messages)
	s.c.Log.Warn().Str("reason", string(why)).Uint64("epoch", r.Epoch).Uint32("round", r.Round).Int("reports", len(slots)).Int("hosts", s.hosts(slots)).
		Msg("reports that repeat a bit message are refused: their hosts do not follow the protocol")
	return false, nil
}

// hosts counts whose these slots are.
func (s *Shuffler) hosts(slots []uint32) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	all := map[[32]byte]bool{}
	for _, slot := range slots {
		all[s.state.epoch.slots[slot].device.Host] = true
	}
	return len(all)
}
