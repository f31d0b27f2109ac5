package hostile_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"

	"github.com/riffle-dp/riffle/internal/bus"
	"github.com/riffle-dp/riffle/internal/testing/testbed"
	"github.com/riffle-dp/riffle/pkg/plan"
	"github.com/riffle-dp/riffle/pkg/wire"
)

// only names the channel of a trick that has no other.
func only(c plan.Channel) []plan.Channel { return []plan.Channel{c} }

// tricksOnServers are those on what the servers tell each other, and on everything at once.
func tricksOnServers() []trick {
	return []trick{
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
		{name: "manifest: hides that it is in the audit log", always: true, run: func(d *world) string {
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
				return "without effect: the second answer is to the same request, and 3 of 3 are sampled"
			}
			return fmt.Sprintf("succeeds in stopping a host, which takes its own store for an old one: %d of 3 are "+
				"sampled, `%s`", sampled, why)
		}},
	}
}
