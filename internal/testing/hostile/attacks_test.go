package hostile_test

import (
	"bytes"
	"errors"
	"fmt"
	"slices"

	"github.com/riffle-dp/riffle/internal/bus"
	"github.com/riffle-dp/riffle/internal/testing/testbed"
	devices "github.com/riffle-dp/riffle/pkg/channel"
	"github.com/riffle-dp/riffle/pkg/channel/registry"
	"github.com/riffle-dp/riffle/pkg/channel/shuffle"
	"github.com/riffle-dp/riffle/pkg/plan"
	"github.com/riffle-dp/riffle/pkg/seal"
	"github.com/riffle-dp/riffle/pkg/wire"
)

// attack is what a malicious shuffler does in one epoch or more. It returns what came of it.
type attack struct {
	name     string
	channels []plan.Channel          // nil: all
	always   []plan.Channel          // in which it is tried without RIFFLE_LONG, too
	left     map[plan.Channel]string // what protects a person then, where it is not what the channel assumes
	run      func(m *tier) string
}

// What is left of a person's protection where a malicious shuffler has its way.
const (
	deviceAlone = "**that device's own noise bits alone**"
	serverNoise = "(ε, δ) by the analyzer's noise, while the analyzer is honest"
	ownNoise    = "(ε, δ) by the device's own noise, whatever others do"
	cohort      = "(ε, δ), by the noise of those who are left: the plan counts on no more"
	devicesOnly = "(ε, δ) of the devices' noise alone, as if no server added any"
	noRecord    = "what the channel assumes; what is learnt suffers"
	collusion   = "(ε, δ), while the confederate is not the analyzer; together with it **the device's own noise alone**"
)

// altered is a lie in the manifest of an otherwise honest release.
func altered(name string, lie func(*wire.Manifest)) attack {
	return attack{name: "the manifest lies: " + name, run: func(m *tier) string {
		r := m.next()
		all := m.people(r, size)
		m.release(r, all, lies{manifest: lie})
		return m.verdict(r, all)
	}}
}

// often is an attack that is always tried in a channel.
func often(a attack, c plan.Channel) attack {
	a.always = append(a.always, c)
	return a
}

// silent reports whether any role that is ready says that something is wrong.
func (m *tier) silent(r *round) string {
	m.mu.Lock()
	defer m.mu.Unlock()
	for condition, err := range m.unmet {
		if err != nil {
			return fmt.Sprintf(", and the analyzer's readiness condition `%s` is unmet", condition)
		}
	}
	if len(m.said.of(r.Epoch, "round rejected")) > 0 {
		return ", and the round is rejected"
	}
	return ", and the analyzer is ready and says nothing"
}

func flipped(b []byte) []byte {
	b = bytes.Clone(b)
	b[0] ^= 1
	return b
}

// invented are reports that the shuffler makes up, of devices that no registrar admitted.
func (m *tier) invented(r *round, n int) (all []person) {
	m.t.Helper()
	id := testbed.NewIdentity(m.t)
	credential, _ := m.Sign(&wire.Credential{Deployment: testbed.Deployment, HostKey: id.Public(), Devices: 100},
		testbed.NewIdentity(m.t))
	for i := range n {
		all = append(all, m.person(r, devices.Sender{Identity: id, Credential: credential, Number: uint32(i)}))
	}
	return all
}

// attacks are in the order of the table.
func attacks() []attack { return slices.Concat(attacksOnTheCohort(), attacksOnTheRelease()) }

// attacksOnTheCohort are those on whose reports are released.
func attacksOnTheCohort() []attack {
	envelopes := []plan.Channel{plan.Local, plan.Central}
	return []attack{
		{
			name: "drops reports, down to the minimum",
			left: map[plan.Channel]string{
				plan.Shuffle: cohort, plan.Shares: cohort, plan.Local: ownNoise, plan.Central: serverNoise},
			run: func(m *tier) string {
				r := m.next()
				all := m.people(r, int(r.Cohort.Minimum))
				m.release(r, all, lies{})
				return succeeds(m.verdict(r, all), fmt.Sprintf("; %d of %d are left out", size-len(all), size))
			},
		},
		{
			name: "drops reports, below the minimum", always: []plan.Channel{plan.Shares},
			run: func(m *tier) string {
				r := m.next()
				all := m.people(r, int(r.Cohort.Minimum)-1)
				m.release(r, all, lies{})
				return m.verdict(r, all)
			},
		},
		{
			name: "doubles a report, in place of another", always: []plan.Channel{plan.Shuffle, plan.Local},
			run: func(m *tier) string {
				r := m.next()
				all := m.people(r, size-1)
				m.release(r, append(slices.Clone(all), all[0]), lies{})
				return m.verdict(r, all)
			},
		},
		{
			name:   "gathers one victim with reports that it makes up",
			always: []plan.Channel{plan.Shuffle, plan.Shares, plan.Local},
			left:   map[plan.Channel]string{plan.Shuffle: deviceAlone},
			run: func(m *tier) string {
				r := m.next()
				victim, made := m.people(r, 1), m.invented(r, size-1)
				m.release(r, append(slices.Clone(made), victim...), lies{})
				c := m.counts(r)
				if c.Destroyed {
					return m.verdict(r, victim)
				}
				known := sum(made...)
				for i := range known {
					for j := range known[i] {
						known[i][j] = c.Releases[i].Ones[j] - known[i][j]
					}
				}
				if fmt.Sprint(known) != fmt.Sprint(victim[0].entries) {
					m.t.Errorf("what is left is %v, the victim sent %v", known, victim[0].entries)
				}
				return fmt.Sprintf("succeeds: %d made-up reports count, and the signed counts less these are the "+
					"victim's "+
					"own %d numbers, exactly as its device noised them", len(made), len(slices.Concat(known...)))
			},
		},
		{
			name:     "signs a made-up report with a genuine credential and another report's signature",
			channels: envelopes,
			always:   envelopes[:1],
			run: func(m *tier) string {
				r := m.next()
				all := m.people(r, size-1)
				proof, err := m.host.AppendProof(nil, r.digest, []byte("of another content"))
				m.must(err)
				sealer, err := seal.NewEnvelopeSealer(r.AnalyzerKey, envelopeDomains[m.channel], r.digest)
				m.must(err)
				content := make([]byte, registry.MessageSize(r.Announcement)-seal.EnvelopeOverhead-len(proof))
				envelope, err := sealer.AppendSeal(nil, append(content, proof...), nil)
				m.must(err)
				m.release(r, append(slices.Clone(all), person{payload: envelope}), lies{})
				return m.verdict(r, all)
			},
		},
		{
			name: "replays reports of an earlier epoch", always: []plan.Channel{plan.Shuffle},
			run: func(m *tier) string {
				r := m.next()
				old := m.people(r, size)
				before := m.release(r, old, lies{})
				m.counts(r)
				r = m.next()
				// prepare messages of then: the shuffler itself cannot prepare an old report under the new key
				if m.channel == plan.Shares {
					m.release(r, m.people(r, size), lies{chunk: func(index uint32, chunk []byte) []byte {
						if index == 1 {
							return m.moved(before.chunks[index], r)
						}
						return chunk
					}})
					return m.verdict(r, nil)
				}
				all := m.people(r, int(r.Cohort.Minimum))
				m.release(r, append(slices.Clone(all), old[0]), lies{})
				return m.verdict(r, all)
			},
		},
		{
			name:   "has a device counted in two epochs, whose host helps",
			always: []plan.Channel{plan.Shares, plan.Local},
			left:   map[plan.Channel]string{plan.Shuffle: "honest devices refuse by their own ledger (`record_used`)"},
			run: func(m *tier) string {
				r := m.next()
				twice := m.host
				twice.Number = m.number
				first := m.people(r, size)
				m.release(r, first, lies{})
				m.counts(r)
				r = m.next()
				all := m.people(r, int(r.Cohort.Minimum))
				again := m.person(r, twice)
				m.release(r, append(slices.Clone(all), again), lies{})
				if m.channel == plan.Shuffle {
					return succeeds(m.verdict(r, append(slices.Clone(all), again)), "")
				}
				return m.verdict(r, all)
			},
		},
		{
			name: "says that a whole cohort is destroyed",
			left: map[plan.Channel]string{
				plan.Shuffle: noRecord, plan.Shares: noRecord, plan.Local: noRecord, plan.Central: noRecord},
			run: func(m *tier) string {
				r := m.next()
				before := r.Policy
				m.destroy(r)
				v := m.verdict(r, nil)
				if v != lost {
					return v
				}
				return "succeeds: " + v + m.unchanged(before)
			},
		},
		{
			name: "releases a second subset of a cohort", always: []plan.Channel{plan.Shares},
			run: func(m *tier) string {
				r := m.next()
				all := m.people(r, size)
				out := m.release(r, all, lies{})
				was := m.verdict(r, all)
				signed := m.second(r, out)
				m.must(m.log.AppendAudit(m.Context(), wire.KindManifest, signed))
				err := m.shuffler.Mixed.PublishManifest(m.Context(), r.Epoch, r.Round, signed)
				if !errors.Is(err, bus.ErrExists) {
					return fmt.Sprintf("the second manifest is stored: %v", err)
				}
				return was + "; the second manifest finds its name taken at the broker"
			},
		},
		{
			name:   "signs two manifests of a cohort, and sends the analyzer the one that is later in the log",
			always: []plan.Channel{plan.Shuffle},
			run: func(m *tier) string {
				r := m.next()
				all := m.people(r, size)
				out := m.release(r, all, lies{unsent: true})
				signed := m.second(r, out)
				m.must(m.log.AppendAudit(m.Context(), wire.KindManifest, signed))
				m.must(m.shuffler.Mixed.PublishManifest(m.Context(), r.Epoch, r.Round, signed))
				v := m.verdict(r, all)
				if _, first, err := wire.Open[wire.Manifest](out.signed, m.ShufflerParty()); err != nil ||
					!bytes.Equal(m.counts(r).Manifest, first[:]) {
					return v + ", **under the second**"
				}
				return v + ", under the first"
			},
		},
		{
			name: "says that a cohort is destroyed, after all of it left", always: []plan.Channel{plan.Shuffle},
			left: map[plan.Channel]string{
				plan.Shuffle: noRecord, plan.Shares: noRecord, plan.Local: noRecord, plan.Central: noRecord},
			run: func(m *tier) string {
				r := m.next()
				all := m.people(r, size)
				m.release(r, all, lies{manifest: func(w *wire.Manifest) {
					*w = wire.Manifest{
						Deployment: w.Deployment, Epoch: w.Epoch, Announcement: w.Announcement, Outcome: wire.Destroyed,
						Enrolled: w.Enrolled,
					}
				}})
				return m.verdict(r, all)
			},
		},
		{
			name: "says that it released an empty cohort", always: []plan.Channel{plan.Shuffle},
			run: func(m *tier) string {
				r := m.next()
				empty := wire.Manifest{
					Deployment: testbed.Deployment, Epoch: r.Epoch, Announcement: r.digest[:], Outcome: wire.Released,
					ChunksDigest: make([]byte, 32), ReportsDigest: make([]byte, 32), MessagesRoot: make([]byte, 32),
				}
				if _, _, err := wire.Sign(&empty, m.Shuffler); err != nil {
					m.destroy(r)
					return fmt.Sprintf("no statement of that form exists (%v); then %s", err, m.verdict(r, nil))
				}
				signed, _ := m.Sign(&empty, m.Shuffler)
				m.must(m.log.AppendAudit(m.Context(), wire.KindManifest, signed))
				m.must(m.shuffler.Mixed.PublishManifest(m.Context(), r.Epoch, 0, signed))
				return m.verdict(r, nil)
			},
		},
		{
			name: "does not mix: sends each report in a chunk of its own", channels: []plan.Channel{plan.Shuffle},
			always: []plan.Channel{plan.Shuffle},
			left: map[plan.Channel]string{plan.Shuffle: deviceAlone +
				", from an analyzer that looks where a message is"},
			run: func(m *tier) string {
				r := m.next()
				all := m.people(r, size)
				out := m.release(r, all, lies{unmixed: true})
				v := m.verdict(r, all)
				read := 0
				for i, p := range all {
					c, err := wire.ParseChunk(out.chunks[uint32(i)])
					m.must(err)
					tally := shuffle.NewTally(r.Encodings)
					tally.Open(seal.NewBitOpener(m.AnalyzerKey, r.digest), c.Payload)
					if ones, _ := tally.Counts(1, make([]uint64, len(r.Encodings))); fmt.Sprint(ones) == fmt.Sprint(
						p.entries) {
						read++
					}
				}
				return succeeds(v, fmt.Sprintf("; whoever has the analyzer's key reads the numbers of %d of %d "+
					"single devices", read, size))
			},
		},
		changedLabels("changes the label of one message", func(first, second []byte) { copy(first, second) }),
		changedLabels("exchanges the labels of two messages", func(first, second []byte) {
			kept := bytes.Clone(first)
			copy(first, second)
			copy(second, kept)
		}),
	}
}
