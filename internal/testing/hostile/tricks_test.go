package hostile_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/riffle-dp/riffle/internal/bus"
	"github.com/riffle-dp/riffle/internal/randomizer/api"
	"github.com/riffle-dp/riffle/internal/role/outcome"
	"github.com/riffle-dp/riffle/internal/testing/testbed"
	"github.com/riffle-dp/riffle/pkg/plan"
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
func tricks() []trick {
	only := func(c plan.Channel) []plan.Channel { return []plan.Channel{c} }
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
		{name: "chunk: withholds one, and says that it is stored",
			channels: []plan.Channel{plan.Shuffle, plan.Local, plan.Central}, run: func(d *world) string {
				d.l.set(faults{chunk: func(uint32, []byte, func([]byte) error) error { return nil }})
				r := d.cohort()
				v := d.verdict(r)
				d.l.set(faults{})
				return v
			}},
		{name: "chunk: withholds one, and says that it is stored", channels: only(plan.Shares), last: true,
			run: func(d *world) string {
				d.l.set(faults{chunk: func(uint32, []byte, func([]byte) error) error { return nil }})
				d.cohort()
				testbed.Eventually(d.t, "not ready", func() bool { return len(d.unready()) > 0 })
				return "stopped: readiness condition of the " + strings.Join(d.unready(), ", ") + " is unmet"
			}},
		{name: "chunk: delivers each twice", run: func(d *world) string {
			d.l.set(faults{mixed: func(m *bus.Mixed, hand func(*bus.Mixed)) { hand(m); hand(m) }})
			r := d.cohort()
			v := d.verdict(r)
			d.l.set(faults{})
			return "without effect: " + v
		}},
		{name: "chunk: delivers other bytes", always: true, channels: []plan.Channel{plan.Shuffle, plan.Local,
			plan.Central}, run: func(d *world) string {
			d.l.set(faults{chunk: func(_ uint32, payload []byte, publish func([]byte) error) error {
				c, err := wire.ParseChunk(payload)
				if err != nil {
					return err
				}
				c.Payload = slices.Clone(c.Payload)
				c.Payload[len(c.Payload)-1] ^= 1
				changed, err := wire.BuildChunk(*c)
				return errors.Join(err, publish(changed))
			}})
			r := d.cohort()
			v := d.verdict(r)
			d.l.set(faults{})
			return v
		}},
		{name: "manifest: hides it for a while", run: func(d *world) string {
			var open atomic.Bool
			var asked atomic.Int32
			d.l.set(faults{manifest: func(payload []byte, err error) ([]byte, error) {
				if err == nil && !open.Load() {
					asked.Add(1)
					return nil, bus.ErrGone
				}
				return payload, err
			}})
			r := d.cohort()
			testbed.Eventually(d.t, "asked for", func() bool { return asked.Load() > 0 })
			open.Store(true)
			v := d.verdict(r)
			d.l.set(faults{})
			return "delayed: nothing is counted until it is there; " + v
		}},
		{name: "manifest: hides that it stands in the audit log", always: true, run: func(d *world) string {
			var open atomic.Bool
			d.l.set(faults{
				audited: func(logged bool) bool { return logged && open.Load() },
				shown: func(to bus.Role, s bus.Statement) bool {
					return to != bus.Analyzer || s.Kind != wire.KindManifest || open.Load()
				},
			})
			r := d.cohort()
			testbed.Eventually(d.t, "not ready", func() bool { return len(d.unready()) > 0 })
			unready := strings.Join(d.unready(), ", ")
			open.Store(true)
			v := d.verdict(r)
			d.l.set(faults{})
			return "stopped: readiness condition of the " + unready + " is unmet until it shows it; then " + v
		}},
		{name: "manifest: shows that of an earlier epoch in its place", always: true, run: func(d *world) string {
			var old []byte
			d.l.set(faults{manifest: func(payload []byte, err error) ([]byte, error) {
				if err == nil {
					old = payload
				}
				return payload, err
			}})
			d.verdict(d.cohort())
			var shown atomic.Int32
			d.l.set(faults{manifest: func(payload []byte, err error) ([]byte, error) {
				if err == nil {
					shown.Add(1)
					return old, nil
				}
				return payload, err
			}})
			r := d.cohort()
			v := d.verdict(r)
			d.l.set(faults{})
			return v
		}},
		{name: "prepared shares: delivers other answers", channels: only(plan.Shares), always: true,
			run: func(d *world) string {
				d.l.set(faults{prepared: func(_ uint32, answer []byte) []byte {
					changed := slices.Clone(answer)
					changed[len(changed)-1] ^= 1
					return changed
				}})
				r := d.cohort()
				v := d.verdict(r)
				d.l.set(faults{})
				return "succeeds in ending the epoch, and in nothing else: " + v
			}},
		{name: "audit log: 200 entries of junk under the servers' names", run: func(d *world) string {
			for _, role := range []bus.Role{bus.Shuffler, bus.Analyzer} {
				thief := d.Connect(role)
				for i := range 100 {
					d.must(thief.Audit.AppendAudit(d.Context(), wire.KindManifest, []byte(fmt.Sprintf("junk %d", i))))
				}
			}
			r := d.cohort()
			return "delayed by the reading, and skipped: " + d.verdict(r)
		}},
		{name: "everything: shows a host that starts again an older state", always: true, last: true,
			run: func(d *world) string {
				d.verdict(d.cohort())
				latest := d.next().Epoch
				d.stopHost()
				d.l.set(faults{announcement: func(a bus.Announcement, show func(bus.Announcement) error) error {
					if a.Epoch >= latest {
						return nil
					}
					return show(a)
				}})
				d.startHost()
				testbed.Eventually(d.t, "shown the older state", func() bool { return d.host.Status().Epoch > 0 })
				_, err := d.host.Decide(d.Context(), "x", func(int) ([][]float64, error) {
					return [][]float64{{1}},
						nil
				})
				if err == nil {
					return "**the host decides with an older policy**"
				}
				return "refused by the host, which decides nothing until it sees what it saw before: " +
					numbers.ReplaceAllString(err.Error(), "…")
			}},
		{name: "enrolment request: delivers it twice", always: true, last: true, run: func(d *world) string {
			d.l.set(faults{enrol: func(ctx context.Context, request []byte, ask asking) ([]byte, error) {
				if _, err := ask(ctx, request); err != nil {
					return nil, err
				}
				return ask(ctx, request)
			}})
			d.next()
			sampled, why := d.decide(3)
			if sampled == 3 {
				return "without effect: the second answer is to the same wish, and 3 of 3 are sampled"
			}
			return fmt.Sprintf("succeeds in stopping a host, which takes its own store for an old one: %d of 3 are "+
				"sampled, `%s`", sampled, why)
		}},
	}
}
