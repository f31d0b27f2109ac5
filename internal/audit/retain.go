package audit

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"slices"

	"github.com/riffle-dp/riffle/internal/audit/retained"
	"github.com/riffle-dp/riffle/internal/keyring"
	"github.com/riffle-dp/riffle/pkg/channel"
	"github.com/riffle-dp/riffle/pkg/channel/envelope"
	"github.com/riffle-dp/riffle/pkg/channel/registry"
	"github.com/riffle-dp/riffle/pkg/channel/shuffle"
	"github.com/riffle-dp/riffle/pkg/plan"
	"github.com/riffle-dp/riffle/pkg/seal"
	"github.com/riffle-dp/riffle/pkg/transparency"
	"github.com/riffle-dp/riffle/pkg/wire"
)

// retention holds what was retained of releases, where there is something, to what their manifests commit to.
type retention struct {
	*findings
	source            Source
	trust             keyring.Bundle
	auditor, analyzer []*seal.HPKEKey  // see Options
	rounds            map[roundID]bool // of which something is retained, and that have a manifest
}

// has reports whether a round has a manifest that its retained chunks were held to.
func (ret *retention) has(round roundID) bool { return ret.rounds[round] }

// check compares what was retained of a round with what the manifest commits to, and where the analyzer's key is there,
// counts it again.
func (ret *retention) check(ctx context.Context, x *mixture, r *round) error {
	k := &kept{retention: ret, s: x.statement, m: x.m, r: r, size: registry.MessageSize(r.a),
		chunks: map[uint32][32]byte{}}
	some, opened := false, false
	err := ret.source.Retained(ctx, x.m.Epoch, x.m.Round, func(index uint32, sealed []byte) error {
		some, ret.rounds[roundID{x.m.Epoch, x.m.Round}] = true, true
		if len(ret.auditor) == 0 {
			return nil
		}
		if !opened {
			opened = true
			k.recount = ret.recounting(r)
		}
		k.chunk(index, sealed)
		return nil
	})
	switch {
	case errors.Is(err, ErrFolder):
		ret.wrong(RetainedForged, x.statement, "%v", err)
		return nil
	case err != nil:
		return err
	case !some && x.m.Outcome == wire.Released:
		ret.report.note("Of some releases nothing is retained: that the messages out are those that the shuffler " +
			"committed to was not checked for them, and nothing was counted again.")
	case !some:
	case x.m.Outcome == wire.Destroyed && x.m.Messages > 0 && k.size > 0:
		ret.report.note("Chunks are retained of a cohort that was destroyed after a part of it left. Its manifest " +
			"commits to no messages, so that they were not checked.")
	case x.m.Outcome != wire.Released || k.size == 0:
		ret.wrong(MessageAdded, x.statement, "messages are retained of a round of which none left, or none may be kept")
	case !opened:
		ret.report.note("What is retained was not opened: the auditor's key was not given.")
	case !k.bad:
		k.whole()
	}
	return nil
}

// recounting begins to count a round again; nil where the analyzer's key of the round is not there.
func (ret *retention) recounting(r *round) recount {
	for _, key := range ret.analyzer {
		if !bytes.Equal(key.Public(), r.a.AnalyzerKey) {
			continue
		}
		switch r.a.Plan.Channel {
		case plan.Shuffle:
			return &bitRecount{r.a, seal.NewBitOpener(key, r.digest), shuffle.NewTally(r.a.Encodings)}
		case plan.Local:
			registrar := ret.trust.RegistrarParty()
			registrar.Hosts = registrar.Hosts.Past() // keys that were in force then may have been replaced since
			verifier := channel.NewVerifier(registrar)
			if o, err := envelope.NewOpener(r.a, r.digest, key, verifier); err == nil {
				return &envelopeRecount{a: r.a, opener: o, absent: envelope.Absent(nil, r.a.Encodings),
					sums: make([]uint64, o.Entries()), who: map[channel.Participant]bool{}}
			}
		}
	}
	if len(ret.analyzer) > 0 {
		ret.report.note("Some releases were not counted again: the analyzer's key of their announcement was not given.")
	}
	return nil
}

// kept is what was retained of one release. It holds 32 bytes for each message, and one chunk at a time.
type kept struct {
	*retention
	s        *statement // the manifest
	m        *wire.Manifest
	r        *round
	size     int // of a message
	messages [][32]byte
	chunks   map[uint32][32]byte // by index
	bad      bool
	recount  recount // nil: nothing is counted again
}

// chunk opens one retained chunk.
func (k *kept) chunk(index uint32, sealed []byte) {
	forged := func(format string, v ...any) {
		k.bad = true
		k.wrong(RetainedForged, k.s, format, v...)
	}
	b, err := retained.Open(sealed, k.auditor, seal.RetainedContext{
		Deployment: k.trust.Deployment, Epoch: k.m.Epoch, Round: k.m.Round, Index: index, Announcement: k.r.digest,
	})
	if err != nil {
		forged("%v", err)
		return
	}
	part, err := wire.ParseChunk(b)
	switch {
	case err != nil:
		forged("chunk %d: %v", index, err)
		return
	case part.Epoch != k.m.Epoch || part.Round != k.m.Round || part.Index != index:
		forged("chunk %d says that it is chunk %d of round %d of epoch %d", index, part.Index, part.Round, part.Epoch)
		return
	}
	messages, err := part.Messages(max(k.size, 1))
	if err != nil {
		forged("chunk %d: %v", index, err)
		return
	}
	if _, twice := k.chunks[index]; twice {
		forged("chunk %d is there twice", index)
		return
	}
	k.chunks[index] = wire.ChunkDigest(b)
	for _, message := range messages {
		k.messages = append(k.messages, sha256.Sum256(message))
	}
	if k.recount != nil {
		k.recount.add(messages)
	}
}

// whole compares all that is retained of a release with the manifest.
func (k *kept) whole() {
	digests := make([][32]byte, 0, len(k.chunks))
	for i := range k.m.Chunks {
		if digest, ok := k.chunks[i]; ok {
			digests = append(digests, digest)
		}
	}
	switch {
	case len(digests) < len(k.chunks):
		k.wrong(MessageAdded, k.s, "%d chunks are retained that the manifest, of %d chunks, does not name",
			len(k.chunks)-len(digests), k.m.Chunks)
		return
	case len(digests) < int(k.m.Chunks):
		k.report.note("Some of a release's retained chunks are gone, as when their window ends: it was not checked.")
		return
	}
	all := wire.ChunksDigest(digests)
	root := transparency.SortedRoot(k.messages) // which sorts them
	switch n := uint64(len(k.messages)); {
	case n < k.m.Messages:
		k.wrong(MessageDropped, k.s, "%d messages are retained, and the manifest commits to %d", n, k.m.Messages)
		return
	case n > k.m.Messages:
		k.wrong(MessageAdded, k.s, "%d messages are retained, and the manifest commits to %d", n, k.m.Messages)
		return
	case !bytes.Equal(root[:], k.m.MessagesRoot):
		k.wrong(MessageSwapped, k.s, "as many messages are retained as the manifest commits to, and they are not the "+
			"same: their root is %x, committed is %x", short(root[:]), short(k.m.MessagesRoot))
		return
	case !bytes.Equal(all[:], k.m.ChunksDigest):
		k.wrong(ChunksDiffer, k.s, "the messages are those of the manifest, and are in other chunks or in another "+
			"order")
		return
	}
	if len(slices.Compact(k.messages)) < int(k.m.Messages) {
		k.wrong(MessageCopied, k.s, "two messages that left are the same: a person's bits were multiplied")
		return
	}
	if k.report.Opened++; k.recount == nil || k.r.counts == nil || k.r.counts.Destroyed {
		return
	}
	k.report.Recounted++
	counted := k.recount.counts(k.m)
	if len(counted) != len(k.r.counts.Releases) {
		return // possible names it
	}
	for i, own := range counted {
		signed := k.r.counts.Releases[i]
		if !slices.Equal(own.Ones, signed.Ones) || !slices.Equal(own.Entries, signed.Entries) {
			k.wrong(RecountDiffers, k.r.counted, "release %d: the retained messages give other counts than were signed",
				i)
			return
		}
	}
}

// recount counts opened messages again, as the analyzer did.
type recount interface {
	add(messages [][]byte)
	counts(m *wire.Manifest) []wire.ReleaseCounts
}

// bitRecount is that of the channel shuffle.
type bitRecount struct {
	a      *plan.Announcement
	opener *seal.BitOpener
	tally  *shuffle.Tally
}

func (b *bitRecount) add(messages [][]byte) { b.tally.Open(b.opener, slices.Concat(messages...)) }

func (b *bitRecount) counts(m *wire.Manifest) (counts []wire.ReleaseCounts) {
	noise := make([]uint64, len(b.a.Encodings))
	for i, r := range b.a.Releases() {
		noise[i] = r.ShufflerNoise
	}
	all, _ := b.tally.Counts(uint64(m.Reports), noise)
	for _, ones := range all {
		counts = append(counts, wire.ReleaseCounts{Ones: ones})
	}
	return counts
}

// envelopeRecount is that of the channel local. An envelope that does not open, or is the second of a device, counts as
// absent, and is left out of pairs. Which envelopes the analyzer refused for its own limits (a host's share, devices of
// earlier epochs) it cannot know.
type envelopeRecount struct {
	a      *plan.Announcement
	opener *envelope.Opener
	absent []uint32
	sums   []uint64
	each   [][]uint32 // of pairs
	who    map[channel.Participant]bool
}

func (b *envelopeRecount) add(messages [][]byte) {
	for _, one := range messages {
		entries, by, err := b.opener.Open(nil, one)
		if err != nil || b.who[by.Participant] {
			entries = b.absent
		} else if b.a.Plan.Pairs() {
			b.each = append(b.each, entries)
		}
		b.who[by.Participant] = b.who[by.Participant] || err == nil
		for i, entry := range entries {
			b.sums[i] += uint64(entry)
		}
	}
}

func (b *envelopeRecount) counts(*wire.Manifest) (counts []wire.ReleaseCounts) {
	if b.a.Plan.Pairs() {
		return []wire.ReleaseCounts{{Entries: envelope.Each(b.each)}}
	}
	sums := b.sums
	for _, e := range b.a.Encodings {
		counts = append(counts, wire.ReleaseCounts{Ones: sums[:len(e.Coordinates)]})
		sums = sums[len(e.Coordinates):]
	}
	return counts
}
