package fakebroker_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/riffle-dp/riffle/internal/bus"
)

func TestReportsAreStoredInOrder(t *testing.T) {
	conforms(t, func(r *rig) {
		a, b, s := r.connect(bus.Randomizer), r.another(), r.connect(bus.Shuffler)
		last := func() uint64 {
			n, err := s.LastReport(r.ctx())
			r.must(err)
			return n
		}
		r.equal("last of none", last(), 0)
		r.equal("stored of none", r.stored(s), []string(nil))
		r.report(a, "one")
		r.report(b, "two")
		r.must(a.PublishReport(r.ctx(), 1, 1, "other", []byte("of another round")))
		r.report(a, "three")
		r.equal("last", last(), 4)
		r.equal("stored", r.stored(s), []string{"1:report one", "2:report two", "4:report three"})
		payload, err := s.GetReport(r.ctx(), 3)
		r.equal("report 3", string(payload), "of another round")
		r.want("report 3", err, nil)
		for _, n := range []uint64{0, 5} {
			_, err = s.GetReport(r.ctx(), n)
			r.want(fmt.Sprintf("report %d", n), err, bus.ErrGone)
		}
		var from []uint64
		r.must(s.StoredReports(r.ctx(), 1, 0, 2, func(n uint64, _ []byte) error { from = append(from, n); return nil }))
		r.equal("from 2 on", from, []uint64{2, 4})
		stop := errors.New("enough")
		r.want("a handler that stops", s.StoredReports(r.ctx(), 1, 0, 0, func(uint64, []byte) error { return stop }),
			stop)
	})
}

func TestRepeatedReportIsStoredOnce(t *testing.T) {
	conforms(t, func(r *rig) {
		a, b, s := r.connect(bus.Randomizer), r.another(), r.connect(bus.Shuffler)
		for range 3 {
			r.report(a, "one")
		}
		r.report(b, "one") // the id says nothing of the host
		r.equal("stored", r.stored(s), []string{"1:report one"})
		r.must(a.PublishReport(r.ctx(), 1, 0, "one", []byte("other payload")))
		r.must(a.PublishReport(r.ctx(), 1, 1, "one", []byte("report one")))
		r.report(a, "two")
		r.equal("stored", r.stored(s), []string{"1:report one", "2:other payload", "4:report two"})
		r.must(s.PurgeReports(r.ctx(), 4))
		r.report(a, "one") // its message is gone; the id is known
		r.equal("stored after the purge", r.stored(s), []string(nil))
		r.report(a, "three")
		r.equal("stored", r.stored(s), []string{"5:report three"})
	})
}

func TestRestartedBrokerKnowsTheIdsOfWhatIsStored(t *testing.T) {
	conforms(t, func(r *rig) {
		a, s := r.connect(bus.Randomizer), r.connect(bus.Shuffler)
		r.report(a, "one")
		r.report(a, "two")
		r.must(s.PurgeReports(r.ctx(), 1))
		r.restart()
		r.report(a, "two")
		r.equal("stored", r.stored(s), []string{"2:report two"})
		r.report(a, "one") // purged: its id went with it
		r.equal("stored", r.stored(s), []string{"2:report two", "3:report one"})
	})
}

func TestRepetitionPastTheWindowIsStoredAgain(t *testing.T) {
	conforms(t, func(r *rig) {
		a, s := r.connect(bus.Randomizer), r.connect(bus.Shuffler)
		r.report(a, "one")
		r.until("stored again", func() bool {
			r.report(a, "one")
			n, err := s.LastReport(r.ctx())
			r.must(err)
			return n == 2
		})
		r.equal("stored", r.stored(s), []string{"1:report one", "2:report one"})
	}, func(p *bus.ProvisionOptions) { p.DedupWindow = 500 * time.Millisecond })
}

func TestPurgeOfReports(t *testing.T) {
	conforms(t, func(r *rig) {
		a, s := r.connect(bus.Randomizer), r.connect(bus.Shuffler)
		for i := range 5 {
			r.report(a, fmt.Sprint(i))
		}
		r.must(s.PurgeReports(r.ctx(), 0))
		r.equal("after a purge of none", len(r.stored(s)), 5)
		r.must(s.PurgeReports(r.ctx(), 3))
		r.equal("stored", r.stored(s), []string{"4:report 3", "5:report 4"})
		_, err := s.GetReport(r.ctx(), 3)
		r.want("purged report", err, bus.ErrGone)
		r.must(s.PurgeReports(r.ctx(), 9)) // beyond the end: the sequences go on behind it
		r.equal("stored", r.stored(s), []string(nil))
		n, err := s.LastReport(r.ctx())
		r.must(err)
		r.equal("last of none", n, 0)
		r.report(a, "new")
		r.equal("sequences go on", r.stored(s), []string{"10:report new"})
		r.backlog(s, bus.Backlog{Waiting: 1, Floor: 9, Sent: 9})
		r.equal("delivered", payloads(r.reading(s), 1), []string{"10:report new"})
	})
}

func TestChunksAreStoredOnce(t *testing.T) {
	conforms(t, func(r *rig) {
		s, a := r.connect(bus.Shuffler), r.connect(bus.Analyzer)
		put := func(index uint32, payload string) error { return s.PublishChunk(r.ctx(), 1, 0, index, []byte(payload)) }
		for _, index := range []uint32{1, 0, 10, 2} {
			r.must(put(index, fmt.Sprint("chunk ", index)))
		}
		r.must(s.PublishChunk(r.ctx(), 1, 1, 0, []byte("of another round")))
		r.must(put(10, "chunk 10"))
		err := put(10, "other")
		r.want("other bytes", err, bus.ErrExists)
		var exists *bus.ExistsError
		if errors.As(err, &exists) {
			r.equal("what is stored", string(exists.Stored), "chunk 10")
			r.equal("its name", exists.Name, "riffle.v1.mixed.1.0.10")
		}
		r.must(s.PublishManifest(r.ctx(), 1, 0, []byte("manifest")))
		r.want("another manifest", s.PublishManifest(r.ctx(), 1, 0, []byte("other")), bus.ErrExists)
		want := []string{"1:chunk 1", "0:chunk 0", "10:chunk 10", "2:chunk 2"} // as they were published
		r.equal("chunks", r.chunks(a), want)
		r.equal("chunks, to the shuffler", r.chunks(s), want)
		got, err := a.ReadChunk(r.ctx(), 1, 0, 10)
		r.must(err)
		r.equal("chunk 10", string(got), "chunk 10")
		_, err = a.ReadChunk(r.ctx(), 1, 0, 3)
		r.want("chunk 3", err, bus.ErrGone)

		r.must(a.PurgeMixed(r.ctx(), 1, 0))
		r.equal("chunks after the purge", r.chunks(a), []string(nil))
		other, err := a.ReadChunk(r.ctx(), 1, 1, 0)
		r.must(err)
		r.equal("the other round's", string(other), "of another round")
		manifest, err := a.ReadManifest(r.ctx(), 1, 0)
		r.must(err)
		r.equal("the manifest stays", string(manifest), "manifest")
		r.must(put(10, "other")) // its place is free again
		r.equal("chunks", r.chunks(a), []string{"10:other"})
		_, err = a.ReadManifest(r.ctx(), 2, 0)
		r.want("manifest of another epoch", err, bus.ErrGone)
	})
}

func TestLongScan(t *testing.T) { // more than one batch
	conforms(t, func(r *rig) {
		s, a := r.connect(bus.Shuffler), r.connect(bus.Analyzer)
		const n = 300
		for i := range uint32(n) {
			r.must(s.PublishChunk(r.ctx(), 1, 0, i, []byte{byte(i)}))
		}
		var next uint32
		r.must(a.ReadChunks(r.ctx(), 1, 0, func(index uint32, payload []byte) error {
			if index != next || !bytes.Equal(payload, []byte{byte(next)}) {
				return fmt.Errorf("chunk %d %x, want %d", index, payload, next)
			}
			next++
			return nil
		}))
		r.equal("chunks", next, n)
	})
}

func TestAuditLogConditions(t *testing.T) {
	conforms(t, func(r *rig) {
		s, a, auditor := r.connect(bus.Shuffler), r.connect(bus.Analyzer), r.connect(bus.Auditor)
		after := func(c client, kind, payload string, last, want uint64, fails error) {
			t.Helper()
			n, err := c.AppendAuditAfter(r.ctx(), kind, []byte(payload), last)
			r.want("append "+payload, err, fails)
			r.equal("place of "+payload, n, want)
		}
		after(s, "pool", "s1", 7, 0, bus.ErrMoved) // there is none yet
		after(s, "pool", "s1", 0, 1, nil)
		after(s, "pool", "s1", 0, 0, bus.ErrMoved) // its own repetition: the caller must read
		after(s, "pool", "s1", 1, 0, bus.ErrMoved) // is there already
		after(a, "counts", "a1", 0, 2, nil)        // another role's newest entry is not asked about
		after(s, "draw", "s2", 0, 0, bus.ErrMoved)
		after(s, "draw", "s2", 2, 0, bus.ErrMoved)
		after(s, "draw", "s2", 1, 3, nil) // of whatever kind
		for range 2 {
			r.must(s.AppendAudit(r.ctx(), "pool", []byte("s3")))
		}
		r.must(s.AppendAudit(r.ctx(), "draw", []byte("s3"))) // of another kind it is another statement
		r.equal("the shuffler's", r.said(s, bus.Shuffler, 0),
			[]string{"1:shuffler:pool:s1", "3:shuffler:draw:s2", "4:shuffler:pool:s3", "5:shuffler:draw:s3"})
		r.equal("from 4 on", r.said(s, bus.Shuffler, 4), []string{"4:shuffler:pool:s3", "5:shuffler:draw:s3"})
		var pools []string
		r.must(s.Said(r.ctx(), bus.Shuffler, "pool",
			func(b []byte) error { pools = append(pools, string(b)); return nil }))
		r.equal("pools", pools, []string{"s1", "s3"})
		for payload, want := range map[string]bool{"s1": true, "s2": false} {
			got, err := a.Audited(r.ctx(), bus.Shuffler, "pool", []byte(payload))
			r.must(err)
			r.equal("audited "+payload, got, want)
		}
		got, err := s.Audited(r.ctx(), bus.Analyzer, "pool", []byte("s1"))
		r.must(err)
		r.equal("what another role said", got, false)
		read := func(f bus.AuditFilter) (all []uint64) {
			r.must(auditor.ReadAudit(r.ctx(), f,
				func(s bus.Statement) error { all = append(all, s.Sequence); return nil }))
			return all
		}
		r.equal("all", read(bus.AuditFilter{}), []uint64{1, 2, 3, 4, 5})
		r.equal("the analyzer's", read(bus.AuditFilter{Role: bus.Analyzer}), []uint64{2})
		r.equal("pools", read(bus.AuditFilter{Kind: "pool"}), []uint64{1, 4})
		r.equal("after 3", read(bus.AuditFilter{After: 3}), []uint64{4, 5})
		r.must(a.AppendAudit(r.ctx(), "pool", []byte("another role's")))
		r.must(s.AppendAudit(r.ctx(), "pool-1", []byte("of another kind")))
		pools = nil
		r.must(s.Said(r.ctx(), bus.Shuffler, "pool",
			func(b []byte) error { pools = append(pools, string(b)); return nil }))
		r.equal("pools, and no others", pools, []string{"s1", "s3"})
		stop := errors.New("enough")
		r.want("a handler that stops",
			s.Said(r.ctx(), bus.Shuffler, "pool", func([]byte) error { return stop }), stop)
	})
}

func TestPreparedAnswers(t *testing.T) {
	conforms(t, func(r *rig) {
		s, a := r.connect(bus.Shuffler), r.connect(bus.Analyzer)
		news, stop, err := s.PreparedNews(1, 0)
		r.must(err)
		defer stop()
		_, err = s.ReadPrepared(r.ctx(), 1, 0, 0)
		r.want("no answer", err, bus.ErrGone)
		r.must(a.PublishPrepared(r.ctx(), 1, 0, 0, []byte("answer")))
		r.must(a.PublishPrepared(r.ctx(), 1, 0, 0, []byte("answer")))
		r.want("another answer", a.PublishPrepared(r.ctx(), 1, 0, 0, []byte("other")), bus.ErrExists)
		select {
		case <-news:
		case <-r.ctx().Done():
			r.Error("no news of an answer")
		}
		got, err := s.ReadPrepared(r.ctx(), 1, 0, 0)
		r.must(err)
		r.equal("answer", string(got), "answer")
		r.must(a.PublishPrepared(r.ctx(), 1, 1, 0, []byte("of another round")))
		r.must(a.PurgePrepared(r.ctx(), 1, 0))
		_, err = s.ReadPrepared(r.ctx(), 1, 0, 0)
		r.want("purged answer", err, bus.ErrGone)
		_, err = s.ReadPrepared(r.ctx(), 1, 1, 0)
		r.want("another round's answer", err, nil)
	})
}

func TestRetainedChunks(t *testing.T) {
	conforms(t, func(r *rig) {
		s, auditor := r.connect(bus.Shuffler), r.connect(bus.Auditor)
		r.must(s.CanRetain(r.ctx()))
		retain := func(index uint32, payload string, window time.Duration) error {
			return s.PublishRetained(r.ctx(), 1, 0, index, []byte(payload), window)
		}
		read := func() (all []string) {
			r.must(auditor.ReadRetained(r.ctx(), 1, 0, func(k bus.Retained) error {
				if age := time.Since(k.Stored); age < -time.Second || age > time.Hour {
					r.Errorf("stored %s", k.Stored)
				}
				all = append(all, fmt.Sprintf("%d:%s:%s", k.Index, k.Sealed, k.Window))
				return nil
			}))
			return all
		}
		r.must(retain(1, "long", time.Hour+time.Millisecond)) // whole seconds
		r.must(retain(1, "sealed anew", 2*time.Hour))
		r.must(s.PublishRetained(r.ctx(), 1, 10, 1, []byte("of another round"), time.Hour))
		r.must(retain(0, "short", time.Second))
		r.until("gone", func() bool { return len(read()) == 1 })
		r.equal("retained", read(), []string{"1:long:1h0m0s"})
		r.must(retain(0, "short again", time.Hour)) // its place is free
		r.equal("retained", read(), []string{"1:long:1h0m0s", "0:short again:1h0m0s"})
		for _, window := range []time.Duration{0, bus.MinRetain - 1, bus.MaxRetain + 1} {
			if err := retain(3, "x", window); err == nil {
				r.Errorf("retained for %s", window)
			}
		}
	})
}

func TestSegments(t *testing.T) {
	conforms(t, func(r *rig) {
		s := r.connect(bus.Shuffler)
		r.must(s.PublishSegment(r.ctx(), 1, 0, "task", 3, []byte("segment")))
		r.must(s.PublishSegment(r.ctx(), 1, 0, "task", 3, []byte("segment")))
		r.must(s.PublishSegment(r.ctx(), 1, 1, "task", 3, []byte("of another round")))
		r.want("another", s.PublishSegment(r.ctx(), 1, 0, "task", 3, []byte("other")), bus.ErrExists)
		r.want("bad name", s.PublishSegment(r.ctx(), 1, 0, "a.b", 3, []byte("x")), bus.ErrBadName)
		got, err := r.connect(bus.Shuffler).ReadSegment(r.ctx(), 1, 0, "task", 3) // another process
		r.must(err)
		r.equal("segment", string(got), "segment")
		_, err = s.ReadSegment(r.ctx(), 1, 0, "task", 2)
		r.want("another bucket", err, bus.ErrGone)
		r.must(s.PurgeSegments(r.ctx()))
		for round := range uint32(2) { // what a destroyed release left must not fill the stream for ever
			_, err = s.ReadSegment(r.ctx(), 1, round, "task", 3)
			r.want("purged", err, bus.ErrGone)
		}
	})
}

func TestNamesAndSizesAreChecked(t *testing.T) {
	conforms(t, func(r *rig) {
		h, s := r.connect(bus.Randomizer), r.connect(bus.Shuffler)
		huge := make([]byte, bus.MaxMessage+1)
		for _, id := range []string{"", "a.b", "a b", "*", ">", "ü", string(make([]byte, 129))} {
			r.want("message id", h.PublishReport(r.ctx(), 1, 0, id, nil), bus.ErrBadName)
			r.want("audit kind", s.AppendAudit(r.ctx(), id, nil), bus.ErrBadName)
			_, err := s.AppendAuditAfter(r.ctx(), id, nil, 0)
			r.want("audit kind", err, bus.ErrBadName)
			_, err = s.Audited(r.ctx(), bus.Analyzer, id, nil)
			r.want("audit kind", err, bus.ErrBadName)
			r.want("audit kind", s.Said(r.ctx(), bus.Analyzer, id, nil), bus.ErrBadName)
			r.want("role", s.SaidSince(r.ctx(), bus.Role(id), 0, nil), bus.ErrBadName)
		}
		r.want("huge chunk", s.PublishChunk(r.ctx(), 1, 0, 0, huge), bus.ErrTooLarge)
		_, err := h.EnrolOnce(r.ctx(), huge)
		r.want("huge request", err, bus.ErrTooLarge)
		_, err = h.Enrol(r.ctx(), huge)
		r.want("huge request", err, bus.ErrTooLarge)
		_, err = s.AskLead(r.ctx(), huge)
		r.want("huge question", err, bus.ErrTooLarge)
		r.must(s.PublishChunk(r.ctx(), 1, 0, 0, huge[:bus.MaxMessage]))
	})
}

func TestCallsOfAnEndedCallerAndOfAClosedConnection(t *testing.T) {
	conforms(t, func(r *rig) {
		h, s := r.connect(bus.Randomizer), r.connect(bus.Shuffler)
		over, cancel := context.WithCancel(r.ctx())
		cancel()
		err := h.PublishReport(over, 1, 0, "one", []byte("x"))
		r.want("publish", err, bus.ErrUnknown)
		r.want("publish", err, context.Canceled)
		r.want("read", func() error { _, err := s.GetReport(over, 1); return err }(), bus.ErrUnknown)
		r.want("reports", s.ReceiveReports(over, func(*bus.Delivery) {}), context.Canceled)
		r.equal("stored", r.stored(s), []string(nil))
		reading := r.reading(s)
		r.report(h, "one")
		reading.next()
		s.Close()
		r.want("reports at the end", reading.result(), bus.ErrClosed)
		r.want("publish", s.PublishChunk(r.ctx(), 1, 0, 0, nil), bus.ErrClosed)
		_, err = s.GetReport(r.ctx(), 1)
		r.want("read", err, bus.ErrClosed)
		r.want("serve", s.ServeEnrol(r.ctx(), 1, nil), bus.ErrClosed)
	})
}
