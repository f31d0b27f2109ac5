package hostile_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"io"
	"slices"
	"strings"

	"github.com/riffle-dp/riffle/internal/bus"
	"github.com/riffle-dp/riffle/internal/channel"
	mixing "github.com/riffle-dp/riffle/internal/channel/shares"
	"github.com/riffle-dp/riffle/internal/role/entropy"
	"github.com/riffle-dp/riffle/internal/testing/testbed"
	"github.com/riffle-dp/riffle/pkg/channel/registry"
	"github.com/riffle-dp/riffle/pkg/channel/shuffle"
	"github.com/riffle-dp/riffle/pkg/plan"
	"github.com/riffle-dp/riffle/pkg/protocol"
	"github.com/riffle-dp/riffle/pkg/seal"
	"github.com/riffle-dp/riffle/pkg/transparency"
	"github.com/riffle-dp/riffle/pkg/wire"
)

// lies are what the shuffler does otherwise than it should while it releases.
type lies struct {
	manifest func(*wire.Manifest)
	chunk    func(index uint32, payload []byte) []byte // what is sent in place of a chunk
	shift    bool                                      // of the share of the sums, in shares
	unlogged bool                                      // the manifest is sent, and not put into the audit log
	unsent   bool                                      // the manifest is put into the audit log, and not sent
	// each report's messages go into a chunk of their own, as they came
	unmixed bool
	noise   func(noise []byte) []byte // what is sent in place of the shuffler's noise, in shuffle
}

// sent is what a shuffler let out.
type sent struct {
	chunks   map[uint32][]byte
	manifest *wire.Manifest
	signed   []byte
}

// release has the shuffler release these reports.
func (m *tier) release(r *round, reports []person, l lies) *sent {
	m.t.Helper()
	out := &sent{chunks: map[uint32][]byte{}, manifest: &wire.Manifest{
		Deployment: testbed.Deployment, Epoch: r.Epoch, Round: r.Round, Announcement: r.digest[:],
		Outcome:  wire.Released,
		Enrolled: r.Cohort.Size, Reports: uint32(len(reports)), ReportsDigest: make([]byte, 32),
	}}
	if m.channel == plan.Shares {
		if !m.exchange(r, reports, out, l) {
			out.manifest = &wire.Manifest{
				Deployment: testbed.Deployment, Epoch: r.Epoch, Announcement: r.digest[:], Outcome: wire.Destroyed,
				Enrolled: r.Cohort.Size,
			}
		}
	} else {
		m.permute(r, reports, out, l)
	}
	if l.manifest != nil {
		l.manifest(out.manifest)
	}
	out.signed, _ = m.Sign(out.manifest, m.Shuffler)
	if !l.unlogged {
		m.must(m.log.AppendAudit(m.Context(), wire.KindManifest, out.signed))
	}
	if !l.unsent {
		m.must(m.shuffler.Mixed.PublishManifest(m.Context(), r.Epoch, r.Round, out.signed))
	}
	return out
}

// second is another manifest of the same release, of one report fewer, signed.
func (m *tier) second(r *round, first *sent) []byte {
	m.t.Helper()
	second := *first.manifest
	second.Reports, second.ReportsDigest = second.Reports-1, flipped(second.ReportsDigest)
	second.Messages -= uint64(r.ReportMessages())
	if m.channel == plan.Shares {
		second.Messages = uint64(second.Reports)
	}
	signed, _ := m.Sign(&second, m.Shuffler)
	return signed
}

// permute mixes and sends messages, in the channels that have them.
func (m *tier) permute(r *round, reports []person, out *sent, l lies) {
	m.t.Helper()
	var messages [][]byte
	var digests, each [][32]byte
	for _, p := range reports {
		messages = slices.AppendSeq(messages, slices.Chunk(p.payload, registry.MessageSize(r.Announcement)))
	}
	noise, err := shuffle.AppendNoise(m.Context(), nil, r.Announcement, r.digest, testbed.Source())
	m.must(err)
	out.manifest.NoiseMessages = shuffle.NoiseMessages(r.Announcement)
	if l.noise != nil {
		noise = l.noise(noise)
	}
	messages = slices.AppendSeq(messages, slices.Chunk(noise, seal.BitSize))
	part := (len(messages) + 2) / 3
	if l.unmixed {
		part = len(messages) / len(reports)
	} else {
		protocol.Permute(messages, testbed.Source())
	}
	for _, message := range messages {
		digests = append(digests, sha256.Sum256(message))
	}
	for some := range slices.Chunk(messages, part) {
		index := uint32(len(each))
		chunk, err := wire.BuildChunk(wire.Chunk{
			Epoch: r.Epoch, Round: r.Round, Index: index, Payload: slices.Concat(some...)})
		m.must(err)
		each = append(each, wire.ChunkDigest(chunk))
		out.chunks[index] = chunk
		if l.chunk != nil {
			chunk = l.chunk(index, chunk)
		}
		m.must(m.shuffler.Mixed.PublishChunk(m.Context(), r.Epoch, r.Round, index, chunk))
	}
	all, root := wire.ChunksDigest(each), transparency.SortedRoot(digests)
	out.manifest.Messages, out.manifest.Chunks = uint64(len(messages)), uint32(len(each))
	out.manifest.ChunksDigest, out.manifest.MessagesRoot = all[:], root[:]
}

// exchanging is the broker of a shuffler that sends other chunks than it should.
type exchanging struct {
	*bus.MixedStream
	*bus.PreparedStream
	*bus.AuditStream
	m   *tier
	out *sent
	l   lies
}

func (e exchanging) PublishChunk(ctx context.Context, epoch uint64, round, index uint32, payload []byte) error {
	e.out.chunks[index] = bytes.Clone(payload)
	if e.l.chunk != nil {
		payload = e.l.chunk(index, payload)
	}
	return e.MixedStream.PublishChunk(ctx, epoch, round, index, payload)
}

func (e exchanging) AppendAudit(ctx context.Context, kind string, signed []byte) error {
	return e.m.log.AppendAudit(ctx, kind, signed)
}

// shifting is the disk of a shuffler that adds one to its share of the first sum before anything is said of it.
type shifting struct {
	channel.Disk
	m   *tier
	out *sent
}

func (s shifting) Store(name string, write func(io.Writer) error) error {
	if !strings.HasPrefix(name, "shares-sum") {
		return s.Disk.Store(name, write)
	}
	var b bytes.Buffer
	kept := map[string]any{}
	s.m.must(write(&b))
	s.m.must(json.Unmarshal(b.Bytes(), &kept))
	last, err := base64.StdEncoding.DecodeString(kept["sum"].(string))
	s.m.must(err)
	chunk, err := wire.ParseChunk(last)
	s.m.must(err)
	chunk.Payload = bytes.Clone(chunk.Payload)
	const first = 4 + sha256.Size // behind the set's size and digest, least significant byte first
	for at := first; ; at++ {
		if chunk.Payload[at]++; chunk.Payload[at] != 0 {
			break
		}
	}
	last, err = wire.BuildChunk(*chunk)
	s.m.must(err)
	var each [][32]byte
	for i := range uint32(len(s.out.chunks)) {
		each = append(each, wire.ChunkDigest(s.out.chunks[i]))
	}
	all := wire.ChunksDigest(append(each, wire.ChunkDigest(last)))
	kept["sum"], kept["digest"] = last, all[:]
	changed, err := json.Marshal(kept)
	s.m.must(err)
	return errors.Join(channel.StoreFile(s.Disk, name, changed), errShifted)
}

// errShifted ends the process that keeps the true share in memory. The next one reads the other from its disk.
var errShifted = errors.New("begin again")

// exchange goes through the channel of shares; released is false where the analyzer lets no sum leave.
func (m *tier) exchange(r *round, reports []person, out *sent, l lies) (released bool) {
	m.t.Helper()
	mix := &mixing.Mixing{
		Deployment: testbed.Deployment, Broker: exchanging{m.shuffler.Mixed, m.shuffler.Prepared, m.shuffler.Audit, m,
			out, l}, Disk: m.disk, Source: entropy.New(),
		Identity: m.Shuffler, Analyzer: m.Analyzer.Public(), Log: testbed.Log(),
		Reports: func(_ context.Context, _ *channel.Release, of channel.Member) (*wire.Report, error) {
			return &wire.Report{Slot: of.Slot, Payload: bytes.Clone(reports[of.Slot].payload)}, nil
		},
	}
	if l.shift {
		mix.Disk = shifting{m.disk, m, out}
	}
	layout, err := mix.Layout(r.Announcement)
	m.must(err)
	release := &channel.Release{
		Epoch: r.Epoch, Round: r.Round, Announcement: r.digest, Announced: r.Announcement, First: r.first,
		Layout: layout, Minimum: 1, // a malicious shuffler minds no minimum
	}
	for slot := range reports {
		release.Members = append(release.Members, channel.Member{
			Slot: uint32(slot), Sequence: uint64(slot) + 1, Digest: [32]byte{byte(slot * 17), byte(slot)}})
	}
	rejected, err := mix.Release(m.Context(), release, out.manifest)
	if errors.Is(err, errShifted) {
		mix.Disk = m.disk
		rejected, err = mix.Release(m.Context(), release, out.manifest)
	}
	if errors.Is(err, channel.ErrImpossible) {
		return false
	}
	m.must(err)
	out.manifest.Reports -= uint32(len(rejected))
	if least := r.Cohort.Minimum; out.manifest.Reports < least { // it says that there were enough
		out.manifest.Reports, out.manifest.Messages = least, uint64(least)
		return true
	}
	for _, one := range rejected {
		at := slices.IndexFunc(out.manifest.Refused, func(f wire.Refused) bool { return f.Reason == one.Reason })
		if at < 0 {
			at = len(out.manifest.Refused)
			out.manifest.Refused = append(out.manifest.Refused, wire.Refused{Reason: one.Reason})
		}
		out.manifest.Refused[at].Reports++
		out.manifest.Refused[at].TakenOut++
	}
	slices.SortFunc(out.manifest.Refused, func(a, b wire.Refused) int { return int(a.Reason) - int(b.Reason) })
	return true
}
