package hostile_test

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/riffle-dp/riffle/internal/analyzer"
	"github.com/riffle-dp/riffle/internal/bus"
	"github.com/riffle-dp/riffle/internal/testing/hostile"
	"github.com/riffle-dp/riffle/internal/testing/testbed"
	devices "github.com/riffle-dp/riffle/pkg/channel"
	"github.com/riffle-dp/riffle/pkg/channel/registry"
	"github.com/riffle-dp/riffle/pkg/channel/shares"
	"github.com/riffle-dp/riffle/pkg/glm"
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
func attacks() []attack {
	boxes := []plan.Channel{plan.Local, plan.Central}
	return []attack{
		{
			name: "drops reports, down to the minimum",
			left: map[plan.Channel]string{
				plan.Shuffle: cohort, plan.Shares: cohort, plan.Local: ownNoise, plan.Central: serverNoise},
			run: func(m *tier) string {
				r := m.next()
				all := m.people(r, int(r.Cohort.Minimum))
				m.release(r, all, lies{})
				return succeeds(m.verdict(r, all), fmt.Sprintf(" of %d; whom it leaves out, nobody else can tell", size))
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
			name: "gathers one victim with reports that it makes up", always: []plan.Channel{plan.Shuffle, plan.Shares, plan.Local},
			left: map[plan.Channel]string{plan.Shuffle: deviceAlone},
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
				return fmt.Sprintf("succeeds: %d made-up reports count, and the signed counts less these are the victim's "+
					"own %d numbers, exactly as its device noised them", len(made), len(slices.Concat(known...)))
			},
		},
		{
			name: "signs a made-up report with a genuine credential and another report's signature", channels: boxes,
			always: boxes[:1],
			run: func(m *tier) string {
				r := m.next()
				all := m.people(r, size-1)
				proof, err := m.host.AppendProof(nil, r.digest, []byte("of another content"))
				m.must(err)
				domain := map[plan.Channel]seal.BoxDomain{plan.Local: seal.LocalBox, plan.Central: seal.CentralBox}
				sealer, err := seal.NewBoxSealer(r.AnalyzerKey, domain[m.channel], r.digest)
				m.must(err)
				content := make([]byte, registry.MessageSize(r.Announcement)-seal.BoxOverhead-len(proof))
				box, err := sealer.AppendSeal(nil, append(content, proof...), nil)
				m.must(err)
				m.release(r, append(slices.Clone(all), person{payload: box}), lies{})
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
				if m.channel == plan.Shares { // rows of then: the shuffler itself cannot prepare an old report under the new key
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
			name: "has a device counted in two epochs, whose host helps", always: []plan.Channel{plan.Shares, plan.Local},
			left: map[plan.Channel]string{plan.Shuffle: "honest devices refuse by their own ledger (`record_used`)"},
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
					return succeeds(m.verdict(r, append(slices.Clone(all), again)), ", and nobody sees whose a bit is")
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
				return "succeeds: " + v + m.unchanged(before) + "; the log shows a destroyed cohort"
			},
		},
		{
			name: "releases a second subset of a cohort", always: []plan.Channel{plan.Shares},
			run: func(m *tier) string {
				r := m.next()
				all := m.people(r, size)
				out := m.release(r, all, lies{})
				was := m.verdict(r, all)
				second := *out.manifest
				second.Reports, second.ReportsDigest = second.Reports-1, flipped(second.ReportsDigest)
				second.Messages -= uint64(r.ReportMessages())
				if m.channel == plan.Shares {
					second.Messages = uint64(second.Reports)
				}
				signed, _ := m.Sign(&second, m.Shuffler)
				m.must(m.log.AppendAudit(m.Context(), wire.KindManifest, signed))
				err := m.shuffler.PublishManifest(m.Context(), r.Epoch, r.Round, signed)
				if !errors.Is(err, bus.ErrExists) {
					return fmt.Sprintf("the second manifest is stored: %v", err)
				}
				return was + " of the first, and the second manifest finds its name taken at the broker"
			},
		},
		{
			name: "sends another chunk in place of its own", always: []plan.Channel{plan.Shuffle},
			run: func(m *tier) string {
				r := m.next()
				all := m.people(r, size)
				m.release(r, all, lies{chunk: func(index uint32, chunk []byte) []byte {
					c, err := wire.ParseChunk(chunk)
					m.must(err)
					if index != 1 {
						return chunk
					}
					c.Payload = bytes.Clone(c.Payload)
					c.Payload[len(c.Payload)-1] ^= 1
					chunk, err = wire.BuildChunk(*c)
					m.must(err)
					return chunk
				}})
				return m.verdict(r, all)
			},
		},
		{
			name: "sends a chunk twice, with other content the second time",
			run: func(m *tier) string {
				r := m.next()
				all := m.people(r, size)
				var again error
				m.release(r, all, lies{chunk: func(index uint32, chunk []byte) []byte {
					if index == 1 {
						m.must(m.shuffler.PublishChunk(m.Context(), r.Epoch, r.Round, index, chunk))
						again = m.shuffler.PublishChunk(m.Context(), r.Epoch, r.Round, index, flipped(chunk))
					}
					return chunk
				}})
				if !errors.Is(again, bus.ErrExists) {
					return fmt.Sprintf("the second chunk is stored: %v", again)
				}
				return m.verdict(r, all) + ", and the second chunk finds its name taken at the broker"
			},
		},
		altered("one report more", func(w *wire.Manifest) {
			w.Messages += w.Messages / uint64(w.Reports)
			w.Reports++
			w.Enrolled = max(w.Enrolled, w.Reports)
		}),
		altered("one report fewer", func(w *wire.Manifest) { w.Messages -= w.Messages / uint64(w.Reports); w.Reports-- }),
		altered("noise that it did not add", func(w *wire.Manifest) { w.NoiseMessages++; w.Messages++ }),
		often(altered("another announcement", func(w *wire.Manifest) { w.Announcement = flipped(w.Announcement) }),
			plan.Local),
		often(altered("other messages", func(w *wire.Manifest) { w.MessagesRoot = flipped(w.MessagesRoot) }), plan.Local),
		altered("other chunks", func(w *wire.Manifest) { w.ChunksDigest = flipped(w.ChunksDigest) }),
		unseen("other members' digests", func(w *wire.Manifest) { w.ReportsDigest = flipped(w.ReportsDigest) },
			"all hosts together could tell, by their own copies of what they sent"),
		unseen("refusals that it made up", func(w *wire.Manifest) {
			w.Refused = append(w.Refused, wire.Refused{Reason: wire.RefusalNotDrawn, Reports: 99})
		}, "what was refused without having had a slot is the shuffler's word"),
		often(altered("more devices enrolled than the cohort has slots", func(w *wire.Manifest) { w.Enrolled += 100 }),
			plan.Shares),
		{
			name: "keeps the manifest out of the audit log",
			left: map[plan.Channel]string{
				plan.Shuffle: noRecord, plan.Shares: noRecord, plan.Local: noRecord, plan.Central: noRecord},
			run: func(m *tier) string {
				r := m.next()
				all := m.people(r, size)
				out := m.release(r, all, lies{unlogged: true})
				testbed.Eventually(m.t, "not ready", func() bool {
					m.mu.Lock()
					defer m.mu.Unlock()
					return m.unmet["manifest"] != nil
				})
				m.must(m.log.AppendAudit(m.Context(), wire.KindManifest, out.signed))
				return "stopped: the analyzer's readiness condition `manifest` is unmet until it is there; then " +
					m.verdict(r, all)
			},
		},
		{
			name: "hands copies of what it holds to a confederate",
			left: map[plan.Channel]string{
				plan.Shuffle: collusion, plan.Shares: collusion, plan.Local: ownNoise,
				plan.Central: "(ε, δ), while the analyzer is honest; **nothing** if it is the confederate"},
			run: func(m *tier) string {
				r := m.next()
				all := m.people(r, size)
				m.release(r, all, lies{})
				if v := m.verdict(r, all); !strings.HasPrefix(v, "counted") {
					return v
				}
				own, analyzers := m.reads(r, all[0], m.ShufflerKey), m.reads(r, all[0], m.AnalyzerKey)
				if own != 0 || analyzers == 0 {
					m.t.Errorf("the shuffler's key opens %d parts of a report, the analyzer's %d", own, analyzers)
				}
				return fmt.Sprintf("succeeds unseen: without the analyzer's key %d parts of a report open, with it all that "+
					"are sealed to it", own)
			},
		},
		{
			name: "says nothing more",
			left: map[plan.Channel]string{
				plan.Shuffle: noRecord, plan.Shares: noRecord, plan.Local: noRecord, plan.Central: noRecord},
			run: func(m *tier) string {
				r := m.next()
				m.people(r, size)
				if _, err := m.shuffler.ReadManifest(m.Context(), r.Epoch, 0); !errors.Is(err, bus.ErrGone) {
					return fmt.Sprintf("there is a manifest: %v", err)
				}
				select {
				case <-m.ended:
					return fmt.Sprintf("the analyzer ended: %v", m.failed)
				default:
				}
				return "stopped: the epoch waits, for as long as the shuffler likes; no role can tell this from a long window"
			},
		},
	}
}

// succeeds says so of a verdict on what should not count and does.
func succeeds(verdict, more string) string {
	if strings.HasPrefix(verdict, "counted: ") {
		return "succeeds: " + verdict + more
	}
	return verdict
}

// unseen is a lie in a manifest that no role can find.
func unseen(name string, lie func(*wire.Manifest), who string) attack {
	a := altered(name, lie)
	run := a.run
	a.run = func(m *tier) string { return succeeds(run(m), "; "+who) }
	return a
}

// moved is a chunk of another round under the name of this one.
func (m *tier) moved(chunk []byte, to *round) []byte {
	m.t.Helper()
	c, err := wire.ParseChunk(chunk)
	m.must(err)
	c.Epoch, c.Round = to.Epoch, to.Round
	chunk, err = wire.BuildChunk(*c)
	m.must(err)
	return chunk
}

// destroy has the shuffler say that it destroyed a cohort.
func (m *tier) destroy(r *round) {
	m.t.Helper()
	signed, _ := m.Sign(&wire.Manifest{
		Deployment: testbed.Deployment, Epoch: r.Epoch, Announcement: r.digest[:], Outcome: wire.Destroyed, Enrolled: size,
	}, m.Shuffler)
	m.must(m.log.AppendAudit(m.Context(), wire.KindManifest, signed))
	m.must(m.shuffler.PublishManifest(m.Context(), r.Epoch, 0, signed))
}

// unchanged says whether the next announcement has the same policy.
func (m *tier) unchanged(before glm.Policy) string {
	next := m.announced(m.epoch+1, 0)
	if fmt.Sprint(next.Policy.Theta) == fmt.Sprint(before.Theta) && next.Policy.Epoch == before.Epoch {
		return ", and the policy stays"
	}
	return ", **and the policy changes**"
}

// reads is how many messages of a report a key opens.
func (m *tier) reads(r *round, p person, key *seal.HPKEKey) (parts int) {
	m.t.Helper()
	switch m.channel {
	case plan.Shuffle:
		opener := seal.NewBitOpener(key, r.digest)
		for message := range slices.Chunk(p.payload, seal.BitSize) {
			if _, _, _, err := opener.Open(message); err == nil {
				parts++
			}
		}
	case plan.Shares:
		return m.readsShare(r, p, key)
	default:
		domain := map[plan.Channel]seal.BoxDomain{plan.Local: seal.LocalBox, plan.Central: seal.CentralBox}
		if _, err := seal.NewBoxOpener(key, domain[m.channel], r.digest).Open(p.payload, nil); err == nil {
			parts = 1
		}
	}
	return parts
}

// A malicious shuffler with its real keys against a real analyzer and the audit, in every channel. What each attack
// reaches stands in the table of docs/threat-model.md, which is written from these runs; the test fails where the two
// differ. By default some attacks are tried in some channels, with RIFFLE_LONG=1 all in all.
func TestAMaliciousShuffler(t *testing.T) {
	if testing.Short() {
		t.Skip("one epoch after the other: nothing in it runs at the same time as anything else")
	}
	all, long := attacks(), os.Getenv("RIFFLE_LONG") != ""
	found := play(t, all, long, "TestAMaliciousShuffler")
	if !t.Failed() {
		written(t, "malicious shuffler", found, long)
	}
}

// play goes through attacks in every channel, audits each deployment, and returns what came of each.
func play(t *testing.T, all []attack, long bool, test string, change ...func(*analyzer.Config)) hostile.Table {
	t.Helper()
	found := make([]hostile.Table, len(all))
	for _, c := range plan.Channels() {
		t.Run(string(c), func(t *testing.T) {
			var m *tier
			type tried struct {
				attack int
				row    hostile.Row
				epochs [2]uint64
			}
			var rows []tried
			for i, a := range all {
				if a.channels != nil && !slices.Contains(a.channels, c) || !long && !slices.Contains(a.always, c) {
					continue
				}
				if m == nil {
					m = newTier(t, c, change...)
				}
				begin := m.epoch + 1
				row := hostile.Row{Attack: a.name, Channel: string(c), Left: a.left[c], Test: test}
				row.Outcome = a.run(m)
				rows = append(rows, tried{i, row, [2]uint64{begin, m.epoch}})
			}
			if m == nil {
				t.Skip("with RIFFLE_LONG=1")
			}
			breaches := m.audited()
			for _, r := range rows {
				var named []string
				for epoch := r.epochs[0]; epoch <= r.epochs[1]; epoch++ {
					for n := range 2 {
						name := fmt.Sprintf("%d.%d", epoch, n)
						named = append(named, breaches[name]...)
						delete(breaches, name)
					}
				}
				if len(named) > 0 {
					r.row.Outcome += "; found by the audit as " + strings.Join(named, ", ")
				}
				found[r.attack] = append(found[r.attack], r.row)
			}
			if len(breaches) > 0 {
				t.Errorf("breaches of no attack: %v", breaches)
			}
		})
	}
	return slices.Concat(found...)
}

// readsShare tells whether a key opens the analyzer's share in a report of the channel of shares.
func (m *tier) readsShare(r *round, p person, key *seal.HPKEKey) int {
	m.t.Helper()
	const box = seal.BoxOverhead + 64 + devices.ProofSize
	sealed := p.payload[len(p.payload)-box:]
	first := p.payload[shares.NonceSize+64 : len(p.payload)-box]
	hash := sha256.Sum256(first)
	commitment := shares.NewSecret(m.Shuffler, r.digest).Commitment()
	aad := slices.Concat(p.payload[:shares.NonceSize+64], hash[:], commitment)
	if _, err := seal.NewBoxOpener(key, seal.ShareBox, r.digest).Open(sealed, aad); err == nil {
		return 1
	}
	return 0
}
