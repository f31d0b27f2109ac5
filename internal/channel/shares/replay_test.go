package shares

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"testing"
	"time"

	"github.com/riffle-dp/riffle/internal/channel"
	"github.com/riffle-dp/riffle/internal/testing/testbed"
	"github.com/riffle-dp/riffle/pkg/channel/shares"
	"github.com/riffle-dp/riffle/pkg/plan"
	"github.com/riffle-dp/riffle/pkg/wire"
)

// Whatever a malicious shuffler, or a broker in its place, sends of other rounds, in another order or in excess, the
// analyzer accepts no set of it: the round is refused, or too few reports are left.
func TestTheAnalyzerAcceptsNoRoundOfOtherChunks(t *testing.T) {
	t.Parallel()
	d := newDeployment(t)
	earlier := d.newScene(size)
	earlier.exact(earlier.released(earlier.run(), nil))
	before := func(index uint32) []byte {
		chunk, err := wire.ParseChunk(earlier.sent[index])
		d.must(err)
		return chunk.Payload
	}
	for what, cheat := range map[string]struct {
		do  func(s *scene, index uint32, c *wire.Chunk)
		why error // of the analyzer; nil: too few are left
	}{
		"the header of another round": {func(_ *scene, index uint32, c *wire.Chunk) {
			if index == 0 {
				c.Payload = before(0)
			}
		}, reason(wire.RefusalUndecryptable)},
		"a chunk that names another round": {func(_ *scene, index uint32, c *wire.Chunk) {
			if index == 1 {
				c.Epoch--
			}
		}, reason(wire.RefusalMalformed)},
		"a chunk under another index": {func(_ *scene, index uint32, c *wire.Chunk) {
			if index == 1 {
				c.Index = 0
			}
		}, reason(wire.RefusalSecondSet)},
		"the prepare messages of another epoch": {func(_ *scene, index uint32, c *wire.Chunk) {
			if index == 1 {
				c.Payload = before(1)
			}
		}, nil},
		"a chunk of prepare messages twice": {func(s *scene, index uint32, c *wire.Chunk) {
			if index == 2 {
				first, err := wire.ParseChunk(s.sent[1])
				d.must(err)
				c.Payload = first.Payload
			}
		}, nil},
		"more prepare messages than the header says": {func(s *scene, index uint32, c *wire.Chunk) {
			if index == 3 { // 2 prepare messages, of 12 in all
				first, err := wire.ParseChunk(s.sent[1])
				d.must(err)
				n := binary.BigEndian.Uint32(c.Payload)
				message := first.Payload[countSize:]
				message = message[:len(message)/5]
				c.Payload = append(bytes.Clone(c.Payload), message...)
				binary.BigEndian.PutUint32(c.Payload, n+1)
			}
		}, reason(wire.RefusalMalformed)},
		"a header of no reports": {func(_ *scene, index uint32, c *wire.Chunk) {
			if index == 0 {
				c.Payload = bytes.Clone(c.Payload)
				clear(c.Payload[:8])
			}
		}, reason(wire.RefusalMalformed)},
	} {
		s := d.newScene(size)
		s.a.Cohort.Minimum, s.release.Minimum = 10, 10
		e := s.runOn(s.mixDisk, cheating{s.toMix(), func(index uint32, c *wire.Chunk) {
			cheat.do(s, index, c)
		}}, s.countDisk, s.toCount())
		if !errors.Is(e.mixErr, channel.ErrImpossible) {
			t.Errorf("%s: the shuffler: %v", what, e.mixErr)
		}
		s.noSum()
		if cheat.why != nil && !errors.Is(e.countErr, destroyed) && !errors.Is(e.countErr, cheat.why) {
			t.Errorf("%s: %v, want %v", what, e.countErr, cheat.why)
		}
		signed, _, err := wire.Open[wire.Accepted](s.said[statementIndex], s.AnalyzerParty())
		if err != nil || signed.Reports >= s.a.Cohort.Minimum {
			t.Errorf("%s: the analyzer signs %+v, %v", what, signed, err)
		}
		if cheat.why != nil && (signed == nil || signed.Reports != 0) {
			t.Errorf("%s: the analyzer accepts %+v", what, signed)
		}
	}
}

// Prepare messages in another order than the shuffler's own get verdicts on other reports: the sets differ, and no sum
// leaves.
func TestPrepareMessagesInAnotherOrderGiveNoSum(t *testing.T) {
	t.Parallel()
	s := newDeployment(t).newScene(size)
	round, err := shares.NewRound(s.a, s.digest)
	s.must(err)
	e := s.runOn(s.mixDisk, cheating{s.toMix(), func(index uint32, c *wire.Chunk) {
		if index == 1 {
			messages, err := parseMessages(c.Payload, round.PrepareMessageSize(), 5)
			s.must(err)
			first := bytes.Clone(messages[0])
			copy(messages[0], messages[1])
			copy(messages[1], first)
		}
	}}, s.countDisk, s.toCount())
	s.impossible(e, wire.RefusalSecondSet)
}

// What a malicious analyzer answers beyond what it was asked is refused, and a verdict that is no refusal's number is
// one all the same.
func TestAnswersBeyondTheQuestionGiveNoSum(t *testing.T) {
	t.Parallel()
	d := newDeployment(t)
	for what, lie := range map[string]struct {
		alter func(index uint32, b []byte) []byte
		why   wire.Refusal
	}{
		"a prepare message that was not asked": {func(index uint32, b []byte) []byte {
			if index == 3 {
				return append(b, b[:verdictSize]...)
			}
			return b
		}, wire.RefusalMalformed},
		"an unknown verdict": {func(index uint32, b []byte) []byte {
			if index == 1 {
				b[0] = 0xff
			}
			return b
		}, wire.RefusalSecondSet},
		"the answer to another chunk": {func(index uint32, b []byte) []byte {
			if index == 1 {
				for i := range 5 {
					b[i*verdictSize+1] ^= 1
				}
			}
			return b
		}, wire.RefusalSecondSet},
	} {
		s := d.newScene(size)
		e := s.runOn(s.mixDisk, s.toMix(), s.countDisk, lying{s.toCount(), s, lie.alter})
		s.impossible(e, lie.why)
		if t.Failed() {
			t.Fatal(what)
		}
	}
}

// The devices of a round that was accepted and then destroyed are not counted again in a later epoch.
func TestDevicesOfADestroyedRoundAreNotCountedLater(t *testing.T) {
	t.Parallel()
	d := newDeployment(t)
	s := d.newScene(size)
	old := s.sender(0)
	e := s.runOn(s.mixDisk, overtaken{s.toMix()}, s.countDisk, s.toCount())
	s.impossible(e, wire.RefusalSecondSet)
	d.must(s.counter(s.countDisk, s.toCount()).Forget(context.Background(), s.a.Epoch, 0))
	s = d.newScene(size, func(a *plan.Announcement) { a.Cohort.Size++ })
	old.Commitment = s.sender(0).Commitment
	s.add(size, old, false)
	s.exact(s.released(s.run(), map[uint32]wire.Refusal{size: wire.RefusalAlreadyEnrolled}))
}

// However large the cohort, the shuffler sends a few chunks ahead of the analyzer's answers, and keeps no more.
func TestTheShufflerWaitsForAnswers(t *testing.T) {
	t.Parallel()
	s := newDeployment(t).newScene(60) // 12 chunks
	ctx, cancel := context.WithCancel(s.Context())
	defer cancel()
	ended := make(chan error, 1)
	go func() {
		_, err := s.mixer(s.mixDisk, recorded{s.toMix(), s}).Release(ctx, s.release, &wire.Manifest{})
		ended <- err
	}()
	left := func() int {
		s.mu.Lock()
		defer s.mu.Unlock()
		return len(s.sent)
	}
	const want = 1 + ahead + 2 // the header, what waits, and what each of the two steps works on
	testbed.Eventually(t, "as many chunks left as may", func() bool { return left() >= want })
	time.Sleep(time.Second) // in which one too many would leave
	cancel()
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	if n := left(); n != want {
		t.Errorf("%d chunks left without an answer, want %d", n, want)
	}
}
