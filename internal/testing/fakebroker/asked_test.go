package fakebroker_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/riffle-dp/riffle/internal/bus"
)

type ctx = context.Context

var errCanceled = context.Canceled

// serving answers enrolment requests with their own bytes after a word.
func (r *rig) serving(c client, word string) *running[string] {
	u := run(r, func(ctx ctx, came func(string)) error {
		return c.ServeEnrol(ctx, 2, func(_ context.Context, payload []byte) ([]byte, error) {
			came(string(payload))
			if string(payload) == "silent" {
				return nil, errors.New("no reply to this")
			}
			return append([]byte(word+" "), payload...), nil
		})
	})
	return u
}

// served waits until somebody serves enrolment.
func (r *rig) served(h client) {
	r.Helper()
	r.until("served", func() bool { _, err := h.EnrolOnce(r.ctx(), []byte("hello")); return err == nil })
}

func TestEnrolment(t *testing.T) {
	conforms(t, func(r *rig) {
		h, s := r.connect(bus.Randomizer), r.connect(bus.Shuffler)
		_, err := h.EnrolOnce(r.ctx(), []byte("early"))
		r.want("nobody serves", err, bus.ErrNoShuffler)
		late := run(r, func(ctx ctx, came func(string)) error {
			reply, err := h.Enrol(ctx, []byte("patient"))
			came(string(reply))
			return err
		})
		serving := r.serving(s, "yes,")
		r.equal("patient", late.next(), "yes, patient")
		r.want("patient", late.result(), nil)
		reply, err := h.EnrolOnce(r.ctx(), []byte("once"))
		r.must(err)
		r.equal("once", string(reply), "yes, once")
		r.want("the end", serving.end(), errCanceled)
		r.until("nobody serves", func() bool {
			_, err := h.EnrolOnce(r.ctx(), []byte("after"))
			return errors.Is(err, bus.ErrNoShuffler)
		})
	})
}

func TestEnrolmentWithoutAReply(t *testing.T) {
	conforms(t, func(r *rig) {
		h, s := r.connect(bus.Randomizer), r.connect(bus.Shuffler)
		r.serving(s, "yes,")
		r.served(h)
		short, cancel := context.WithTimeout(r.ctx(), 300*time.Millisecond)
		defer cancel()
		_, err := h.EnrolOnce(short, []byte("silent"))
		r.want("no reply", err, bus.ErrUnknown)
		_, err = h.Enrol(short, []byte("silent"))
		r.want("no reply, however often", err, bus.ErrUnknown)
		r.want("the caller's time is over", err, context.DeadlineExceeded)
	})
}

func TestEnrolmentIsAskedForAgain(t *testing.T) {
	conforms(t, func(r *rig) {
		h, s := r.connect(bus.Randomizer), r.connect(bus.Shuffler)
		heard := 0
		run(r, func(ctx ctx, _ func(string)) error {
			return s.ServeEnrol(ctx, 1, func(_ context.Context, payload []byte) ([]byte, error) {
				if heard++; heard == 1 {
					return nil, errors.New("the first is dropped")
				}
				return append([]byte("yes, "), payload...), nil
			})
		})
		reply, err := h.Enrol(r.ctx(), []byte("device"))
		r.must(err)
		r.equal("reply", string(reply), "yes, device")
	})
}

func TestLateReplyIsNobodys(t *testing.T) {
	conforms(t, func(r *rig) {
		h, s := r.connect(bus.Randomizer), r.connect(bus.Shuffler)
		hold, began := make(chan struct{}), make(chan struct{}, 8)
		run(r, func(ctx ctx, _ func(string)) error {
			return s.ServeEnrol(ctx, 4, func(_ context.Context, payload []byte) ([]byte, error) {
				if string(payload) == "slow" {
					began <- struct{}{}
					<-hold
				}
				return payload, nil
			})
		})
		r.served(h)
		short, cancel := context.WithCancel(r.ctx())
		asking := run(r, func(ctx, func(string)) error { _, err := h.EnrolOnce(short, []byte("slow")); return err })
		<-began
		cancel()
		r.want("given up", asking.result(), bus.ErrUnknown)
		close(hold)
		for i := range 5 {
			reply, err := h.EnrolOnce(r.ctx(), []byte(fmt.Sprint("next ", i)))
			r.must(err)
			r.equal("reply", string(reply), fmt.Sprint("next ", i))
		}
	})
}

func TestEachRequestGoesToOneOfThoseWhoServe(t *testing.T) {
	conforms(t, func(r *rig) {
		h, one, two := r.connect(bus.Randomizer), r.connect(bus.Shuffler), r.connect(bus.Shuffler)
		a, b := r.serving(one, "a"), r.serving(two, "b")
		by := map[byte]int{}
		asked := 0
		for ; by['a'] == 0 || by['b'] == 0; asked++ {
			reply, err := h.Enrol(r.ctx(), []byte(fmt.Sprint(asked)))
			r.must(err)
			by[reply[0]]++
		}
		seen := map[string]int{}
		for range asked { // repeated ones aside, which nothing here asks for
			select {
			case p := <-a.came:
				seen[p]++
			case p := <-b.came:
				seen[p]++
			case <-r.ctx().Done():
				t.Fatal("a request was answered that nobody heard")
			}
		}
		for p, n := range seen {
			r.equal("heard "+p, n, 1)
		}
	})
}

func TestServingSurvivesARestart(t *testing.T) {
	conforms(t, func(r *rig) {
		h, s := r.connect(bus.Randomizer), r.connect(bus.Shuffler)
		r.serving(s, "yes,")
		r.served(h)
		r.restart()
		reply, err := h.Enrol(r.ctx(), []byte("again"))
		r.must(err)
		r.equal("reply", string(reply), "yes, again")
	})
}

func TestLeadAnswersItsWorkers(t *testing.T) {
	conforms(t, func(r *rig) {
		w, lead, other := r.connect(bus.Shuffler), r.connect(bus.Shuffler), r.connect(bus.Analyzer)
		_, err := w.AskLead(r.ctx(), []byte("early"))
		r.want("no lead", err, bus.ErrNoLead)
		run(r, func(ctx ctx, _ func(string)) error {
			return lead.ServeLead(ctx, 1, func(_ context.Context, b []byte) []byte {
				if string(b) == "silent" {
					return nil
				}
				return append([]byte("lead: "), b...)
			})
		})
		r.until("answered", func() bool {
			reply, err := w.AskLead(r.ctx(), []byte("question"))
			return err == nil && string(reply) == "lead: question"
		})
		short, cancel := context.WithTimeout(r.ctx(), 300*time.Millisecond)
		defer cancel()
		_, err = w.AskLead(short, []byte("silent"))
		r.want("no reply", err, bus.ErrUnknown)
		_, err = other.AskLead(r.ctx(), []byte("question"))
		r.want("another role's lead", err, bus.ErrNoLead)
	})
}

func TestAnnouncements(t *testing.T) {
	conforms(t, func(r *rig) {
		a, h := r.connect(bus.Analyzer), r.connect(bus.Randomizer)
		put := func(epoch uint64, round uint32, payload string) {
			t.Helper()
			r.must(a.PutAnnouncement(r.ctx(), epoch, round, []byte(payload)))
		}
		put(2, 1, "b")
		put(1, 0, "a")
		put(1, 0, "a")  // stored once
		put(1, 0, "a2") // under its own digest
		show := func(all []bus.Announcement) (s []string) {
			for _, a := range all {
				s = append(s, fmt.Sprintf("%d.%d %s", a.Epoch, a.Round, a.Payload))
			}
			return s
		}
		all, err := h.ReadAnnouncements(r.ctx())
		r.must(err)
		want := []string{"2.1 b", "1.0 a", "1.0 a2"}
		r.equal("all", show(all), want)
		at, err := a.ReadAnnouncementsAt(r.ctx(), 1, 0)
		r.must(err)
		r.equal("of a round", show(at), []string{"1.0 a", "1.0 a2"})
		none, err := a.ReadAnnouncementsAt(r.ctx(), 1, 7)
		r.must(err)
		r.equal("of none", len(none), 0)

		watching := run(r, func(ctx ctx, came func(bus.Announcement)) error {
			return h.WatchAnnouncements(ctx, func(a bus.Announcement) error { came(a); return nil })
		})
		next := func(n int) (s []string) {
			for range n {
				s = append(s, show([]bus.Announcement{watching.next()})...)
			}
			return s
		}
		r.equal("watched", next(3), want)
		put(3, 0, "c")
		r.equal("new", next(1), []string{"3.0 c"})
		r.restart()
		put(3, 0, "c")
		put(4, 0, "d")
		r.equal("after a restart, each once", next(1), []string{"4.0 d"})
		r.want("the end", watching.end(), errCanceled)
		stop := errors.New("enough")
		r.want("a handler that stops", h.WatchAnnouncements(r.ctx(), func(bus.Announcement) error { return stop }),
			stop)
	})
}

func TestKeys(t *testing.T) {
	conforms(t, func(r *rig) {
		s, h := r.connect(bus.Shuffler), r.connect(bus.Randomizer)
		_, err := h.ReadKeys(r.ctx(), bus.Shuffler)
		r.want("no keys", err, bus.ErrGone)
		const kept, put = 16, 20
		for i := range put {
			r.must(s.PutKeys(r.ctx(), []byte(fmt.Sprint("keys ", i))))
		}
		newest, err := h.ReadKeys(r.ctx(), bus.Shuffler)
		r.must(err)
		r.equal("newest", string(newest), "keys 19")
		watching := run(r, func(ctx ctx, came func(string)) error {
			return h.WatchKeys(ctx, func(role bus.Role, payload []byte) error {
				came(string(role) + " " + string(payload))
				return nil
			})
		})
		for i := put - kept; i < put; i++ {
			r.equal("kept", watching.next(), fmt.Sprint("shuffler keys ", i))
		}
		r.must(s.PutKeys(r.ctx(), []byte("keys 19"))) // the same again is news
		r.equal("new", watching.next(), "shuffler keys 19")
	})
}
