package analyzer

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/riffle-dp/riffle/internal/testing/testbed"
	"github.com/riffle-dp/riffle/pkg/glm"
	"github.com/riffle-dp/riffle/pkg/plan"
	"github.com/riffle-dp/riffle/pkg/protocol"
	"github.com/riffle-dp/riffle/pkg/seal"
	"github.com/riffle-dp/riffle/pkg/wire"
)

// one report's bit messages, sealed.
func (s *scene) report(a *plan.Announcement, digest [32]byte) []byte {
	s.t.Helper()
	all, _ := bits(s.t, a.Encodings, 1, half)
	sealer, err := seal.NewBitSealer(a.AnalyzerKey, digest)
	s.must(err)
	var messages []byte
	for _, b := range all {
		messages, err = sealer.AppendSeal(messages, b.release, b.coordinate, b.one)
		s.must(err)
	}
	return messages
}

// permuted is a release of these messages in a random order.
func (s *scene) permuted(a *plan.Announcement, digest [32]byte, messages []byte, reports int) *release {
	s.t.Helper()
	all := slices.Collect(slices.Chunk(messages, seal.BitSize))
	protocol.Permute(all, testbed.Source())
	return s.cut(a, digest, slices.Concat(all...), reports, 70)
}

// A malicious shuffler forwards copies of one person's bits in place of others', which multiplies that person's part in what is
// published and adds no noise. The release is refused, with a reason of its own.
func TestCopiesAreRefused(t *testing.T) {
	t.Parallel()
	for name, attack := range map[string]func(s *scene, a *plan.Announcement, digest [32]byte) []byte{
		"one person for everybody": func(s *scene, a *plan.Announcement, digest [32]byte) (all []byte) {
			victim := s.report(a, digest)
			for range a.Cohort.Size {
				all = append(all, victim...)
			}
			return all
		},
		"one person twice": func(s *scene, a *plan.Announcement, digest [32]byte) []byte {
			all := s.report(a, digest)
			all = append(all, all...)
			for range a.Cohort.Size - 2 {
				all = append(all, s.report(a, digest)...)
			}
			return all
		},
		"one bit twice": func(s *scene, a *plan.Announcement, digest [32]byte) (all []byte) {
			for range a.Cohort.Size {
				all = append(all, s.report(a, digest)...)
			}
			copy(all[len(all)-seal.BitSize:], all)
			return all
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newScene(t, glm.Practical)
			s.config.Terms.DishonestReports = 1 // what is malformed may be borne, a copy never
			s.start()
			a, digest := s.announcement(1, 0)
			messages := attack(s, a, digest)
			s.publish(s.permuted(a, digest, messages, int(a.Cohort.Size)))
			if c := s.counts(1, 0); !c.Destroyed || len(c.Releases) != 0 {
				t.Errorf("counts %v", c)
			}
			if n := testbed.Refused(s.analyzer.c.Messages, Repeated); n != len(messages)/seal.BitSize {
				t.Errorf("%d messages, account %+v", len(messages)/seal.BitSize, s.analyzer.c.Messages.Balance())
			}
			s.must(s.stop())
		})
	}
}

// A malicious shuffler sends chunks of noise that its manifest does not name, until the filter takes every message for a suspect and no
// further suspect is kept, and then copies of one person's messages. They are not counted as if they had been compared.
func TestCopiesHideBehindNothing(t *testing.T) {
	t.Parallel()
	s := newScene(t, glm.Practical)
	s.start()
	a, digest := s.announcement(1, 0)
	s.must(s.stop())
	n := newCounter(s.config)
	work := &roundWork{
		at: place{1, 0}, encodings: a.Encodings, opener: seal.NewBitOpener(s.AnalyzerKey, digest),
		copies: newCopies(int(a.Cohort.Size)*perReport(a.Encodings), filterBits), chunks: map[uint32]*chunkCount{},
	}
	work.copies.most = 100
	put := func(index uint32, chunk []byte) {
		t.Helper()
		s.must(s.shuffler.PublishChunk(s.Context(), 1, 0, index, chunk))
		s.must(n.open(work, chunk))
	}
	source := testbed.Source()
	noise := make([]byte, 0, 4000*seal.BitSize)
	for len(noise) < cap(noise) {
		noise = binary.LittleEndian.AppendUint32(noise, uint32(source.Uint64()))
	}
	unnamed, err := wire.BuildChunk(wire.Chunk{Epoch: 1, Index: 1000, Bits: noise})
	s.must(err)
	put(1000, unnamed)
	if len(work.copies.suspects) != work.copies.most {
		t.Fatalf("no power: %d suspects", len(work.copies.suspects))
	}
	r := s.permuted(a, digest, bytes.Repeat(s.report(a, digest), int(a.Cohort.Size)), int(a.Cohort.Size))
	for i, chunk := range r.chunks {
		put(uint32(i), chunk)
	}
	finding, err := n.copied(s.Context(), work, r.manifest)
	s.must(err)
	if !errors.Is(finding, Rejected) && !errors.Is(finding, Repeated) {
		t.Errorf("%d copies of one report pass: %v", a.Cohort.Size, finding)
	}
}

// The second look is at what was counted: where the stream does not hold it any more, or holds something else, the round is refused.
func TestTheSecondLookIsAtWhatWasCounted(t *testing.T) {
	t.Parallel()
	s := newScene(t, glm.Practical)
	s.start()
	a, digest := s.announcement(1, 0)
	s.must(s.stop())
	r := s.permuted(a, digest, bytes.Repeat(s.report(a, digest), int(a.Cohort.Size)), int(a.Cohort.Size))
	innocent, _ := s.honest(a, digest, int(a.Cohort.Size))
	n := newCounter(s.config)
	look := func() error {
		t.Helper()
		work := &roundWork{
			at: place{1, 0}, encodings: a.Encodings, opener: seal.NewBitOpener(s.AnalyzerKey, digest),
			copies: newCopies(int(a.Cohort.Size)*perReport(a.Encodings), filterBits), chunks: map[uint32]*chunkCount{},
		}
		for _, chunk := range r.chunks {
			s.must(n.open(work, chunk))
		}
		finding, err := n.copied(s.Context(), work, r.manifest)
		s.must(err)
		return finding
	}
	if err := look(); !errors.Is(err, Rejected) {
		t.Errorf("nothing is there any more: %v", err)
	}
	for i, chunk := range innocent.chunks {
		s.must(s.shuffler.PublishChunk(s.Context(), 1, 0, uint32(i), chunk))
	}
	if err := look(); !errors.Is(err, Rejected) {
		t.Errorf("other chunks are there now: %v", err)
	}
}

// Chunks that the manifest does not name stand for none that it names: the round is counted, and looked through for copies, when all that
// it names are there.
func TestUnnamedChunksCompleteNothing(t *testing.T) {
	t.Parallel()
	s := newScene(t, glm.Practical)
	s.start()
	a, digest := s.announcement(1, 0)
	time.Sleep(quietTime / 2) // until it counts what comes
	for i := range uint32(8) {
		unnamed, err := wire.BuildChunk(wire.Chunk{Epoch: 1, Index: 100 + i, Bits: bytes.Repeat([]byte{byte(i)}, seal.BitSize)})
		s.must(err)
		s.must(s.shuffler.PublishChunk(s.Context(), 1, 0, 100+i, unnamed))
	}
	r, ones := s.honest(a, digest, int(a.Cohort.Size))
	last := len(r.chunks) - 1
	late := r.chunks[last]
	r.chunks[last] = nil
	s.publish(r)
	time.Sleep(quietTime / 10)
	s.must(s.shuffler.PublishChunk(s.Context(), 1, 0, uint32(last), late))
	if c := s.counts(1, 0); c.Destroyed || !slices.Equal(c.Releases[0].Ones, ones[0]) {
		t.Errorf("counts %v", c)
	}
	s.must(s.stop())
}

// Whatever the filter makes of them, messages that are all different pass, and one that stands twice is found where it stands.
func TestOnlyCopiesAreFound(t *testing.T) {
	t.Parallel()
	const chunks, each = 20, 500
	source := testbed.Source()
	for _, bitsEach := range []int{1, 4, filterBits} {
		var all [][]byte
		for range chunks {
			chunk := make([]byte, 0, each*seal.BitSize)
			for len(chunk) < cap(chunk) {
				chunk = binary.LittleEndian.AppendUint32(chunk, uint32(source.Uint64()))
			}
			all = append(all, chunk)
		}
		find := func() (first, twice position, found bool, suspects int) {
			c := newCopies(chunks*each, bitsEach)
			for _, chunk := range all {
				c.add(chunk)
			}
			again := c.again()
			for i, chunk := range all {
				if first, twice, found := again.look(uint32(i), chunk); found {
					return first, twice, true, len(c.suspects)
				}
			}
			return first, twice, false, len(c.suspects)
		}
		// At one bit a message the filter is full early and suspects nearly everything; at its own size the mean number of suspects is
		// 0.8 of 10 000, and more than 10 come by chance with a probability below 1e-8.
		if first, twice, found, suspects := find(); found || bitsEach == 1 && suspects < chunks*each/2 || bitsEach == filterBits && suspects > 10 {
			t.Errorf("%d bits each: %v and %v, %v; %d suspects", bitsEach, first, twice, found, suspects)
		}
		copy(all[17][333*seal.BitSize:334*seal.BitSize], all[3][44*seal.BitSize:])
		if first, twice, found, _ := find(); !found || first != (position{3, 44}) || twice != (position{17, 333}) {
			t.Errorf("%d bits each: message 44 of chunk 3 stands at 333 of 17 too: found %v and %v, %v", bitsEach, first, twice, found)
		}
	}
}

// The analyzer acts on no manifest that is not in the audit log: it neither counts nor announces until it is.
func TestManifestIsLoggedFirst(t *testing.T) {
	t.Parallel()
	s := newScene(t, glm.Practical)
	var unmet atomic.Value
	s.config.Notice = func(condition string, err error) { unmet.Store(condition + ": " + fmt.Sprint(err)) }
	s.start()
	a, digest := s.announcement(1, 0)
	r, ones := s.honest(a, digest, int(a.Cohort.Size))
	for i, c := range r.chunks {
		s.must(s.shuffler.PublishChunk(s.Context(), 1, 0, uint32(i), c))
	}
	signed, _ := s.Sign(r.manifest, s.Shuffler)
	s.must(s.shuffler.PublishManifest(s.Context(), 1, 0, signed))
	// A statement that is not this manifest is no substitute.
	another, _ := s.Sign(destroyed(a, digest).manifest, s.Shuffler)
	s.must(s.shuffler.AppendAudit(s.Context(), "manifest", another))
	time.Sleep(poll + quietTime) // long enough to look twice
	if b := s.analyzer.c.Messages.Balance(); b.Received != 0 || len(s.analyzer.Progress().Releases) != 0 {
		t.Errorf("counted before the manifest was logged: %+v", b)
	}
	if all, err := s.auditor.Announcements(s.Context()); err != nil || len(all) != 1 {
		t.Errorf("%d announcements, %v", len(all), err)
	}
	if why, _ := unmet.Load().(string); !strings.Contains(why, "manifest: the shuffler published the manifest of round 0 of epoch 1") {
		t.Errorf("ready, although nothing can be counted: %q", why)
	}
	s.must(s.shuffler.AppendAudit(s.Context(), "manifest", signed))
	c := s.counts(1, 0)
	if why := unmet.Load(); why != "manifest: <nil>" {
		t.Errorf("not ready: %q", why)
	}
	if c.Destroyed || !slices.Equal(c.Releases[0].Ones, ones[0]) {
		t.Errorf("counts %v", c)
	}
	s.announcement(2, 0)
	s.must(s.stop())
}
