package analyzer

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/riffle-dp/riffle/internal/bus"
	"github.com/riffle-dp/riffle/internal/channel"
	"github.com/riffle-dp/riffle/internal/testing/testbed"
	devices "github.com/riffle-dp/riffle/pkg/channel"
	"github.com/riffle-dp/riffle/pkg/channel/envelope"
	"github.com/riffle-dp/riffle/pkg/glm"
	"github.com/riffle-dp/riffle/pkg/plan"
	"github.com/riffle-dp/riffle/pkg/wire"
)

// newCentral is a scene in which people trust the analyzer, and its state folder.
func newCentral(t *testing.T) (s *scene, state string) {
	t.Helper()
	s, state = newScene(t, glm.Practical), t.TempDir()
	s.config.Terms.Channel, s.config.Terms.MaxShift, s.config.Terms.VarianceRatio = plan.Central, 0, 0
	s.config.Disk, s.config.Registrar = channel.Folder(state), s.Registrar.Public()
	return s, state
}

// envelopes is a release of the sealed envelopes of a cohort whose devices have these numbers and those after it.
func (s *scene) envelopes(a *plan.Announcement, digest [32]byte, from uint32) *release {
	s.t.Helper()
	id, credential := s.Host(1000)
	d, err := envelope.NewDevice(a, digest)
	s.must(err)
	var vectors [][]float64
	for _, e := range a.Encodings {
		vectors = append(vectors, make([]float64, len(e.Coordinates)))
	}
	var payload []byte
	for i := range uint32(cohort) {
		by := devices.Sender{Identity: id, Credential: credential, Number: from + i}
		payload, err = d.Append(payload, by, vectors, rand.NewChaCha8([32]byte{byte(i)}))
		s.must(err)
	}
	return s.sealedRelease(a, digest, payload)
}

// sealedRelease is a release of a cohort's sealed envelopes, in one chunk.
func (s *scene) sealedRelease(a *plan.Announcement, digest [32]byte, payload []byte) *release {
	s.t.Helper()
	chunk, err := wire.BuildChunk(wire.Chunk{Epoch: a.Epoch, Payload: payload})
	s.must(err)
	all := wire.ChunksDigest([][32]byte{wire.ChunkDigest(chunk)})
	return &release{chunks: [][]byte{chunk}, manifest: &wire.Manifest{
		Deployment: testbed.Deployment, Epoch: a.Epoch, Announcement: digest[:], Outcome: wire.Released,
		Enrolled: a.Cohort.Size, Reports: cohort, Messages: cohort, Chunks: 1, ChunksDigest: all[:],
		ReportsDigest: make([]byte, 32), MessagesRoot: rootOf(payload, len(payload)/cohort),
	}}
}

// An analyzer that crashes between adding its noise and signing the counts signs the sums that it stored, and keeps
// them for a broker whose data is set back. With a state folder that is older than its counts it does not go on.
func TestCentralSignsTheNoiseThatItStored(t *testing.T) {
	t.Parallel()
	s, state := newCentral(t)
	s.crash = func(after string) error {
		if after == before+wire.KindCounts {
			return errCrash
		}
		return nil
	}
	s.start()
	a, digest := s.announcement(1, 0)
	s.publish(s.envelopes(a, digest, 0))
	s.end()
	if err := s.stop(); !errors.Is(err, errCrash) {
		t.Fatalf("ended with %v", err)
	}
	stored, err := os.ReadFile(filepath.Join(state, "noised-1-0"))
	s.must(err)
	s.crash = nil
	s.start()
	c := s.counts(1, 0)
	var sums []byte
	for _, r := range c.Releases {
		for _, ones := range r.Ones {
			sums = binary.BigEndian.AppendUint64(sums, ones)
		}
	}
	if c.Destroyed || len(sums) == 0 || !bytes.Contains(stored, sums) {
		t.Errorf("signed are other sums than those that were stored: %v", c)
	}
	s.announcement(2, 0) // so that the first epoch is forgotten
	if kept, err := os.ReadFile(filepath.Join(state, "noised-1-0")); err != nil || !bytes.Equal(kept, stored) {
		t.Errorf("the noised sums are not kept: %v", err)
	}
	s.must(s.stop())
	s.config.Disk = channel.Folder(t.TempDir())
	s.start()
	s.end()
	if err := s.stop(); !errors.Is(err, channel.ErrOldState) {
		t.Errorf("with an empty state folder: %v", err)
	}
}

// The channels that must remember whom they counted are refused without a disk.
func TestStateIsNeededWhereDevicesAreRemembered(t *testing.T) {
	t.Parallel()
	for c, needed := range map[plan.Channel]bool{
		plan.Shuffle: false, plan.Shares: true, plan.Local: false, plan.Central: true,
	} {
		s, _ := newCentral(t)
		s.config.Terms.Channel, s.config.Disk = c, nil
		if c == plan.Shuffle {
			s.config.Terms = testbed.Terms()
		}
		if _, err := New(s.config); (err != nil) != needed {
			t.Errorf("%s without a disk: %v", c, err)
		}
	}
}

// A deployment keeps its channel. What is said of a change is that, and not that a state folder is old.
func TestTheChannelOfADeploymentStays(t *testing.T) {
	t.Parallel()
	s, _ := newCentral(t)
	central, shuffled := s.config.Terms, testbed.Terms()
	s.config.Terms = shuffled
	s.start()
	a, digest := s.announcement(1, 0)
	r, _ := s.honest(a, digest, cohort)
	s.publish(r)
	s.announcement(2, 0)
	s.must(s.stop())
	s.config.Terms = central
	s.start()
	s.end()
	err := s.stop()
	if !errors.Is(err, ErrConfigChanged) ||
		!strings.Contains(err.Error(), "privacy.channel shuffle, and is now central") {
		t.Errorf("with another channel: %v", err)
	}
	s.config.Terms = shuffled
	s.start()
	testbed.Eventually(t, "goes on", func() bool { return s.analyzer.Progress().Epoch == 2 })
	s.must(s.stop())
}

// outdated is a broker that was set up for a version without the channel of shares.
type outdated struct{ Broker }

func (outdated) PurgePrepared(context.Context, uint64, uint32) error { return bus.ErrForbidden }

func (outdated) PublishPrepared(context.Context, uint64, uint32, uint32, []byte) error {
	return bus.ErrForbidden
}

// On such a broker the analyzer of shares says what to do, before it announces anything. Other channels run.
func TestSharesNeedABrokerThatKnowsThem(t *testing.T) {
	t.Parallel()
	s, _ := newCentral(t)
	s.config.Bus = outdated{s.config.Bus}
	central := s.config.Terms.Channel
	s.config.Terms.Channel = plan.Shares
	s.start()
	s.end()
	err := s.stop()
	if !errors.Is(err, bus.ErrForbidden) || !strings.Contains(err.Error(), "run riffle broker provision again") {
		t.Errorf("ended with %v", err)
	}
	if all, err := s.config.Bus.ReadAnnouncements(s.Context()); err != nil || len(all) > 0 {
		t.Errorf("%d announcements, %v", len(all), err)
	}
	s.config.Terms.Channel = central
	s.start()
	s.announcement(1, 0)
	s.must(s.stop())
}

// unprovisioned is a broker that grants the channel of shares what it needs, and lacks its stream until it is mended.
type unprovisioned struct {
	Broker
	mended *atomic.Bool
}

// PurgePrepared is repeated while the stream is missing, as *bus.Conn does.
func (u unprovisioned) PurgePrepared(ctx context.Context, epoch uint64, round uint32) error {
	if u.mended.Load() {
		return u.Broker.PurgePrepared(ctx, epoch, round)
	}
	<-ctx.Done()
	return fmt.Errorf("%w: %w (%w)", bus.ErrUnknown, context.Cause(ctx), bus.ErrUnprovisioned)
}

// On such a broker the analyzer of shares says in readiness what to do, announces nothing, and goes on by itself once
// the broker was provisioned again.
func TestSharesSayThatTheirStreamIsMissing(t *testing.T) {
	t.Parallel()
	s, _ := newCentral(t)
	var mended atomic.Bool
	told := make(chan error, 8)
	s.config.Bus = unprovisioned{s.config.Bus, &mended}
	s.config.Terms.Channel = plan.Shares
	s.config.Notice = func(condition string, err error) {
		if condition == provisionCondition {
			told <- err
		}
	}
	next := func() error {
		select {
		case err := <-told:
			return err
		case <-time.After(testbed.Patience):
			t.Fatal("readiness is not told of the missing stream, or of its coming")
			return nil
		}
	}
	s.start()
	if err := next(); !errors.Is(err, bus.ErrUnprovisioned) ||
		!strings.Contains(err.Error(), "run riffle broker provision again") {
		t.Errorf("told %v", err)
	}
	if all, err := s.config.Bus.ReadAnnouncements(s.Context()); err != nil || len(all) > 0 {
		t.Errorf("%d announcements, %v", len(all), err)
	}
	mended.Store(true)
	if err := next(); err != nil {
		t.Errorf("after the broker was provisioned: %v", err)
	}
	s.announcement(1, 0)
	s.must(s.stop())
}
