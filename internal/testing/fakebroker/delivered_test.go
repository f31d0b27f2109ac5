package fakebroker_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/riffle-dp/riffle/internal/bus"
	"github.com/riffle-dp/riffle/internal/testing/testbed"
)

// soon has what is not acknowledged come again after a moment.
func soon(p *bus.ProvisionOptions) {
	p.AckWait, p.TaskWait = 300*time.Millisecond, 300*time.Millisecond
}

func TestDeliveriesComeInOrderAndOnce(t *testing.T) {
	conforms(t, func(r *rig) {
		h, s := r.connect(bus.Randomizer), r.connect(bus.Shuffler)
		r.backlog(s, bus.Backlog{})
		r.report(h, "one")
		r.must(h.PublishReport(r.ctx(), 7, 3, "two", []byte("of another round")))
		r.backlog(s, bus.Backlog{Waiting: 2})
		reading := r.reading(s)
		r.equal("first", shown(reading.next()), "1:report one")
		d := reading.next()
		r.equal("second", shown(d), "2:of another round")
		r.equal("its round", fmt.Sprint(d.Epoch, d.Round), "7 3")
		r.backlog(s, bus.Backlog{Waiting: 2, Sent: 2})
		r.report(h, "three")
		third := reading.next()
		r.equal("third", shown(third), "3:report three")
		r.must(third.Ack()) // out of order: the floor stays
		r.must(third.Ack()) // more than once
		r.must(third.Retry(0))
		r.backlog(s, bus.Backlog{Waiting: 2, Sent: 3})
		r.must(d.Ack())
		r.backlog(s, bus.Backlog{Waiting: 1, Sent: 3})
		r.want("the end", reading.end(), errCanceled)
		r.backlog(s, bus.Backlog{Waiting: 1, Sent: 3}) // handed over, so it waits for its acknowledgement
	})
}

func TestWhatIsNotAcknowledgedComesAgain(t *testing.T) {
	conforms(t, func(r *rig) {
		h, s := r.connect(bus.Randomizer), r.connect(bus.Shuffler)
		for _, id := range []string{"one", "two", "three"} {
			r.report(h, id)
		}
		reading := r.reading(s)
		var first, again []string
		for len(again) < 3 { // each comes again until it is acknowledged
			d := reading.next()
			if !d.Redelivered {
				first = append(first, shown(d))
				continue
			}
			r.must(d.Ack())
			if s := shown(d); !slices.Contains(again, s) {
				again = append(again, s)
			}
		}
		r.equal("first", first, []string{"1:report one", "2:report two", "3:report three"})
		r.equal("again", sorted(again), []string{"1:report one+", "2:report two+", "3:report three+"})
		r.backlog(s, bus.Backlog{Floor: 3, Sent: 3})
	}, soon)
}

func TestSentBackComesAgainAfterItsPause(t *testing.T) {
	conforms(t, func(r *rig) {
		h, s := r.connect(bus.Randomizer), r.connect(bus.Shuffler)
		r.report(h, "one")
		r.report(h, "two")
		reading := r.reading(s)
		one, two := reading.next(), reading.next()
		r.must(two.Retry(time.Hour))
		r.must(one.Retry(time.Millisecond))
		r.equal("again", shown(reading.next()), "1:report one+")
		r.want("the end", reading.end(), errCanceled)
		r.backlog(s, bus.Backlog{Waiting: 2, Sent: 2})
		r.must(two.Ack()) // a delivery is settled once
		r.backlog(s, bus.Backlog{Waiting: 2, Sent: 2})
	})
}

func TestKilledReadersMessagesComeToAnother(t *testing.T) {
	conforms(t, func(r *rig) {
		h, killed, s := r.connect(bus.Randomizer), r.connect(bus.Shuffler), r.connect(bus.Shuffler)
		r.report(h, "one")
		r.report(h, "two")
		reading := r.reading(killed)
		last := reading.next()
		for ; last.Sequence == 1; last = reading.next() { // once, and again where the machine is busy
			r.must(last.Ack())
		}
		r.backlog(s, bus.Backlog{Waiting: 1, Floor: 1, Sent: 2})
		killed.Close()
		if err := last.Ack(); err == nil {
			t.Error("acknowledged over a closed connection")
		}
		r.equal("again", shown(r.reading(s).next()), "2:report two+")
	}, soon)
}

func TestStoppedReaderSendsBackWhatItWasNotHanded(t *testing.T) {
	conforms(t, func(r *rig) {
		h, s := r.connect(bus.Randomizer), r.connect(bus.Shuffler)
		for i := range 5 {
			r.report(h, fmt.Sprint(i))
		}
		hold := make(chan struct{})
		busy := run(r, func(ctx ctx, handler func(*bus.Delivery)) error {
			return s.ReceiveReports(ctx, func(d *bus.Delivery) { handler(d); <-hold })
		})
		busy.next()
		r.backlog(s, bus.Backlog{Waiting: 5, Sent: 5}) // all were asked for ahead
		busy.stop()
		close(hold)
		r.want("the end", busy.result(), errCanceled)
		handed := 1
		for ; len(busy.came) > 0; handed++ { // it may still have been handed some when it was stopped
			busy.next()
		}
		var others []string
		for n := handed; n < 5; n++ {
			others = append(others, fmt.Sprintf("%d:report %d+", n+1, n))
		}
		r.report(h, "new")
		// at once, although the wait for an acknowledgement is long; the server may mix their order
		r.equal("the others", sorted(payloads(r.reading(s), len(others)+1)), append(others, "6:report new"))
	})
}

func TestReadersShareTheReports(t *testing.T) {
	conforms(t, func(r *rig) {
		h, s, w := r.connect(bus.Randomizer), r.connect(bus.Shuffler), r.connect(bus.Shuffler)
		one, two := r.reading(s), r.reading(w)
		var all []string
		came := [2]int{}
		for i := 0; came[0] == 0 || came[1] == 0; i++ { // until both have had one; each report comes to one of them
			r.report(h, fmt.Sprint(i))
			select {
			case d := <-one.came:
				came[0]++
				all = append(all, shown(d))
			case d := <-two.came:
				came[1]++
				all = append(all, shown(d))
			case <-time.After(testbed.Patience):
				t.Fatal("nothing comes")
			}
			r.equal("delivered", all[i], fmt.Sprintf("%d:report %d", i+1, i))
		}
		select {
		case d := <-one.came:
			t.Errorf("%s came to both", shown(d))
		case d := <-two.came:
			t.Errorf("%s came to both", shown(d))
		default:
		}
	})
}

func TestReadersAskForSoManyAhead(t *testing.T) {
	conforms(t, func(r *rig) {
		h, s := r.connect(bus.Randomizer), r.connect(bus.Shuffler)
		const ahead, stored, taken = 1024, 1040, 5
		for i := range stored {
			r.report(h, fmt.Sprint(i))
		}
		hold := make(chan struct{})
		busy := run(r, func(ctx ctx, handler func(*bus.Delivery)) error {
			return s.ReceiveReports(ctx, func(d *bus.Delivery) {
				if handler(d); d.Sequence >= taken {
					<-hold
				}
			})
		})
		for range taken {
			busy.next()
		}
		r.backlog(s, bus.Backlog{Waiting: stored, Sent: ahead}) // more is asked for when half of it is taken
		close(hold)
		for range stored - taken {
			busy.next()
		}
		r.backlog(s, bus.Backlog{Waiting: stored, Sent: stored})
	})
}

func TestPurgedReportsAreNotDelivered(t *testing.T) {
	conforms(t, func(r *rig) {
		h, s := r.connect(bus.Randomizer), r.connect(bus.Shuffler)
		for i := range 4 {
			r.report(h, fmt.Sprint(i))
		}
		r.must(s.PurgeReports(r.ctx(), 2))
		r.backlog(s, bus.Backlog{Waiting: 2, Floor: 2, Sent: 2})
		reading := r.reading(s)
		third := reading.next()
		r.equal("first that is left", shown(third), "3:report 2")
		reading.next()
		r.must(s.PurgeReports(r.ctx(), 3)) // delivered, and not acknowledged
		r.backlog(s, bus.Backlog{Waiting: 1, Floor: 3, Sent: 4})
		r.must(third.Ack())
		r.must(third.Retry(0))
		r.backlog(s, bus.Backlog{Waiting: 1, Floor: 3, Sent: 4})
		r.must(s.PurgeReports(r.ctx(), 4))
		r.backlog(s, bus.Backlog{Floor: 4, Sent: 4})
		r.report(h, "new")
		r.equal("next", shown(reading.next()), "5:report new")
	})
}

func TestPurgedReportDoesNotComeAgain(t *testing.T) {
	conforms(t, func(r *rig) {
		h, s := r.connect(bus.Randomizer), r.connect(bus.Shuffler)
		r.report(h, "one")
		r.report(h, "two")
		reading := r.reading(s)
		for reading.next().Sequence != 2 { // the first may come again meanwhile
			continue
		}
		r.must(s.PurgeReports(r.ctx(), 1))
		for range 3 { // every wait that ends brings the second only
			d := reading.next()
			if d.Sequence == 1 { // it was on its way when it was purged
				continue
			}
			r.equal("again", shown(d), "2:report two+")
		}
		r.backlog(s, bus.Backlog{Waiting: 1, Floor: 1, Sent: 2})
	}, soon)
}

func TestChunksAndManifestsAreDelivered(t *testing.T) {
	conforms(t, func(r *rig) {
		s, a := r.connect(bus.Shuffler), r.connect(bus.Analyzer)
		for _, index := range []uint32{1, 0, 2} {
			r.must(s.PublishChunk(r.ctx(), 4, 1, index, []byte{byte(index)}))
		}
		r.must(s.PublishManifest(r.ctx(), 4, 1, []byte("m")))
		reading := run(r, a.ReceiveMixed)
		var all []string
		for range 4 {
			m := reading.next()
			all = append(all, fmt.Sprintf("%d %d.%d %t %d %x", m.Sequence, m.Epoch, m.Round, m.Manifest, m.Index,
				m.Payload))
			r.must(m.Ack())
		}
		r.equal("mixed", all, []string{"1 4.1 false 1 01", "2 4.1 false 0 00", "3 4.1 false 2 02", "4 4.1 true 0 6d"})
	})
}

func TestChunksArePurgedUnderTheReader(t *testing.T) {
	conforms(t, func(r *rig) {
		s, a := r.connect(bus.Shuffler), r.connect(bus.Analyzer)
		for _, index := range []uint32{0, 1} {
			r.must(s.PublishChunk(r.ctx(), 1, 0, index, []byte("chunk")))
		}
		r.must(s.PublishManifest(r.ctx(), 1, 0, []byte("manifest")))
		r.must(a.PurgeMixed(r.ctx(), 1, 0))
		reading := run(r, a.ReceiveMixed)
		m := reading.next()
		r.equal("left", fmt.Sprint(m.Manifest, m.Sequence), "true 3")
		r.must(s.PublishChunk(r.ctx(), 1, 1, 0, []byte("next round")))
		for m = reading.next(); m.Redelivered; m = reading.next() { // nobody acknowledges the manifest
			r.equal("again", m.Sequence, 3)
		}
		r.equal("next", m.Sequence, 4)
		r.must(a.PurgeMixed(r.ctx(), 1, 1))
		for range 2 { // the manifest comes again, the chunk does not
			m := reading.next()
			if m.Sequence == 4 && m.Redelivered {
				continue // it was on its way when it was purged
			}
			r.equal("again", fmt.Sprint(m.Manifest, m.Sequence, m.Redelivered), "true 3 true")
		}
	}, soon)
}

func TestDeliveriesSurviveARestart(t *testing.T) {
	conforms(t, func(r *rig) {
		h, s := r.connect(bus.Randomizer), r.connect(bus.Shuffler)
		r.report(h, "one")
		r.report(h, "two")
		reading := r.reading(s)
		one, two := reading.next(), reading.next()
		r.must(one.Ack())
		r.backlog(s, bus.Backlog{Waiting: 1, Floor: 1, Sent: 2})
		r.restart()
		r.report(h, "three")
		r.equal("new", shown(reading.next()), "3:report three")
		r.until("acknowledged over the new connection", func() bool { return two.Ack() == nil })
		r.backlog(s, bus.Backlog{Waiting: 1, Floor: 2, Sent: 3})
	})
}

func TestTasksAreDoneOnce(t *testing.T) {
	conforms(t, func(r *rig) {
		lead, w := r.connect(bus.Analyzer), r.connect(bus.Analyzer)
		for _, task := range []string{"one", "two", "two", "three"} { // a repetition is stored once
			r.must(lead.PublishTask(r.ctx(), []byte(task)))
		}
		working := run(r, func(ctx ctx, handler func(*bus.Task)) error { return w.ReceiveTasks(ctx, 1, handler) })
		show := func(k *bus.Task) string { return fmt.Sprintf("%s %t %s;", k.Payload, k.Redelivered, k.Wait) }
		one, two, three := working.next(), working.next(), working.next()
		r.equal("tasks", show(one)+show(two)+show(three), "one false 10m0s;two false 10m0s;three false 10m0s;")
		r.must(one.Done())
		r.must(three.InHand())
		r.must(two.Return(time.Millisecond))
		again := working.next()
		r.equal("returned", show(again), "two true 10m0s;")
		r.must(lead.PurgeTasks(r.ctx()))
		r.must(again.Return(0)) // nobody has it any more
		r.must(lead.PublishTask(r.ctx(), []byte("four")))
		r.equal("next", show(working.next()), "four false 10m0s;")
		r.want("the end", working.end(), errCanceled)
	})
}

func TestSilentWorkersTaskComesAgain(t *testing.T) {
	conforms(t, func(r *rig) {
		w := r.connect(bus.Shuffler)
		r.must(w.PublishTask(r.ctx(), []byte("task")))
		working := run(r, func(ctx ctx, handler func(*bus.Task)) error { return w.ReceiveTasks(ctx, 1, handler) })
		working.next()
		again := working.next()
		r.equal("again", again.Redelivered, true)
	}, soon)
}

func TestTaskInHandStays(t *testing.T) {
	conforms(t, func(r *rig) {
		w := r.connect(bus.Shuffler)
		r.must(w.PublishTask(r.ctx(), []byte("task")))
		working := run(r, func(ctx ctx, handler func(*bus.Task)) error { return w.ReceiveTasks(ctx, 1, handler) })
		task := working.next()
		began, sign, silent := time.Now(), time.Now(), time.Duration(0)
		for ; time.Since(began) < 2*slow; time.Sleep(slow / 100) {
			silent, sign = max(silent, time.Since(sign)), time.Now()
			r.must(task.InHand())
			select {
			case task = <-working.came:
				if silent < slow/2 {
					t.Fatal("the task came again while it was in hand")
				}
				began, silent = time.Now(), 0 // the machine stood still
			default:
			}
		}
		r.must(task.Done())
	}, func(p *bus.ProvisionOptions) { p.TaskWait = slow })
}

// slow is a wait so long that a machine that is busy seldom outlasts it between two signs of life.
const slow = 2 * time.Second
