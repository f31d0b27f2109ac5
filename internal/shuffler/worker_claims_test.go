package shuffler

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"testing"
	"time"

	"github.com/riffle-dp/riffle/internal/shuffler/cohort"
	"github.com/riffle-dp/riffle/internal/shuffler/work"
	"github.com/riffle-dp/riffle/pkg/glm"
	"github.com/riffle-dp/riffle/pkg/wire"
)

// batchOf is what a worker asks about these claims.
func batchOf(id byte, all ...work.Claim) []byte { return work.Batch(work.BatchID{id}, all) }

// claimed is the claim of a report that the device of that slot makes, at a place in the stream of reports.
func (s *scene) claimed(slot uint32, sequence uint64) work.Claim {
	c := work.Claim{Epoch: s.opened.Epoch, Sequence: sequence, Slot: slot, Device: cohort.DeviceID{Number: slot},
		Announced: s.digest}
	copy(c.Device.Host[:], s.host.Public())
	binary.BigEndian.PutUint64(c.Digest[:], sequence)
	return c
}

// verdicts are the lead's.
func (s *scene) verdicts(body []byte) []byte {
	s.t.Helper()
	b, err := s.shuffler.reports.claims(s.Context(), body)
	s.must(err)
	var reply work.Answer
	s.must(json.Unmarshal(b, &reply))
	return reply.Verdicts
}

// A batch that is asked about again, because the answer was lost or because the broker repeats it, is decided and
// counted once; the same report in another batch is the same member, and at another place in the stream it is a copy.
func TestClaimsAreCountedOnce(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	s.start()
	s.open(s.announcement())
	s.enrol(3)
	one, refused := s.claimed(1, 1001), s.claimed(2, 1002)
	refused.Refused = wire.RefusalBadSignature
	unknown := work.Claim{Epoch: 1, Sequence: 1003, Unopened: true}
	for range 3 {
		v := s.verdicts(batchOf(1, one, refused, unknown))
		if len(v) != 3 || v[0] != work.Settled || v[1] != work.Settled || v[2] != work.Open {
			t.Fatalf("verdicts %v", v)
		}
	}
	want := map[wire.Refusal]int{wire.RefusalBadSignature: 1}
	s.account(0, 0, want)
	s.verdicts(batchOf(2, one))
	s.account(0, 0, want)
	again := one
	again.Sequence++
	s.verdicts(batchOf(3, again))
	want[wire.RefusalDuplicate] = 1
	s.account(0, 0, want)
	if n := s.shuffler.Held(); n != 1 {
		t.Errorf("%d reports are held", n)
	}
	for what, body := range map[string][]byte{
		"short": nil, "half a claim": make([]byte, len(work.BatchID{})+work.ClaimSize/2),
		"too many": make([]byte, len(work.BatchID{})+(work.MaxBatch+1)*work.ClaimSize),
	} {
		if _, err := s.shuffler.reports.claims(s.Context(), body); err == nil {
			t.Errorf("%s: answered", what)
		}
	}
}

// No worker hears of a decision, and so none acknowledges a report, before the decision is durable.
func TestNoVerdictBeforeItIsDurable(t *testing.T) {
	t.Parallel()
	s, disk := onSlowDisk(t)
	s.enrol(2)
	release := disk.hold()
	t.Cleanup(release)
	body := batchOf(1, s.claimed(0, 1001), s.claimed(1, 1002))
	heard := make(chan error, 1)
	go func() {
		_, err := s.shuffler.reports.claims(context.Background(), body)
		heard <- err
	}()
	select {
	case err := <-heard:
		t.Fatalf("answered before the decision was durable: %v", err)
	case <-time.After(quiet):
	}
	release()
	s.must(<-heard)
}

// BenchmarkClaims is how many decisions the lead makes in a second: batches of claims of enrolled devices, each of
// which is decided on and made durable in the journal.
func BenchmarkClaims(b *testing.B) {
	s := newScene(b)
	s.start()
	size := max(b.N+1, 64) // one is missing, so that the round waits
	a := s.Announcement(glm.Practical, size)
	a.Timing.Grace = time.Hour
	s.open(a)
	s.shuffler.mu.Lock()
	id := cohort.DeviceID{}
	copy(id.Host[:], s.host.Public())
	for i := range size {
		id.Number = uint32(i)
		_, _, ev, err := s.shuffler.state.Enrol(id, nil, 1, s.digest, time.Now())
		s.must(err)
		s.must(s.shuffler.state.Apply(ev))
		s.shuffler.keepEvent(ev)
	}
	latest := s.shuffler.latest
	s.shuffler.mu.Unlock()
	s.must(latest())
	b.ResetTimer()
	for i := 0; i < b.N; {
		var all []work.Claim
		for ; i < b.N && len(all) < work.MaxBatch; i++ {
			all = append(all, s.claimed(uint32(i), uint64(i)+1))
		}
		id := work.BatchID{}
		binary.BigEndian.PutUint64(id[:], uint64(i))
		s.verdicts(work.Batch(id, all))
	}
	b.StopTimer()
	decided := b.Elapsed()
	if n := s.shuffler.Held(); n != int64(b.N) {
		b.Fatalf("%d of %d were admitted", n, b.N)
	}
	b.ReportMetric(float64(b.N)/decided.Seconds(), "decisions/s")
}
