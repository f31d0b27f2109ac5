package fakebroker_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/riffle-dp/riffle/internal/bus"
	"github.com/riffle-dp/riffle/internal/testing/fakebroker"
)

// gate decides by what a test says of an op, as <client> <name> <subject> <nth>, and before or after it. It notes all.
type gate struct {
	mu     sync.Mutex
	before map[string]fakebroker.Verdict
	after  map[string]fakebroker.Verdict
	hold   map[string]chan struct{} // held up until it is closed
	seen   []string
}

func (g *gate) Before(ctx context.Context, op fakebroker.Op) fakebroker.Verdict {
	name := fmt.Sprintf("%s %s %s %d", op.Client, op.Name, op.Subject, op.Nth)
	g.mu.Lock()
	g.seen = append(g.seen, name)
	v, hold := g.before[name], g.hold[name]
	g.mu.Unlock()
	if hold != nil {
		select {
		case <-hold:
		case <-ctx.Done():
		}
	}
	return v
}

func (g *gate) After(_ context.Context, op fakebroker.Op) fakebroker.Verdict {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.after[fmt.Sprintf("%s %s %s %d", op.Client, op.Name, op.Subject, op.Nth)]
}

// ops are those of a name that came.
func (g *gate) ops(name string) (all []string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, s := range g.seen {
		if strings.Contains(s, " "+name+" ") {
			all = append(all, s)
		}
	}
	return all
}

// held is a rig with a gate, in a bubble.
type held struct {
	*rig
	*gate
	b               *fakebroker.Broker
	host, shuf, ana client
}

func gated(t *testing.T, o fakebroker.Options, f func(h *held)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		g := &gate{before: map[string]fakebroker.Verdict{}, after: map[string]fakebroker.Verdict{},
			hold: map[string]chan struct{}{}}
		o.Gate = g
		b := fakebroker.New(o)
		connect := func(r bus.Role, name string) client {
			c := b.Connect(r, name)
			t.Cleanup(c.Close)
			return memory(c)
		}
		f(&held{rig: &rig{T: t}, gate: g, b: b, host: connect(bus.Randomizer, "host"),
			shuf: connect(bus.Shuffler, "shuf"), ana: connect(bus.Analyzer, "ana")})
	})
}

func TestLostRequestIsMadeAgain(t *testing.T) {
	gated(t, fakebroker.Options{}, func(h *held) {
		h.before["host PublishReport riffle.v1.report.host 1"] = fakebroker.Lose
		h.report(h.host, "one")
		h.equal("tries", h.ops("PublishReport"),
			[]string{"host PublishReport riffle.v1.report.host 1", "host PublishReport riffle.v1.report.host 2"})
		h.equal("stored", h.stored(h.shuf), []string{"1:report one"})
		h.equal("repeats", h.host.Traffic().Repeats, 1)
	})
}

func TestLostAcknowledgementMakesARepetition(t *testing.T) {
	gated(t, fakebroker.Options{}, func(h *held) {
		h.after["host PublishReport riffle.v1.report.host 1"] = fakebroker.Lose
		h.after["shuf PublishChunk riffle.v1.mixed.1.0.0 1"] = fakebroker.Lose
		h.after["shuf AppendAuditAfter riffle.v1.audit.shuffler.pool 1"] = fakebroker.Lose
		h.report(h.host, "one")
		h.equal("a report, by its id", h.stored(h.shuf), []string{"1:report one"})
		h.must(h.shuf.PublishChunk(h.ctx(), 1, 0, 0, []byte("chunk")))
		h.equal("a chunk, by its place", h.chunks(h.ana), []string{"0:chunk"})
		_, err := h.shuf.AppendAuditAfter(h.ctx(), "pool", []byte("s"), 0)
		h.want("a statement, by its condition", err, bus.ErrMoved)
		h.equal("statements", h.said(h.shuf, bus.Shuffler, 0), []string{"1:shuffler:pool:s"})
	})
}

// TestRepetitionAfterTheWindow: the acknowledgement is lost for so long that the repetition is past the window.
func TestRepetitionAfterTheWindow(t *testing.T) {
	gated(t, fakebroker.Options{Streams: bus.ProvisionOptions{DedupWindow: 4 * time.Second}}, func(h *held) {
		h.after["host PublishReport riffle.v1.report.host 1"] = fakebroker.Lose
		h.report(h.host, "one")
		h.equal("stored", h.stored(h.shuf), []string{"1:report one", "2:report one"})
	})
}

func TestWhatArrivesTwice(t *testing.T) {
	gated(t, fakebroker.Options{}, func(h *held) {
		h.before["host PublishReport riffle.v1.report.host 1"] = fakebroker.Twice
		h.before["shuf PutKeys $KV.keys.shuffler 1"] = fakebroker.Twice
		h.before["shuf Deliver REPORTS.1 1"] = fakebroker.Twice
		h.before["shuf Ack REPORTS.1 1"] = fakebroker.Twice
		h.report(h.host, "one")
		h.equal("stored", h.stored(h.shuf), []string{"1:report one"})
		h.must(h.shuf.PutKeys(h.ctx(), []byte("k")))
		keys := run(h.rig, func(ctx ctx, came func(string)) error {
			return h.host.WatchKeys(ctx, func(_ bus.Role, b []byte) error { came(string(b)); return nil })
		})
		h.equal("keys have no id", keys.next()+keys.next(), "kk")
		reading := h.reading(h.shuf)
		one, same := reading.next(), reading.next()
		h.equal("delivered", shown(one)+" "+shown(same), "1:report one 1:report one")
		h.must(one.Ack())
		h.must(same.Ack())
		h.backlog(h.shuf, bus.Backlog{Floor: 1, Sent: 1})
	})
}

func TestLostDeliveryAndLostAckComeAgain(t *testing.T) {
	gated(t, fakebroker.Options{Streams: bus.ProvisionOptions{AckWait: 30 * time.Second}}, func(h *held) {
		h.before["shuf Deliver REPORTS.1 1"] = fakebroker.Lose
		h.before["shuf Ack REPORTS.2 1"] = fakebroker.Lose
		h.report(h.host, "one")
		h.report(h.host, "two")
		began := time.Now()
		reading := h.reading(h.shuf)
		two := reading.next()
		h.must(two.Ack())
		h.equal("again", payloads(reading, 2), []string{"1:report one+", "2:report two+"})
		h.equal("after", time.Since(began), 30*time.Second)
	})
}

func TestSentBackComesBeforeWhatIsNew(t *testing.T) {
	gated(t, fakebroker.Options{}, func(h *held) {
		h.report(h.host, "one")
		reading := h.reading(h.shuf)
		one := reading.next()
		h.want("the end", reading.end(), errCanceled)
		h.report(h.host, "new")
		h.must(one.Retry(0))
		synctest.Wait()
		h.equal("delivered", payloads(h.reading(h.shuf), 2), []string{"1:report one+", "2:report new"})
	})
}

func TestLateRequestStillArrives(t *testing.T) {
	gated(t, fakebroker.Options{}, func(h *held) {
		h.must(h.shuf.PublishChunk(h.ctx(), 1, 0, 0, []byte("chunk")))
		late := make(chan struct{})
		h.hold["ana PurgeMixed riffle.v1.mixed.1.0.* 1"] = late
		h.must(h.ana.PurgeMixed(h.ctx(), 1, 0)) // its repetition is in time
		h.must(h.shuf.PublishChunk(h.ctx(), 1, 0, 0, []byte("another")))
		close(late)
		synctest.Wait()
		h.equal("purged again", h.chunks(h.ana), []string(nil))
	})
}

func TestNoticeIsAHintOnly(t *testing.T) {
	gated(t, fakebroker.Options{}, func(h *held) {
		watching := run(h.rig, func(ctx ctx, came func(bus.Announcement)) error {
			return h.host.WatchAnnouncements(ctx, func(a bus.Announcement) error { came(a); return nil })
		})
		synctest.Wait()
		h.before["host Notice riffle.v1.announced.1.0 1"] = fakebroker.Lose
		began := time.Now()
		h.must(h.ana.PutAnnouncement(h.ctx(), 1, 0, []byte("a")))
		h.equal("announcement", string(watching.next().Payload), "a")
		if d := time.Since(began); d < 10*time.Second || d > 20*time.Second {
			t.Errorf("without a notice it came after %s; bus looks every 10 to 20 s", d)
		}
		synctest.Wait() // until it waits again
		began = time.Now()
		h.must(h.ana.PutAnnouncement(h.ctx(), 2, 0, []byte("b")))
		h.equal("announcement", string(watching.next().Payload), "b")
		h.equal("with a notice it came after", time.Since(began), 20*time.Millisecond)
	})
}

func TestLostEnrolmentIsUnknown(t *testing.T) {
	gated(t, fakebroker.Options{}, func(h *held) {
		heard := h.serving(h.shuf, "yes,")
		synctest.Wait()
		h.before["host EnrolOnce riffle.v1.enrol 1"] = fakebroker.Lose
		h.after["host EnrolOnce riffle.v1.enrol 2"] = fakebroker.Lose
		h.before["shuf Serve riffle.v1.enrol 2"] = fakebroker.Twice
		for i, n := range []int{0, 1, 2} { // how often it is heard: not at all, without a reply, twice
			_, err := h.host.EnrolOnce(h.ctx(), []byte(fmt.Sprint(i)))
			if i < 2 {
				h.want("lost", err, bus.ErrUnknown)
			} else {
				h.want("answered", err, nil)
			}
			synctest.Wait()
			h.equal(fmt.Sprintf("request %d was heard", i), len(heard.came), n)
			for range n {
				heard.next()
			}
		}
	})
}

func TestClosedClientsRequestsDoNotArrive(t *testing.T) {
	gated(t, fakebroker.Options{}, func(h *held) {
		h.hold["host PublishReport riffle.v1.report.host 1"] = make(chan struct{})
		publishing := run(h.rig, func(ctx ctx, _ func(int)) error {
			return h.host.PublishReport(ctx, 1, 0, "one", []byte("x"))
		})
		synctest.Wait()
		h.host.Close()
		h.want("running call", publishing.result(), bus.ErrClosed)
		h.equal("stored", h.stored(h.shuf), []string(nil))
		again := memory(h.b.Connect(bus.Randomizer, "host"))
		defer again.Close()
		h.report(again, "one")
		h.equal("the names of ops go on", slices.Contains(h.ops("PublishReport"),
			"host PublishReport riffle.v1.report.host 2"), true)
	})
}

func TestCrashLosesWhatIsUnderWay(t *testing.T) {
	gated(t, fakebroker.Options{}, func(h *held) {
		h.hold["host PublishReport riffle.v1.report.host 1"] = make(chan struct{})
		publishing := run(h.rig, func(ctx ctx, _ func(int)) error {
			return h.host.PublishReport(ctx, 1, 0, "one", []byte("x"))
		})
		synctest.Wait()
		h.b.Crash()
		h.want("over the new connection", publishing.result(), nil)
		h.equal("tries", len(h.ops("PublishReport")) > 1, true)
		h.equal("stored", len(h.stored(h.shuf)), 1)
	})
}

func TestLossOfPower(t *testing.T) {
	gated(t, fakebroker.Options{SyncEvery: 2 * time.Minute}, func(h *held) {
		h.report(h.host, "one")
		time.Sleep(3 * time.Minute) // synced by then
		h.report(h.host, "two")
		h.must(h.shuf.PurgeReports(h.ctx(), 1))
		h.report(h.host, "three")
		h.must(h.shuf.AppendAudit(h.ctx(), "pool", []byte("s")))
		h.b.LoseUnsynced(2)
		h.equal("the last two are gone", h.stored(h.shuf), []string{"2:report two"})
		h.equal("statements", h.said(h.shuf, bus.Shuffler, 0), []string(nil))
		h.report(h.host, "four")
		h.equal("their sequence is given again", h.stored(h.shuf), []string{"2:report two", "3:report four"})
		h.report(h.host, "three") // its id is unknown again
		h.b.LoseUnsynced(9)
		h.equal("what the broker started with is on its disk", h.stored(h.shuf), []string{"2:report two"})
	})
	gated(t, fakebroker.Options{}, func(h *held) { // every write is synced, acknowledgements of deliveries are not
		h.report(h.host, "one")
		reading := h.reading(h.shuf)
		h.must(reading.next().Ack())
		h.backlog(h.shuf, bus.Backlog{Floor: 1, Sent: 1})
		h.b.LoseUnsynced(9)
		h.equal("stored", h.stored(h.shuf), []string{"1:report one"})
		h.equal("again", shown(reading.next()), "1:report one+")
	})
}

func TestPurgeIsTakenBackByALossOfPower(t *testing.T) {
	gated(t, fakebroker.Options{SyncEvery: time.Minute}, func(h *held) {
		for _, id := range []string{"one", "two"} {
			h.report(h.host, id)
		}
		time.Sleep(2 * time.Minute)
		h.must(h.shuf.PurgeReports(h.ctx(), 2))
		h.equal("purged", h.stored(h.shuf), []string(nil))
		h.b.LoseUnsynced(1)
		h.equal("there again", h.stored(h.shuf), []string{"1:report one", "2:report two"})
		h.report(h.host, "three")
		h.equal("after", h.stored(h.shuf), []string{"1:report one", "2:report two", "3:report three"})
	})
}

func TestFullBroker(t *testing.T) {
	gated(t, fakebroker.Options{}, func(h *held) {
		h.report(h.host, "one")
		h.b.Fill(true)
		h.report(h.host, "one") // a repetition is none
		h.want("report", h.host.PublishReport(h.ctx(), 1, 0, "two", []byte("x")), bus.ErrFull)
		h.want("chunk", h.shuf.PublishChunk(h.ctx(), 1, 0, 0, []byte("x")), bus.ErrFull)
		h.want("keys", h.shuf.PutKeys(h.ctx(), []byte("x")), bus.ErrFull)
		h.must(h.shuf.PurgeReports(h.ctx(), 1))
		h.b.Fill(false)
		h.report(h.host, "two")
	})
}

// TestSoManyWaitForTheirAcknowledgement: what the server does with max_ack_pending. Riffle's is 65536.
func TestSoManyWaitForTheirAcknowledgement(t *testing.T) {
	gated(t, fakebroker.Options{}, func(h *held) {
		h.b.LimitPending(bus.StreamReports, 2)
		for i := range 4 {
			h.report(h.host, fmt.Sprint(i))
		}
		reading := h.reading(h.shuf)
		one := reading.next()
		reading.next()
		synctest.Wait()
		h.backlog(h.shuf, bus.Backlog{Waiting: 4, Sent: 2})
		h.must(one.Retry(0)) // it comes again all the same
		again := reading.next()
		h.equal("again", shown(again), "1:report 0+")
		h.must(again.Ack())
		h.equal("next", shown(reading.next()), "3:report 2")
		h.backlog(h.shuf, bus.Backlog{Waiting: 3, Floor: 1, Sent: 3})
	})
}

// TestClockOfTheBroker: ages and waits are counted by the clock that the options give.
func TestClockOfTheBroker(t *testing.T) {
	var ahead time.Duration
	gated(t, fakebroker.Options{Now: func() time.Time { return time.Now().Add(ahead) }}, func(h *held) {
		h.report(h.host, "one")
		reading := h.reading(h.shuf)
		reading.next()
		ahead = bus.DefaultDedupWindow
		began := time.Now()
		h.report(h.host, "one")
		h.equal("past the window", h.stored(h.shuf), []string{"1:report one", "2:report one"})
		h.equal("delivered", sorted(payloads(reading, 2)), []string{"1:report one+", "2:report one"})
		h.equal("after", time.Since(began), time.Duration(0))
	})
}

// TestGateThatBlocksHoldsNothingElse: an op that waits for its verdict stops neither its own client's other ops nor
// another's, and ends with the caller's patience.
func TestGateThatBlocksHoldsNothingElse(t *testing.T) {
	gated(t, fakebroker.Options{}, func(h *held) {
		for i := 1; i < 20; i++ {
			h.hold[fmt.Sprintf("host PublishReport riffle.v1.report.host %d", i)] = make(chan struct{})
		}
		short, cancel := context.WithTimeout(h.ctx(), 30*time.Second)
		defer cancel()
		publishing := run(h.rig, func(ctx, func(int)) error {
			return h.host.PublishReport(short, 1, 0, "one", []byte("x"))
		})
		_, err := h.host.ReadAnnouncements(h.ctx())
		h.must(err)
		h.must(h.shuf.PublishChunk(h.ctx(), 1, 0, 0, []byte("x")))
		err = publishing.result()
		if !errors.Is(err, bus.ErrUnknown) || !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("publish ended with %v", err)
		}
		h.equal("tries of five seconds", len(h.ops("PublishReport")), 6)
	})
}
