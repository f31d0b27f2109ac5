package shares

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/riffle-dp/riffle/internal/channel"
	devices "github.com/riffle-dp/riffle/pkg/channel"
	"github.com/riffle-dp/riffle/pkg/channel/shares"
	"github.com/riffle-dp/riffle/pkg/wire"
)

// lacks reports whether there is more to take.
func (r *counting) lacks() bool {
	r.working.Lock()
	defer r.working.Unlock()
	return r.refused == nil && (!r.isAnswered() || r.sum == nil)
}

// isAnswered reports whether all prepare messages are answered.
func (r *counting) isAnswered() bool {
	return r.header != nil && len(r.digests) == int(r.header.chunks)+1
}

// signSet signs the set that is accepted, when all prepare messages are answered: none where the round is refused. done
// tells that it is out. Whoever is in it was remembered before.
func (r *counting) signSet() (done bool, refused, err error) {
	r.working.Lock()
	defer r.working.Unlock()
	if r.failed != nil || r.ended {
		return r.ended, r.refused, r.failed
	}
	if r.refused == nil && !r.isAnswered() {
		return false, nil, nil
	}
	if r.refused == nil {
		if r.set, err = setOf(r.nonces); err != nil {
			return false, nil, err
		}
		if r.set.Reports >= r.Cohort.Minimum {
			if err := r.remember(); err != nil {
				return false, nil, err
			}
		}
	}
	if r.refused != nil {
		r.set = set{0, sha256.Sum256(nil)}
		r.c.Log.Error().Err(r.refused).Uint64("epoch", r.Epoch).Uint32("round", r.Announcement.Round).
			Msg("no report of the round is accepted")
	}
	signed, _, err := wire.Sign(&wire.Accepted{
		Deployment: r.c.Deployment, Epoch: r.Epoch, Round: r.Announcement.Round, Announcement: r.Digest[:],
		Reports: r.set.Reports, Set: r.set.Digest[:],
	}, r.c.Identity)
	if err != nil {
		return false, nil, err
	}
	// There is one statement of a round, whatever is shown to a later process.
	file := name("statement", r.Epoch, r.Announcement.Round)
	if before, err := channel.ReadFile(r.c.Disk, file); err != nil {
		return false, nil, err
	} else if before != nil {
		signed = before
	} else if err := channel.StoreFile(r.c.Disk, file, signed); err != nil {
		return false, nil, err
	}
	if err := r.c.Broker.AppendAudit(r.ctx, wire.AcceptedKind(r.Epoch, r.Announcement.Round), signed); err != nil {
		return false, nil, err
	}
	if err := r.publish(statementIndex, signed); err != nil {
		return false, nil, err
	}
	r.ended = true
	return true, r.refused, nil
}

// remember makes durable who takes part.
func (r *counting) remember() error {
	who := make([]devices.Present, 0, len(r.who))
	for _, one := range r.who {
		who = append(who, one)
	}
	err := r.c.Participants.Add(r.Epoch, r.Announcement.Round, who)
	for _, no := range []error{channel.ErrEarlier, channel.ErrNewcomer, channel.ErrSecondSet} {
		if errors.Is(err, no) {
			r.refuse(wire.RefusalSecondSet, "%v", err)
			return nil
		}
	}
	return err
}

// counts joins the two shares, or returns what was joined before.
func (c *Counting) counts(r *counting, chunks [32]byte) ([]wire.ReleaseCounts, error) {
	file := name("counts", r.Epoch, r.Announcement.Round)
	known, err := channel.ReadFile(c.Disk, file)
	if err != nil {
		return nil, err
	}
	if known == nil {
		total := r.helpers[0].sum
		for _, h := range r.helpers[1:] {
			if err := total.Merge(h.sum); err != nil {
				return nil, err
			}
		}
		share, err := r.round.ParseNoisedShare(r.sum.share)
		if err != nil {
			return nil, err
		}
		// Sums that cannot be are a verdict on a draw of the noise: it is kept like the counts, and nothing follows the
		// chunks' digest then.
		counts, err := total.Counts(share, c.Source)
		if err != nil && !errors.Is(err, shares.ErrSum) {
			return nil, err
		}
		known = chunks[:]
		for _, release := range counts {
			for _, n := range release {
				known = binary.BigEndian.AppendUint64(known, n)
			}
		}
		if err := channel.StoreFile(c.Disk, file, known); err != nil {
			return nil, err
		}
	}
	if !bytes.HasPrefix(known, chunks[:]) {
		return nil, fmt.Errorf("%w: other chunks of this round were counted before", reason(wire.RefusalSecondSet))
	}
	if len(known) == len(chunks) {
		return nil, shares.ErrSum
	}
	counts := make([]wire.ReleaseCounts, len(r.Encodings))
	rest := known[len(chunks):]
	for i, e := range r.Encodings {
		for range e.Coordinates {
			if len(rest) < 8 {
				return nil, errOther
			}
			counts[i].Ones, rest = append(counts[i].Ones, binary.BigEndian.Uint64(rest)), rest[8:]
		}
	}
	return counts, nil
}

// takeSum takes the shuffler's share of the sum. The first one counts.
func (r *counting) takeSum(payload []byte, digest [32]byte) {
	if r.sum != nil {
		if digest != r.sumDigest {
			r.refuse(wire.RefusalSecondSet, "the shuffler sends a second sum")
		}
		return
	}
	s, err := parseSum(payload, r.round.AggregateSize())
	if err != nil {
		r.refuse(wire.RefusalMalformed, "%v", err)
		return
	}
	r.sum, r.sumDigest = &s, digest
}
