package simulation

import (
	"bytes"
	"fmt"
	"slices"

	"github.com/rs/zerolog"

	"github.com/riffle-dp/riffle/internal/testing/testbed"
	"github.com/riffle-dp/riffle/pkg/channel"
	"github.com/riffle-dp/riffle/pkg/channel/envelope"
	"github.com/riffle-dp/riffle/pkg/channel/shares"
	"github.com/riffle-dp/riffle/pkg/plan"
	"github.com/riffle-dp/riffle/pkg/protocol"
	"github.com/riffle-dp/riffle/pkg/seal"
	"github.com/riffle-dp/riffle/pkg/wire"
)

// exact holds counts against the sum of what the members put into their reports, which the simulation can open.
// Where servers add noise, the counts lie between the sum and the sum with all noise bits.
func (o *oracle) exact(r round, l *released, c *wire.Counts) {
	w, a := o.w, o.announced[r]
	sums, err := w.sums(a, o.announced[round{r.epoch, 0}].digest, l.members)
	if err != nil {
		w.violated("sum", "round %v: what the members sent does not open: %v", r, err)
		return
	}
	var counts []uint64
	var noise []uint64
	for i, release := range c.Releases {
		counts = append(counts, release.Ones...)
		for range release.Ones {
			noise = append(noise, a.Releases()[i].ServerNoise())
		}
	}
	if len(counts) != len(sums) {
		w.violated("sum", "round %v: %d counts of %d coordinates", r, len(counts), len(sums))
		return
	}
	for k, sum := range sums {
		if counts[k] < sum || counts[k] > sum+noise[k] {
			w.violated("sum", "round %v: coordinate %d is counted as %d; the members' sum is %d, the servers' noise "+
				"at "+"most %d", r, k, counts[k], sum, noise[k])
		}
	}
}

// sums are of each coordinate of each release the sum over the members.
func (w *World) sums(a *announcement, first [32]byte, members []*report) ([]uint64, error) {
	n := 0
	for _, e := range a.Encodings {
		n += len(e.Coordinates)
	}
	sums := make([]uint64, n)
	key, err := w.messageKey(a.AnalyzerKey)
	if err != nil {
		return nil, err
	}
	verifier := channel.NewVerifier(wire.Party{Deployment: testbed.Deployment, Key: w.keys.registrar.Public()})
	switch a.Plan.Channel {
	case plan.Shares:
		return w.sharedSums(a, first, key, verifier, members)
	case plan.Local, plan.Central:
		opener, err := envelope.NewOpener(a.Announcement, a.digest, key, verifier)
		if err != nil {
			return nil, err
		}
		for _, one := range members {
			entries, _, err := opener.Open(nil, one.Payload)
			if err != nil {
				return nil, err
			}
			for k, v := range entries {
				sums[k] += uint64(v)
			}
		}
	default:
		var begin []int // of each release
		for at, i := 0, 0; i < len(a.Encodings); i++ {
			begin = append(begin, at)
			at += len(a.Encodings[i].Coordinates)
		}
		opener := seal.NewBitOpener(key, a.digest)
		for _, one := range members {
			for message := range slices.Chunk(one.Payload, seal.BitSize) {
				release, coordinate, bit, err := opener.Open(message)
				if err != nil {
					return nil, err
				}
				if bit {
					sums[begin[release]+int(coordinate)]++
				}
			}
		}
	}
	return sums, nil
}

// sharedSums puts the two shares of the members' reports together, as both servers would.
func (w *World) sharedSums(
	a *announcement, first [32]byte, key *seal.HPKEKey, verifier *channel.Verifier, members []*report,
) ([]uint64, error) {
	of, err := shares.NewRound(a.Announcement, a.digest)
	if err != nil {
		return nil, err
	}
	secret := shares.NewSecret(w.keys.shuffler, first)
	leader, err := of.NewLeader(secret)
	if err != nil {
		return nil, err
	}
	helper, err := of.NewHelper(secret, key, verifier)
	if err != nil {
		return nil, err
	}
	mine, err := of.NewLeaderSum()
	if err != nil {
		return nil, err
	}
	theirs, err := of.NewHelperSum()
	if err != nil {
		return nil, err
	}
	for _, one := range members {
		message, pending, err := leader.Prepare(nil, one.Payload)
		if err != nil {
			return nil, err
		}
		v, err := helper.Verify(message)
		if err != nil {
			return nil, err
		}
		if err := helper.Add(theirs, v); err != nil {
			return nil, err
		}
		if err := leader.Finish(mine, pending, v.Answer[:]); err != nil {
			return nil, err
		}
	}
	noised, err := mine.Noise(zeros{})
	if err != nil {
		return nil, err
	}
	counts, err := theirs.Counts(noised, zeros{})
	if err != nil {
		return nil, err
	}
	return slices.Concat(counts...), nil
}

// zeros is a source of which no noise bit comes out as one.
type zeros struct{}

var _ protocol.Source = zeros{}

// Uint64 implements protocol.Source.
func (zeros) Uint64() uint64 { return 0 }

// messageKey is the analyzer's private key to a public one.
func (w *World) messageKey(public []byte) (*seal.HPKEKey, error) {
	for _, k := range w.keys.messages {
		if bytes.Equal(k.Public(), public) {
			return k, nil
		}
	}
	return nil, fmt.Errorf("an HPKE key of the analyzer's that it never had")
}

// logger keeps what a role logs for the oracle, and shows it where the environment asks.
func (w *World) logger(name string) zerolog.Logger {
	return zerolog.New(speech{w}).With().Str("role", name).Logger()
}

// speech is what the roles log.
type speech struct{ w *World }

// Write implements io.Writer.
func (s speech) Write(b []byte) (int, error) {
	s.w.mu.Lock()
	defer s.w.mu.Unlock()
	s.w.spoken = append(s.w.spoken, b...)
	if s.w.talk {
		s.w.note("%s", bytes.TrimSpace(b))
	}
	return len(b), nil
}
