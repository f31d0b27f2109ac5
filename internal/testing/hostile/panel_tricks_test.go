package hostile_test

import (
	"fmt"
	"sync/atomic"
	"time"

	"github.com/riffle-dp/riffle/internal/bus"
	"github.com/riffle-dp/riffle/internal/testing/testbed"
	"github.com/riffle-dp/riffle/pkg/wire"
)

// register names devices to the host that were in no panel before.
func (d *world) register(n int) {
	d.t.Helper()
	for range n {
		_, _, err := d.host.Register(fmt.Sprintf("p%d", d.people))
		d.must(err)
		d.people++
	}
}

// ask has everybody decide who has not yet, and notes who is in the panel.
func (d *world) ask(sampled map[string]bool) {
	d.t.Helper()
	for n := range d.people {
		name := fmt.Sprintf("p%d", n)
		if sampled[name] {
			continue
		}
		made, err := d.host.Decide(d.Context(), name, func(int) ([][]float64, error) {
			return [][]float64{{0.6}, {-0.3}}, nil
		})
		d.must(err)
		if made.Sampled {
			sampled[name] = true
			_, err := d.host.Reward(made.Token, float64(n%2))
			d.must(err)
		}
	}
}

// panelTricks are what a malicious broker does where panels are drawn, in the order of the table.
func panelTricks() []trick {
	hidden := func(to bus.Role, kind string) func(d *world) string {
		return func(d *world) string {
			var open atomic.Bool
			var looked atomic.Int32 // how often the role read on without it
			begin := time.Now()
			d.l.set(faults{shown: func(role bus.Role, s bus.Statement) bool {
				if role != to || s.Kind != kind || s.Role == to || open.Load() || s.Time.Before(begin) {
					return true
				}
				looked.Add(1)
				return false
			}})
			r := d.next()
			d.register(registered)
			testbed.Eventually(d.t, "looked for", func() bool { return looked.Load() > 0 })
			sampled := map[string]bool{}
			d.ask(sampled)
			before := len(sampled)
			open.Store(true)
			testbed.Eventually(d.t, fmt.Sprintf("drawn and asked: epoch %d", r.Epoch), func() bool {
				d.ask(sampled)
				return len(sampled) == size
			})
			d.report(r)
			v := d.verdict(r)
			d.l.set(faults{})
			return fmt.Sprintf("delayed: %d people are sampled until it shows it; then %s", before, v)
		}
	}
	return []trick{
		{name: "panel: hides the pool from the analyzer for a while", panels: true,
			run: hidden(bus.Analyzer, wire.KindPool)},
		{name: "panel: hides the draw from the shuffler for a while, and shows what is behind it", panels: true,
			run: hidden(bus.Shuffler, wire.KindDraw)},
	}
}
