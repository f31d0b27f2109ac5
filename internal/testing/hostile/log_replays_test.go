package hostile_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/riffle-dp/riffle/internal/analyzer"
	"github.com/riffle-dp/riffle/internal/audit"
	"github.com/riffle-dp/riffle/internal/audit/witness"
	"github.com/riffle-dp/riffle/internal/bus"
	"github.com/riffle-dp/riffle/internal/channel"
	"github.com/riffle-dp/riffle/internal/keyring"
	"github.com/riffle-dp/riffle/internal/testing/testbed"
	"github.com/riffle-dp/riffle/pkg/wire"
)

// setBack is the audit log as it stood after an entry, or without one entry.
type setBack struct {
	audit.Streams
	upTo, without uint64
}

func (s setBack) ReadAudit(ctx context.Context, of bus.AuditFilter, handler func(bus.Statement) error) error {
	return s.Streams.ReadAudit(ctx, of, func(one bus.Statement) error {
		if s.upTo > 0 && one.Sequence > s.upTo || one.Sequence == s.without {
			return nil
		}
		return handler(one)
	})
}

// servers are the roles that write logs.
var servers = []bus.Role{bus.Shuffler, bus.Analyzer}

// bundleOf are the keys that an auditor of a bed trusts.
func bundleOf(b *testbed.Bed) keyring.Bundle {
	return keyring.Bundle{
		Deployment: testbed.Deployment, Analyzer: b.Analyzer.Public(), Shuffler: b.Shuffler.Public(),
		Registrar: b.Registrar.Public(), Auditor: b.AuditorKey.Public(),
	}
}

// shows is what an auditor sees by these streams.
func (d *world) shows(s audit.Streams) *audit.Live {
	d.t.Helper()
	live, err := audit.NewLive(d.Context(), s, bundleOf(d.Bed))
	d.must(err)
	return live
}

// check audits a source beside what another saw, and says how many releases it finds and which breaches.
func (d *world) check(source audit.Source, views ...audit.View) (releases int, breaches string) {
	d.t.Helper()
	report, err := audit.Check(d.Context(), source, audit.Options{Trust: bundleOf(d.Bed), Views: views})
	d.must(err)
	var all []string
	for _, b := range report.Breaches {
		all = append(all, "`"+string(b.What)+"`")
	}
	slices.Sort(all)
	return report.Releases, strings.Join(slices.Compact(all), ", ")
}

// newest is the place of the newest entry of the audit log.
func (d *world) newest() (at uint64) {
	d.t.Helper()
	d.must(d.auditor.Audit.ReadAudit(d.Context(), bus.AuditFilter{}, func(s bus.Statement) error {
		at = s.Sequence
		return nil
	}))
	return at
}

// aWitness has a new memory.
func (d *world) aWitness(name string) func(audit.Source, bus.Role) (*witness.Seen, error) {
	w := &witness.Witness{
		Name: name, Key: testbed.NewIdentity(d.t), State: channel.Folder(d.t.TempDir()), Out: d.t.TempDir(),
	}
	return func(s audit.Source, role bus.Role) (*witness.Seen, error) {
		return w.Look(d.Context(), s, witness.Log{
			Deployment: testbed.Deployment, Role: role, Key: audit.Party(bundleOf(d.Bed), role).Key,
		}, time.Now())
	}
}

// twoStates are an older state of the log, the newest one, and an entry of a role that is in both.
func (d *world) twoStates() (older, newer *audit.Live, between uint64) {
	d.t.Helper()
	d.verdict(d.cohort())
	r := d.next() // by when all of the epoch before is in the logs
	at := d.newest()
	d.decide(size)
	d.report(r)
	d.verdict(r)
	d.must(d.auditor.Audit.ReadAudit(d.Context(), bus.AuditFilter{Role: bus.Shuffler, Kind: wire.KindManifest},
		func(s bus.Statement) error {
			if s.Sequence <= at {
				between = s.Sequence
			}
			return nil
		}))
	d.in(r.Epoch + 1)
	return d.shows(setBack{Streams: audit.Over(d.auditor.Streams), upTo: at}), d.shows(audit.Over(d.auditor.Streams)),
		between
}

// logReplays are what a malicious broker does with older states of what is signed and public, and with two views of it,
// in the order of the table.
func logReplays() []trick {
	// rewound shows a server that starts again its own log as it was an epoch before.
	rewound := func(role bus.Role) func(d *world) string {
		return func(d *world) string {
			d.verdict(d.cohort())
			r := d.next()
			at := d.newest()
			d.decide(size)
			d.report(r)
			d.verdict(r)
			r = d.next()
			before := d.newest()
			d.stopServers()
			d.l.set(faults{shown: func(to bus.Role, s bus.Statement) bool {
				return to != role || s.Role != role || s.Sequence <= at || s.Sequence > before
			}})
			d.startServers()
			testbed.Eventually(d.t, "noticed", func() bool { return d.dead() != "" || len(d.unready()) > 0 })
			why := "the " + numbers.ReplaceAllString(d.dead(), "…")
			if d.dead() == "" {
				why = "readiness condition of the " + strings.Join(d.unready(), ", ") + " is unmet"
			}
			d.stopServers()
			d.l.set(faults{})
			d.mu.Lock()
			clear(d.ended)
			d.mu.Unlock()
			d.startServers()
			d.decide(size)
			d.report(r)
			return "stopped: " + why + "; when it shows the newest state again, " + d.verdict(r)
		}
	}
	return []trick{
		{name: "audit log: shows the shuffler, which starts again, an older state of its own part", always: true,
			last: true, run: rewound(bus.Shuffler)},
		{name: "audit log: shows the analyzer, which starts again, an older state of its own part", always: true,
			last: true, run: rewound(bus.Analyzer)},
		{name: "announcement: shows the newest to one host, and to another none behind the one before", always: true,
			last: true, run: func(d *world) string {
				open := make(held)
				latest := d.epoch + 1
				behind := d.another(d.ConnectHost(), faults{
					announcement: func(a bus.Announcement, show func(bus.Announcement) error) error {
						if a.Epoch > latest {
							open.wait(d)
						}
						return show(a)
					}})
				d.verdict(d.cohort())
				r := d.next()
				status := behind.host.Status()
				sampled, why := 0, ""
				if status.Epoch == latest {
					n, reason := d.decideAt(behind, 1)
					sampled, why = n, string(reason)
				}
				d.decide(size)
				d.report(r)
				v := d.verdict(r)
				close(open)
				testbed.Eventually(d.t, "follows", func() bool { return behind.host.Status().Epoch > latest })
				return fmt.Sprintf("the other host decides with the policy before, and of its 1 person %d are "+
					"sampled: `%s`; of the "+"first host's, %s; then the other follows", sampled, why, v)
			}},
		{name: "announcement: shows the newest to hosts, and to the shuffler none behind the one before",
			run: func(d *world) string {
				open := make(held)
				r := d.next()
				d.l.set(faults{opened: func(a bus.Announcement, show func(bus.Announcement) error) error {
					if a.Epoch > r.Epoch {
						open.wait(d)
					}
					return show(a)
				}})
				d.decide(size)
				d.report(r)
				d.verdict(r)
				r = d.next()
				n, why := d.decide(1)
				close(open)
				d.l.set(faults{})
				d.decide(size - n)
				d.report(r)
				return fmt.Sprintf("delayed: of 1 person %d are sampled (`%s`) until it shows it; then %s", n, why,
					d.verdict(r))
			}},
		{name: "manifest: shows the analyzer that of an earlier epoch, in the audit log, too, and the auditor this " +
			"one's", always: true, run: func(d *world) string {
			var old []byte
			d.l.set(faults{manifest: func(payload []byte, err error) ([]byte, error) {
				if err == nil {
					old = payload
				}
				return payload, err
			}})
			d.verdict(d.cohort())
			r := d.next()
			at := d.newest()
			var open atomic.Bool
			d.l.set(faults{
				manifest: func(payload []byte, err error) ([]byte, error) {
					if err == nil && !open.Load() {
						return old, nil
					}
					return payload, err
				},
				altered: func(to bus.Role, s bus.Statement) bus.Statement {
					if to == bus.Analyzer && s.Kind == wire.KindManifest && s.Sequence > at && !open.Load() {
						s.Payload = old
					}
					return s
				},
			})
			d.decide(size)
			d.report(r)
			testbed.Eventually(d.t, "not ready, or over", func() bool { return len(d.unready()) > 0 || d.over(r) })
			if d.over(r) {
				return "**the earlier one is taken**: " + d.verdict(r)
			}
			unready := strings.Join(d.unready(), ", ")
			open.Store(true)
			d.l.set(faults{})
			return "stopped: readiness condition of the " + unready + " is unmet until it shows it; then " +
				d.verdict(r)
		}},
		{name: "checkpoint: shows one witness the newest, and another an older one; then each what the other saw",
			always: true, run: func(d *world) string {
				older, newer, _ := d.twoStates()
				first, second := d.aWitness("first"), d.aWitness("second")
				refused := 0
				for _, role := range servers {
					_, err := first(newer, role)
					_, other := second(older, role)
					d.must(errors.Join(err, other))
					if _, err := first(older, role); errors.Is(err, witness.ErrRefused) {
						refused++
					}
					seen, err := second(newer, role)
					d.must(err)
					if seen.Before == 0 || seen.Before >= seen.Size {
						d.t.Errorf("%s: %+v", role, seen)
					}
				}
				if refused != len(servers) {
					return fmt.Sprintf("**of %d logs the first witness co-signs an older checkpoint of %d**",
						len(servers), len(servers)-refused)
				}
				return "both co-sign what they see, as the one log is the beginning of the other; then the first " +
					"refuses the " + "older one, of both servers, and the second co-signs the newer one"
			}},
		{name: "checkpoint: shows an auditor an older one, and another the newest", always: true,
			run: func(d *world) string {
				older, newer, _ := d.twoStates()
				whole, clean := d.check(newer)
				part, none := d.check(older)
				if clean != "" || none != "" || part >= whole {
					d.t.Errorf("%d releases with %q, and %d with %q", whole, clean, part, none)
				}
				seen := audit.View{Name: "the other", Checkpoints: map[bus.Role][]byte{}}
				for _, role := range servers {
					b, err := newer.Checkpoint(d.Context(), role)
					d.must(err)
					seen.Checkpoints[role] = b
				}
				_, found := d.check(older, seen)
				if found == "" {
					return "**who compares the two finds nothing**"
				}
				return "succeeds in hiding the latest release from an auditor who compares with nobody, and in " +
					"nothing else; held against the other's checkpoint it is found as " + found
			}},
		{name: "audit log: shows an auditor and a witness all but one entry", always: true, run: func(d *world) string {
			_, _, entry := d.twoStates()
			less := d.shows(setBack{Streams: audit.Over(d.auditor.Streams), without: entry})
			_, found := d.check(less)
			_, err := d.aWitness("first")(less, bus.Shuffler)
			if found == "" || !errors.Is(err, witness.ErrRefused) {
				return fmt.Sprintf("**the audit finds %q, and the witness says: %v**", found, err)
			}
			return "refused by the witness, and found by the audit as " + found
		}},
	}
}

// over reports whether an epoch was counted.
func (d *world) over(r *round) bool {
	return slices.ContainsFunc(d.analyzer.Progress().Releases,
		func(s analyzer.ReleaseStats) bool { return s.Epoch == r.Epoch })
}
