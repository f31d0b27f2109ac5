package hostile_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/riffle-dp/riffle/internal/bus"
	"github.com/riffle-dp/riffle/internal/randomizer/api"
	"github.com/riffle-dp/riffle/internal/role/outcome"
	"github.com/riffle-dp/riffle/internal/testing/testbed"
	"github.com/riffle-dp/riffle/pkg/seal"
	"github.com/riffle-dp/riffle/pkg/wire"
)

// held is a broker that lets nothing of a kind through until the test says so.
type held chan struct{}

// wait ends with the world, too, so that a test that failed ends.
func (h held) wait(d *world) {
	select {
	case <-h:
	case <-d.ctx.Done():
	}
}

// tricks are in the order of the table. Each leaves the broker honest.
func tricks() []trick { return slices.Concat(tricksOnDevices(), tricksOnServers()) }

// tricksOnDevices are those on what devices and the servers tell each other.
func tricksOnDevices() []trick {
	return []trick{
		{name: "key set: shows an earlier one after a later one", always: true, run: func(d *world) string {
			// The layer of every world does this from the beginning: see newWorld.
			r := d.cohort()
			if n := testbed.Refused(d.accounts["keys"], api.Rewound); n == 0 {
				d.t.Errorf("the earlier key set was not refused")
				return "the earlier key set is taken"
			}
			return "refused by the host: `rewound`; it seals to the later one, and " + d.verdict(r)
		}},
		{name: "announcement: withholds it", run: func(d *world) string {
			open := make(held)
			r := d.next()
			d.decide(size)
			d.l.set(faults{announcement: func(a bus.Announcement, show func(bus.Announcement) error) error {
				open.wait(d)
				return show(a)
			}})
			d.report(r)
			d.verdict(r)
			testbed.Eventually(d.t, "announced", func() bool {
				all, err := d.auditor.Announcements.ReadAnnouncements(d.Context())
				d.must(err)
				return len(all) > int(r.Epoch)
			})
			if now := d.host.Status().Epoch; now != r.Epoch {
				return "the host does not wait for it"
			}
			close(open)
			d.l.set(faults{})
			r = d.cohort()
			return "delayed: the host stays in its epoch until then; then " + d.verdict(r)
		}},
		{name: "announcement: shows it twice, and the earlier one again after it", always: true,
			run: func(d *world) string {
				earlier := d.next()
				d.decide(size)
				signed, _ := d.Sign(earlier.Announcement, d.Analyzer)
				var shown atomic.Bool
				d.l.set(faults{announcement: func(a bus.Announcement, show func(bus.Announcement) error) error {
					again := bus.Announcement{Epoch: earlier.Epoch, Payload: signed}
					err := errors.Join(show(a), show(a), show(again))
					shown.Store(true)
					return err
				}})
				d.report(earlier)
				d.verdict(earlier)
				r := d.next()
				testbed.Eventually(d.t, "shown", shown.Load)
				if s := d.host.Status(); s.Epoch != r.Epoch || s.Refused != "" {
					return fmt.Sprintf("the host is in epoch %d: %s", s.Epoch, s.Refused)
				}
				d.l.set(faults{})
				d.decide(size)
				d.report(r)
				return "without effect: the host stays in the later epoch, and " + d.verdict(r)
			}},
		{name: "announcement: shows one epoch's under the name of another", run: func(d *world) string {
			r := d.next()
			before := testbed.Refused(d.accounts["announcement"], "malformed")
			d.decide(size)
			d.l.set(faults{announcement: func(a bus.Announcement, show func(bus.Announcement) error) error {
				return errors.Join(show(bus.Announcement{Epoch: a.Epoch + 1, Payload: a.Payload}), show(a))
			}})
			d.report(r)
			v := d.verdict(r)
			testbed.Eventually(d.t, "in the next epoch", func() bool { return d.host.Status().Epoch == r.Epoch+1 })
			d.l.set(faults{})
			if testbed.Refused(d.accounts["announcement"], "malformed") == before {
				return "not refused; " + v
			}
			return "refused by the host: `malformed`; " + v
		}},
		{name: "enrolment request and reply: reads them", always: true, run: func(d *world) string {
			var mu sync.Mutex
			seen, slots, sizes := map[uint32]bool{}, map[uint32]bool{}, map[[2]int]bool{}
			d.l.set(faults{enrol: func(ctx context.Context, request []byte, ask asking) ([]byte, error) {
				reply, err := ask(ctx, request)
				mu.Lock()
				defer mu.Unlock()
				if err == nil {
					sizes[[2]int{len(request), len(reply)}] = true
				}
				e, unread := wire.OpenEnrolRequest(request, wire.Party{Deployment: testbed.Deployment,
					Key: d.Registrar.Public()})
				if unread != nil || e.HostKey != [32]byte(d.identity.Public()) || err != nil {
					return reply, err
				}
				answer, unread := wire.OpenEnrolReply(reply, d.Shuffler.Public(), e.Digest)
				for i, n := range e.Request.Devices() {
					seen[n] = true
					if unread == nil && answer.Of(i).ReportAfter > 0 {
						slots[answer.Of(i).Slot] = true
					}
				}
				return reply, err
			}})
			r := d.cohort()
			d.l.set(faults{})
			v := d.verdict(r)
			mu.Lock()
			defer mu.Unlock()
			if len(seen) == 0 && len(slots) == 0 && len(sizes) == 1 {
				return "reads nothing: every request and every reply has one size, so it knows when a host asked, " +
					"and not for " + "which devices or how many; " + v
			}
			return fmt.Sprintf("succeeds: reads host and number of %d of %d devices, and of %d the slot and when it "+
				"will "+
				"report; %d sizes; nothing of a record exists yet; %s", len(seen), size, len(slots), len(sizes), v)
		}},
		{name: "enrolment request: drops every second one", run: func(d *world) string {
			var n atomic.Int32
			d.l.set(faults{enrol: func(ctx context.Context, request []byte, ask asking) ([]byte, error) {
				if n.Add(1)%2 == 1 {
					return nil, bus.ErrNoShuffler
				}
				return ask(ctx, request)
			}})
			r := d.cohort()
			d.l.set(faults{})
			return "delayed: the host asks again; " + d.verdict(r)
		}},
		{name: "enrolment request: delivers one of an earlier epoch", run: func(d *world) string {
			var mu sync.Mutex
			var old []byte
			d.l.set(faults{enrol: func(ctx context.Context, request []byte, ask asking) ([]byte, error) {
				mu.Lock()
				old = request
				mu.Unlock()
				return ask(ctx, request)
			}})
			d.verdict(d.cohort())
			d.l.set(faults{})
			r := d.next()
			d.decide(size) // so the shuffler is in the epoch
			mu.Lock()
			defer mu.Unlock()
			reply, err := d.Connect(bus.Randomizer).Enrolment.EnrolOnce(d.Context(), old)
			d.must(err)
			opener, err := seal.NewRequestOpener(testbed.Deployment, d.ShufflerKey)
			d.must(err)
			opened, err := wire.OpenSealedRequest(old, opener)
			d.must(err)
			signed, err := opened.OpenReply(reply)
			d.must(err)
			answer, err := wire.OpenEnrolReply(signed, d.Shuffler.Public(), wire.RequestDigest(opened.Signed))
			d.must(err)
			d.report(r)
			if answer.Enrolled {
				return "the shuffler gives a slot; " + d.verdict(r)
			}
			return fmt.Sprintf("refused by the shuffler: `%s`; %s", answer.Refusal, d.verdict(r))
		}},
		{name: "enrolment reply: drops every second one", run: func(d *world) string {
			var n atomic.Int32 // requests cannot be told apart: a host that asks again seals again
			d.l.set(faults{enrol: func(ctx context.Context, request []byte, ask asking) ([]byte, error) {
				reply, err := ask(ctx, request)
				if n.Add(1)%2 == 1 {
					return nil, bus.ErrUnknown
				}
				return reply, err
			}})
			r := d.cohort()
			d.l.set(faults{})
			return "delayed: the host asks again and keeps its slots; " + d.verdict(r)
		}},
		{name: "enrolment reply: answers with that of another device", always: true, run: func(d *world) string {
			var mu sync.Mutex
			var other []byte
			taken := 0
			d.l.set(faults{enrol: func(ctx context.Context, request []byte, ask asking) ([]byte, error) {
				reply, err := ask(ctx, request)
				mu.Lock()
				defer mu.Unlock()
				if taken == 0 && err == nil {
					other, taken = reply, 1
				} else if taken == 1 {
					taken = 2
					return other, nil
				}
				return reply, err
			}})
			r := d.cohort()
			d.l.set(faults{})
			return "refused by the host, which asks again: the reply names its request; " + d.verdict(r)
		}},
		{name: "report: drops one", always: true, run: func(d *world) string {
			var dropped atomic.Bool
			d.l.set(faults{report: func(envelope []byte, publish func([]byte) error) error {
				if dropped.CompareAndSwap(false, true) {
					return nil
				}
				return publish(envelope)
			}})
			r := d.cohort()
			d.l.set(faults{})
			return "a drop-out, as planned for: " + d.verdict(r)
		}},
		{name: "report: delivers each twice, in another order", always: true, run: func(d *world) string {
			var mu sync.Mutex
			var waiting [][]byte
			d.l.set(faults{report: func(envelope []byte, _ func([]byte) error) error {
				mu.Lock()
				defer mu.Unlock()
				waiting = append(waiting, envelope)
				return nil // stored, it says
			}})
			r := d.cohort()
			d.l.set(faults{})
			mu.Lock()
			defer mu.Unlock()
			slices.Reverse(waiting)
			conn, copies := d.ConnectHost(), outcome.Reason(wire.RefusalDuplicate.String())
			before := testbed.Refused(d.accounts["received"], copies)
			for i, e := range waiting {
				for n := range 2 {
					d.must(conn.Reports.PublishReport(d.Context(), r.Epoch, r.Round, fmt.Sprintf("copy-%d", n), e))
				}
				d.l.keep(r.Epoch, e)
				// the last report ends the epoch, and a copy that comes later is refused as late
				if i == len(waiting)-2 {
					testbed.Eventually(d.t, "copies refused", func() bool {
						return testbed.Refused(d.accounts["received"], copies)-before >= i+1
					})
				}
			}
			v := d.verdict(r)
			return d.refusals(r) + "; " + v
		}},
		{name: "report: delivers those of an earlier epoch again", run: func(d *world) string {
			old := d.cohort()
			d.verdict(old)
			stale := d.l.reports(old.Epoch)
			d.l.set(faults{report: func(envelope []byte, publish func([]byte) error) error {
				if err := publish(stale[0]); err != nil {
					return err
				}
				return publish(envelope)
			}})
			r := d.cohort()
			d.l.set(faults{})
			d.l.forget(r.Epoch, stale[0])
			v := d.verdict(r)
			return d.refusals(r) + "; " + v
		}},
	}
}
