package shuffler

import (
	"bytes"
	"context"
	"errors"
	"testing"

	"github.com/riffle-dp/riffle/internal/bus"
	"github.com/riffle-dp/riffle/internal/channel"
	counting "github.com/riffle-dp/riffle/internal/channel/shares"
	"github.com/riffle-dp/riffle/internal/role"
	"github.com/riffle-dp/riffle/internal/role/entropy"
	"github.com/riffle-dp/riffle/internal/testing/testbed"
	reporting "github.com/riffle-dp/riffle/pkg/channel"
	"github.com/riffle-dp/riffle/pkg/channel/shares"
	"github.com/riffle-dp/riffle/pkg/glm"
	"github.com/riffle-dp/riffle/pkg/glm/learner"
	"github.com/riffle-dp/riffle/pkg/plan"
	"github.com/riffle-dp/riffle/pkg/wire"
)

// sharesRound announces a round of shares for so many people to the shuffler of a scene.
func (s *scene) sharesRound(people int) *plan.Announcement {
	s.t.Helper()
	learner, err := learner.New(testbed.Learner(glm.Practical, people))
	s.must(err)
	step := learner.Next()
	step.Cohort = people
	terms := testbed.Terms()
	terms.Channel = plan.Shares
	a := s.Draw(step, terms, 1, nil)
	a.Timing.Grace *= 1000
	return a
}

// sendShares has a device report, bound to the commitment of the reply to its enrolment.
func (s *scene) sendShares(device uint32, commitment []byte, number uint32) {
	s.t.Helper()
	s.send(s.shareReport(device, commitment, number))
}

// shareReport makes the sealed report that sendShares sends.
func (s *scene) shareReport(device uint32, commitment []byte, number uint32) []byte {
	s.t.Helper()
	d, err := shares.NewDevice(s.opened, s.digest)
	s.must(err)
	var vectors [][]float64
	for _, e := range s.opened.Encodings {
		vectors = append(vectors, make([]float64, len(e.Coordinates)))
	}
	by := reporting.Sender{Identity: s.host, Credential: s.credential, Number: number, Commitment: commitment}
	payload, err := d.Append(nil, by, vectors, testbed.Source())
	s.must(err)
	return s.Seal(wire.Report{
		Announcement: s.digest, Epoch: s.opened.Epoch, Round: s.opened.Round, Slot: device, Device: device,
		Payload: payload,
	}, s.host)
}

// counts runs the analyzer's side of the round until it has counts.
func (s *scene) sharesCounts() ([]wire.ReleaseCounts, error) {
	s.t.Helper()
	disk := channel.Folder(s.t.TempDir())
	participants, err := channel.OpenParticipants(disk, testbed.Deployment, nil)
	s.must(err)
	c := &counting.Counting{
		Deployment: testbed.Deployment, Identity: s.Analyzer, Participants: participants,
		Broker: struct {
			*bus.MixedStream
			*bus.PreparedStream
			*bus.AuditStream
		}{s.analyzer.Mixed, s.analyzer.Prepared, s.analyzer.Audit},
		Verifier: reporting.NewVerifier(wire.Party{Deployment: testbed.Deployment, Key: s.Registrar.Public()}),
		Disk:     disk, Source: entropy.New(), Clock: role.SystemClock(), Log: testbed.Log(),
	}
	ctx, stop := context.WithCancel(s.Context())
	defer stop()
	go func() { // in place of the role's consumer, which the scene has already
		for seen := 0; ctx.Err() == nil; {
			s.mu.Lock()
			news := s.mixed[seen:]
			seen = len(s.mixed)
			s.mu.Unlock()
			for _, m := range news {
				if m.Manifest {
					continue
				}
				c.Take(channel.Part{Epoch: m.Epoch, Round: m.Round, Payload: m.Payload})
			}
			_ = role.Sleep(ctx, role.SystemClock(), tick/20)
		}
	}()
	return c.Count(ctx, &channel.Round{Announcement: s.opened, Digest: s.digest, Key: s.AnalyzerKey},
		func(context.Context) (*wire.Manifest, error) { return s.manifest(1, 0), nil })
}

// A round of shares goes through the whole shuffler: devices get its commitment when they enrol, what the analyzer
// refuses is taken out after the commit with its reason, by a shuffler that was started anew, too, and the manifest
// names the rest.
func TestARoundOfSharesLeavesWithoutWhatWasRefused(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	s.start()
	s.open(s.sharesRound(12))
	var commitment []byte
	for device := range uint32(12) {
		reply := s.ask(device)
		if !reply.Enrolled || len(reply.Commitment) != shares.CommitmentSize ||
			device > 0 && !bytes.Equal(reply.Commitment, commitment) {
			t.Fatalf("device %d: %v", device, reply)
		}
		commitment = reply.Commitment
	}
	for device := range uint32(11) {
		s.sendShares(device, commitment, device)
	}
	s.admitted(11)
	s.must(s.stop())
	s.start()                       // has the layout and the members from the journal
	s.sendShares(11, commitment, 5) // in another device's name
	counts, err := s.sharesCounts()
	if err != nil || len(counts) != len(s.opened.Encodings) {
		t.Fatalf("%v, %v", counts, err)
	}
	m := s.manifest(1, 0)
	if m.Reports != 11 || m.Messages != 11 || m.Enrolled != 12 || m.Outcome != wire.Released {
		t.Errorf("manifest %+v", m)
	}
	s.finished()
	refused := map[wire.Refusal]int{wire.RefusalDuplicate: 1}
	testbed.RefusedIn(t, m, refused, refused)
	s.account(11, 0, map[wire.Refusal]int{wire.RefusalDuplicate: 1})
}

// A round of shares that the analyzer accepts too few reports of is destroyed.
func TestARoundOfSharesWithTooFewAcceptedReportsIsDestroyed(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	s.start()
	s.open(s.sharesRound(12))
	for device := range uint32(12) {
		s.sendShares(device, s.ask(device).Commitment, 0)
	}
	ctx, stop := context.WithCancel(s.Context())
	go func() { defer stop(); _, _ = s.sharesCounts() }()
	m := s.manifest(1, 0)
	<-ctx.Done()
	if m.Outcome != wire.Destroyed || m.Messages != 0 {
		t.Errorf("manifest %+v", m)
	}
	s.finished()
	s.account(0, 12, nil)
}

// An announcement of a channel that the shuffler does not carry opens nothing.
func TestARoundThatTheChannelCannotCarryIsRefused(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	s.start()
	a := s.sharesRound(12)
	a.Plan.Rounds[0].Releases = append(a.Plan.Rounds[0].Releases, a.Plan.Rounds[0].Releases[0])
	if _, err := s.shuffler.channels[plan.Shares].Layout(a); !errors.Is(err, shares.ErrRound) {
		t.Errorf("a release without an encoding: %v", err)
	}
}
