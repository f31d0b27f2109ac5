package fakebroker_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/riffle-dp/riffle/internal/broker"
	"github.com/riffle-dp/riffle/internal/bus"
	"github.com/riffle-dp/riffle/internal/testing/fakebroker"
	_ "github.com/riffle-dp/riffle/internal/testing/fixedseed"
	"github.com/riffle-dp/riffle/internal/testing/testbed"
)

// player plays a list of operations on one broker, and tells what each gave.
type player struct {
	ctx            ctx
	host, other    client
	shuf, ana, aud client
	restart        func()
	stop           func() // of the reader; nil: none
	reader         chan struct{}
	mu             sync.Mutex
	held           map[uint64]*bus.Delivery // delivered and not settled, by sequence
	seen           map[uint64]int           // deliveries by sequence
	due            map[uint64]int           // as many there must be once somebody reads
}

// step is one operation with its arguments.
type step struct {
	op      string
	a, b, c int
}

func (s step) String() string { return fmt.Sprintf("%s(%d,%d,%d)", s.op, s.a, s.b, s.c) }

// kinds of operations; those that come more often are in it more often.
var kinds = []string{
	"report", "report", "report", "report", "report", "junk", "get", "stored", "last", "purge",
	"read", "read", "ack", "ack", "ack", "retry", "stop", "backlog",
	"chunk", "chunk", "chunk", "manifest", "chunks", "one", "purgeMixed",
	"audit", "after", "after", "said", "log", "announce", "announced", "keys", "newest",
	"answer", "answered", "purgeAnswers", "retain", "retained", "restart",
}

func steps() *rapid.Generator[[]step] {
	return rapid.SliceOfN(rapid.Custom(func(t *rapid.T) step {
		small := rapid.IntRange(0, 3)
		return step{rapid.SampledFrom(kinds).Draw(t, "op"), small.Draw(t, "a"), small.Draw(t, "b"), small.Draw(t, "c")}
	}), 20, 60)
}

// verdict names how a call ended, in the words of bus.
func verdict(err error) string {
	if err == nil {
		return "ok"
	}
	var exists *bus.ExistsError
	if errors.As(err, &exists) {
		return fmt.Sprintf("exists %s %s", exists.Name, exists.Stored)
	}
	for _, e := range []error{bus.ErrForbidden, bus.ErrTooLarge, bus.ErrMoved, bus.ErrFull, bus.ErrUnknown, bus.ErrGone,
		bus.ErrBadName, bus.ErrClosed, bus.ErrRefused} {
		if errors.Is(err, e) {
			return e.Error()
		}
	}
	return "another error: " + err.Error()
}

// play does one step and tells what it gave.
func (p *player) play(s step) string {
	epoch, round := uint64(1+s.a%2), uint32(s.b%2)
	text := []byte(fmt.Sprint("payload ", s.c))
	switch s.op {
	case "report":
		h := p.host
		if s.a == 3 {
			h = p.other
		}
		return verdict(h.PublishReport(p.ctx, 1, round, fmt.Sprint("id-", s.a, "-", s.c), text))
	case "junk":
		return verdict(p.host.PublishReport(p.ctx, 1, round, "large", make([]byte, 1300+100*s.a)))
	case "get":
		payload, err := p.shuf.GetReport(p.ctx, uint64(s.a*4+s.b))
		return fmt.Sprintf("%x %s", payload, verdict(err))
	case "stored":
		return collect(func(add func(...any)) error {
			return p.shuf.StoredReports(p.ctx, 1, round, uint64(s.a), func(n uint64, b []byte) error {
				add(n, b)
				return nil
			})
		})
	case "last":
		n, err := p.shuf.LastReport(p.ctx)
		return fmt.Sprint(n, verdict(err))
	case "purge":
		last, _ := p.shuf.LastReport(p.ctx)
		upTo := uint64(max(int(last)-s.a, 0) + s.b/3)
		p.mu.Lock()
		defer p.mu.Unlock()
		maps.DeleteFunc(p.due, func(n uint64, _ int) bool { return n <= upTo })
		return verdict(p.shuf.PurgeReports(p.ctx, upTo))
	case "chunk":
		return verdict(p.shuf.PublishChunk(p.ctx, epoch, round, uint32(s.c), fmt.Append(text, s.a/2)))
	case "manifest":
		return verdict(p.shuf.PublishManifest(p.ctx, epoch, round, text))
	case "chunks":
		return collect(func(add func(...any)) error {
			return p.ana.ReadChunks(p.ctx, epoch, round, func(i uint32, b []byte) error { add(i, b); return nil })
		})
	case "one":
		payload, err := p.ana.ReadChunk(p.ctx, epoch, round, uint32(s.c))
		manifest, err2 := p.ana.ReadManifest(p.ctx, epoch, round)
		return fmt.Sprintf("%s %s %s %s", payload, verdict(err), manifest, verdict(err2))
	case "purgeMixed":
		return verdict(p.ana.PurgeMixed(p.ctx, epoch, round))
	case "restart":
		if s.a > 0 { // it takes its time
			return ""
		}
		p.end()
		p.restart()
		_, err := p.shuf.LastReport(p.ctx)
		return verdict(err)
	}
	return p.playOn(s, epoch, round, text)
}

func (p *player) playOn(s step, epoch uint64, round uint32, text []byte) string {
	role, c := bus.Shuffler, p.shuf
	if s.a%2 == 1 {
		role, c = bus.Analyzer, p.ana
	}
	kind := []string{"draw", "pool"}[s.b%2]
	entries := func(read func(handler func(bus.Statement) error) error) string {
		return collect(func(add func(...any)) error {
			return read(func(e bus.Statement) error {
				add(e.Sequence, e.Role, e.Kind, e.Payload, e.Misnamed)
				return nil
			})
		})
	}
	switch s.op {
	case "audit":
		return verdict(c.AppendAudit(p.ctx, kind, text))
	case "after":
		last := uint64(0)
		if s.c > 0 { // else it mostly does not know the newest
			_ = c.SaidSince(p.ctx, role, 0, func(e bus.Statement) error { last = e.Sequence; return nil })
		}
		n, err := c.AppendAuditAfter(p.ctx, kind, fmt.Append(text, s.b, last%5), last)
		return fmt.Sprint(n, verdict(err))
	case "said":
		return entries(func(h func(bus.Statement) error) error { return p.shuf.SaidSince(p.ctx, role, uint64(s.c), h) })
	case "log":
		return entries(func(h func(bus.Statement) error) error {
			return p.aud.ReadAudit(p.ctx, bus.AuditFilter{Kind: kind, After: uint64(s.a)}, h)
		})
	case "announce":
		return verdict(p.ana.PutAnnouncement(p.ctx, epoch, round, text))
	case "announced":
		all, err := p.host.ReadAnnouncements(p.ctx)
		return fmt.Sprint(all, verdict(err))
	case "keys":
		return verdict(p.shuf.PutKeys(p.ctx, text))
	case "newest":
		payload, err := p.host.ReadKeys(p.ctx, bus.Shuffler)
		return fmt.Sprintf("%s %s", payload, verdict(err))
	case "answer":
		return verdict(p.ana.PublishPrepared(p.ctx, epoch, round, uint32(s.c), fmt.Append(text, s.a/2)))
	case "answered":
		payload, err := p.shuf.ReadPrepared(p.ctx, epoch, round, uint32(s.c))
		return fmt.Sprintf("%s %s", payload, verdict(err))
	case "purgeAnswers":
		return verdict(p.ana.PurgePrepared(p.ctx, epoch, round))
	case "retain":
		return verdict(p.shuf.PublishRetained(p.ctx, epoch, round, uint32(s.c), text, time.Hour*time.Duration(1+s.a)))
	case "retained":
		return collect(func(add func(...any)) error {
			return p.aud.ReadRetained(p.ctx, epoch, round, func(k bus.Retained) error {
				add(k.Index, k.Sealed, k.Window)
				return nil
			})
		})
	case "read":
		p.read()
	case "stop":
		p.end()
	case "ack", "retry":
		p.mu.Lock()
		var d *bus.Delivery
		if all := p.waiting(); len(all) > 0 {
			d = p.held[all[(s.a*4+s.b)%len(all)]]
			delete(p.held, d.Sequence)
		}
		p.mu.Unlock()
		switch {
		case d == nil: // nothing is held
		case s.op == "ack":
			return verdict(d.Ack())
		case s.c == 0:
			return verdict(d.Retry(time.Hour))
		default:
			if _, err := p.shuf.GetReport(p.ctx, d.Sequence); err == nil { // not purged meanwhile
				p.mu.Lock()
				p.due[d.Sequence] = p.seen[d.Sequence] + 1
				p.mu.Unlock()
			}
			return verdict(d.Retry(0))
		}
	}
	return ""
}

// collect lists what a call hands over, and how it ended.
func collect(call func(add func(...any)) error) string {
	var all []string
	err := call(func(v ...any) { all = append(all, fmt.Sprint(v...)) })
	return fmt.Sprint(all, verdict(err))
}

// read begins to read the reports, if nobody does.
func (p *player) read() {
	if p.stop != nil {
		return
	}
	c, cancel := context.WithCancel(p.ctx)
	done := make(chan struct{})
	p.stop, p.reader = cancel, done
	go func() {
		defer close(done)
		_ = p.shuf.ReceiveReports(c, func(d *bus.Delivery) {
			p.mu.Lock()
			defer p.mu.Unlock()
			p.held[d.Sequence] = d
			p.seen[d.Sequence]++
		})
	}()
}

// end stops the reader.
func (p *player) end() {
	if p.stop != nil {
		p.stop()
		<-p.reader
		p.stop = nil
	}
}

// waiting are the sequences that were delivered and not settled.
func (p *player) waiting() (all []uint64) {
	for n := range p.held {
		all = append(all, n)
	}
	slices.Sort(all)
	return all
}

// quiet reports whether nothing is on its way to the reader.
func (p *player) quiet() bool {
	if p.stop == nil {
		return true
	}
	last, err := p.shuf.LastReport(p.ctx)
	b, err2 := p.shuf.Backlog(p.ctx)
	p.mu.Lock()
	defer p.mu.Unlock()
	for n, times := range p.due {
		if p.seen[n] < times {
			return false
		}
	}
	return err == nil && err2 == nil && b.Sent >= last && (last == 0 || p.seen[last] > 0)
}

// state tells what the broker says of the consumer, and what came to the reader.
func (p *player) state() string {
	b, err := p.shuf.Backlog(p.ctx)
	p.mu.Lock()
	defer p.mu.Unlock()
	return fmt.Sprintf("backlog %+v %s, held %v, deliveries %v", b, verdict(err), p.waiting(), p.seen)
}

// contents are all that the broker keeps.
func (p *player) contents() string {
	var all []string
	for _, s := range []step{{op: "stored"}, {op: "stored", b: 1}, {op: "chunks"}, {op: "chunks", a: 1},
		{op: "chunks", b: 1}, {op: "chunks", a: 1, b: 1}, {op: "one"}, {op: "one", a: 1, b: 1}, {op: "said"},
		{op: "said", a: 1}, {op: "log"}, {op: "announced"}, {op: "newest"}, {op: "retained"}, {op: "retained", a: 1}} {
		all = append(all, p.play(s))
	}
	return strings.Join(all, "\n")
}

// TestRandomOperations plays random lists of operations on both brokers. After each operation both must have given the
// same, and must come to the same state of the consumer.
func TestRandomOperations(t *testing.T) {
	t.Parallel()
	limits := bus.ProvisionOptions{Workers: true, AckWait: 10 * time.Minute, HostReports: 6, ReportSize: 1000,
		MaxReportBytes: 24_000}
	ran := 0
	rapid.Check(t, func(rt *rapid.T) {
		list := steps().Draw(rt, "operations")
		if ran++; ran > maxLists() && !t.Failed() {
			return
		}
		var fault string
		t.Run("list", func(t *testing.T) { fault = differ(t, limits, list) }) // its server ends with it
		if fault != "" {
			rt.Fatal(fault)
		}
	})
}

// differ plays a list on both brokers and says what differs; empty: nothing.
func differ(t *testing.T, limits bus.ProvisionOptions, list []step) string {
	bed := testbed.New(t, func(_ *broker.Options, p *bus.ProvisionOptions) { *p = limits })
	b := fakebroker.New(fakebroker.Options{Streams: limits})
	name := func(s string) string { return s + strings.Repeat("x", 56-len(s)) }
	ctx := bed.Context()
	server := &player{ctx: ctx, host: server(bed.Connect(bus.Randomizer)), other: server(bed.ConnectHost()),
		shuf: server(bed.Connect(bus.Shuffler)), ana: server(bed.Connect(bus.Analyzer)),
		aud:     server(bed.Connect(bus.Auditor)),
		restart: func() { bed.Backup() }}
	memory := &player{ctx: ctx, host: memory(b.Connect(bus.Randomizer, name("one"))),
		other: memory(b.Connect(bus.Randomizer, name("two"))), shuf: memory(b.Connect(bus.Shuffler, "shuffler")),
		ana: memory(b.Connect(bus.Analyzer, "analyzer")), aud: memory(b.Connect(bus.Auditor, "auditor")),
		restart: b.Crash}
	for _, p := range []*player{server, memory} {
		p.held, p.seen = map[uint64]*bus.Delivery{}, map[uint64]int{}
		p.due = map[uint64]int{}
		defer p.end()
	}
	for i, s := range list {
		if got, want := memory.play(s), server.play(s); got != want {
			return fmt.Sprintf("step %d, %s: the fake gives\n%s\nand the server\n%s", i, s, got, want)
		}
		if got, want := agree(memory, server); got != want {
			return fmt.Sprintf("after step %d, %s: the fake shows\n%s\nand the server\n%s", i, s, got, want)
		}
	}
	if got, want := memory.contents(), server.contents(); got != want {
		return fmt.Sprintf("at the end the fake has\n%s\nand the server\n%s", got, want)
	}
	return ""
}

// agree waits until both brokers show the same, and returns what they show: what nobody answers, as an acknowledgement,
// takes a moment.
func agree(memory, server *player) (got, want string) {
	deadline := time.Now().Add(testbed.Patience / 6)
	for {
		quiet := memory.quiet() && server.quiet()
		got, want = memory.state(), server.state()
		switch {
		case quiet && got == want:
			return got, want
		case time.Now().After(deadline):
			return got, fmt.Sprintf("%s\nquiet: %t", want, quiet)
		}
		time.Sleep(2 * time.Millisecond)
	}
}

// maxLists is how many lists a run plays.
func maxLists() int {
	if os.Getenv("RIFFLE_LONG") != "" {
		return 1 << 20 // as many as rapid draws
	}
	return 8
}
