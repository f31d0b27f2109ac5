package empirical

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/riffle-dp/riffle/pkg/channel"
	"github.com/riffle-dp/riffle/pkg/channel/envelope"
	"github.com/riffle-dp/riffle/pkg/channel/shares"
	"github.com/riffle-dp/riffle/pkg/channel/shuffle"
	"github.com/riffle-dp/riffle/pkg/plan"
	"github.com/riffle-dp/riffle/pkg/protocol"
	"github.com/riffle-dp/riffle/pkg/seal"
)

// openBits is the channel shuffle: permute, and count what opens.
type openBits struct {
	a        *plan.Announcement
	digest   [32]byte
	analyzer *seal.HPKEKey
}

func (*openBits) commitment() []byte { return nil }

func (o *openBits) counts(ctx context.Context, payloads [][]byte, server protocol.Source) ([]uint64, error) {
	var messages []byte
	for _, p := range payloads {
		messages = append(messages, p...)
	}
	messages, err := shuffle.AppendNoise(ctx, messages, o.a, o.digest, server)
	if err != nil {
		return nil, err
	}
	mixed := make([][seal.BitSize]byte, len(messages)/seal.BitSize)
	for i := range mixed {
		mixed[i] = [seal.BitSize]byte(messages[i*seal.BitSize:])
	}
	protocol.Permute(mixed, system{})
	seen, tally := make(map[[seal.BitSize]byte]struct{}, len(mixed)), shuffle.NewTally(o.a.Encodings)
	opener := seal.NewBitOpener(o.analyzer, o.digest)
	for i := range mixed {
		seen[mixed[i]] = struct{}{}
		tally.Open(opener, mixed[i][:])
	}
	if len(seen) < len(mixed) {
		return nil, errors.New("a bit message occurs twice")
	}
	noise := make([]uint64, len(o.a.Encodings))
	for i, r := range o.a.Releases() {
		noise[i] = r.ShufflerNoise
	}
	ones, odd := tally.Counts(uint64(len(payloads)), noise)
	if odd != 0 {
		return nil, fmt.Errorf("%d bit messages do not open or are out of the plan", odd)
	}
	return flat(ones), nil
}

// openShares is the channel shares: prepare, verify, add, noise, and join.
type openShares struct {
	round  *shares.Round
	secret shares.Secret
	leader *shares.Leader
	helper *shares.Helper
}

func newOpenShares(a *plan.Announcement, digest [32]byte, analyzer *seal.HPKEKey, shuffler *seal.Identity,
	verifier *channel.Verifier) (*openShares, error) {
	o := &openShares{secret: shares.NewSecret(shuffler, digest)}
	var err error
	if o.round, err = shares.NewRound(a, digest); err != nil {
		return nil, err
	}
	if o.leader, err = o.round.NewLeader(o.secret); err != nil {
		return nil, err
	}
	o.helper, err = o.round.NewHelper(o.secret, analyzer, verifier)
	return o, err
}

func (o *openShares) commitment() []byte { return o.secret.Commitment() }

func (o *openShares) counts(_ context.Context, payloads [][]byte, server protocol.Source) ([]uint64, error) {
	first, err := o.round.NewLeaderSum()
	if err != nil {
		return nil, err
	}
	second, err := o.round.NewHelperSum()
	if err != nil {
		return nil, err
	}
	for _, p := range payloads {
		message, pending, err := o.leader.Prepare(nil, p)
		if err != nil {
			return nil, err
		}
		verified, err := o.helper.Verify(message)
		if err != nil {
			return nil, err
		}
		if err := o.helper.Add(second, verified); err != nil {
			return nil, err
		}
		if err := o.leader.Finish(first, pending, verified.Answer[:]); err != nil {
			return nil, err
		}
	}
	noised, err := first.Noise(server)
	if err != nil {
		return nil, err
	}
	ones, err := second.Counts(noised, server)
	return flat(ones), err
}

// openEnvelopes are the channels local and central: open, add, and in central the analyzer's noise.
type openEnvelopes struct {
	g      *game
	opener *envelope.Opener
}

func newOpenEnvelopes(
	a *plan.Announcement, digest [32]byte, g *game, verifier *channel.Verifier,
) (*openEnvelopes, error) {
	o, err := envelope.NewOpener(a, digest, g.analyzer, verifier)
	return &openEnvelopes{g, o}, err
}

func (*openEnvelopes) commitment() []byte { return nil }

func (o *openEnvelopes) counts(_ context.Context, payloads [][]byte, server protocol.Source) ([]uint64, error) {
	sums := make([]uint64, o.opener.Entries())
	for _, p := range payloads {
		entries, _, err := o.opener.Open(nil, p)
		if err != nil {
			return nil, err
		}
		for i, n := range entries {
			sums[i] += uint64(n)
		}
	}
	return sums, o.g.mechanism.addServers(sums, server)
}

// flat puts the counts of all releases one after another.
func flat(ones [][]uint64) (all []uint64) {
	for _, o := range ones {
		all = append(all, o...)
	}
	return all
}

// system are random words of the system's generator, for the permutation.
type system struct{}

// Uint64 implements protocol.Source.
func (system) Uint64() uint64 {
	var b [8]byte
	seal.Random(b[:])
	return binary.LittleEndian.Uint64(b[:])
}
