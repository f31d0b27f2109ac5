package hostile_test

import (
	"fmt"
	"slices"
	"strings"

	"github.com/riffle-dp/riffle/internal/analyzer"
	"github.com/riffle-dp/riffle/internal/bus"
	"github.com/riffle-dp/riffle/internal/testing/testbed"
	"github.com/riffle-dp/riffle/pkg/glm"
	"github.com/riffle-dp/riffle/pkg/panel"
	"github.com/riffle-dp/riffle/pkg/plan"
	"github.com/riffle-dp/riffle/pkg/wire"
)

// registered is the least number of devices that a panel of size is drawn from here.
const registered = 16

// ofPanels has a tier draw panels.
func ofPanels(c *analyzer.Config) {
	c.Terms.Registered, c.Terms.Decisions, c.Terms.Records, c.Terms.Tail = registered, 1, 2, 1e-6
	c.Learner.Practical.Panel, c.Learner.Practical.Decisions = size, 1
}

// ofRounds has each epoch of a tier several rounds.
func ofRounds(c *analyzer.Config) { c.Learner.Profile = glm.Paper }

// pool has the shuffler say from how many devices it draws, and from which.
func (m *tier) pool(r *round, n int, root byte) (digest [32]byte) {
	m.t.Helper()
	signed, digest := m.Sign(&wire.Pool{
		Deployment: testbed.Deployment, Epoch: r.Epoch, Announcement: r.digest[:], Registered: uint32(n),
		Root: slices.Repeat([]byte{root}, 32), Contribution: slices.Repeat([]byte{byte(r.Epoch)}, 32),
	}, m.Shuffler)
	m.must(m.log.AppendAudit(m.Context(), wire.KindPool, signed))
	return digest
}

// drawn waits for the analyzer's part in an epoch's panel, and returns the pool that it names and the seed.
func (m *tier) drawn(r *round) (pool [32]byte, seed panel.Seed) {
	m.t.Helper()
	testbed.Eventually(m.t, fmt.Sprintf("drawn: epoch %d", r.Epoch), func() bool {
		found := false
		m.must(m.auditor.Audit.ReadAudit(m.Context(), bus.AuditFilter{Role: bus.Analyzer, Kind: wire.KindDraw},
			func(s bus.Statement) error {
				d, _, err := wire.Open[wire.Draw](s.Payload, m.AnalyzerParty())
				if err == nil && d.Epoch == r.Epoch {
					found, pool = true, [32]byte(d.Pool)
					seed = panel.NewSeed(pool, d.Contribution)
				}
				return err
			}))
		return found
	})
	return pool, seed
}

// waits returns the name of a condition of readiness once the analyzer says that it is unmet, and forgets it.
func (m *tier) waits(condition string) string {
	m.t.Helper()
	testbed.Eventually(m.t, "not ready", func() bool {
		m.mu.Lock()
		defer m.mu.Unlock()
		return m.unmet[condition] != nil
	})
	m.mu.Lock()
	defer m.mu.Unlock()
	m.unmet[condition] = nil
	return "`" + condition + "`"
}

// ranked are reports of devices that did not take part before: of ones that can be in the panel, or of ones that
// cannot.
func (m *tier) ranked(r *round, seed panel.Seed, of, n int, inside bool) (all []person) {
	m.t.Helper()
	for len(all) < n {
		by := m.host
		by.Number = m.number
		m.number++
		device := panel.Device{Host: [32]byte(by.Identity.Public()), Number: by.Number}
		if panel.Plausible(seed.Rank(device), of, size, true) == inside {
			all = append(all, m.person(r, by))
		}
	}
	return all
}

// panelAttacks are what a malicious shuffler does to a panel, in the order of the table.
func panelAttacks() []attack {
	in := func(c ...plan.Channel) []plan.Channel { return c }
	everywhere := func(left string) map[plan.Channel]string {
		return map[plan.Channel]string{plan.Shuffle: left, plan.Shares: left, plan.Local: ownNoise,
			plan.Central: serverNoise}
	}
	return []attack{
		{
			name: "panel: leaves honest devices out of the pool", always: in(plan.Shares),
			left: everywhere("(ε, δ) if `limits.dishonest` bounds the share of a pool that the shuffler composes; " +
				"else server " +
				"noise alone (in `shuffle` the shuffler needs no pool for its fillers)"),
			run: func(m *tier) string {
				r := m.next()
				const own, others = 12, 40 // devices of the shuffler, and honest ones, that are registered
				theirs, credential := m.Host(own)
				var pool []panel.Device
				for i := range uint32(own) {
					pool = append(pool, panel.Device{Host: [32]byte(theirs.Public()), Number: i})
				}
				for i := range uint32(registered - own) { // of the honest ones no more than it must
					pool = append(pool, panel.Device{Host: [32]byte(m.host.Identity.Public()), Number: 9000 + i})
				}
				m.pool(r, len(pool), 1)
				_, seed := m.drawn(r)
				var all []person
				in, least := 0, size-(registered-own)
				for _, d := range seed.Panel(pool, size) {
					by := m.host
					if d.Host == [32]byte(theirs.Public()) {
						by.Identity, by.Credential = theirs, credential
						in++
					}
					by.Number = d.Number
					all = append(all, m.person(r, by))
				}
				if in < least {
					m.t.Errorf("%d of the shuffler's devices are drawn, at least %d must be", in, least)
				}
				m.release(r, all, lies{})
				return succeeds(m.verdict(r, all),
					fmt.Sprintf(", of which at least %d are the shuffler's own, with %d of %d "+
						"registered devices; without its lie %.1f were to be expected", least, own, own+others,
						float64(size*own)/(own+others)))
			},
		},
		{
			name: "panel: draws from fewer devices than announced", always: in(plan.Shares),
			run: func(m *tier) string {
				r := m.next()
				m.pool(r, registered-1, 1)
				unmet := m.waits("pool")
				m.destroy(r)
				v := m.verdict(r, nil)
				return "refused by the analyzer, which draws nothing: its readiness condition " + unmet +
					" is unmet; then " + v
			},
		},
		{
			name: "panel: signs a second pool after it saw the draw", always: in(plan.Shares),
			run: func(m *tier) string {
				r := m.next()
				first := m.pool(r, registered, 1)
				pool, seed := m.drawn(r)
				m.pool(r, registered, 2)
				all := m.ranked(r, seed, registered, size, true)
				m.release(r, all, lies{})
				v := m.verdict(r, all)
				if named, _ := m.drawn(r); named != pool || pool != first {
					return "**another pool counts**; " + v
				}
				return "without effect: the first pool counts; " + v
			},
		},
		{
			name: "panel: signs two pools before either is drawn from", always: in(plan.Shuffle),
			run: func(m *tier) string {
				m.pools.Lock() // the analyzer looks for a pool when both are there
				r := m.next()
				first := m.pool(r, registered, 1)
				m.pool(r, registered, 2)
				m.pools.Unlock()
				pool, seed := m.drawn(r)
				all := m.ranked(r, seed, registered, size, true)
				m.release(r, all, lies{})
				v := m.verdict(r, all)
				if pool != first {
					return "**the second pool counts**; " + v
				}
				return "the first pool in the log is drawn from; " + v
			},
		},
		{
			name: "panel: signs a second pool where nothing can be drawn from the first", always: in(plan.Shuffle),
			run: func(m *tier) string {
				r := m.next()
				m.pool(r, registered-1, 1)
				m.pool(r, registered, 2)
				unmet := m.waits("pool")
				m.destroy(r)
				v := m.verdict(r, nil)
				return "the analyzer draws from neither, and its readiness condition " + unmet + " is unmet; then " + v
			},
		},
		{
			name:   "panel: destroys an epoch whose panel it does not like, and has another drawn",
			always: in(plan.Shares),
			left:   everywhere("as for a panel, at every draw: the tail is charged for each epoch that is drawn"),
			run: func(m *tier) string {
				r := m.next()
				m.pool(r, registered, 1)
				_, first := m.drawn(r)
				m.destroy(r)
				m.counts(r)
				r = m.next()
				m.pool(r, registered, 1)
				_, second := m.drawn(r)
				if first == second {
					return "the same panel again"
				}
				m.destroy(r)
				m.counts(r)
				pool := make([]panel.Device, registered)
				for i := range pool {
					pool[i].Number = uint32(i)
				}
				if slices.Equal(first.Panel(pool, size), second.Panel(pool, size)) {
					return "the same panel again"
				}
				return "succeeds: another panel of the same devices is drawn in the next epoch"
			},
		},
		{
			name: "panel: has devices report that are not drawn", always: in(plan.Shares),
			left: map[plan.Channel]string{plan.Shuffle: deviceAlone + ", with fillers"},
			run: func(m *tier) string {
				const many = 10_000
				r := m.next()
				m.pool(r, many, 1)
				_, seed := m.drawn(r)
				wrong := m.ranked(r, seed, many, size, false)
				m.release(r, wrong, lies{})
				v := m.verdict(r, wrong)
				if m.channel == plan.Shuffle {
					return succeeds(v, "")
				}
				return v
			},
		},
		{
			name: "panel: releases a cohort without a pool", always: in(plan.Shuffle),
			run: func(m *tier) string {
				r := m.next()
				if m.channel == plan.Shares { // no exchange begins
					signed := &wire.Manifest{
						Deployment: testbed.Deployment, Epoch: r.Epoch, Announcement: r.digest[:],
						Outcome:  wire.Released,
						Enrolled: size, Reports: size, Messages: size, Chunks: 1, ChunksDigest: make([]byte, 32),
						ReportsDigest: make([]byte, 32), MessagesRoot: make([]byte, 32),
					}
					b, _ := m.Sign(signed, m.Shuffler)
					m.must(m.log.AppendAudit(m.Context(), wire.KindManifest, b))
					m.must(m.shuffler.Mixed.PublishManifest(m.Context(), r.Epoch, 0, b))
					return m.verdict(r, nil)
				}
				all := m.people(r, size)
				m.release(r, all, lies{})
				return m.verdict(r, all)
			},
		},
	}
}

// roundAttacks are what a malicious shuffler does in the later rounds of an epoch.
func roundAttacks() []attack {
	later := func(m *tier, choose func(r *round, first []person) []person) (*round, string) {
		r := m.next()
		from := m.number
		first := m.people(r, int(r.Cohort.Size))
		m.release(r, first, lies{})
		if v := m.verdict(r, first); !strings.HasPrefix(v, "counted") {
			return r, "in the first round: " + v
		}
		r = m.announced(r.Epoch, 1)
		var second []person
		for i := range r.Cohort.Size {
			by := m.host
			by.Number = from + i
			second = append(second, m.person(r, by))
		}
		second = choose(r, second)
		m.release(r, second, lies{})
		return r, m.verdict(r, second)
	}
	in := plan.Channels()
	return []attack{
		{
			name: "rounds: takes a subset of the first round's devices into the next", channels: in, always: in[:1],
			left: map[plan.Channel]string{plan.Shuffle: cohort, plan.Shares: cohort, plan.Local: ownNoise,
				plan.Central: serverNoise},
			run: func(m *tier) string {
				r, v := later(m, func(r *round, all []person) []person { return all[:r.Cohort.Minimum] })
				return succeeds(v, fmt.Sprintf("; %d of the first round are left out of the second, which sums up "+
					"another "+"statistic", r.Cohort.Size-r.Cohort.Minimum))
			},
		},
		{
			name: "rounds: puts a device into the second round that was not in the first", channels: in,
			always: in[2:3],
			left:   map[plan.Channel]string{plan.Shuffle: deviceAlone + ", with fillers"},
			run: func(m *tier) string {
				var known []person
				r, v := later(m, func(r *round, all []person) []person {
					known = all[:len(all)-1]
					return append(slices.Clone(known), m.people(r, 1)...)
				})
				if m.channel == plan.Shares {
					return m.verdict(r, known)
				}
				if m.channel == plan.Shuffle {
					return succeeds(v, "")
				}
				return v
			},
		},
	}
}
