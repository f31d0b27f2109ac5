package hostile_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"github.com/riffle-dp/riffle/internal/audit"
	"github.com/riffle-dp/riffle/internal/audit/witness"
	"github.com/riffle-dp/riffle/internal/bus"
	"github.com/riffle-dp/riffle/internal/randomizer/api"
	"github.com/riffle-dp/riffle/internal/testing/testbed"
	"github.com/riffle-dp/riffle/pkg/plan"
	"github.com/riffle-dp/riffle/pkg/wire"
)

// fork is a second continuation of the analyzer's log and announcements, from an older state on. The broker shows it to
// the analyzer alone, and takes what the analyzer writes.
type fork struct {
	at    uint64 // the newest entry that both have
	epoch uint64 // the newest that is announced in both

	mu        sync.Mutex
	entries   []bus.Statement
	announced []bus.Announcement
}

// entriesAfter are those of the fork alone.
func (f *fork) entriesAfter(last uint64) []bus.Statement {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(f.entries), func(s bus.Statement) bool { return s.Sequence <= last })
}

// append takes an entry as the broker does: behind the one that the analyzer knows as the newest.
func (f *fork) append(kind string, payload []byte, last uint64) (uint64, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	newest := f.at
	if n := len(f.entries); n > 0 {
		newest = f.entries[n-1].Sequence
	}
	if n := len(f.entries); n > 0 && last != newest || last > newest {
		return 0, bus.ErrMoved
	}
	s := bus.Statement{Role: bus.Analyzer, Kind: kind, Sequence: newest + 1, Payload: bytes.Clone(payload)}
	f.entries = append(f.entries, s)
	return s.Sequence, nil
}

// announce takes an announcement.
func (f *fork) announce(epoch uint64, round uint32, payload []byte) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.announced = append(f.announced, bus.Announcement{Epoch: epoch, Round: round, Payload: bytes.Clone(payload)})
}

// of are the announcements that the fork shows of those that there are.
func (f *fork) of(all []bus.Announcement) []bus.Announcement {
	f.mu.Lock()
	defer f.mu.Unlock()
	all = slices.DeleteFunc(slices.Clone(all), func(a bus.Announcement) bool { return a.Epoch > f.epoch })
	return append(all, f.announced...)
}

// told are the statements of a kind.
func (f *fork) told(kind string) (all []bus.Statement) {
	return slices.DeleteFunc(f.entriesAfter(0), func(s bus.Statement) bool { return s.Kind != kind })
}

func (s analyzerSide) ReadAudit(ctx context.Context, of bus.AuditFilter, handler func(bus.Statement) error) error {
	handler = s.l.visible(bus.Analyzer, handler)
	f := s.l.now().forked
	if f == nil || of.Role != bus.Analyzer {
		return s.Broker.ReadAudit(ctx, of, handler)
	}
	if err := s.Broker.ReadAudit(ctx, of, f.beginning(handler)); err != nil {
		return err
	}
	for _, one := range f.entriesAfter(of.After) {
		if of.Kind == "" || of.Kind == one.Kind {
			if err := handler(one); err != nil {
				return err
			}
		}
	}
	return nil
}

func (s analyzerSide) SaidSince(
	ctx context.Context, role bus.Role, from uint64, handler func(bus.Statement) error,
) error {
	handler = s.l.visible(bus.Analyzer, handler)
	f := s.l.now().forked
	if f == nil || role != bus.Analyzer {
		return s.Broker.SaidSince(ctx, role, from, handler)
	}
	if err := s.Broker.SaidSince(ctx, role, from, f.beginning(handler)); err != nil {
		return err
	}
	for _, one := range f.entriesAfter(max(from, 1) - 1) {
		if err := handler(one); err != nil {
			return err
		}
	}
	return nil
}

// beginning hands on what is before the fork.
func (f *fork) beginning(handler func(bus.Statement) error) func(bus.Statement) error {
	return func(one bus.Statement) error {
		if one.Sequence > f.at {
			return nil
		}
		return handler(one)
	}
}

func (s analyzerSide) AppendAuditAfter(ctx context.Context, kind string, payload []byte, last uint64) (uint64, error) {
	if f := s.l.now().forked; f != nil {
		return f.append(kind, payload, last)
	}
	return s.Broker.AppendAuditAfter(ctx, kind, payload, last)
}

func (s analyzerSide) ReadAnnouncements(ctx context.Context) ([]bus.Announcement, error) {
	all, err := s.Broker.ReadAnnouncements(ctx)
	if f := s.l.now().forked; f != nil {
		all = f.of(all)
	}
	return all, err
}

func (s analyzerSide) ReadAnnouncementsAt(ctx context.Context, epoch uint64, round uint32) ([]bus.Announcement, error) {
	all, err := s.Broker.ReadAnnouncementsAt(ctx, epoch, round)
	if f := s.l.now().forked; f != nil {
		all = slices.DeleteFunc(f.of(all), func(a bus.Announcement) bool {
			return a.Epoch != epoch ||
				a.Round != round
		})
	}
	return all, err
}

func (s analyzerSide) PutAnnouncement(ctx context.Context, epoch uint64, round uint32, payload []byte) error {
	if f := s.l.now().forked; f != nil {
		f.announce(epoch, round, payload)
		return nil
	}
	return s.Broker.PutAnnouncement(ctx, epoch, round, payload)
}

// forkedStreams are what an auditor sees to whom the broker shows the fork.
type forkedStreams struct {
	audit.Streams
	f *fork
}

func (s forkedStreams) ReadAudit(ctx context.Context, of bus.AuditFilter, handler func(bus.Statement) error) error {
	if err := s.Streams.ReadAudit(ctx, of, s.f.beginning(handler)); err != nil || of.Role == bus.Shuffler {
		return err
	}
	for _, one := range s.f.entriesAfter(of.After) {
		if err := handler(one); err != nil {
			return err
		}
	}
	return nil
}

// contradicted shows the fork to a host and to a witness who saw the log before, and to a host that saw nothing.
func (d *world) contradicted(
	f *fork, witnessed func(audit.Source, bus.Role) (*witness.Seen, error),
) string {
	d.t.Helper()
	_, err := witnessed(d.shows(forkedStreams{audit.Over(d.auditor.Streams), f}), bus.Analyzer)
	if !errors.Is(err, witness.ErrRefused) {
		return fmt.Sprintf("**a witness who saw the log before says: %v**", err)
	}
	show := func(a bus.Announcement, show func(bus.Announcement) error) error {
		for _, other := range f.of(nil) {
			if other.Epoch == a.Epoch {
				a = other
			}
		}
		return show(a)
	}
	d.stopHost()
	d.l.set(faults{forked: f, announcement: show})
	d.startHost()
	unaware := d.another(d.ConnectHost(), faults{announcement: show})
	testbed.Eventually(d.t, "followed by who saw nothing", func() bool {
		return unaware.host.Status().Epoch == f.epoch+1
	})
	testbed.Eventually(d.t, "refused, or followed", func() bool {
		return testbed.Refused(d.accounts["announcement"], api.Rewound) > 0 || d.host.Status().Epoch == f.epoch+1
	})
	if testbed.Refused(d.accounts["announcement"], api.Rewound) == 0 {
		return "**a host that saw the other announcement follows**"
	}
	return "a host that saw the first announcement refuses the second as `rewound`, and a witness the log; a host " +
		"that saw " + "neither follows"
}

// forks are what a malicious broker does with an analyzer that starts again, in the order of the table: it shows the
// state before a release was counted, and takes what the analyzer writes behind it.
func forks() []trick {
	run := func(d *world) string {
		d.verdict(d.cohort())
		r := d.next()
		at := d.newest()
		d.decide(size)
		d.report(r)
		d.verdict(r)
		d.next()
		seen := d.aWitness("first")
		_, err := seen(d.shows(audit.Over(d.auditor.Streams)), bus.Analyzer)
		d.must(err)
		d.stopServers()
		f := &fork{at: at, epoch: r.Epoch}
		d.l.set(faults{forked: f})
		d.startServers()
		testbed.Eventually(d.t, "written again, or stopped", func() bool {
			return d.dead() != "" || len(d.unready()) > 0 || len(f.told(wire.KindAnnouncement)) > 0
		})
		var again, other int
		real := map[string]bool{}
		d.must(d.auditor.Audit.ReadAudit(d.Context(), bus.AuditFilter{Role: bus.Analyzer}, func(s bus.Statement) error {
			real[string(s.Payload)] = true
			return nil
		}))
		var kinds []string
		for _, s := range f.entriesAfter(0) {
			if again++; !real[string(s.Payload)] && s.Kind != wire.KindCheckpoint {
				other++
				kinds = append(kinds, "`"+s.Kind+"`")
			}
		}
		switch {
		case d.dead() != "":
			return "stopped: the " + numbers.ReplaceAllString(d.dead(), "…")
		case other > 0:
			return fmt.Sprintf("**succeeds in taking back a release**: the analyzer signs %s anew, other than "+
				"before; %s", strings.Join(kinds, ", "), d.contradicted(f, seen))
		case again == 0:
			return "stopped: readiness condition of the " + strings.Join(d.unready(), ", ") + " is unmet"
		}
		return "without effect: the analyzer writes again, byte for byte, what it wrote before, and goes on behind it"
	}
	return []trick{
		{name: "audit log: shows the analyzer, which starts again, an older state of its own part, and takes what " +
			"it writes " + "behind that", always: true, last: true, run: run},
		{name: "audit log: the same with an analyzer whose state folder is lost, and is empty", last: true,
			channels: []plan.Channel{plan.Shuffle, plan.Local}, run: func(d *world) string {
				d.counts.LogPath = filepath.Join(d.t.TempDir(), "log")
				return run(d)
			}},
	}
}
