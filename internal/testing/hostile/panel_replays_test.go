package hostile_test

import (
	"bytes"
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/riffle-dp/riffle/internal/bus"
	"github.com/riffle-dp/riffle/internal/testing/testbed"
	"github.com/riffle-dp/riffle/pkg/wire"
)

// panelReplays are what a malicious broker does with the statements of an earlier panel, in the order of the table.
func panelReplays() []trick {
	// earlier puts the statement of the epoch before in the place of each that a role reads of this one, until the test
	// opens it.
	earlier := func(to, of bus.Role, kind string) func(d *world) string {
		return func(d *world) string {
			d.panel()
			var old []byte
			filter := bus.AuditFilter{Role: of, Kind: kind}
			d.must(d.auditor.Audit.ReadAudit(d.Context(), filter, func(s bus.Statement) error {
				old = s.Payload
				return nil
			}))
			var open atomic.Bool
			var shown atomic.Int32
			var mu sync.Mutex
			known := map[uint64]bool{} // entries of epochs before
			d.must(d.auditor.Audit.ReadAudit(d.Context(), bus.AuditFilter{}, func(s bus.Statement) error {
				known[s.Sequence] = true
				return nil
			}))
			d.l.set(faults{altered: func(role bus.Role, s bus.Statement) bus.Statement {
				mu.Lock()
				defer mu.Unlock()
				if role == to && s.Role == of && s.Kind == kind && !known[s.Sequence] && !open.Load() {
					shown.Add(1)
					s.Payload = old
				}
				return s
			}})
			r := d.next()
			d.register(registered)
			testbed.Eventually(d.t, "shown the earlier one", func() bool { return shown.Load() > 1 })
			sampled := map[string]bool{}
			d.ask(sampled)
			before := len(sampled)
			pool, draws := d.drawnFrom(r)
			open.Store(true)
			if draws > 0 && !bytes.Equal(pool, d.poolOf(r)) {
				return "**the analyzer draws from the earlier pool**"
			}
			testbed.Eventually(d.t, fmt.Sprintf("drawn and asked: epoch %d", r.Epoch), func() bool {
				d.ask(sampled)
				return len(sampled) == size
			})
			d.report(r)
			v := d.verdict(r)
			d.l.set(faults{})
			return fmt.Sprintf("not taken for this epoch's, of which %d people are sampled until it shows it; then %s",
				before, v)
		}
	}
	return []trick{
		{name: "panel: shows the analyzer the pool of an earlier epoch in the place of this one's", panels: true,
			always: true, run: earlier(bus.Analyzer, bus.Shuffler, wire.KindPool)},
		{name: "panel: shows the shuffler the draw of an earlier epoch in the place of this one's", panels: true,
			always: true, run: earlier(bus.Shuffler, bus.Analyzer, wire.KindDraw)},
	}
}

// panel is an honest epoch where panels are drawn.
func (d *world) panel() *round {
	d.t.Helper()
	r := d.next()
	d.register(registered)
	sampled := map[string]bool{}
	testbed.Eventually(d.t, fmt.Sprintf("drawn and asked: epoch %d", r.Epoch), func() bool {
		d.ask(sampled)
		return len(sampled) == size
	})
	d.report(r)
	d.verdict(r)
	return r
}

// drawnFrom is the pool that the analyzer's draws of an epoch name, the last one where there are several.
func (d *world) drawnFrom(r *round) (pool []byte, draws int) {
	d.t.Helper()
	d.must(d.auditor.Audit.ReadAudit(d.Context(), bus.AuditFilter{Role: bus.Analyzer, Kind: wire.KindDraw},
		func(s bus.Statement) error {
			one, _, err := wire.Open[wire.Draw](s.Payload, d.AnalyzerParty())
			if err == nil && one.Epoch == r.Epoch {
				pool, draws = one.Pool, draws+1
			}
			return err
		}))
	return pool, draws
}

// poolOf names the shuffler's pool of an epoch.
func (d *world) poolOf(r *round) (digest []byte) {
	d.t.Helper()
	d.must(d.auditor.Audit.ReadAudit(d.Context(), bus.AuditFilter{Role: bus.Shuffler, Kind: wire.KindPool},
		func(s bus.Statement) error {
			one, of, err := wire.Open[wire.Pool](s.Payload, d.ShufflerParty())
			if err == nil && one.Epoch == r.Epoch {
				digest = of[:]
			}
			return err
		}))
	return digest
}
