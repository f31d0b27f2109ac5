package fakebroker_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/riffle-dp/riffle/internal/broker"
	"github.com/riffle-dp/riffle/internal/bus"
	"github.com/riffle-dp/riffle/internal/testing/fakebroker"
	"github.com/riffle-dp/riffle/internal/testing/parallel"
	"github.com/riffle-dp/riffle/internal/testing/testbed"
)

// TestMain has six tests run at a time: those on the real server wait more than they work.
func TestMain(m *testing.M) {
	parallel.Tests("6")
	os.Exit(m.Run())
}

// client has all that the suite asks of either broker.
type client struct {
	*bus.AnnouncementStream
	*bus.KeyStream
	*bus.Enrolment
	*bus.ReportStream
	*bus.MixedStream
	*bus.PreparedStream
	*bus.RetainedStream
	*bus.SegmentStream
	*bus.TaskStream
	*bus.Lead
	*bus.AuditStream
	Traffic func() bus.Traffic
	Close   func()
}

func over(s bus.Streams, end func()) client {
	return client{s.Announcements, s.Keys, s.Enrolment, s.Reports, s.Mixed, s.Prepared, s.Retained, s.Segments, s.Tasks,
		s.Lead, s.Audit, s.Traffic, end}
}

// server is a client of the real server.
func server(c *bus.Conn) client { return over(c.Streams, c.Close) }

// memory is a client of the fake.
func memory(c *fakebroker.Conn) client { return over(c.Streams, c.Close) }

// rig is one of the two brokers under test.
type rig struct {
	*testing.T
	connect func(bus.Role) client
	another func() client // another randomizer host than connect's
	restart func()        // of the broker; connections come back by themselves
}

// conforms runs the same test on the real server and on the fake, in a bubble of virtual time.
func conforms(t *testing.T, f func(*rig), change ...func(*bus.ProvisionOptions)) {
	t.Helper()
	t.Parallel() // with the other tests: a parallel part of one that is not has nothing beside it
	// by default nothing comes again only because a machine is slow
	limits := bus.ProvisionOptions{Workers: true, AckWait: 10 * time.Minute, TaskWait: 10 * time.Minute}
	for _, c := range change {
		c(&limits)
	}
	t.Run("server", func(t *testing.T) {
		t.Parallel()
		bed := testbed.New(t, func(_ *broker.Options, p *bus.ProvisionOptions) { *p = limits })
		f(&rig{T: t, connect: func(r bus.Role) client { return server(bed.Connect(r)) },
			another: func() client { return server(bed.ConnectHost()) }, restart: func() { bed.Backup() }})
	})
	t.Run("fake", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			b := fakebroker.New(fakebroker.Options{Streams: limits})
			connect := func(r bus.Role, name string) client {
				c := b.Connect(r, name)
				t.Cleanup(c.Close)
				return memory(c)
			}
			user := func(r bus.Role) string { // as long as a public key: names count for a stream's bytes
				return string(r) + strings.Repeat("x", 56-len(r))
			}
			f(&rig{T: t, connect: func(r bus.Role) client { return connect(r, user(r)) },
				another: func() client { return connect(bus.Randomizer, user("another")) }, restart: b.Crash})
		})
	})
}

// ctx ends with the test's patience.
func (r *rig) ctx() context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), testbed.Patience)
	r.Cleanup(cancel)
	return ctx
}

// must is for what cannot fail.
func (r *rig) must(err error) {
	r.Helper()
	if err != nil {
		r.Fatal(err)
	}
}

// want holds an error against the one that must be.
func (r *rig) want(what string, err, want error) {
	r.Helper()
	if !errors.Is(err, want) {
		r.Errorf("%s: %v, want %v", what, err, want)
	}
}

// equal compares what is printed of two values.
func (r *rig) equal(what string, got, want any) {
	r.Helper()
	if fmt.Sprint(got) != fmt.Sprint(want) {
		r.Errorf("%s: %v, want %v", what, got, want)
	}
}

// until waits for what comes by itself.
func (r *rig) until(what string, condition func() bool) {
	r.Helper()
	testbed.Eventually(r.T, what, condition)
}

// report publishes a report of epoch 1, round 0.
func (r *rig) report(c client, id string) {
	r.Helper()
	r.must(c.PublishReport(r.ctx(), 1, 0, id, []byte("report "+id)))
}

// stored lists the stored reports of epoch 1, round 0, as sequence and payload.
func (r *rig) stored(c client) (all []string) {
	r.Helper()
	r.must(c.StoredReports(r.ctx(), 1, 0, 0, func(sequence uint64, payload []byte) error {
		all = append(all, fmt.Sprintf("%d:%s", sequence, payload))
		return nil
	}))
	return all
}

// chunks lists the stored chunks of epoch 1, round 0.
func (r *rig) chunks(c client) (all []string) {
	r.Helper()
	r.must(c.ReadChunks(r.ctx(), 1, 0, func(index uint32, payload []byte) error {
		all = append(all, fmt.Sprintf("%d:%s", index, payload))
		return nil
	}))
	return all
}

// said lists a role's entries of the audit log.
func (r *rig) said(c client, role bus.Role, from uint64) (all []string) {
	r.Helper()
	r.must(c.SaidSince(r.ctx(), role, from, func(s bus.Statement) error {
		all = append(all, fmt.Sprintf("%d:%s:%s:%s", s.Sequence, s.Role, s.Kind, s.Payload))
		return nil
	}))
	return all
}

// running is a call that hands over one thing after the other until it is stopped.
type running[T any] struct {
	r     *rig
	came  chan T
	stop  context.CancelFunc
	ended chan error
}

// run begins such a call. It is stopped at the end of the test.
func run[T any](r *rig, call func(ctx context.Context, handler func(T)) error) *running[T] {
	ctx, stop := context.WithCancel(context.Background())
	u := &running[T]{r: r, came: make(chan T, 1<<16), stop: stop, ended: make(chan error, 1)}
	go func() { u.ended <- call(ctx, func(v T) { u.came <- v }) }()
	r.Cleanup(stop)
	return u
}

// next is the next thing that comes.
func (u *running[T]) next() T {
	u.r.Helper()
	select {
	case v := <-u.came:
		return v
	case <-time.After(testbed.Patience):
		u.r.Fatal("nothing comes")
		panic("not reached")
	}
}

// end stops the call and returns its error.
func (u *running[T]) end() error {
	u.r.Helper()
	u.stop()
	return u.result()
}

// result waits for the call's own end.
func (u *running[T]) result() error {
	u.r.Helper()
	select {
	case err := <-u.ended:
		return err
	case <-time.After(testbed.Patience):
		u.r.Fatal("the call does not end")
		panic("not reached")
	}
}

// reading reads the reports.
func (r *rig) reading(c client) *running[*bus.Delivery] { return run(r, c.ReceiveReports) }

// payloads reads so many deliveries and lists them, with a + where they came before.
func payloads(u *running[*bus.Delivery], n int) (all []string) {
	u.r.Helper()
	for range n {
		all = append(all, shown(u.next()))
	}
	return all
}

func shown(d *bus.Delivery) string {
	again := ""
	if d.Redelivered {
		again = "+"
	}
	return fmt.Sprintf("%d:%s%s", d.Sequence, d.Payload, again)
}

// backlog waits until the backlog is that. Acknowledgements are not answered, so they may take a moment.
func (r *rig) backlog(c client, want bus.Backlog) {
	r.Helper()
	var last bus.Backlog
	deadline := time.Now().Add(testbed.Patience)
	for time.Now().Before(deadline) {
		var err error
		last, err = c.Backlog(r.ctx())
		r.must(err)
		if last == want {
			return
		}
		time.Sleep(5 * time.Millisecond)
	}
	r.Errorf("backlog %+v, want %+v", last, want)
}

// sorted is a sorted copy.
func sorted(s []string) []string {
	s = slices.Clone(s)
	slices.Sort(s)
	return s
}
