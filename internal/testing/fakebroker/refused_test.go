package fakebroker_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/riffle-dp/riffle/internal/bus"
)

// calls are all calls of a client, by name.
func calls(c client) map[string]func(ctx) error {
	none := func([]byte) error { return nil }
	report := func(uint64, []byte) error { return nil }
	anything := func(bus.Statement) error { return nil }
	stop := errors.New("enough")
	silent := func(context.Context, []byte) ([]byte, error) { return nil, stop }
	return map[string]func(ctx) error{
		"Announcements":   func(ctx ctx) error { _, err := c.ReadAnnouncements(ctx); return err },
		"AnnouncementsAt": func(ctx ctx) error { _, err := c.ReadAnnouncementsAt(ctx, 1, 0); return err },
		"WatchAnnouncements": func(ctx ctx) error {
			return c.WatchAnnouncements(ctx, func(bus.Announcement) error { return stop })
		},
		"WatchKeys": func(ctx ctx) error {
			return c.WatchKeys(ctx, func(bus.Role, []byte) error { return stop })
		},
		"Keys":            func(ctx ctx) error { _, err := c.ReadKeys(ctx, bus.Shuffler); return err },
		"PutKeys":         func(ctx ctx) error { return c.PutKeys(ctx, []byte("k")) },
		"PutAnnouncement": func(ctx ctx) error { return c.PutAnnouncement(ctx, 1, 0, []byte("a")) },
		"PublishReport":   func(ctx ctx) error { return c.PublishReport(ctx, 1, 0, "id", []byte("r")) },
		"Reports":         func(ctx ctx) error { return c.ReceiveReports(ctx, func(*bus.Delivery) {}) },
		"GetReport":       func(ctx ctx) error { _, err := c.GetReport(ctx, 1); return err },
		"StoredReports":   func(ctx ctx) error { return c.StoredReports(ctx, 1, 0, 0, report) },
		"LastReport":      func(ctx ctx) error { _, err := c.LastReport(ctx); return err },
		"PurgeReports":    func(ctx ctx) error { return c.PurgeReports(ctx, 1) },
		"Backlog":         func(ctx ctx) error { _, err := c.Backlog(ctx); return err },
		"PublishChunk":    func(ctx ctx) error { return c.PublishChunk(ctx, 1, 0, 0, []byte("c")) },
		"PublishManifest": func(ctx ctx) error { return c.PublishManifest(ctx, 1, 0, []byte("m")) },
		"ReadManifest":    func(ctx ctx) error { _, err := c.ReadManifest(ctx, 1, 0); return err },
		"ReadChunk":       func(ctx ctx) error { _, err := c.ReadChunk(ctx, 1, 0, 0); return err },
		"ReadChunks": func(ctx ctx) error {
			return c.ReadChunks(ctx, 1, 0, func(uint32, []byte) error { return nil })
		},
		"Mixed":           func(ctx ctx) error { return c.ReceiveMixed(ctx, func(*bus.Mixed) {}) },
		"PurgeMixed":      func(ctx ctx) error { return c.PurgeMixed(ctx, 1, 0) },
		"PublishPrepared": func(ctx ctx) error { return c.PublishPrepared(ctx, 1, 0, 0, []byte("p")) },
		"ReadPrepared":    func(ctx ctx) error { _, err := c.ReadPrepared(ctx, 1, 0, 0); return err },
		"PurgePrepared":   func(ctx ctx) error { return c.PurgePrepared(ctx, 1, 0) },
		"PublishSegment":  func(ctx ctx) error { return c.PublishSegment(ctx, 1, 0, "n", 0, []byte("s")) },
		"ReadSegment":     func(ctx ctx) error { _, err := c.ReadSegment(ctx, 1, 0, "n", 0); return err },
		"PurgeSegments":   func(ctx ctx) error { return c.PurgeSegments(ctx) },
		"CanRetain":       func(ctx ctx) error { return c.CanRetain(ctx) },
		"PublishRetained": func(ctx ctx) error { return c.PublishRetained(ctx, 1, 0, 0, []byte("r"), time.Hour) },
		"ReadRetained": func(ctx ctx) error {
			return c.ReadRetained(ctx, 1, 0, func(bus.Retained) error { return nil })
		},
		"AppendAudit": func(ctx ctx) error { return c.AppendAudit(ctx, "kind", []byte("a")) },
		"AppendAuditAfter": func(ctx ctx) error {
			_, err := c.AppendAuditAfter(ctx, "kind", []byte("b"), 0)
			return err
		},
		"Audited": func(ctx ctx) error {
			_, err := c.Audited(ctx, bus.Shuffler, "kind", []byte("a"))
			return err
		},
		"Said": func(ctx ctx) error { return c.Said(ctx, bus.Shuffler, "kind", none) },
		"SaidSince": func(ctx ctx) error {
			return c.SaidSince(ctx, bus.Shuffler, 1, anything)
		},
		"ReadAudit": func(ctx ctx) error {
			return c.ReadAudit(ctx, bus.AuditFilter{}, anything)
		},
		"EnrolOnce": func(ctx ctx) error { _, err := c.EnrolOnce(ctx, []byte("e")); return err },
		"Enrol":     func(ctx ctx) error { _, err := c.Enrol(ctx, []byte("e")); return err },
		"ServeEnrol": func(ctx ctx) error {
			return c.ServeEnrol(ctx, 1, silent)
		},
		"AskLead": func(ctx ctx) error { _, err := c.AskLead(ctx, []byte("q")); return err },
		"ServeLead": func(ctx ctx) error {
			return c.ServeLead(ctx, 1, func(context.Context, []byte) []byte { return nil })
		},
	}
}

// may are the calls that each role may make. The table of rights is that of package broker.
var may = map[bus.Role]string{
	bus.Randomizer: "Announcements AnnouncementsAt Enrol EnrolOnce Keys PublishReport WatchAnnouncements " +
		"WatchKeys",
	bus.Shuffler: "Announcements AnnouncementsAt AppendAudit AppendAuditAfter AskLead Audited Backlog " +
		"CanRetain GetReport Keys LastReport PublishChunk PublishManifest PublishRetained " +
		"PublishSegment PurgeReports PurgeSegments PutKeys ReadChunk ReadChunks ReadManifest " +
		"ReadPrepared ReadSegment Reports Said SaidSince ServeEnrol ServeLead StoredReports " +
		"WatchAnnouncements WatchKeys",
	bus.Analyzer: "Announcements AnnouncementsAt AppendAudit AppendAuditAfter AskLead Audited Keys Mixed " +
		"PublishPrepared PurgeMixed PurgePrepared PutAnnouncement ReadAudit ReadChunk ReadChunks " +
		"ReadManifest ReadPrepared Said SaidSince ServeLead WatchAnnouncements WatchKeys",
	bus.Auditor: "Announcements AnnouncementsAt Audited Keys ReadAudit ReadRetained Said SaidSince " +
		"WatchAnnouncements WatchKeys",
}

// endless are calls that end with their context where they are allowed.
var endless = []string{"Reports", "Mixed", "ServeEnrol", "ServeLead", "Enrol", "WatchAnnouncements", "WatchKeys"}

func TestRights(t *testing.T) {
	for role, yes := range may {
		t.Run(string(role), func(t *testing.T) {
			conforms(t, func(r *rig) {
				all := calls(r.connect(role))
				for _, name := range slices.Sorted(maps.Keys(all)) {
					ctx, allowed := r.ctx(), slices.Contains(strings.Fields(yes), name)
					if allowed && slices.Contains(endless, name) {
						short, cancel := context.WithTimeout(ctx, 100*time.Millisecond)
						defer cancel()
						ctx = short
					}
					if err := all[name](ctx); errors.Is(err, bus.ErrForbidden) == allowed {
						r.Errorf("%s: %v", name, err)
					}
				}
			})
		})
	}
}

// bytesOf is a payload of so many bytes, each n.
func bytesOf(size, n int) []byte { return bytes.Repeat([]byte{byte(n)}, size) }

func TestSizeOfAReportIsLimited(t *testing.T) {
	conforms(t, func(r *rig) {
		h := r.connect(bus.Randomizer)
		largest := 0
		for size := 1000; size < 1600; size++ { // the largest report that is taken, to the byte
			err := h.PublishReport(r.ctx(), 1, 0, fmt.Sprint(size), bytesOf(size, 0))
			if errors.Is(err, bus.ErrTooLarge) {
				break
			}
			r.must(err)
			largest = size
		}
		r.equal("largest report", largest, 1000+headerRoom)
	}, func(p *bus.ProvisionOptions) { p.ReportSize = 1000 })
}

// headerRoom is how much larger than its limit a report is taken: what its headers leave of the room for headers.
const headerRoom = 442

func TestReportsOfAHostAreLimited(t *testing.T) {
	conforms(t, func(r *rig) {
		h, other, s := r.connect(bus.Randomizer), r.another(), r.connect(bus.Shuffler)
		for i := range 3 {
			r.report(h, fmt.Sprint(i))
		}
		r.want("one too many", h.PublishReport(r.ctx(), 1, 0, "3", []byte("x")), bus.ErrFull)
		// epochs of one's own invention give no further room
		r.want("of another round", h.PublishReport(r.ctx(), 9, 7, "4", []byte("x")), bus.ErrFull)
		r.report(h, "2") // a repetition takes no room
		r.report(other, "other")
		reading := r.reading(s)
		r.must(reading.next().Ack())
		r.backlog(s, bus.Backlog{Waiting: 3, Floor: 1, Sent: 4})
		r.want("acknowledged is not gone", h.PublishReport(r.ctx(), 1, 0, "3", []byte("x")), bus.ErrFull)
		r.must(s.PurgeReports(r.ctx(), 1))
		r.must(h.PublishReport(r.ctx(), 1, 0, "3", []byte("x")))
	}, func(p *bus.ProvisionOptions) { p.HostReports = 3 })
}

// fills publishes until there is no room, and counts what was taken.
func fills(r *rig, publish func(i int) error) int {
	r.Helper()
	for i := range 1000 {
		if err := publish(i); errors.Is(err, bus.ErrFull) {
			r.want("again", publish(i), bus.ErrFull)
			return i
		} else if err != nil {
			r.Fatal(err)
		}
	}
	r.Fatal("it is never full")
	return 0
}

func TestBytesOfStreamsAreLimited(t *testing.T) {
	const limit = 40_000
	conforms(t, func(r *rig) {
		h, s, a := r.connect(bus.Randomizer), r.connect(bus.Shuffler), r.connect(bus.Analyzer)
		put := map[string]func(i int) error{
			"chunks":  func(i int) error { return s.PublishChunk(r.ctx(), 1, 0, uint32(i), bytesOf(1970, i)) },
			"answers": func(i int) error { return a.PublishPrepared(r.ctx(), 1, 0, uint32(i), bytesOf(900, i)) },
			"retained": func(i int) error {
				return s.PublishRetained(r.ctx(), 1, 0, uint32(i), bytesOf(900, i), time.Hour)
			},
			"segments": func(i int) error {
				return s.PublishSegment(r.ctx(), 1, 0, "n", uint32(i), bytesOf(900, i))
			},
			"statements":    func(i int) error { return s.AppendAudit(r.ctx(), "kind", bytesOf(900, i)) },
			"announcements": func(i int) error { return a.PutAnnouncement(r.ctx(), 1, 0, bytesOf(900, i)) },
			"tasks":         func(i int) error { return a.PublishTask(r.ctx(), bytesOf(900, i)) },
		}
		got := map[string]int{}
		for _, name := range slices.Sorted(maps.Keys(put)) {
			got[name] = fills(r, put[name])
		}
		hosts := []client{h, r.another()} // none alone may fill what all share
		reports := func(i int) error {
			return hosts[i%2].PublishReport(r.ctx(), 1, 0, fmt.Sprint(i), bytesOf(900, i))
		}
		got["reports"] = fills(r, reports)
		r.equal("taken", got,
			map[string]int{"announcements": 38, "answers": 39, "chunks": 19, "reports": 37, "retained": 38,
				"segments": 39, "statements": 40, "tasks": 39})
		r.must(s.PublishChunk(r.ctx(), 1, 0, 0, bytesOf(1970, 0))) // a repetition takes no room
		r.must(s.PurgeReports(r.ctx(), 1))
		r.must(reports(got["reports"]))
		for i := range 100 { // of key sets the oldest make room
			r.must(s.PutKeys(r.ctx(), bytesOf(9000, i)))
		}
		task := run(r, func(ctx ctx, handler func(*bus.Task)) error { return a.ReceiveTasks(ctx, 1, handler) }).next()
		r.must(task.Done()) // a task that is done takes no room
		r.until("room for a task", func() bool { return put["tasks"](got["tasks"]) == nil })
		var kept []byte
		_ = a.WatchKeys(r.ctx(), func(_ bus.Role, payload []byte) error {
			kept = append(kept, payload[0])
			if payload[0] == 99 {
				return errCanceled
			}
			return nil
		})
		r.equal("key sets", kept, []byte{96, 97, 98, 99})
	}, func(p *bus.ProvisionOptions) {
		p.HostReports, p.ReportSize, p.MaxReportBytes = 20, 1000, limit
		p.MaxMixedBytes, p.MaxPreparedBytes, p.MaxRetainedBytes, p.MaxMixingBytes = limit, limit, limit, limit
		p.MaxTaskBytes, p.MaxAuditBytes, p.MaxAnnouncementBytes, p.MaxKeyBytes = limit, limit, limit, limit
	})
}
