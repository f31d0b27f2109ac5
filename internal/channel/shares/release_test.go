package shares

import (
	"crypto/sha256"
	"errors"
	"testing"

	"github.com/riffle-dp/riffle/pkg/channel/shares"
	"github.com/riffle-dp/riffle/pkg/transparency"
	"github.com/riffle-dp/riffle/pkg/wire"
)

// The sums of a release are those of its members' entries, and with server noise no more than that above them.
func TestAReleaseCountsTheMembersEntries(t *testing.T) {
	t.Parallel()
	d := newDeployment(t)
	s := d.newScene(size)
	s.exact(s.released(s.run(), nil))
	for _, one := range []uint64{1, 64} {
		s = d.newScene(size+5, noise(one, 2*one))
		counts := s.released(s.run(), nil)
		s.within(counts, 3*one)
	}
}

// acceptedRoot is the root over the prepare messages that left and that the analyzer accepted by its answers.
func (s *scene) acceptedRoot() [32]byte {
	s.Helper()
	round, err := shares.NewRound(s.a, s.digest)
	s.must(err)
	s.mu.Lock()
	defer s.mu.Unlock()
	var digests [][32]byte
	for index := range uint32(len(s.sent)) {
		answer := s.said[index]
		if index == statementIndex || answer == nil {
			continue
		}
		chunk, err := wire.ParseChunk(s.sent[index])
		s.must(err)
		messages, err := parseMessages(chunk.Payload, round.PrepareMessageSize(), wire.MaxChunkMessages)
		s.must(err)
		for i, message := range messages {
			if answer[i*verdictSize] == 0 {
				digests = append(digests, sha256.Sum256(message))
			}
		}
	}
	return transparency.SortedRoot(digests)
}

// A manifest without a root is refused as one with another root is.
func TestAManifestWithoutARootIsRefused(t *testing.T) {
	t.Parallel()
	s := newDeployment(t).newScene(size)
	s.ended = func(m *wire.Manifest) { m.MessagesRoot = nil }
	if e := s.run(); !errors.Is(e.countErr, Rejected) || e.counts != nil {
		t.Errorf("%v, %v", e.counts, e.countErr)
	}
}
